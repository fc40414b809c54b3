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

use results::estimate::{Quantity, Trouble};
use units::{Bytes, Duration};

use self::patient::Patient;
use self::solve::{Burst, Evidence, Load, Solution};
use super::curve::ArrivalCurve;
use super::{Interval, Method, Outcome, Passage, Path, Step, Train};
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

/// Trains of load in a budget from which on they have their usual length.
const SEVERAL: u64 = 3;

/// Batches of a receiver that a train must span; a train of fewer is made longer, by up to [`LONGEST`] times.
const BATCHES: usize = 5;
const LONGEST: u32 = 16;

/// How long a burst takes to arrive at least, in ns, if a tenth of the budget pays for it: the clocks and wakes of hosts are good for some
/// tens of microseconds, a few hundredths of this. Shorter ones are made longer in the same way.
const LEAST_SPAN_NS: f64 = 0.8e6;

/// A burst is followed by so many trains of load.
const LOADS_A_BURST: usize = 3;

/// Trains of load beyond which no more are sent.
const MOST_LOADS: usize = 200;

/// Half the width of the interval, over the value, that is good enough.
const GOOD: f64 = 0.05;

/// A sender that is less than this much faster than what arrives tells its own rate rather than the path's.
const FASTER: f64 = 1.5;

/// The method; it ends when its interval is narrow, or by its caller's bounds.
///
/// Behind a token bucket that a train of load empties, what it tells is the sustained rate; where no more than the last
/// two packets of a train wait, something between that and the peak, and that there is a bucket. For a bucket that lets a whole
/// train through and is full again for the next, as one of 20 kB, there is a train of up to 256 kB in the end, if the budget has
/// it: a deeper one is not seen, and what is told is its peak.
#[derive(Debug)]
pub struct TwoRates {
    path: Path,
    seen: Evidence,
    patient: Patient,
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
    troubles: Vec<Trouble>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Burst,
    Singles,
    Load,
    Patience,
}

impl TwoRates {
    /// Of a path of which nothing else is known.
    pub fn new(path: Path) -> Self {
        Self {
            path,
            seen: Evidence::default(),
            patient: Patient::default(),
            asked: Asked::Nothing,
            budget: None,
            spent: Bytes::ZERO,
            load_packets: LOAD_PACKETS,
            singled: false,
            longer: 1,
            longest: LONGEST,
            fruitless: 0,
            queue: None,
            troubles: Vec::new(),
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
        let trains = ((left + usual / 2) / usual).max(1);
        if trains < SEVERAL {
            let each = (left / trains).saturating_sub(1).max(FEWEST.into());
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
        let enough = self.seen.loads.len() > 2 && (self.seen.bursts.len() > 2 || self.seen.is_confirmed());
        enough && self.seen.solve().is_some_and(narrow)
    }

    fn wanted(&self) -> Option<(Asked, Train)> {
        let (bursts, loads) = (self.seen.bursts.len(), self.seen.loads.len());
        if self.fruitless > 4 {
            return None;
        }
        if loads >= MOST_LOADS || self.is_ready() {
            return self.patience();
        }
        let burst = || (Asked::Burst, Train::spaced(BURST_PACKETS * self.longer, self.path.mtu, Duration::ZERO));
        let Some((capacity, half)) = self.seen.burst_rate() else { return Some(burst()) };
        // Batches hide what a small packet waits.
        let unbatched = !self.singled && !self.troubles.contains(&Trouble::Batching);
        if let Some(train) = singles::train(&self.path, capacity).filter(|_| unbatched) {
            return Some((Asked::Singles, train));
        }
        let known = self.seen.is_confirmed() && half <= GOOD * capacity;
        Some(if known || loads < bursts * LOADS_A_BURST { (Asked::Load, self.load(capacity)) } else { burst() })
    }

    /// Once all else is known.
    fn patience(&self) -> Option<(Asked, Train)> {
        let left = self.seen.solve().filter(|_| self.seen.behind_bucket().is_none())?.left;
        let spare = self.budget.map(|b| b.saturating_sub(self.spent));
        self.patient.train(&self.path, left, spare).map(|train| (Asked::Patience, train))
    }

    fn behind_bucket(&self) -> Option<Interval> {
        self.seen.behind_bucket().or_else(|| self.patient.behind_bucket())
    }

    fn load(&self, capacity: f64) -> Train {
        let packets = self.load_packets * self.longer + 1;
        Train::at_rate(packets, self.path.mtu, rate((capacity * LOAD_RATE).min(self.path.fastest())))
    }

    fn observe_burst(&mut self, passage: &Passage) -> Option<()> {
        if self.longer > 1 && passage.full_queue().is_some() {
            // Packets of others are lost beside its own, so that the rest comes faster than it would.
            self.longest = self.longer / 2;
            self.longer = self.longest;
            return Some(());
        }
        let passage = passage.without_first();
        let curve = ArrivalCurve::of(&passage);
        if curve.is_batched() {
            self.troubles.push(Trouble::Batching);
        }
        if self.longer < self.longest && self.is_too_short(&curve) {
            self.longer *= 2;
            return Some(());
        }
        let service = curve.service()?;
        let came = service.sustained.as_bps() as f64;
        let sent = passage.dispersion()?.sent_rate().map_or(f64::MAX, |r| r.as_bps() as f64);
        // Nothing comes faster than it was sent; what seems to is the jitter of the receiver's clock readings.
        self.seen.add(Burst { sent, received: came.min(sent), has_bucket: service.burst.is_some() });
        Some(())
    }

    fn is_too_short(&self, curve: &ArrivalCurve) -> bool {
        let in_batches = curve.is_batched() && curve.batches() < BATCHES;
        let longer = u64::from(BURST_PACKETS * self.longer * 2) * u64::from(self.path.mtu);
        let is_paid = self.budget.is_none_or(|b| longer * 10 <= b.as_u64());
        let in_no_time = curve.points().last().is_some_and(|(ns, _)| *ns < LEAST_SPAN_NS);
        in_batches || in_no_time && is_paid
    }

    fn observe_singles(&mut self, passage: &Passage) -> Option<()> {
        let (capacity, _) = self.seen.burst_rate()?;
        self.seen.busy = singles::busy(&self.path, capacity, passage);
        (passage.lost() < passage.sent()).then_some(())
    }

    fn observe_load(&mut self, passage: &Passage) -> Option<()> {
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
        // A train of which most is missing is another train.
        (passage.lost() * 4 <= passage.sent())
            .then(|| self.seen.loads.push(Load { stretch, sent, packets, behind_bucket }))
    }

    /// What the trains together say of themselves.
    fn judged(&self, solution: Option<&Solution>) -> Vec<Trouble> {
        let (mut all, bursts) = (Vec::new(), &self.seen.bursts);
        let most = |count: usize| count * 2 > bursts.len();
        let behind_bucket = self.behind_bucket();
        if behind_bucket.is_some() || most(bursts.iter().filter(|b| b.has_bucket).count()) {
            all.push(Trouble::TokenBucket);
        }
        if most(bursts.iter().filter(|b| b.sent < b.received * FASTER).count()) {
            all.extend([Trouble::SenderTooSlow, Trouble::LowerBound]);
        }
        let few = self.seen.loads.len() < 3;
        let wide = |s: &Solution| few && self.seen.busy.is_none() || s.left_half > s.left.max(0.0) / 2.0;
        let is_little = if behind_bucket.is_some() { few } else { solution.is_some_and(wide) };
        all.extend(is_little.then_some(Trouble::TooFewSamples));
        all
    }
}

impl Method for TwoRates {
    fn next(&mut self) -> Step {
        let Some((asked, train)) = self.wanted() else { return Step::Done(self.so_far()) };
        self.asked = asked;
        self.spent += train.bytes();
        self.singled |= asked == Asked::Singles;
        // The queue that a train leaves behind is gone after the time that the train took.
        let took = if asked == Asked::Singles { Duration::ZERO } else { train.span() * 2 };
        let pause = took.max(self.path.round_trip / 2).max(Duration::from_millis(5));
        Step::Send { train, pause }
    }

    fn observe(&mut self, passage: &Passage) {
        if passage.lost() > 0 {
            self.troubles.push(Trouble::Loss);
            self.queue = self.queue.max(passage.full_queue());
        }
        if passage.reordered() > 0 {
            self.troubles.push(Trouble::Reordering);
        }
        let told = match self.asked {
            Asked::Burst => self.observe_burst(passage),
            Asked::Singles => self.observe_singles(passage),
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
        let left = || solution.map(|s| around(s.left, s.left_half).within(rate(s.capacity + s.capacity_half)));
        let capacity = || solution.map(|s| (s.capacity, s.capacity_half)).or_else(|| self.seen.burst_rate());
        let behind_bucket = self.behind_bucket();
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, behind_bucket.or_else(left));
        let capacity = behind_bucket.or_else(|| capacity().map(|(c, half)| around(c, half)));
        outcome.also.extend(capacity.map(|c| (Quantity::Capacity, c)));
        outcome.queue = self.queue;
        outcome.troubled(self.troubles.iter().copied()).troubled(self.judged(solution.as_ref()))
    }
}

fn around(value: f64, half: f64) -> Interval {
    Interval::from_bps(value, value - half, value + half)
}
