//! IGI and PTR: trains at increasing gaps until they leave the path as they entered it (Hu, Steenkiste, *Evaluation and
//! Characterization of Available Bandwidth Probing Techniques*, JSAC 2003).
//!
//! A train faster than the available bandwidth fills the queue of the tight link and leaves with larger gaps. At the
//! turning point its rate equals the available bandwidth: that is the PTR estimate. IGI is a second estimate from the
//! same train: the capacity less the cross traffic that widened the gaps.

mod gaps;
mod settings;

use results::estimate::{Caveat, Quantity};
use units::{Duration, Rate};

use self::gaps::{Tolerance, TrainGaps, extended_mean, fullest_bin_ns, train_gaps};
use self::settings::Settings;
use super::curve::ArrivalCurve;
use super::{Interval, Method, Outcome, Path, Step, Train, TrainObservation, UDP_HEADERS};

/// Bytes per train: 60 packets of 500 bytes (IGI/PTR 2.1).
const TRAIN_BYTES: u32 = 30_000;

/// Length of the packets in bytes of IP (IGI/PTR 2.1).
const BYTES: u32 = 500;

/// Minimum number of packets per train, whatever their length.
const PACKETS_MIN: u32 = 10;

/// Trains per gap setting (IGI/PTR 2.1).
const TRAINS: usize = 3;

/// Difference of mean gaps that counts as equal: 5 % or, in 2.1, 5 us.
const TOLERANCE: Tolerance = Tolerance { share: 0.05, ns: 5_000.0 };

/// First gap and its increment, as shares of the received gap of trains that were sent at once (IGI/PTR 2.1; the
/// increment in the paper is an eighth).
const STEPS: (f64, f64) = (0.5, 0.25);

/// First gap and its growth factor in the default form. The rate at the turning point is then known to that share, and
/// the first gap is shorter than even an idle path yields.
const SHARES: (f64, f64) = (0.9, 1.1);

/// Maximum number of gap settings: the last gap is 10 times that of the capacity, a load of 90 %; 37 times with growth
/// factors.
const GAPS_MAX: usize = 40;

/// Deviation of a train's gap at the sender from the requested one that causes a caveat: twice the tolerance, because
/// two gaps determine the turning point.
const UNEVEN_DEVIATION: f64 = 0.1;

/// Consecutive trains without any arrival after which the path counts as dead.
const SILENT_TRAINS_MAX: usize = 3;

/// Time before a train, in service times of its packets at the capacity: the backlog of a train at 75 % of load drains
/// in it.
const DRAIN_FACTOR: f64 = 4.0;

/// Maximum gap, in ns, whatever the far end reports; also the longest period of Pathload 1.3.2.
const GAP_NS_MAX: u64 = 200_000_000;

/// The method. Its value is PTR. The form of 2003 also reports IGI, as a second available bandwidth before the
/// capacity; IGI requires packets shorter than those of the load.
///
/// Three trains give each 95 % interval, and PTR's extends to the neighbouring gaps. The interval covers the variation
/// of trains, but not that the search can end early by chance. Under bursts of cross traffic the truth lies outside in
/// more than half of the runs. The overestimate of IGI grows with the load.
#[derive(Debug)]
pub struct Igi {
    path: Path,
    faithful: bool,
    trains: usize,
    silent: usize,
    /// The trains that were sent at once, until all of them are complete.
    start: Vec<TrainObservation>,
    narrow: Option<Narrow>,
    settings: Settings,
    batched: bool,
    caveats: Vec<Caveat>,
}

/// Results of the trains that were sent at once.
#[derive(Debug, Clone, Copy)]
struct Narrow {
    /// Mean gap at the receiver per byte, in ns.
    received_ns: f64,
    /// Gap of the capacity per byte, in ns.
    capacity_ns: f64,
}

/// State of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    On,
    /// The trains of this setting and of the next one passed unchanged.
    Turned(usize),
    Over,
}

impl Igi {
    /// Packets of the MTU, as in transfers and in the other methods, in trains of as many bytes as those of 2.1. Gaps
    /// are equal within 5 %, and the arrival curve gives the capacity.
    pub fn new(path: Path) -> Self {
        Self::with(path, false)
    }

    /// Packets of 500 bytes; gaps are equal within 5 us or 5 %; the fullest bin of 25 us gives the capacity.
    pub fn faithful(path: Path) -> Self {
        Self::with(path, true)
    }

    fn with(path: Path, faithful: bool) -> Self {
        let settings = Settings::new(tolerance(faithful));
        let (start, caveats) = (Vec::new(), Vec::new());
        Self { path, faithful, trains: 0, silent: 0, start, narrow: None, settings, batched: false, caveats }
    }

    /// Number of settings with all their trains.
    fn complete(&self) -> usize {
        self.trains / TRAINS
    }

    fn bytes(&self) -> u32 {
        let bytes_max = self.path.mtu.max(UDP_HEADERS + 1);
        if self.faithful { BYTES.min(bytes_max) } else { bytes_max }
    }

    fn packets(&self) -> u32 {
        (TRAIN_BYTES / self.bytes()).max(PACKETS_MIN)
    }

    /// The gap of a setting in ns; `None` for the first, which is sent at once.
    fn gap_ns(&self, setting: usize) -> Option<f64> {
        let narrow = self.narrow?;
        let steps = setting.checked_sub(1)? as f64;
        let over = if self.faithful { STEPS.0 + steps * STEPS.1 } else { SHARES.0 * SHARES.1.powf(steps) };
        Some(narrow.received_ns * f64::from(self.bytes()) * over)
    }

    fn search(&self) -> Search {
        let complete = self.complete();
        // A sender no faster than the available bandwidth has no turning point.
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
        Train::spaced(self.packets(), self.bytes(), Duration::from_nanos((gap.round() as u64).min(GAP_NS_MAX)))
    }

    fn learn_capacity(&mut self) {
        let observations = std::mem::take(&mut self.start);
        let bytes = f64::from(self.bytes());
        let curve_ns = |p: &TrainObservation| {
            let service = ArrivalCurve::of(p).service().filter(|s| s.sustained.as_bps() > 0)?;
            Some(8e9 / service.sustained.as_bps() as f64)
        };
        // Cross traffic between the packets can only slow a burst down.
        let by_curve = || observations.iter().filter_map(curve_ns).min_by(f64::total_cmp);
        let by_bin = || fullest_bin_ns(&observations).map(|ns| ns / bytes);
        let capacity_ns = if self.faithful && !self.batched { by_bin() } else { by_curve() };
        let received_ns = self.settings.means(0).map(|(_, received)| received / bytes);
        self.narrow =
            capacity_ns.zip(received_ns).map(|(capacity_ns, received_ns)| Narrow { received_ns, capacity_ns });
    }

    /// Rate of one packet per this time, in b/s.
    fn rate(&self, gap_ns: f64) -> f64 {
        f64::from(self.bytes()) * 8e9 / gap_ns
    }

    fn rate_out(&self, setting: usize) -> Option<f64> {
        self.settings.means(setting).map(|(_, received)| self.rate(received))
    }

    /// PTR: the rate of the trains at the turning point. The interval reaches from the slower trains that passed
    /// unchanged to the received rate of the last clearly widened ones, which exceeds the available bandwidth in a
    /// fluid model.
    fn ptr(&self, setting: usize) -> Option<Interval> {
        let rates: Vec<f64> = self.settings.of(setting).iter().map(|s| self.rate(s.received_ns)).collect();
        let slower = self.rate_out(setting + 1).unwrap_or(f64::INFINITY);
        let faster = (0..setting)
            .rev()
            .find(|s| self.settings.is_clearly_wider(*s))
            .and_then(|s| self.rate_out(s))
            .unwrap_or(0.0);
        let ptr = extended_mean(&rates, slower, faster)?;
        // The search sometimes ends because trains pass unchanged by chance; the widened trains give an independent
        // estimate.
        let by_widened = Interval::of_mean(&self.by_widened(setting)).filter(|_| setting > 1);
        let reaching = |i: Interval, by: Interval| Interval { low: i.low.min(by.low), high: i.high.max(by.high), ..i };
        Some(by_widened.into_iter().chain(self.by_count(ptr.value)).fold(ptr, reaching))
    }

    /// The available bandwidth with an interval of twice the standard error of the number of Poisson packets that the
    /// trains of one setting meet.
    fn by_count(&self, available: Rate) -> Option<Interval> {
        let (capacity, available) = (8e9 / self.narrow?.capacity_ns, available.as_bps() as f64);
        let met = (1.0 - available / capacity).max(0.0) / (f64::from(self.packets()) * TRAINS as f64);
        let half = 2.0 * capacity * met.sqrt();
        Some(Interval::from_bps(available, available - half, available + half))
    }

    /// The estimate of each train that was faster than those of this setting: `A = C (1 - g_out/g_in) + R_in`, as in
    /// [`super::TwoRates`].
    fn by_widened(&self, setting: usize) -> Vec<f64> {
        let Some(narrow) = self.narrow else { return Vec::new() };
        let available =
            |s: &TrainGaps| 8e9 / narrow.capacity_ns * (1.0 - s.received_ns / s.sent_ns) + self.rate(s.sent_ns);
        (1..setting).flat_map(|s| self.settings.of(s)).map(available).collect()
    }

    fn igi(&self, setting: usize) -> Option<Interval> {
        let capacity = 8e9 / self.narrow?.capacity_ns;
        let available: Vec<f64> =
            self.settings.of(setting).iter().filter_map(|s| Some(capacity * (1.0 - s.load?))).collect();
        Interval::of_mean(&available).filter(|_| !self.batched && self.faithful)
    }
}

fn tolerance(faithful: bool) -> Tolerance {
    Tolerance { ns: if faithful { TOLERANCE.ns } else { 0.0 }, ..TOLERANCE }
}

impl Method for Igi {
    fn next(&mut self) -> Step {
        if self.silent >= SILENT_TRAINS_MAX || self.search() != Search::On {
            return Step::Done(self.so_far());
        }
        let narrow_ns = self.narrow.map_or(0.0, |n| n.capacity_ns * f64::from(self.bytes())).min(GAP_NS_MAX as f64);
        let drained = Duration::from_nanos((narrow_ns * f64::from(self.packets()) * DRAIN_FACTOR) as u64);
        Step::Send { train: self.train(), pause: drained.max(self.path.round_trip / 2).max(Duration::from_millis(5)) }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        self.silent = if observation.lost() == observation.sent() { self.silent + 1 } else { 0 };
        let setting = self.complete();
        let narrow_ns = self.narrow.map(|n| n.capacity_ns * f64::from(self.bytes()));
        let (seen, batched) = train_gaps(observation, self.bytes(), narrow_ns, tolerance(self.faithful));
        self.batched |= batched;
        let uneven =
            |s: &TrainGaps| self.gap_ns(setting).is_some_and(|gap| (s.sent_ns / gap - 1.0).abs() > UNEVEN_DEVIATION);
        let caveats = [
            (observation.lost() > 0, Caveat::Loss),
            (observation.reordered() > 0, Caveat::Reordering),
            (batched, Caveat::Batching),
            (seen.as_ref().is_some_and(uneven), Caveat::SenderTooSlow),
        ];
        self.caveats.extend(caveats.into_iter().filter(|(is, _)| *is).map(|(_, caveat)| caveat));
        self.settings.add(setting, seen);
        if setting == 0 {
            self.start.push(observation.clone());
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
            // No faster train was widened.
            (Some(s), _) if s < 2 || self.settings.is_equal(s - 1).is_none() => (self.ptr(s), Some(Caveat::LowerBound)),
            (Some(s), _) => (self.ptr(s), None),
            (None, Some(bps)) => (Some(at_most(bps)), Some(Caveat::UpperBound)),
            (None, None) => (None, None),
        };
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, ptr).with_caveats(self.caveats.iter().copied());
        outcome.also.extend(turned.and_then(|s| self.igi(s)).map(|i| (Quantity::AvailableBandwidth, i)));
        outcome.also.extend(capacity.map(|bps| (Quantity::Capacity, Interval::exactly(bps))));
        let unsteady = self.settings.is_contradicted(self.complete()).then_some(Caveat::Unsteady);
        let slow = (turned == Some(0)).then_some(Caveat::SenderTooSlow);
        outcome.with_caveats(caveat.into_iter().chain(slow).chain(unsteady))
    }
}
