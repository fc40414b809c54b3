//! Spruce: the cross traffic that arrives between the packets of pairs (Strauss, Katabi, Kaashoek, *A Measurement Study
//! of Available Bandwidth Estimation Tools*, IMC 2003).
//!
//! The packets of a pair enter the tight link with a gap equal to the service time of one packet. The first packet is
//! still in service when the second arrives, so that the queue does not drain between them. The gap at the receiver is
//! then larger by exactly the cross traffic that arrived in between. This holds if the tight link is the narrow link
//! and its capacity is known.

use results::estimate::{Caveat, Quantity};
use units::{Duration, Rate};

use super::curve::ArrivalCurve;
use super::unsteady::changed;
use super::{Departure, Interval, Method, Outcome, PacketOutcome, Path, Step, Train, TrainObservation, UDP_HEADERS};
use crate::draw;
use crate::samples::rate;

/// Total number of pairs (Spruce 0.3).
const PAIRS: u32 = 100;

/// Pairs per train: enough to spend little time on waiting for reports, and few enough that a result exists if the
/// caller stops early.
const PAIRS_PER_TRAIN: u32 = 10;

/// Minimum mean distance of pairs in seconds (Spruce 0.3): 240 kb/s at 1500 bytes.
const PAIR_DISTANCE_S_MIN: f64 = 0.1;

/// Maximum share of the capacity that the pairs take (Spruce 0.3).
const CAPACITY_SHARE_MAX: f64 = 0.05;

/// Trains that measure the capacity if it is not given: cross traffic rarely delays all of them.
const BURSTS: u32 = 3;

/// Packets of such a train, as in [`super::TwoRates`]: enough to see a token bucket of a few packets run empty.
const BURST_PACKETS: u32 = 12;

/// Length in bytes of IP of a packet ahead of each pair: a host that was idle delivers the first packet late, and the
/// following pair on time.
const WAKE_UP_BYTES: u32 = 64;

/// Minimum time between that packet and the pair: more than hosts need to wake up.
const WAKE_UP_TIME: Duration = Duration::from_micros(200);

/// Packets per pair, including the one ahead.
const PACKETS_PER_PAIR: usize = 3;

/// Deviation of a pair's gap at the sender from the requested one above which the pair is ignored, as a share: it
/// equals the relative error in units of the capacity.
const UNEVEN_DEVIATION: f64 = 0.1;

/// Share of such pairs that causes a caveat.
const UNEVEN_SHARE_MAX: f64 = 0.1;

/// Maximum gap at the receiver, as a share of the gap at the sender, of packets that arrived together. Only a link
/// behind the narrow one that is at least 20 times as fast does that.
const BATCH_GAP_SHARE_MAX: f64 = 0.05;

/// Maximum gap in ns of packets that arrived together, as for [`ArrivalCurve`].
const BATCH_GAP_NS_MAX: f64 = 1_000.0;

/// Share of pairs that arrived together above which they are batches: links behind the narrow one compress a pair
/// occasionally.
const BATCHED_SHARE_MAX: f64 = 0.1;

/// Minimum number of pairs for a result, and for a result without a caveat.
const PAIRS_MIN: (usize, usize) = (10, 50);

/// Consecutive trains without any arrival after which the path counts as dead.
const SILENT_TRAINS_MAX: u32 = 3;

/// The method.
#[derive(Debug)]
pub struct Spruce {
    path: Path,
    given: Option<f64>,
    /// Capacity by each burst in b/s.
    bursts: Vec<f64>,
    bursts_sent: u32,
    /// Bursts that arrived no slower than they were sent.
    unslowed: usize,
    trains_sent: u32,
    silent: u32,
    pairs: Pairs,
    caveats: Vec<Caveat>,
}

#[derive(Debug, Default)]
struct Pairs {
    /// Available bandwidth by each pair, in b/s. Single values can be negative or above the capacity; only the mean is
    /// meaningful.
    available: Vec<f64>,
    uneven: usize,
    batched: usize,
}

impl Pairs {
    fn arrived(&self) -> usize {
        self.available.len() + self.uneven
    }

    fn are_batched(&self) -> bool {
        self.batched as f64 > BATCHED_SHARE_MAX * self.arrived() as f64 && self.batched > 1
    }

    fn are_uneven(&self) -> bool {
        self.uneven as f64 > UNEVEN_SHARE_MAX * self.arrived() as f64
    }

    /// `A = C (1 - (g_out - g_in) / g_in)` with the measured gap at the sender: the formula of the paper.
    fn add(&mut self, sent_ns: f64, received_ns: f64, requested_ns: f64, capacity: f64) {
        if received_ns < BATCH_GAP_NS_MAX.max(sent_ns * BATCH_GAP_SHARE_MAX) {
            self.batched += 1;
        }
        if sent_ns > 0.0 && (sent_ns / requested_ns - 1.0).abs() <= UNEVEN_DEVIATION {
            self.available.push(capacity * (1.0 - (received_ns - sent_ns) / sent_ns));
        } else {
            self.uneven += 1;
        }
    }
}

impl Spruce {
    /// Creates the method with a known capacity; without one, three trains of twelve packets measure it first.
    pub fn new(path: Path, capacity: Option<Rate>) -> Self {
        let given = capacity.map(|c| c.as_bps() as f64);
        let (bursts, caveats, pairs) = (Vec::new(), Vec::new(), Pairs::default());
        Self { path, given, bursts, bursts_sent: 0, unslowed: 0, trains_sent: 0, silent: 0, pairs, caveats }
    }

    fn bytes(&self) -> u32 {
        self.path.mtu.max(UDP_HEADERS + 1)
    }

    fn capacity(&self) -> Option<f64> {
        // Cross traffic between the packets can only slow a burst down.
        let measured = || self.bursts.iter().copied().max_by(f64::total_cmp);
        self.given.or_else(measured).filter(|c| *c >= 1.0)
    }

    fn needs_bursts(&self) -> bool {
        self.given.is_none() && self.bursts_sent < BURSTS
    }

    /// Gap within a pair: the service time of a packet at the capacity.
    fn gap_ns(&self, capacity: f64) -> f64 {
        f64::from(self.bytes()) * 8e9 / capacity
    }

    /// Exponentially distributed distance between consecutive pairs.
    fn spacing(&self, capacity: f64, pair: u32) -> Duration {
        let mean_s = (2.0 * f64::from(self.bytes()) * 8.0 / (CAPACITY_SHARE_MAX * capacity)).max(PAIR_DISTANCE_S_MIN);
        let exponential = -(1.0 - draw(self.path.seed, pair.into())).ln();
        Duration::from_nanos((exponential * mean_s * 1e9) as u64)
    }

    fn train(&self, capacity: f64) -> Step {
        let gap = Duration::from_nanos(self.gap_ns(capacity).round() as u64);
        let (first, bytes) = (self.trains_sent * PAIRS_PER_TRAIN, self.bytes());
        let mut after = Duration::ZERO;
        let departures = (0..PAIRS_PER_TRAIN).flat_map(|i| {
            after += if i == 0 { Duration::ZERO } else { self.spacing(capacity, first + i) };
            let wake_up_packet = Departure { after, bytes: WAKE_UP_BYTES };
            after += gap.max(WAKE_UP_TIME);
            let one = Departure { after, bytes };
            after += gap;
            [wake_up_packet, one, Departure { after, bytes }]
        });
        Step::Send { train: Train::new(departures.collect()), pause: self.spacing(capacity, first) }
    }

    fn observe_burst(&mut self, observation: &TrainObservation) {
        let observation = observation.without_first();
        let curve = ArrivalCurve::of(&observation);
        if curve.is_batched() {
            self.caveats.push(Caveat::Batching);
        }
        let Some(service) = curve.service_at_once() else { return };
        if service.burst.is_some() {
            self.caveats.push(Caveat::TokenBucket);
        }
        self.unslowed += usize::from(observation.dispersion().is_some_and(|d| !d.is_slowed()));
        self.bursts.push(service.sustained.as_bps() as f64);
    }

    fn observe_pairs(&mut self, observation: &TrainObservation, capacity: f64) {
        let requested = self.gap_ns(capacity);
        for pair in observation.packets.chunks_exact(PACKETS_PER_PAIR).take(PAIRS_PER_TRAIN as usize) {
            let [_, a, b] = pair else { continue };
            let Some((sent, received)) = distances(a, b) else { continue };
            self.pairs.add(sent, received, requested, capacity);
        }
    }

    /// Whether pairs arrive in batches: both packets then have the time of one interrupt, and give no estimate.
    fn is_batched(&self) -> bool {
        self.caveats.contains(&Caveat::Batching) || self.pairs.are_batched()
    }
}

/// Gaps of two packets at the sender and at the receiver, in ns.
fn distances(a: &PacketOutcome, b: &PacketOutcome) -> Option<(f64, f64)> {
    let sent = b.sent?.as_nanos().checked_sub(a.sent?.as_nanos())?;
    let received = b.received?.as_nanos().checked_sub(a.received?.as_nanos())?;
    Some((sent as f64, received as f64))
}

impl Method for Spruce {
    fn next(&mut self) -> Step {
        if self.silent >= SILENT_TRAINS_MAX || self.is_batched() {
            return Step::Done(self.so_far());
        }
        if self.needs_bursts() {
            self.bursts_sent += 1;
            let train = Train::spaced(BURST_PACKETS, self.bytes(), Duration::ZERO);
            return Step::Send { train, pause: (self.path.round_trip / 2).max(Duration::from_millis(5)) };
        }
        match self.capacity() {
            Some(capacity) if self.trains_sent * PAIRS_PER_TRAIN < PAIRS => {
                let step = self.train(capacity);
                self.trains_sent += 1;
                step
            }
            _ => Step::Done(self.so_far()),
        }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        self.silent = if observation.lost() == observation.sent() { self.silent + 1 } else { 0 };
        if observation.lost() > 0 {
            self.caveats.push(Caveat::Loss);
        }
        if observation.reordered() > 0 {
            self.caveats.push(Caveat::Reordering);
        }
        match self.capacity() {
            Some(capacity) if self.trains_sent > 0 => self.observe_pairs(observation, capacity),
            _ => self.observe_burst(observation),
        }
    }

    fn so_far(&self) -> Outcome {
        let available = &self.pairs.available;
        let capacity = self.capacity();
        let enough = available.len() >= PAIRS_MIN.0 && !self.is_batched();
        let mean = capacity.filter(|_| enough).and_then(|c| Some(Interval::of_mean(available)?.within(rate(c))));
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, mean).with_caveats(self.caveats.iter().copied());
        if let (Some(c), None) = (capacity, self.given) {
            let slowest = self.bursts.iter().copied().fold(c, f64::min);
            outcome.also.push((Quantity::Capacity, Interval::from_bps(c, slowest, c)));
        }
        // The capacity is then the rate of the sender: a faster sender could find a larger one.
        let is_sender_limited = self.unslowed * 2 > self.bursts.len();
        let caveats = [
            (self.pairs.are_batched(), Caveat::Batching),
            (self.pairs.are_uneven() || is_sender_limited, Caveat::SenderTooSlow),
            (is_sender_limited, Caveat::LowerBound),
            (available.len() < PAIRS_MIN.1, Caveat::TooFewSamples),
            (changed(available), Caveat::Unsteady),
        ];
        outcome.with_caveats(caveats.into_iter().filter(|(is, _)| *is).map(|(_, caveat)| caveat))
    }
}
