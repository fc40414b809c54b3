//! Capacity and load from the dispersion of trains at two rates.
//!
//! Where a link of capacity `C` carries a load `l` besides, a train that enters at `Ri` and fills what is left leaves at
//! `Ro = C Ri / (Ri + l)` (fluid, one queue in order of arrival; Melander, Björkman, Gunningberg, *TOPP*, 2000). A train far
//! above `C` therefore tells `C`, and one near `C` tells `l`. Trains of one rate, as of 2002, mix both.
//!
//! Few trains tell little of `l`: what they count is the packets that come between theirs. Small packets, one by one, tell
//! more of it for their bytes.

mod patient;
mod singles;
mod solve;

use results::estimate::{Caveat, Quantity};
use units::{Bytes, Duration};

use self::patient::SustainedRateCheck;
use self::solve::{Burst, Evidence, Load, Solution};
use super::curve::ArrivalCurve;
use super::{Interval, Method, Outcome, Path, Step, Train, TrainObservation};
use crate::samples::rate;

/// Packets of a train that tells the capacity: enough to see a token bucket of some packets end.
const BURST_PACKETS: u32 = 10;

/// Packets of a train that tells the load, the first not counted.
const LOAD_PACKETS: u32 = 16;

/// Rate of the trains that tell the load, over the capacity: above what is left whatever the load, and as little above
/// as the uncertainty of the capacity allows, for the load shows in what it adds to the train.
const LOAD_RATE: f64 = 1.05;

/// Packets of a train of load at least, the first not counted, however small the budget or the queue is.
const FEWEST: u32 = 6;

/// Trains of load in a budget from which on they have their usual length; with less there is one, as long as the budget
/// allows: it tells no less of the load, and sees the end of a bucket, or of a batch, that shorter ones do not.
const SEVERAL: u64 = 4;

/// Batches of a receiver that a train must span; a train of fewer is made longer, by up to [`LONGEST`] times.
const BATCHES: usize = 5;
const LONGEST: u32 = 16;

/// How long a burst takes to arrive at least, in ns, if a tenth of the budget pays for it: the clocks and wakes of hosts are good for some
/// tens of microseconds, a few hundredths of this. Shorter ones are made longer in the same way.
const SPAN_NS_MIN: f64 = 0.8e6;

/// A burst is followed by so many trains of load.
const LOADS_A_BURST: usize = 3;

/// Trains of load beyond which no more are sent.
const LOADS_MAX: usize = 200;

/// Bytes after which it ends, unless the caller allows fewer: what variable paths that end by themselves need.
const BYTES_MAX: Bytes = Bytes::new(6_000_000);

/// Half the width of the interval, over the value, that is good enough.
const GOOD: f64 = 0.05;

/// A sender that is less than this much faster than what arrives tells its own rate rather than the path's.
const FASTER: f64 = 1.5;

/// Time that a bucket saves a burst at least, in ns, to be called one: hosts that wake up late save it less.
const SAVED_NS: f64 = 150_000.0;

/// The method; it ends when its interval is narrow, or by its caller's bounds.
///
/// Behind a token bucket that a train of load empties, what it tells is the sustained rate. Behind one that only a burst
/// empties, from two packets on, the capacity is the sustained rate, and what is left is no more than that: trains of load
/// pass such a bucket as they are. For a bucket that lets a whole burst through there is a train of up to 256 kB, if the
/// budget has it: in the end, or at once where the sender is no faster than what arrives, for then nothing else is known. A
/// deeper one is not seen, and what is told is its peak.
///
/// Where a train is slowed down by more than any load can, or a long one comes clearly slower than what seemed left,
/// as from links that deliver in batches, the answer is what trains came at, as an upper bound.
#[derive(Debug)]
pub struct TwoRates {
    path: Path,
    seen: Evidence,
    patient: SustainedRateCheck,
    asked: Asked,
    budget: Option<Bytes>,
    spent: Bytes,
    load_packets: u32,
    /// Whether single packets were sent.
    singled: bool,
    /// How many times longer trains are than usual, and may become: no longer than the queue.
    longer: u32,
    longest: u32,
    fruitless: usize,
    /// The longest that was filled.
    queue: Option<Duration>,
    caveats: Vec<Caveat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Burst,
    SinglePacketProbes,
    Load,
    Patience,
}

impl TwoRates {
    /// Of a path of which nothing else is known.
    pub fn new(path: Path) -> Self {
        Self {
            path,
            seen: Evidence::default(),
            patient: SustainedRateCheck::default(),
            asked: Asked::Nothing,
            budget: None,
            spent: Bytes::ZERO,
            load_packets: LOAD_PACKETS,
            singled: false,
            longer: 1,
            longest: LONGEST,
            fruitless: 0,
            queue: None,
            caveats: Vec::new(),
        }
    }

    /// Makes trains of load as long as a small budget in bytes allows, so that nothing of it is left over. The caller ends
    /// the method when it is spent.
    #[must_use]
    pub fn for_budget(mut self, bytes: u64) -> Self {
        self.budget = Some(Bytes::new(bytes));
        let mtu = u64::from(self.path.mtu.max(1));
        let left = bytes.saturating_sub(u64::from(BURST_PACKETS) * mtu + singles::BYTES_OF_ALL) / mtu;
        let usual = u64::from(LOAD_PACKETS) + 1;
        if left < usual * SEVERAL {
            let each = left.saturating_sub(1).max(FEWEST.into());
            self.load_packets = u32::try_from(each).unwrap_or(LOAD_PACKETS);
        }
        self
    }

    /// Expects this capacity, from the history of the path or from another method: the first burst confirms it, and then
    /// no more of them are needed, or refutes it, and then nothing is expected. It never changes the value of the answer.
    #[must_use]
    pub fn expecting(mut self, capacity: Interval) -> Self {
        self.seen.expected = Some(capacity);
        self
    }

    fn is_ready(&self) -> bool {
        if let Some(behind) = self.seen.behind_bucket() {
            let width = behind.high.as_bps().saturating_sub(behind.low.as_bps()) as f64;
            return self.seen.loads.len() > 2 && width <= 2.0 * GOOD * behind.value.as_bps() as f64;
        }
        let narrow = |s: Solution| s.left_half <= GOOD * s.left && s.capacity_half <= GOOD * s.capacity;
        let enough = self.seen.bursts.len() > 2 || self.seen.is_confirmed();
        if self.seen.is_bucket() {
            return enough;
        }
        enough && self.seen.loads.len() > 2 && self.seen.solve().is_some_and(narrow)
    }

    fn wanted(&self) -> Option<(Asked, Train)> {
        let (bursts, loads) = (self.seen.bursts.len(), self.seen.loads.len());
        if self.fruitless > 4 || self.patient.behind_bucket().is_some() {
            return None;
        }
        if loads >= LOADS_MAX || self.spent >= BYTES_MAX || self.is_ready() {
            return self.patience();
        }
        let burst = || (Asked::Burst, Train::spaced(BURST_PACKETS * self.longer, self.path.mtu, Duration::ZERO));
        let Some((capacity, half)) = self.seen.burst_rate() else { return Some(burst()) };
        if let Some(asked) = self.patience().filter(|_| self.is_senders()) {
            return Some(asked);
        }
        // Batches hide what a small packet waits.
        let unbatched = !self.singled && !self.caveats.contains(&Caveat::Batching);
        if let Some(train) = singles::train(&self.path, capacity).filter(|_| unbatched) {
            return Some((Asked::SinglePacketProbes, train));
        }
        let known = self.seen.is_confirmed() && half <= GOOD * capacity;
        Some(if known || loads < bursts * LOADS_A_BURST { (Asked::Load, self.load(capacity)) } else { burst() })
    }

    /// Once all else is known.
    fn patience(&self) -> Option<(Asked, Train)> {
        let is_known = self.seen.is_bucket() || self.seen.behind_bucket().is_some();
        let left = self.seen.solve().map(|s| s.left).or_else(|| self.seen.burst_rate().map(|(rate, _)| rate));
        let left = left.filter(|_| !is_known)?;
        let spare = self.budget.map(|b| b.saturating_sub(self.spent));
        self.patient.train(&self.path, left, spare).map(|train| (Asked::Patience, train))
    }

    fn behind_bucket(&self) -> Option<Interval> {
        self.seen.behind_bucket().or_else(|| self.patient.behind_bucket())
    }

    /// Whether bursts mostly tell the rate of the sender.
    fn is_senders(&self) -> bool {
        let bursts = &self.seen.bursts;
        bursts.iter().filter(|b| b.sent < b.received * FASTER).count() * 2 > bursts.len()
    }

    /// Capacity and what is left.
    fn intervals(&self, solution: Option<&Solution>) -> (Option<Interval>, Option<Interval>) {
        if let Some(behind) = self.behind_bucket() {
            return (Some(behind), Some(behind));
        }
        let rates = solution.map(|s| (s.capacity, s.capacity_half)).or_else(|| self.seen.burst_rate());
        let capacity = rates.map(|(c, half)| around(c, half));
        let at_most = |i: Interval| Interval::at_most(i.high);
        if let Some(most) = self.patient.most() {
            let most = Interval::at_most(most);
            let capacity = if self.patient.is_bucket() { Some(most) } else { capacity.map(at_most) };
            return (capacity, Some(most));
        }
        if self.seen.is_bucket() {
            return (capacity, capacity.map(at_most));
        }
        match solution {
            // Slower than with a link that is full: the trains met something else than a load.
            Some(s) if s.left <= 0.0 => {
                let delivered = self.seen.delivered().map(|d| Interval::at_most(rate(d)));
                (capacity.map(at_most), delivered.or_else(|| capacity.map(at_most)))
            }
            Some(s) => {
                let left = around(s.left, s.left_half).within(rate(s.capacity + s.capacity_half));
                (capacity, Some(self.seen.delivered().map_or(left, |most| left.below(rate(most)))))
            }
            None => (capacity, None),
        }
    }

    fn load(&self, capacity: f64) -> Train {
        let packets = self.load_packets * self.longer + 1;
        Train::at_rate(packets, self.path.mtu, rate((capacity * LOAD_RATE).min(self.path.fastest())))
    }

    fn observe_burst(&mut self, passage: &TrainObservation) -> Option<()> {
        if self.longer > 1 && passage.full_queue().is_some() {
            // Packets of others are lost beside its own, so that the rest comes faster than it would.
            self.longest = self.longer / 2;
            self.longer = self.longest;
            return Some(());
        }
        let passage = passage.without_first();
        let curve = ArrivalCurve::of(&passage);
        if curve.is_batched() {
            self.caveats.push(Caveat::Batching);
        }
        if self.longer < self.longest && self.is_too_short(&curve) {
            self.longer *= 2;
            return Some(());
        }
        let service = curve.service_at_once()?;
        // A few packets behind a bucket, the first of which it let through early, tell little of the rate.
        if self.longer < self.longest && self.is_paid() && service.burst.is_some_and(|b| b.rest < FEWEST as usize) {
            self.longer *= 2;
            return Some(());
        }
        let came = service.sustained.as_bps() as f64;
        let sent = passage.dispersion()?.sent_rate().map_or(f64::MAX, |r| r.as_bps() as f64);
        let has_bucket = service.burst.is_some_and(|b| b.depth_bytes * 8e9 / came > SAVED_NS);
        // Nothing comes faster than it was sent; what seems to is the jitter of the receiver's clock readings.
        self.seen.add(Burst { sent, received: came.min(sent), has_bucket });
        Some(())
    }

    fn is_too_short(&self, curve: &ArrivalCurve) -> bool {
        let in_batches = curve.is_batched() && curve.batches() < BATCHES;
        let in_no_time = curve.points().last().is_some_and(|(ns, _)| *ns < SPAN_NS_MIN);
        in_batches || in_no_time && self.is_paid()
    }

    /// Whether a tenth of the budget pays for a burst that is twice as long.
    fn is_paid(&self) -> bool {
        let longer = u64::from(BURST_PACKETS * self.longer * 2) * u64::from(self.path.mtu);
        self.budget.is_none_or(|b| longer * 10 <= b.as_u64())
    }

    fn observe_singles(&mut self, passage: &TrainObservation) -> Option<()> {
        let (capacity, _) = self.seen.burst_rate()?;
        self.seen.busy = singles::busy(&self.path, capacity, passage);
        (passage.lost() < passage.sent()).then_some(())
    }

    fn observe_load(&mut self, passage: &TrainObservation) -> Option<()> {
        let awake = passage.without_first();
        let d = awake.dispersion()?;
        let sent = d.sent_rate()?.as_bps() as f64;
        let curve = ArrivalCurve::of(&awake);
        // The ends of a train that comes in batches are wrong by a batch each; its slope is not.
        let received = if curve.is_batched() { curve.rate()? } else { d.received_rate().as_bps() as f64 };
        let stretch = sent / received.max(1.0);
        let packets = self.load_packets * self.longer - 1;
        if passage.lost() > 0 && self.load_packets > FEWEST {
            // The queue is shorter than what the train adds to it: what others lose by that is missing from the load, in all trains until now.
            self.load_packets = (self.load_packets / 2).max(FEWEST);
            self.seen.loads.clear();
        }
        let behind_bucket = curve.behind_bucket(sent);
        let delivered = awake.delivered_at_most()?;
        // A train of which most is missing is another train.
        (passage.lost() * 4 <= passage.sent())
            .then(|| self.seen.loads.push(Load { stretch, sent, packets, behind_bucket, delivered }))
    }

    /// What the trains together say of themselves.
    fn judged(&self, solution: Option<&Solution>) -> Vec<Caveat> {
        let mut all = Vec::new();
        let behind_bucket = self.behind_bucket();
        let is_bucket = behind_bucket.is_some() || self.seen.is_bucket();
        if is_bucket || self.patient.is_bucket() {
            all.push(Caveat::TokenBucket);
        }
        if self.is_senders() && !is_bucket && self.patient.most().is_none() {
            all.extend([Caveat::SenderTooSlow, Caveat::LowerBound]);
        }
        let few = self.seen.loads.len() < 3;
        let wide = |s: &Solution| few && self.seen.busy.is_none() || s.left_half > s.left.max(0.0) / 2.0;
        let is_little = if behind_bucket.is_some() { few } else { solution.is_some_and(wide) };
        all.extend(is_little.then_some(Caveat::TooFewSamples));
        all
    }
}

impl Method for TwoRates {
    fn next(&mut self) -> Step {
        let Some((asked, train)) = self.wanted() else { return Step::Done(self.so_far()) };
        self.asked = asked;
        self.spent += train.bytes();
        self.singled |= asked == Asked::SinglePacketProbes;
        // The queue that a train leaves behind is gone after the time that the train took.
        let took = if asked == Asked::SinglePacketProbes { Duration::ZERO } else { train.span() * 2 };
        let pause = took.max(self.path.round_trip / 2).max(Duration::from_millis(5));
        Step::Send { train, pause }
    }

    fn observe(&mut self, passage: &TrainObservation) {
        if passage.lost() > 0 {
            self.caveats.push(Caveat::Loss);
            self.queue = self.queue.max(passage.full_queue());
        }
        if passage.reordered() > 0 {
            self.caveats.push(Caveat::Reordering);
        }
        let told = match self.asked {
            Asked::Burst => self.observe_burst(passage),
            Asked::SinglePacketProbes => self.observe_singles(passage),
            Asked::Load => self.observe_load(passage),
            Asked::Patience => {
                self.patient.note(passage);
                Some(())
            }
            Asked::Nothing => None,
        };
        self.fruitless += usize::from(told.is_none());
    }

    fn so_far(&self) -> Outcome {
        let solution = self.seen.solve();
        let (capacity, left) = self.intervals(solution.as_ref());
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, left);
        outcome.also.extend(capacity.map(|c| (Quantity::Capacity, c)));
        outcome.queue = self.queue;
        outcome.troubled(self.caveats.iter().copied()).troubled(self.judged(solution.as_ref()))
    }
}

fn around(value: f64, half: f64) -> Interval {
    Interval::from_bps(value, value - half, value + half)
}
