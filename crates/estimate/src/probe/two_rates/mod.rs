//! Capacity and available bandwidth from the dispersion of trains at two rates.
//!
//! A link of capacity `C` carries cross traffic at rate `l`. A train that enters at a rate `Ri` above the available
//! bandwidth leaves at `Ro = C Ri / (Ri + l)` (fluid model, one FIFO queue; Melander, Björkman, Gunningberg, *TOPP*,
//! 2000). A train far above `C` therefore measures `C`, and a train near `C` measures `l`. Trains of a single rate, as
//! in 2002, measure a mixture of both.
//!
//! A few trains give an imprecise `l`, because they count the packets of cross traffic that arrive between their own.
//! Single small packets give more information about `l` for their bytes.

mod singles;
mod solve;
mod sustained;

use results::estimate::{Caveat, Quantity};
use units::{Bytes, Duration};

use self::solve::{Burst, Evidence, Load, Solution};
use self::sustained::SustainedRateCheck;
use super::curve::ArrivalCurve;
use super::{Interval, Method, Outcome, Path, Step, Train, TrainObservation};
use crate::samples::rate;

/// Packets of a train that measures the capacity: enough to see a token bucket of a few packets run empty.
const BURST_PACKETS: u32 = 10;

/// Packets of a train that measures the load, the first not counted.
const LOAD_PACKETS: u32 = 16;

/// Rate of the trains that measure the load, as a multiple of the capacity. It exceeds the available bandwidth at any
/// load. It exceeds the capacity only by the uncertainty of the capacity, because the load is measured by how much it
/// lengthens the train.
const LOAD_RATE: f64 = 1.05;

/// Minimum number of packets of a load train, the first not counted, for any budget and queue.
const LOAD_PACKETS_MIN: u32 = 6;

/// Minimum number of full-length load trains in a budget. A smaller budget is spent on one train of the length that it
/// allows. One long train measures the load as well as several short ones, and shows the end of a bucket or of a batch.
const FULL_LENGTH_LOADS_MIN: u64 = 4;

/// Minimum number of receiver batches that a train spans; a train with fewer is lengthened, up to [`LENGTH_FACTOR_MAX`]
/// times.
const BATCHES_MIN: usize = 5;
const LENGTH_FACTOR_MAX: u32 = 16;

/// Minimum duration of a burst at the receiver, in ns, if a tenth of the budget pays for it. Clocks and wake-ups of
/// hosts are accurate to some tens of microseconds, a few hundredths of this. Shorter bursts are lengthened as above.
const SPAN_NS_MIN: f64 = 0.8e6;

/// Load trains sent after each burst.
const LOADS_PER_BURST: usize = 3;

/// Maximum number of load trains.
const LOADS_MAX: usize = 200;

/// Maximum number of bytes, unless the caller allows fewer: enough for a variable path whose measurement converges.
const BYTES_MAX: Bytes = Bytes::new(6_000_000);

/// Half-width of the interval, as a share of the value, at which the measurement is complete.
const PRECISION: f64 = 0.05;

/// Minimum ratio of the sender's rate to the received rate. Below it, a burst measures the sender and not the path.
const SENDER_SPEED_RATIO_MIN: f64 = 1.5;

/// Minimum time, in ns, by which a bucket shortens a burst. Hosts that wake up late shorten it by less.
const BUCKET_SAVING_NS_MIN: f64 = 150_000.0;

/// The method. It ends when its interval is narrow enough, or when its caller's limits are reached.
///
/// If a load train empties a token bucket, the result is the sustained rate. If only bursts empty the bucket, from two
/// packets on, the capacity is the sustained rate and bounds the available bandwidth, because load trains pass such a
/// bucket undelayed. For a bucket that passes a whole burst, a train of up to 256 kB follows if the budget allows it.
/// It is sent at the end, or at once if the sender is no faster than the received rate, because no other information is
/// available then. A deeper bucket is not detected, and the result is its peak rate.
///
/// The result is the received rate as an upper bound in two cases: a train is delayed by more than any load can
/// explain, or a long train arrives clearly slower than the estimated available bandwidth. Links that deliver in
/// batches cause that.
#[derive(Debug)]
pub struct TwoRates {
    path: Path,
    seen: Evidence,
    sustained: SustainedRateCheck,
    requested: TrainKind,
    budget: Option<Bytes>,
    spent: Bytes,
    load_packets: u32,
    /// Whether single packets have been sent.
    singles_sent: bool,
    /// Factor by which trains are longer than usual, and its maximum, which the queue limits.
    length_factor: u32,
    length_factor_max: u32,
    unusable_trains: usize,
    /// The longest queue that a train filled.
    queue: Option<Duration>,
    caveats: Vec<Caveat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrainKind {
    Nothing,
    Burst,
    SinglePacketProbes,
    Load,
    SustainedRate,
}

impl TwoRates {
    /// Creates the method for a path without prior knowledge.
    pub fn new(path: Path) -> Self {
        Self {
            path,
            seen: Evidence::default(),
            sustained: SustainedRateCheck::default(),
            requested: TrainKind::Nothing,
            budget: None,
            spent: Bytes::ZERO,
            load_packets: LOAD_PACKETS,
            singles_sent: false,
            length_factor: 1,
            length_factor_max: LENGTH_FACTOR_MAX,
            unusable_trains: 0,
            queue: None,
            caveats: Vec::new(),
        }
    }

    /// Makes load trains as long as a small budget in bytes allows, so that the budget is used completely. The caller
    /// ends the method when the budget is spent.
    #[must_use]
    pub fn for_budget(mut self, bytes: u64) -> Self {
        self.budget = Some(Bytes::new(bytes));
        let mtu = u64::from(self.path.mtu.max(1));
        let packets = bytes.saturating_sub(u64::from(BURST_PACKETS) * mtu + singles::BYTES_TOTAL) / mtu;
        let usual = u64::from(LOAD_PACKETS) + 1;
        if packets < usual * FULL_LENGTH_LOADS_MIN {
            let each = packets.saturating_sub(1).max(LOAD_PACKETS_MIN.into());
            self.load_packets = u32::try_from(each).unwrap_or(LOAD_PACKETS);
        }
        self
    }

    /// Sets an expected capacity, from the history of the path or from another method. If the first burst confirms it,
    /// no more bursts are needed. If the burst refutes it, the expectation is dropped. It never changes the value of
    /// the result.
    #[must_use]
    pub fn expecting(mut self, capacity: Interval) -> Self {
        self.seen.expected = Some(capacity);
        self
    }

    fn is_ready(&self) -> bool {
        if let Some(behind) = self.seen.behind_bucket() {
            let width = behind.high.as_bps().saturating_sub(behind.low.as_bps()) as f64;
            return self.seen.loads.len() > 2 && width <= 2.0 * PRECISION * behind.value.as_bps() as f64;
        }
        let narrow =
            |s: Solution| s.available_half <= PRECISION * s.available && s.capacity_half <= PRECISION * s.capacity;
        let enough = self.seen.bursts.len() > 2 || self.seen.is_confirmed();
        if self.seen.is_bucket() {
            return enough;
        }
        enough && self.seen.loads.len() > 2 && self.seen.solve().is_some_and(narrow)
    }

    fn next_train(&self) -> Option<(TrainKind, Train)> {
        let (bursts, loads) = (self.seen.bursts.len(), self.seen.loads.len());
        if self.unusable_trains > 4 || self.sustained.behind_bucket().is_some() {
            return None;
        }
        if loads >= LOADS_MAX || self.spent >= BYTES_MAX || self.is_ready() {
            return self.sustained_rate_train();
        }
        let burst =
            || (TrainKind::Burst, Train::spaced(BURST_PACKETS * self.length_factor, self.path.mtu, Duration::ZERO));
        let Some((capacity, half)) = self.seen.burst_rate() else { return Some(burst()) };
        if let Some(train) = self.sustained_rate_train().filter(|_| self.is_sender_limited()) {
            return Some(train);
        }
        // Batches hide the queueing delay of a small packet.
        let unbatched = !self.singles_sent && !self.caveats.contains(&Caveat::Batching);
        if let Some(train) = singles::train(&self.path, capacity).filter(|_| unbatched) {
            return Some((TrainKind::SinglePacketProbes, train));
        }
        let known = self.seen.is_confirmed() && half <= PRECISION * capacity;
        Some(if known || loads < bursts * LOADS_PER_BURST { (TrainKind::Load, self.load(capacity)) } else { burst() })
    }

    /// The train that checks the sustained rate, sent when the other estimates are complete.
    fn sustained_rate_train(&self) -> Option<(TrainKind, Train)> {
        let is_known = self.seen.is_bucket() || self.seen.behind_bucket().is_some();
        let available = self.seen.solve().map(|s| s.available).or_else(|| self.seen.burst_rate().map(|(rate, _)| rate));
        let available = available.filter(|_| !is_known)?;
        let spare = self.budget.map(|b| b.saturating_sub(self.spent));
        self.sustained.train(&self.path, available, spare).map(|train| (TrainKind::SustainedRate, train))
    }

    fn behind_bucket(&self) -> Option<Interval> {
        self.seen.behind_bucket().or_else(|| self.sustained.behind_bucket())
    }

    /// Whether most bursts measure the sender's rate.
    fn is_sender_limited(&self) -> bool {
        let bursts = &self.seen.bursts;
        bursts.iter().filter(|b| b.sent < b.received * SENDER_SPEED_RATIO_MIN).count() * 2 > bursts.len()
    }

    /// Capacity and available bandwidth.
    fn intervals(&self, solution: Option<&Solution>) -> (Option<Interval>, Option<Interval>) {
        if let Some(behind) = self.behind_bucket() {
            return (Some(behind), Some(behind));
        }
        let rates = solution.map(|s| (s.capacity, s.capacity_half)).or_else(|| self.seen.burst_rate());
        let capacity = rates.map(|(c, half)| around(c, half));
        let at_most = |i: Interval| Interval::at_most(i.high);
        if let Some(sustained_max) = self.sustained.sustained_max() {
            let sustained_max = Interval::at_most(sustained_max);
            let capacity = if self.sustained.is_bucket() { Some(sustained_max) } else { capacity.map(at_most) };
            return (capacity, Some(sustained_max));
        }
        if self.seen.is_bucket() {
            return (capacity, capacity.map(at_most));
        }
        match solution {
            // Slower than on a fully loaded link: the trains were delayed by something other than load.
            Some(s) if s.available <= 0.0 => {
                let delivered = self.seen.delivered().map(|d| Interval::at_most(rate(d)));
                (capacity.map(at_most), delivered.or_else(|| capacity.map(at_most)))
            }
            Some(s) => {
                let available = around(s.available, s.available_half).within(rate(s.capacity + s.capacity_half));
                (capacity, Some(self.seen.delivered().map_or(available, |delivered| available.below(rate(delivered)))))
            }
            None => (capacity, None),
        }
    }

    fn load(&self, capacity: f64) -> Train {
        let packets = self.load_packets * self.length_factor + 1;
        Train::at_rate(packets, self.path.mtu, rate((capacity * LOAD_RATE).min(self.path.fastest())))
    }

    fn observe_burst(&mut self, observation: &TrainObservation) -> Option<()> {
        if self.length_factor > 1 && observation.full_queue().is_some() {
            // Packets of cross traffic are lost together with those of the train, so that the remaining ones arrive too
            // fast.
            self.length_factor_max = self.length_factor / 2;
            self.length_factor = self.length_factor_max;
            return Some(());
        }
        let observation = observation.without_first();
        let curve = ArrivalCurve::of(&observation);
        if curve.is_batched() {
            self.caveats.push(Caveat::Batching);
        }
        if self.length_factor < self.length_factor_max && self.is_too_short(&curve) {
            self.length_factor *= 2;
            return Some(());
        }
        let service = curve.service_at_once()?;
        // Few packets after the bucket ran empty, the first of which it passed early, give an imprecise rate.
        if self.length_factor < self.length_factor_max
            && self.is_affordable()
            && service.burst.is_some_and(|b| b.rest < LOAD_PACKETS_MIN as usize)
        {
            self.length_factor *= 2;
            return Some(());
        }
        let received = service.sustained.as_bps() as f64;
        let sent = observation.dispersion()?.sent_rate().map_or(f64::MAX, |r| r.as_bps() as f64);
        let has_bucket = service.burst.is_some_and(|b| b.depth_bytes * 8e9 / received > BUCKET_SAVING_NS_MIN);
        // A received rate above the sent rate is jitter of the receiver's clock readings.
        self.seen.add(Burst { sent, received: received.min(sent), has_bucket });
        Some(())
    }

    fn is_too_short(&self, curve: &ArrivalCurve) -> bool {
        let in_batches = curve.is_batched() && curve.batches() < BATCHES_MIN;
        let in_no_time = curve.points().last().is_some_and(|(ns, _)| *ns < SPAN_NS_MIN);
        in_batches || in_no_time && self.is_affordable()
    }

    /// Whether a tenth of the budget pays for a burst of twice the length.
    fn is_affordable(&self) -> bool {
        let bytes = u64::from(BURST_PACKETS * self.length_factor * 2) * u64::from(self.path.mtu);
        self.budget.is_none_or(|b| bytes * 10 <= b.as_u64())
    }

    fn observe_singles(&mut self, observation: &TrainObservation) -> Option<()> {
        let (capacity, _) = self.seen.burst_rate()?;
        self.seen.utilisation = singles::utilisation(&self.path, capacity, observation);
        (observation.lost() < observation.sent()).then_some(())
    }

    fn observe_load(&mut self, observation: &TrainObservation) -> Option<()> {
        let awake = observation.without_first();
        let d = awake.dispersion()?;
        let sent = d.sent_rate()?.as_bps() as f64;
        let curve = ArrivalCurve::of(&awake);
        // Each end of a batched train is off by up to one batch; its slope is not.
        let received = if curve.is_batched() { curve.rate()? } else { d.received_rate().as_bps() as f64 };
        let stretch = sent / received.max(1.0);
        let packets = self.load_packets * self.length_factor - 1;
        if observation.lost() > 0 && self.load_packets > LOAD_PACKETS_MIN {
            // The queue is shorter than the backlog of the train. The losses of cross traffic are then missing from the
            // load in all trains so far.
            self.load_packets = (self.load_packets / 2).max(LOAD_PACKETS_MIN);
            self.seen.loads.clear();
        }
        let behind_bucket = curve.behind_bucket(sent);
        let delivered = awake.delivered_at_most()?;
        // A train that lost most of its packets is not comparable.
        (observation.lost() * 4 <= observation.sent())
            .then(|| self.seen.loads.push(Load { stretch, sent, packets, behind_bucket, delivered }))
    }

    /// Caveats that follow from all trains together.
    fn joint_caveats(&self, solution: Option<&Solution>) -> Vec<Caveat> {
        let mut all = Vec::new();
        let behind_bucket = self.behind_bucket();
        let is_bucket = behind_bucket.is_some() || self.seen.is_bucket();
        if is_bucket || self.sustained.is_bucket() {
            all.push(Caveat::TokenBucket);
        }
        if self.is_sender_limited() && !is_bucket && self.sustained.sustained_max().is_none() {
            all.extend([Caveat::SenderTooSlow, Caveat::LowerBound]);
        }
        let few = self.seen.loads.len() < 3;
        let wide =
            |s: &Solution| few && self.seen.utilisation.is_none() || s.available_half > s.available.max(0.0) / 2.0;
        let is_little = if behind_bucket.is_some() { few } else { solution.is_some_and(wide) };
        all.extend(is_little.then_some(Caveat::TooFewSamples));
        all
    }
}

impl Method for TwoRates {
    fn next(&mut self) -> Step {
        let Some((kind, train)) = self.next_train() else { return Step::Done(self.so_far()) };
        self.requested = kind;
        self.spent += train.bytes();
        self.singles_sent |= kind == TrainKind::SinglePacketProbes;
        // The queue that a train builds drains within the duration of the train.
        let drain = if kind == TrainKind::SinglePacketProbes { Duration::ZERO } else { train.span() * 2 };
        let pause = drain.max(self.path.round_trip / 2).max(Duration::from_millis(5));
        Step::Send { train, pause }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        if observation.lost() > 0 {
            self.caveats.push(Caveat::Loss);
            self.queue = self.queue.max(observation.full_queue());
        }
        if observation.reordered() > 0 {
            self.caveats.push(Caveat::Reordering);
        }
        let used = match self.requested {
            TrainKind::Burst => self.observe_burst(observation),
            TrainKind::SinglePacketProbes => self.observe_singles(observation),
            TrainKind::Load => self.observe_load(observation),
            TrainKind::SustainedRate => {
                self.sustained.observe(observation);
                Some(())
            }
            TrainKind::Nothing => None,
        };
        self.unusable_trains += usize::from(used.is_none());
    }

    fn so_far(&self) -> Outcome {
        let solution = self.seen.solve();
        let (capacity, available) = self.intervals(solution.as_ref());
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, available);
        outcome.also.extend(capacity.map(|c| (Quantity::Capacity, c)));
        outcome.queue = self.queue;
        outcome.with_caveats(self.caveats.iter().copied()).with_caveats(self.joint_caveats(solution.as_ref()))
    }
}

fn around(value: f64, half: f64) -> Interval {
    Interval::from_bps(value, value - half, value + half)
}
