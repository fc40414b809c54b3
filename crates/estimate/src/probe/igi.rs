//! IGI and PTR: trains ever slower until they leave the path as they entered it (Hu, Steenkiste, *Evaluation and
//! Characterization of Available Bandwidth Probing Techniques*, JSAC 2003).
//!
//! Faster than what is left, a train fills the queue of the tight link and leaves with longer gaps. At the turning point
//! its rate is what is left: that is PTR. IGI is another answer of the same train: the capacity less the cross traffic
//! that made gaps wider.

mod gaps;
mod settings;

use results::estimate::{Caveat, Quantity};
use units::{Duration, Rate};

use self::gaps::{Seen, Tolerance, fullest_bin_ns, reaching, seen};
use self::settings::Settings;
use super::curve::ArrivalCurve;
use super::{Interval, Method, Outcome, Path, Step, Train, TrainObservation, UDP_HEADERS};

/// Bytes of a train: 60 packets of 500 bytes (IGI/PTR 2.1).
const TRAIN_BYTES: u32 = 30_000;

/// Length of the packets in bytes of IP (IGI/PTR 2.1).
const BYTES: u32 = 500;

/// Packets of a train at least, however long they are.
const FEWEST: u32 = 10;

/// Trains of one gap (IGI/PTR 2.1).
const TRAINS: usize = 3;

/// Difference of mean gaps that counts as none: 5 % or, in 2.1, 5 us.
const TOLERANCE: Tolerance = Tolerance { share: 0.05, ns: 5_000.0 };

/// The first gap and how much it grows each time, over the gap at which trains come that were sent at once (IGI/PTR 2.1;
/// the paper has the growth at an eighth).
const STEPS: (f64, f64) = (0.5, 0.25);

/// The same of the default form, where each gap is longer by a share: the rate at the turning point is then known to that
/// share, whatever it is, and the first gap is shorter than even an idle path leaves.
const SHARES: (f64, f64) = (0.9, 1.1);

/// Gaps beyond which no more are tried: the last is 10 times that of the capacity, a load of 90 %; 37 times with shares.
const GAPS_MAX: usize = 40;

/// Deviation of a train's gap at the sender from what was asked that is a caveat: twice what counts as none, for two of
/// them decide where the turning point is.
const UNEVEN: f64 = 0.1;

/// Trains in a row of which nothing came, after which the path is taken for dead.
const SILENCE: usize = 3;

/// Time before a train over the time that its packets take at the capacity: what a train leaves behind at 75 % of load.
const DRAINS: f64 = 4.0;

/// Longest gap, in ns, whatever the far end says; the longest period of Pathload 1.3.2, too.
const LONGEST_NS: u64 = 200_000_000;

/// The method. Its value is PTR. In the form of 2003 IGI's answer is among what else it tells, as another available
/// bandwidth, before the capacity: it needs packets that are shorter than those of the load.
///
/// Three trains make each 95 % interval, and PTR's reaches besides as far as the neighbouring gaps allow. That covers how
/// much trains vary, not that the search ends where it does by chance: under bursts of cross traffic the truth lies outside
/// in more than half of the runs, and IGI is too high the more, the higher the load.
#[derive(Debug)]
pub struct Igi {
    path: Path,
    faithful: bool,
    trains: usize,
    silent: usize,
    /// The trains that were sent at once, until they are all there.
    start: Vec<TrainObservation>,
    narrow: Option<Narrow>,
    settings: Settings,
    batched: bool,
    caveats: Vec<Caveat>,
}

/// What the trains tell that were sent at once.
#[derive(Debug, Clone, Copy)]
struct Narrow {
    /// Mean time between their packets, for each byte, in ns.
    received_ns: f64,
    /// The same of the capacity.
    capacity_ns: f64,
}

/// Where the search stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    On,
    /// The trains of this setting and of the one after it passed as they were.
    Turned(usize),
    Over,
}

impl Igi {
    /// Packets of the MTU, whose rate is that of transfers and of the other methods, in trains of as many bytes as those of
    /// 2.1; gaps are equal within 5 %, and what tells the capacity is the arrival curve.
    pub fn new(path: Path) -> Self {
        Self::with(path, false)
    }

    /// Packets of 500 bytes; gaps are equal within 5 us or 5 %; the fullest bin of 25 us tells the capacity.
    pub fn faithful(path: Path) -> Self {
        Self::with(path, true)
    }

    fn with(path: Path, faithful: bool) -> Self {
        let settings = Settings::new(tolerance(faithful));
        let (start, caveats) = (Vec::new(), Vec::new());
        Self { path, faithful, trains: 0, silent: 0, start, narrow: None, settings, batched: false, caveats }
    }

    /// How many settings have all their trains.
    fn complete(&self) -> usize {
        self.trains / TRAINS
    }

    fn bytes(&self) -> u32 {
        let most = self.path.mtu.max(UDP_HEADERS + 1);
        if self.faithful { BYTES.min(most) } else { most }
    }

    fn packets(&self) -> u32 {
        (TRAIN_BYTES / self.bytes()).max(FEWEST)
    }

    /// The gap of a setting in ns; none for the first, which is sent at once.
    fn gap_ns(&self, setting: usize) -> Option<f64> {
        let narrow = self.narrow?;
        let steps = setting.checked_sub(1)? as f64;
        let over = if self.faithful { STEPS.0 + steps * STEPS.1 } else { SHARES.0 * SHARES.1.powf(steps) };
        Some(narrow.received_ns * f64::from(self.bytes()) * over)
    }

    fn search(&self) -> Search {
        let complete = self.complete();
        // A sender that is no faster than what is left has no turning point to find.
        if complete == 1 && self.settings.is_equal(0) == Some(true) {
            return Search::Turned(0);
        }
        match self.settings.turned(complete) {
            Some(setting) => Search::Turned(setting),
            None if complete > GAPS_MAX => Search::Over,
            None if complete > 0 && self.narrow.is_none() => Search::Over,
            None => Search::On,
        }
    }

    fn train(&self) -> Train {
        let gap = self.gap_ns(self.complete()).unwrap_or(0.0);
        Train::spaced(self.packets(), self.bytes(), Duration::from_nanos((gap.round() as u64).min(LONGEST_NS)))
    }

    fn learn_capacity(&mut self) {
        let passages = std::mem::take(&mut self.start);
        let bytes = f64::from(self.bytes());
        let curve_ns = |p: &TrainObservation| {
            let service = ArrivalCurve::of(p).service().filter(|s| s.sustained.as_bps() > 0)?;
            Some(8e9 / service.sustained.as_bps() as f64)
        };
        // Cross traffic between the packets only ever makes a burst slower.
        let by_curve = || passages.iter().filter_map(curve_ns).min_by(f64::total_cmp);
        let by_bin = || fullest_bin_ns(&passages).map(|ns| ns / bytes);
        let capacity_ns = if self.faithful && !self.batched { by_bin() } else { by_curve() };
        let received_ns = self.settings.means(0).map(|(_, received)| received / bytes);
        self.narrow =
            capacity_ns.zip(received_ns).map(|(capacity_ns, received_ns)| Narrow { received_ns, capacity_ns });
    }

    /// Rate of one packet in this time, in b/s.
    fn rate(&self, gap_ns: f64) -> f64 {
        f64::from(self.bytes()) * 8e9 / gap_ns
    }

    fn rate_out(&self, setting: usize) -> Option<f64> {
        self.settings.means(setting).map(|(_, received)| self.rate(received))
    }

    /// PTR: the rate of the trains at the turning point. It reaches from the slower trains that passed as they were to the
    /// rate at which the last clearly widened ones came out, which in a fluid is more than what is left.
    fn ptr(&self, setting: usize) -> Option<Interval> {
        let rates: Vec<f64> = self.settings.of(setting).iter().map(|s| self.rate(s.received_ns)).collect();
        let slower = self.rate_out(setting + 1).unwrap_or(f64::INFINITY);
        let faster = (0..setting)
            .rev()
            .find(|s| self.settings.is_clearly_wider(*s))
            .and_then(|s| self.rate_out(s))
            .unwrap_or(0.0);
        let ptr = reaching(&rates, slower, faster)?;
        // The search ends now and then where trains pass as they were by chance: those that were widened say themselves what is left.
        let by_widened = Interval::of_mean(&self.by_widened(setting)).filter(|_| setting > 1);
        let reaching = |i: Interval, by: Interval| Interval { low: i.low.min(by.low), high: i.high.max(by.high), ..i };
        Some(by_widened.into_iter().chain(self.by_count(ptr.value)).fold(ptr, reaching))
    }

    /// What is left, give or take twice the standard error of the count of packets of the load that the trains of one
    /// setting met, as they meet a Poisson load.
    fn by_count(&self, left: Rate) -> Option<Interval> {
        let (capacity, left) = (8e9 / self.narrow?.capacity_ns, left.as_bps() as f64);
        let met = (1.0 - left / capacity).max(0.0) / (f64::from(self.packets()) * TRAINS as f64);
        let half = 2.0 * capacity * met.sqrt();
        Some(Interval::from_bps(left, left - half, left + half))
    }

    /// What each train says that was faster than those of this setting: `A = C (1 - g_out/g_in) + R_in`, as in [`super::TwoRates`].
    fn by_widened(&self, setting: usize) -> Vec<f64> {
        let Some(narrow) = self.narrow else { return Vec::new() };
        let left = |s: &Seen| 8e9 / narrow.capacity_ns * (1.0 - s.received_ns / s.sent_ns) + self.rate(s.sent_ns);
        (1..setting).flat_map(|s| self.settings.of(s)).map(left).collect()
    }

    fn igi(&self, setting: usize) -> Option<Interval> {
        let capacity = 8e9 / self.narrow?.capacity_ns;
        let left: Vec<f64> =
            self.settings.of(setting).iter().filter_map(|s| Some(capacity * (1.0 - s.load?))).collect();
        Interval::of_mean(&left).filter(|_| !self.batched && self.faithful)
    }
}

fn tolerance(faithful: bool) -> Tolerance {
    Tolerance { ns: if faithful { TOLERANCE.ns } else { 0.0 }, ..TOLERANCE }
}

impl Method for Igi {
    fn next(&mut self) -> Step {
        if self.silent >= SILENCE || self.search() != Search::On {
            return Step::Done(self.so_far());
        }
        let narrow_ns = self.narrow.map_or(0.0, |n| n.capacity_ns * f64::from(self.bytes())).min(LONGEST_NS as f64);
        let drained = Duration::from_nanos((narrow_ns * f64::from(self.packets()) * DRAINS) as u64);
        Step::Send { train: self.train(), pause: drained.max(self.path.round_trip / 2).max(Duration::from_millis(5)) }
    }

    fn observe(&mut self, passage: &TrainObservation) {
        self.silent = if passage.lost() == passage.sent() { self.silent + 1 } else { 0 };
        let setting = self.complete();
        let narrow_ns = self.narrow.map(|n| n.capacity_ns * f64::from(self.bytes()));
        let (seen, batched) = seen(passage, self.bytes(), narrow_ns, tolerance(self.faithful));
        self.batched |= batched;
        let uneven = |s: &Seen| self.gap_ns(setting).is_some_and(|gap| (s.sent_ns / gap - 1.0).abs() > UNEVEN);
        let caveats = [
            (passage.lost() > 0, Caveat::Loss),
            (passage.reordered() > 0, Caveat::Reordering),
            (batched, Caveat::Batching),
            (seen.as_ref().is_some_and(uneven), Caveat::SenderTooSlow),
        ];
        self.caveats.extend(caveats.into_iter().filter(|(is, _)| *is).map(|(_, caveat)| caveat));
        self.settings.add(setting, seen);
        if setting == 0 {
            self.start.push(passage.clone());
        }
        self.trains += 1;
        if self.trains == TRAINS {
            self.learn_capacity();
        }
    }

    fn so_far(&self) -> Outcome {
        let capacity = self.narrow.map(|n| 8e9 / n.capacity_ns);
        let at_most = |bps: f64| Interval::from_bps(bps, 0.0, bps);
        let turned = match self.search() {
            Search::Turned(setting) => Some(setting),
            Search::On | Search::Over => None,
        };
        let slowest = self.settings.last().and_then(|s| self.rate_out(s));
        let (ptr, caveat) = match (turned, slowest) {
            // Nothing faster was seen to widen.
            (Some(s), _) if s < 2 || self.settings.is_equal(s - 1).is_none() => (self.ptr(s), Some(Caveat::LowerBound)),
            (Some(s), _) => (self.ptr(s), None),
            (None, Some(bps)) => (Some(at_most(bps)), Some(Caveat::UpperBound)),
            (None, None) => (None, None),
        };
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, ptr).troubled(self.caveats.iter().copied());
        outcome.also.extend(turned.and_then(|s| self.igi(s)).map(|i| (Quantity::AvailableBandwidth, i)));
        outcome.also.extend(capacity.map(|bps| (Quantity::Capacity, Interval::exactly(bps))));
        let unsteady = self.settings.is_contradicted(self.complete()).then_some(Caveat::Unsteady);
        let slow = (turned == Some(0)).then_some(Caveat::SenderTooSlow);
        outcome.troubled(caveat.into_iter().chain(slow).chain(unsteady))
    }
}
