//! Spruce: what cross traffic puts between the packets of pairs (Strauss, Katabi, Kaashoek, *A Measurement Study of
//! Available Bandwidth Estimation Tools*, IMC 2003).
//!
//! The packets of a pair enter the tight link as far apart as it takes to send one. The first is then not gone before
//! the second comes, the queue does not run empty between them, and the pair leaves further apart by exactly what of the
//! load came meanwhile. That holds where the tight link is the narrow one and its capacity is known.

use results::estimate::{Caveat, Quantity};
use units::{Duration, Rate};

use super::curve::ArrivalCurve;
use super::unsteady::changed;
use super::{Departure, Interval, Method, Outcome, PacketOutcome, Path, Step, Train, TrainObservation, UDP_HEADERS};
use crate::draw;
use crate::samples::rate;

/// Pairs in all (Spruce 0.3).
const PAIRS: u32 = 100;

/// Pairs in one train: so many that little is waited for answers, so few that an answer is there if no more are allowed.
const PAIRS_A_TRAIN: u32 = 10;

/// Least mean distance of pairs in seconds (Spruce 0.3): 240 kb/s at 1500 bytes.
const SPACING_S_MIN: f64 = 0.1;

/// Largest share of the capacity that the pairs take (Spruce 0.3).
const LARGEST_SHARE: f64 = 0.05;

/// Trains that tell the capacity when it is not given: that cross traffic comes between the packets of all is rare.
const BURSTS: u32 = 3;

/// Packets of such a train, as in [`super::TwoRates`]: enough to see a token bucket of some packets end.
const BURST_PACKETS: u32 = 12;

/// A packet ahead of each pair, in bytes of IP: hosts that were idle hand the first packet over late, and the pair behind it not.
const WAKER: u32 = 64;

/// How long before the pair it leaves, at least: above what hosts need to wake up.
const WAKING: Duration = Duration::from_micros(200);

/// Packets of a pair, with the one ahead.
const PACKETS_A_PAIR: usize = 3;

/// Deviation of a pair's distance at the sender from what was asked at which it is left out: as it is over 1, the error
/// that it makes over the capacity.
const UNEVEN: f64 = 0.1;

/// Share of such pairs that is a caveat.
const MANY_UNEVEN: f64 = 0.1;

/// Packets that came closer than this share of their distance at the sender came together. No link behind the narrow one
/// that is less than 20 times as fast can do that to them.
const TOGETHER: f64 = 0.05;

/// Or closer than this, in ns, as for [`ArrivalCurve`].
const TOGETHER_NS: f64 = 1_000.0;

/// Share of the pairs that came together from which on they were batches: links behind compress one now and then.
const MANY_TOGETHER: f64 = 0.1;

/// Pairs without which there is no answer, and without which it is called one of too few.
const PAIRS_MIN: (usize, usize) = (10, 50);

/// Trains in a row of which nothing came, after which the path is taken for dead.
const SILENCE: u32 = 3;

/// The method.
#[derive(Debug)]
pub struct Spruce {
    path: Path,
    given: Option<f64>,
    /// Capacity by each burst in b/s.
    bursts: Vec<f64>,
    bursts_sent: u32,
    /// Bursts that came no slower than they left.
    unslowed: usize,
    trains_sent: u32,
    silent: u32,
    pairs: Pairs,
    caveats: Vec<Caveat>,
}

#[derive(Debug, Default)]
struct Pairs {
    /// What each pair says is left, in b/s: below zero and above the capacity, too, for only the mean means something.
    left: Vec<f64>,
    uneven: usize,
    together: usize,
}

impl Pairs {
    fn arrived(&self) -> usize {
        self.left.len() + self.uneven
    }

    fn are_batched(&self) -> bool {
        self.together as f64 > MANY_TOGETHER * self.arrived() as f64 && self.together > 1
    }

    fn are_uneven(&self) -> bool {
        self.uneven as f64 > MANY_UNEVEN * self.arrived() as f64
    }

    /// `A = C (1 - (g_out - g_in) / g_in)` with the distance at the sender as it was: the formula of the paper.
    fn add(&mut self, sent_ns: f64, received_ns: f64, asked_ns: f64, capacity: f64) {
        if received_ns < TOGETHER_NS.max(sent_ns * TOGETHER) {
            self.together += 1;
        }
        if sent_ns > 0.0 && (sent_ns / asked_ns - 1.0).abs() <= UNEVEN {
            self.left.push(capacity * (1.0 - (received_ns - sent_ns) / sent_ns));
        } else {
            self.uneven += 1;
        }
    }
}

impl Spruce {
    /// With the capacity of the path as it is known; without one, three trains of twelve packets tell it first.
    pub fn new(path: Path, capacity: Option<Rate>) -> Self {
        let given = capacity.map(|c| c.as_bps() as f64);
        let (bursts, caveats, pairs) = (Vec::new(), Vec::new(), Pairs::default());
        Self { path, given, bursts, bursts_sent: 0, unslowed: 0, trains_sent: 0, silent: 0, pairs, caveats }
    }

    fn bytes(&self) -> u32 {
        self.path.mtu.max(UDP_HEADERS + 1)
    }

    fn capacity(&self) -> Option<f64> {
        // Cross traffic between the packets only ever makes a burst slower.
        let measured = || self.bursts.iter().copied().max_by(f64::total_cmp);
        self.given.or_else(measured).filter(|c| *c >= 1.0)
    }

    fn wants_bursts(&self) -> bool {
        self.given.is_none() && self.bursts_sent < BURSTS
    }

    /// Distance within a pair: what the capacity needs for a packet.
    fn gap_ns(&self, capacity: f64) -> f64 {
        f64::from(self.bytes()) * 8e9 / capacity
    }

    /// An exponential variate, the distance of one pair from the one before.
    fn spacing(&self, capacity: f64, pair: u32) -> Duration {
        let mean_s = (2.0 * f64::from(self.bytes()) * 8.0 / (LARGEST_SHARE * capacity)).max(SPACING_S_MIN);
        let exponential = -(1.0 - draw(self.path.seed, pair.into())).ln();
        Duration::from_nanos((exponential * mean_s * 1e9) as u64)
    }

    fn train(&self, capacity: f64) -> Step {
        let gap = Duration::from_nanos(self.gap_ns(capacity).round() as u64);
        let (first, bytes) = (self.trains_sent * PAIRS_A_TRAIN, self.bytes());
        let mut after = Duration::ZERO;
        let departures = (0..PAIRS_A_TRAIN).flat_map(|i| {
            after += if i == 0 { Duration::ZERO } else { self.spacing(capacity, first + i) };
            let waker = Departure { after, bytes: WAKER };
            after += gap.max(WAKING);
            let one = Departure { after, bytes };
            after += gap;
            [waker, one, Departure { after, bytes }]
        });
        Step::Send { train: Train::new(departures.collect()), pause: self.spacing(capacity, first) }
    }

    fn observe_burst(&mut self, passage: &TrainObservation) {
        let passage = passage.without_first();
        let curve = ArrivalCurve::of(&passage);
        if curve.is_batched() {
            self.caveats.push(Caveat::Batching);
        }
        let Some(service) = curve.service_at_once() else { return };
        if service.burst.is_some() {
            self.caveats.push(Caveat::TokenBucket);
        }
        self.unslowed += usize::from(passage.dispersion().is_some_and(|d| !d.is_slowed()));
        self.bursts.push(service.sustained.as_bps() as f64);
    }

    fn observe_pairs(&mut self, passage: &TrainObservation, capacity: f64) {
        let asked = self.gap_ns(capacity);
        for pair in passage.packets.chunks_exact(PACKETS_A_PAIR).take(PAIRS_A_TRAIN as usize) {
            let [_, a, b] = pair else { continue };
            let Some((sent, received)) = distances(a, b) else { continue };
            self.pairs.add(sent, received, asked, capacity);
        }
    }

    /// Pairs tell nothing when they come in batches: both packets have the time of one interrupt.
    fn is_batched(&self) -> bool {
        self.caveats.contains(&Caveat::Batching) || self.pairs.are_batched()
    }
}

/// Distances of two packets at the sender and at the receiver, in ns.
fn distances(a: &PacketOutcome, b: &PacketOutcome) -> Option<(f64, f64)> {
    let sent = b.sent?.as_nanos().checked_sub(a.sent?.as_nanos())?;
    let received = b.received?.as_nanos().checked_sub(a.received?.as_nanos())?;
    Some((sent as f64, received as f64))
}

impl Method for Spruce {
    fn next(&mut self) -> Step {
        if self.silent >= SILENCE || self.is_batched() {
            return Step::Done(self.so_far());
        }
        if self.wants_bursts() {
            self.bursts_sent += 1;
            let train = Train::spaced(BURST_PACKETS, self.bytes(), Duration::ZERO);
            return Step::Send { train, pause: (self.path.round_trip / 2).max(Duration::from_millis(5)) };
        }
        match self.capacity() {
            Some(capacity) if self.trains_sent * PAIRS_A_TRAIN < PAIRS => {
                let step = self.train(capacity);
                self.trains_sent += 1;
                step
            }
            _ => Step::Done(self.so_far()),
        }
    }

    fn observe(&mut self, passage: &TrainObservation) {
        self.silent = if passage.lost() == passage.sent() { self.silent + 1 } else { 0 };
        if passage.lost() > 0 {
            self.caveats.push(Caveat::Loss);
        }
        if passage.reordered() > 0 {
            self.caveats.push(Caveat::Reordering);
        }
        match self.capacity() {
            Some(capacity) if self.trains_sent > 0 => self.observe_pairs(passage, capacity),
            _ => self.observe_burst(passage),
        }
    }

    fn so_far(&self) -> Outcome {
        let left = &self.pairs.left;
        let capacity = self.capacity();
        let enough = left.len() >= PAIRS_MIN.0 && !self.is_batched();
        let mean = capacity.filter(|_| enough).and_then(|c| Some(Interval::of_mean(left)?.within(rate(c))));
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, mean).troubled(self.caveats.iter().copied());
        if let (Some(c), None) = (capacity, self.given) {
            let slowest = self.bursts.iter().copied().fold(c, f64::min);
            outcome.also.push((Quantity::Capacity, Interval::from_bps(c, slowest, c)));
        }
        // The capacity is then the rate of the sender: a faster one might have found more.
        let is_senders = self.unslowed * 2 > self.bursts.len();
        let caveats = [
            (self.pairs.are_batched(), Caveat::Batching),
            (self.pairs.are_uneven() || is_senders, Caveat::SenderTooSlow),
            (is_senders, Caveat::LowerBound),
            (left.len() < PAIRS_MIN.1, Caveat::TooFewSamples),
            (changed(left), Caveat::Unsteady),
        ];
        outcome.troubled(caveats.into_iter().filter(|(is, _)| *is).map(|(_, caveat)| caveat))
    }
}
