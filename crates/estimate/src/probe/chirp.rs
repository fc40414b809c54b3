//! pathChirp: packets ever closer, until the delay rises and stays (Ribeiro, Riedi, Baraniuk, Navratil, Cottrell, PAM 2003;
//! parameters of pathChirp 2.3.7).
//!
//! Where the rate of a chirp passes what is left, the queue of the tight link builds up and does not run empty again. The
//! rate at that packet is the estimate of one chirp. Known to err: on an idle path the first rate above the capacity
//! is the answer, up to a fifth more than the truth; under bursts from cross traffic the excursion seems to begin early.

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

/// Chirps after which the range is judged: that most of them are misled by the same burst is rare.
const SCOUTS: usize = 3;

/// Chirps in all, whatever becomes of them.
const CHIRPS_MAX: usize = 60;

/// Chirps in a row of which nothing came, after which the path is taken for dead.
const SILENCE: usize = 3;

/// Share of the packets above which their loss tells that a chirp is too fast: no path in use loses as many at random.
const OVERFLOW: f64 = 0.1;

/// Packets before which an onset means that the chirp began too fast: with two rates below it, it is bracketed.
const EARLY: usize = 2;

/// Packets at the end of a chirp that tell how fast the path passes what is faster than it: the busy period and one.
const TAIL: usize = 6;

/// Deviation of a gap at the sender from what was asked that makes it uneven: half of a step of the rates of 2.3.7.
const UNEVEN: f64 = 0.1;

/// Share of uneven gaps in a chirp that is a caveat: the busy period, of a chirp of the first range.
const MANY_UNEVEN: f64 = 0.25;

/// Packets that came within this of each other, and left four times as far apart or more, came together: it takes a queue
/// on a link of 8 Gb/s to do that to them. Two such gaps make a chirp one of batches.
const TOGETHER: Duration = Duration::from_nanos(1_000);

/// What the two forms differ in.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Form {
    /// Longest packets, in bytes of IP.
    most_bytes: u32,
    /// Each rate of a chirp over the one before.
    spread: f64,
    /// Mean rate of all chirps over the slowest rate of the range, if that is more than [`MEAN_RATE`].
    share: f64,
    segmentation: Segmentation,
}

/// pathChirp 2.3.7. Clocks drift apart by 100 ppm and not by ten times as much.
const FAITHFUL: Form = Form {
    most_bytes: 1000,
    spread: 1.2,
    share: 0.0,
    segmentation: Segmentation { busy_period: 5, decrease_factor: 1.5, drift: 0.001 },
};

/// Packets of Ethernet, whose gaps are longer by half for the same rate, so that unevenness of the sender weighs less. Steps
/// of 10 % and a decrease factor of 3: with those of 2.3.7 a single gap in the cross traffic ends an excursion, and a link
/// with a Poisson load is overrated by 14 to 26 % of its capacity on average; with these by 0 to 9 %. They were chosen over
/// the virtual path from seven pairs and held on links, loads, packets and seeds other than those. The share is Spruce's.
const DEFAULT: Form = Form {
    most_bytes: 1500,
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
    /// Chirps that were too fast for the queue, of the range as it is.
    overflowed: usize,
    asked: Train,
    /// Of the range as it is.
    readings: Vec<Reading>,
    /// What the last packets of chirps came at that came slower than they left, in b/s: no more than the capacity.
    tails: Vec<f64>,
    caveats: Vec<Caveat>,
}

/// Where the readings lie in the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
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

    /// Packets of 1000 bytes in steps of 20 %, a decrease factor of 1.5, a mean rate of 0.3 Mb/s: some five seconds for eleven chirps of the first range.
    pub fn faithful(path: Path) -> Self {
        Self::with(path, FAITHFUL)
    }

    fn with(path: Path, form: Form) -> Self {
        let range = Range::new(length(&path, form), path.least_gap);
        let (asked, readings, tails) = (Train::new(Vec::new()), Vec::new(), Vec::new());
        let caveats = Vec::new();
        Self { path, form, range, sent: 0, silent: 0, batched: 0, overflowed: 0, asked, readings, tails, caveats }
    }

    fn bytes(&self) -> u32 {
        length(&self.path, self.form)
    }

    fn mean_rate(&self) -> f64 {
        MEAN_RATE.max(self.range.low * self.form.share)
    }

    /// Where most readings lie, if there are enough to say.
    fn place(&self) -> Option<Place> {
        let most = |is: fn(&Reading) -> bool| self.readings.iter().filter(|r| is(r)).count() * 2 > self.readings.len();
        (self.readings.len() >= SCOUTS).then(|| {
            if most(|r| r.onset.is_none()) {
                Place::Above
            } else if most(|r| r.onset.is_some_and(|onset| onset < EARLY)) {
                Place::Below
            } else {
                Place::Within
            }
        })
    }

    /// Moves the range once the first chirps of it say that what is left lies outside.
    fn adapt(&mut self) {
        if self.readings.len().max(self.overflowed) != SCOUTS {
            return;
        }
        let moved = match self.place() {
            Some(Place::Above) => self.range.up(),
            Some(Place::Below) => self.range.down(),
            Some(Place::Within) => None,
            None => self.range.down(),
        };
        if let Some(range) = moved {
            self.range = range;
            self.readings.clear();
            self.overflowed = 0;
        }
    }

    /// Batches make a saw of the delays: nothing is left to segment.
    fn is_batched(&self) -> bool {
        self.batched >= SCOUTS && self.batched > self.readings.len()
    }

    fn reading(&self, passage: &TrainObservation) -> Option<Reading> {
        let left: Option<Vec<Instant>> = passage.packets.iter().map(|p| p.sent).collect();
        let apart = |w: &[Instant]| w.last()?.as_nanos().checked_sub(w.first()?.as_nanos()).map(|ns| ns as f64);
        let gaps_ns: Option<Vec<f64>> = left?.windows(2).map(apart).collect();
        let delays_ns: Vec<f64> = passage.delays_ns().into_iter().map(|q| q as f64).collect();
        Signature { bytes: self.bytes(), gaps_ns: &gaps_ns?, delays_ns: &delays_ns }.reading(&self.form.segmentation)
    }
}

fn length(path: &Path, form: Form) -> u32 {
    path.mtu.min(form.most_bytes).max(UDP_HEADERS + 1)
}

/// What the last packets of a chirp came at in b/s, if that was clearly slower than they left.
fn tail(passage: &TrainObservation) -> Option<f64> {
    let last = passage.packets.len().checked_sub(TAIL)?;
    let tail = TrainObservation { packets: passage.packets.get(last..)?.to_vec() };
    tail.dispersion().filter(Dispersion::is_slowed).map(|d| d.received_rate().as_bps() as f64)
}

/// Whether packets were lost as a queue that overflows loses them: many, and none of the first third.
fn is_overflow(passage: &TrainObservation) -> bool {
    let first = passage.packets.iter().take(passage.packets.len() / 3);
    passage.loss_ratio() > OVERFLOW && first.filter(|p| p.received.is_none()).count() == 0
}

fn is_batched(passage: &TrainObservation) -> bool {
    passage.gaps().iter().filter(|g| g.received < TOGETHER && g.sent >= TOGETHER * 4).count() >= 2
}

/// Whether many packets did not leave as far apart as they should.
fn is_uneven(passage: &TrainObservation, asked: &Train) -> bool {
    let pairs = passage.packets.windows(2).zip(asked.departures().windows(2));
    let uneven = pairs.filter(|(went, asked)| {
        let ([a, b], [first, second]) = (went, asked) else { return false };
        let (Some(from), Some(to)) = (a.sent, b.sent) else { return false };
        let (went, asked) = (to.nanos_since(from) as f64, (second.after.saturating_sub(first.after)).as_nanos() as f64);
        (went - asked).abs() > UNEVEN * asked
    });
    uneven.count() as f64 > MANY_UNEVEN * asked.departures().len() as f64
}

impl Method for PathChirp {
    fn next(&mut self) -> Step {
        let enough = self.readings.len() >= CHIRPS || self.sent >= CHIRPS_MAX;
        if enough || self.silent >= SILENCE || self.is_batched() {
            return Step::Done(self.so_far());
        }
        self.sent += 1;
        let train = self.range.chirp(self.bytes(), self.form.spread);
        self.asked = train.clone();
        let turn = Duration::from_secs_f64(train.bytes().as_u64() as f64 * 8.0 / self.mean_rate());
        Step::Send { pause: turn.saturating_sub(train.span()).max(self.path.round_trip / 2), train }
    }

    fn observe(&mut self, passage: &TrainObservation) {
        self.silent = if passage.lost() == passage.sent() { self.silent + 1 } else { 0 };
        let (whole, ordered) = (passage.lost() == 0, passage.reordered() == 0);
        let batched = is_batched(passage);
        let caveats = [
            (!whole, Caveat::Loss),
            (!ordered, Caveat::Reordering),
            (batched, Caveat::Batching),
            (is_uneven(passage, &self.asked), Caveat::SenderTooSlow),
        ];
        self.caveats.extend(caveats.into_iter().filter(|(is, _)| *is).map(|(_, caveat)| caveat));
        self.batched += usize::from(batched);
        // The tool, too, leaves out chirps of which a packet is missing.
        let reading = if whole && ordered && !batched { self.reading(passage) } else { None };
        let overflowed = is_overflow(passage);
        self.overflowed += usize::from(overflowed);
        self.readings.extend(reading);
        self.tails.extend(tail(passage).filter(|_| reading.is_some()));
        if reading.is_some() || overflowed {
            self.adapt();
        }
    }

    fn so_far(&self) -> Outcome {
        let rates: Vec<f64> = self.readings.iter().map(|r| r.available_bps).collect();
        // What is left lies between the rate at which the delay began to rise and the one before that.
        let reaching =
            |i: Interval| Interval { low: Rate::from_bps((i.low.as_bps() as f64 / self.form.spread) as u64), ..i };
        let mean = Interval::of_mean(&rates).map(reaching).filter(|_| !self.is_batched());
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, mean).troubled(self.caveats.iter().copied());
        let tails = median(self.tails.iter().copied()).filter(|_| self.tails.len() >= SCOUTS);
        outcome.also.extend(tails.map(|bps| (Quantity::AsymptoticDispersion, Interval::exactly(bps))));
        let place = self.place();
        let caveats = [
            (place == Some(Place::Above), Caveat::LowerBound),
            (place == Some(Place::Below), Caveat::UpperBound),
            (rates.len() < CHIRPS, Caveat::TooFewSamples),
            (changed(&rates), Caveat::Unsteady),
        ];
        outcome.troubled(caveats.into_iter().filter(|(is, _)| *is).map(|(_, caveat)| caveat))
    }
}
