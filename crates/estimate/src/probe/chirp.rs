//! pathChirp: packets at decreasing gaps, until the delay rises and stays high (Ribeiro, Riedi, Baraniuk, Navratil,
//! Cottrell, PAM 2003; parameters of pathChirp 2.3.7).
//!
//! Where the rate of a chirp exceeds the available bandwidth, the queue of the tight link builds up and does not drain.
//! The rate at that packet is the estimate of one chirp. Known errors: on an idle path the estimate is the first rate
//! above the capacity, up to a fifth above the truth; bursts of cross traffic make the excursion appear to start early.

mod range;
mod signature;

use results::estimate::{Caveat, Quantity};
use units::{Duration, Instant, Rate};

use self::range::Range;
pub use self::signature::{Reading, Segmentation, Signature};
use super::unsteady::changed;
use super::{Dispersion, Interval, Method, Outcome, Path, Step, Train, TrainObservation, UDP_HEADERS};
use crate::samples::median;

/// Chirps of which the estimate is the mean (pathChirp 2.3.7).
const CHIRPS: usize = 11;

/// Mean rate of all chirps in b/s (pathChirp 2.3.7).
const MEAN_RATE: f64 = 0.3e6;

/// Chirps after which the range is evaluated: the same burst rarely misleads most of them.
const RANGE_CHIRPS: usize = 3;

/// Maximum number of chirps, whatever their outcome.
const CHIRPS_MAX: usize = 60;

/// Consecutive chirps without any arrival after which the path counts as dead.
const SILENT_CHIRPS_MAX: usize = 3;

/// Loss share above which a chirp is too fast: no usable path loses as many packets at random.
const OVERFLOW_LOSS_MIN: f64 = 0.1;

/// Number of packets before which an onset indicates that the chirp started too fast: with two rates below it, the
/// estimate is bracketed.
const ONSET_MIN: usize = 2;

/// Packets at the end of a chirp that measure the rate at which the path passes faster packets: the busy period and
/// one.
const TAIL_PACKETS: usize = 6;

/// Deviation of a gap at the sender from the requested one that makes it uneven: half of a step of the rates of 2.3.7.
const UNEVEN_DEVIATION: f64 = 0.1;

/// Share of uneven gaps in a chirp that causes a caveat: the busy period, of a chirp of the first range.
const UNEVEN_SHARE_MAX: f64 = 0.25;

/// Maximum gap at the receiver of two packets that arrived together, if they were sent at least four times as far
/// apart: only a queue on a link of 8 Gb/s does that. Two such gaps make a chirp a batched one.
const BATCH_GAP_MAX: Duration = Duration::from_nanos(1_000);

/// Parameters in which the two forms differ.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Form {
    /// Maximum packet length, in bytes of IP.
    bytes_max: u32,
    /// Ratio of consecutive rates of a chirp.
    spread: f64,
    /// Mean rate of all chirps as a share of the slowest rate of the range, if that exceeds [`MEAN_RATE`].
    share: f64,
    segmentation: Segmentation,
}

/// pathChirp 2.3.7. Clocks drift apart by up to 100 ppm; the limit is ten times that.
const FAITHFUL: Form = Form {
    bytes_max: 1000,
    spread: 1.2,
    share: 0.0,
    segmentation: Segmentation { busy_period: 5, decrease_factor: 1.5, drift: 0.001 },
};

/// Full Ethernet packets have gaps half as long again for the same rate, so that jitter of the sender weighs less.
/// Steps are 10 % and the decrease factor is 3. With the values of 2.3.7 a single gap in the cross traffic ends an
/// excursion. They overestimate a link with a Poisson load by 14 to 26 % of its capacity on average, and these values
/// by 0 to 9 %. These were chosen on the virtual path from seven pairs, and verified on other links, loads, packets and
/// seeds. The share is Spruce's.
const DEFAULT: Form = Form {
    bytes_max: 1500,
    spread: 1.1,
    share: 0.05,
    segmentation: Segmentation { busy_period: 5, decrease_factor: 3.0, drift: 0.001 },
};

/// The method.
#[derive(Debug)]
pub struct PathChirp {
    path: Path,
    form: Form,
    range: Range,
    sent: usize,
    silent: usize,
    batched: usize,
    /// Chirps of the current range that were too fast for the queue.
    overflowed: usize,
    requested: Train,
    /// Readings of the current range.
    readings: Vec<Reading>,
    /// Rates at which the last packets of chirps arrived, in b/s, if slower than they were sent: no more than the
    /// capacity.
    tails: Vec<f64>,
    caveats: Vec<Caveat>,
}

/// Position of the readings in the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Above,
    Within,
    Below,
}

impl PathChirp {
    /// Packets of the MTU, up to 1500 bytes, in steps of 10 %; a decrease factor of 3; a mean rate of 0.3 Mb/s, or a
    /// twentieth of the slowest rate if that is more.
    pub fn new(path: Path) -> Self {
        Self::with(path, DEFAULT)
    }

    /// Packets of 1000 bytes in steps of 20 %, a decrease factor of 1.5, a mean rate of 0.3 Mb/s: about five seconds
    /// for eleven chirps of the first range.
    pub fn faithful(path: Path) -> Self {
        Self::with(path, FAITHFUL)
    }

    fn with(path: Path, form: Form) -> Self {
        let range = Range::new(length(&path, form), path.gap_min);
        let (requested, readings, tails) = (Train::new(Vec::new()), Vec::new(), Vec::new());
        let caveats = Vec::new();
        Self { path, form, range, sent: 0, silent: 0, batched: 0, overflowed: 0, requested, readings, tails, caveats }
    }

    fn bytes(&self) -> u32 {
        length(&self.path, self.form)
    }

    fn mean_rate(&self) -> f64 {
        MEAN_RATE.max(self.range.low * self.form.share)
    }

    /// Position of most readings, if there are enough of them.
    fn position(&self) -> Option<Position> {
        let majority =
            |is: fn(&Reading) -> bool| self.readings.iter().filter(|r| is(r)).count() * 2 > self.readings.len();
        (self.readings.len() >= RANGE_CHIRPS).then(|| {
            if majority(|r| r.onset.is_none()) {
                Position::Above
            } else if majority(|r| r.onset.is_some_and(|onset| onset < ONSET_MIN)) {
                Position::Below
            } else {
                Position::Within
            }
        })
    }

    /// Moves the range if its first chirps show that the available bandwidth lies outside.
    fn adapt(&mut self) {
        if self.readings.len().max(self.overflowed) != RANGE_CHIRPS {
            return;
        }
        let moved = match self.position() {
            Some(Position::Above) => self.range.up(),
            Some(Position::Below) => self.range.down(),
            Some(Position::Within) => None,
            None => self.range.down(),
        };
        if let Some(range) = moved {
            self.range = range;
            self.readings.clear();
            self.overflowed = 0;
        }
    }

    /// Whether packets arrive in batches, which turn the delays into a sawtooth that cannot be segmented.
    fn is_batched(&self) -> bool {
        self.batched >= RANGE_CHIRPS && self.batched > self.readings.len()
    }

    fn reading(&self, observation: &TrainObservation) -> Option<Reading> {
        let departures: Option<Vec<Instant>> = observation.packets.iter().map(|p| p.sent).collect();
        let gap_ns = |w: &[Instant]| w.last()?.as_nanos().checked_sub(w.first()?.as_nanos()).map(|ns| ns as f64);
        let gaps_ns: Option<Vec<f64>> = departures?.windows(2).map(gap_ns).collect();
        let delays_ns: Vec<f64> = observation.delays_ns().into_iter().map(|q| q as f64).collect();
        Signature { bytes: self.bytes(), gaps_ns: &gaps_ns?, delays_ns: &delays_ns }.reading(&self.form.segmentation)
    }
}

fn length(path: &Path, form: Form) -> u32 {
    path.mtu.min(form.bytes_max).max(UDP_HEADERS + 1)
}

/// The rate in b/s at which the last packets of a chirp arrived, if clearly slower than they were sent.
fn tail(observation: &TrainObservation) -> Option<f64> {
    let last = observation.packets.len().checked_sub(TAIL_PACKETS)?;
    let tail = TrainObservation { packets: observation.packets.get(last..)?.to_vec() };
    tail.dispersion().filter(Dispersion::is_slowed).map(|d| d.received_rate().as_bps() as f64)
}

/// Whether packets were lost by an overflowing queue: many, and none of the first third.
fn is_overflow(observation: &TrainObservation) -> bool {
    let first = observation.packets.iter().take(observation.packets.len() / 3);
    observation.loss_ratio() > OVERFLOW_LOSS_MIN && first.filter(|p| p.received.is_none()).count() == 0
}

fn is_batched(observation: &TrainObservation) -> bool {
    observation.gaps().iter().filter(|g| g.received < BATCH_GAP_MAX && g.sent >= BATCH_GAP_MAX * 4).count() >= 2
}

/// Whether many gaps at the sender differ from the requested ones.
fn is_uneven(observation: &TrainObservation, requested: &Train) -> bool {
    let pairs = observation.packets.windows(2).zip(requested.departures().windows(2));
    let uneven = pairs.filter(|(sent, requested)| {
        let ([a, b], [first, second]) = (sent, requested) else { return false };
        let (Some(from), Some(to)) = (a.sent, b.sent) else { return false };
        let (sent, requested) =
            (to.nanos_since(from) as f64, (second.after.saturating_sub(first.after)).as_nanos() as f64);
        (sent - requested).abs() > UNEVEN_DEVIATION * requested
    });
    uneven.count() as f64 > UNEVEN_SHARE_MAX * requested.departures().len() as f64
}

impl Method for PathChirp {
    fn next(&mut self) -> Step {
        let enough = self.readings.len() >= CHIRPS || self.sent >= CHIRPS_MAX;
        if enough || self.silent >= SILENT_CHIRPS_MAX || self.is_batched() {
            return Step::Done(self.so_far());
        }
        self.sent += 1;
        let train = self.range.chirp(self.bytes(), self.form.spread);
        self.requested = train.clone();
        let turn = Duration::from_secs_f64(train.bytes().as_u64() as f64 * 8.0 / self.mean_rate());
        Step::Send { pause: turn.saturating_sub(train.span()).max(self.path.round_trip / 2), train }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        self.silent = if observation.lost() == observation.sent() { self.silent + 1 } else { 0 };
        let (whole, ordered) = (observation.lost() == 0, observation.reordered() == 0);
        let batched = is_batched(observation);
        let caveats = [
            (!whole, Caveat::Loss),
            (!ordered, Caveat::Reordering),
            (batched, Caveat::Batching),
            (is_uneven(observation, &self.requested), Caveat::SenderTooSlow),
        ];
        self.caveats.extend(caveats.into_iter().filter(|(is, _)| *is).map(|(_, caveat)| caveat));
        self.batched += usize::from(batched);
        // The tool also ignores chirps with a missing packet.
        let reading = if whole && ordered && !batched { self.reading(observation) } else { None };
        let overflowed = is_overflow(observation);
        self.overflowed += usize::from(overflowed);
        self.readings.extend(reading);
        self.tails.extend(tail(observation).filter(|_| reading.is_some()));
        if reading.is_some() || overflowed {
            self.adapt();
        }
    }

    fn so_far(&self) -> Outcome {
        let rates: Vec<f64> = self.readings.iter().map(|r| r.available_bps).collect();
        // The available bandwidth lies between the rate at which the delay started to rise and the previous rate.
        let with_previous_rate =
            |i: Interval| Interval { low: Rate::from_bps((i.low.as_bps() as f64 / self.form.spread) as u64), ..i };
        let mean = Interval::of_mean(&rates).map(with_previous_rate).filter(|_| !self.is_batched());
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, mean).with_caveats(self.caveats.iter().copied());
        let tails = median(self.tails.iter().copied()).filter(|_| self.tails.len() >= RANGE_CHIRPS);
        outcome.also.extend(tails.map(|bps| (Quantity::AsymptoticDispersion, Interval::exactly(bps))));
        let position = self.position();
        let caveats = [
            (position == Some(Position::Above), Caveat::LowerBound),
            (position == Some(Position::Below), Caveat::UpperBound),
            (rates.len() < CHIRPS, Caveat::TooFewSamples),
            (changed(&rates), Caveat::Unsteady),
        ];
        outcome.with_caveats(caveats.into_iter().filter(|(is, _)| *is).map(|(_, caveat)| caveat))
    }
}
