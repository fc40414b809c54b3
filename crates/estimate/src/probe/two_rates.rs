//! Capacity and load from the dispersion of trains at two rates.
//!
//! Where a link of capacity `C` carries a load `l` besides, a train that enters at `Ri` and fills what is left leaves at
//! `Ro = C Ri / (Ri + l)` (fluid, one queue in order of arrival; Melander, Björkman, Gunningberg, *TOPP*, 2000). A train far
//! above `C` therefore tells `C`, and one near `C` tells `l`. Trains of one rate, as of 2002, mix both.

use results::estimate::{Quantity, Trouble};
use units::Duration;

use super::curve::ArrivalCurve;
use super::{Interval, Method, Outcome, Passage, Path, Step, Train};
use crate::confidence;
use crate::samples::{mean, median, percentile, rate, sorted};

/// Packets of a train that tells the capacity: enough to see a token bucket of some packets end.
const BURST_PACKETS: u32 = 10;

/// Packets of a train that tells the load, the first not counted.
const LOAD_PACKETS: u32 = 16;

/// Rate of the trains that tell the load, over the capacity: above what is left whatever the load, and as little above
/// as the uncertainty of the capacity allows, for the load shows in what it adds to the train.
const LOAD_RATE: f64 = 1.05;

/// Batches of a receiver that a train must span; a train of fewer is made longer, by up to [`LONGEST`] times.
const BATCHES: usize = 5;
const LONGEST: u32 = 16;

/// A burst is followed by so many trains of load.
const LOADS_A_BURST: usize = 3;

/// Trains of load beyond which no more are sent.
const MOST_LOADS: usize = 200;

/// Half the width of the interval, over the value, that is good enough.
const GOOD: f64 = 0.05;

/// A sender that is less than this much faster than what arrives tells its own rate rather than the path's.
const FASTER: f64 = 1.5;

/// The method; it ends when its interval is narrow, or by its caller's bounds.
#[derive(Debug)]
pub struct TwoRates {
    path: Path,
    bursts: Vec<Burst>,
    loads: Vec<Load>,
    asked: Asked,
    /// How many times longer trains are than usual.
    longer: u32,
    fruitless: usize,
    troubles: Vec<Trouble>,
}

/// A train far above the capacity; rates in b/s.
#[derive(Debug, Clone, Copy)]
struct Burst {
    sent: f64,
    received: f64,
    has_bucket: bool,
}

/// A train near the capacity.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// Time at the receiver over time at the sender.
    stretch: f64,
    /// Rate at the sender in b/s.
    sent: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Burst,
    Load,
}

/// Capacity and what is left, in b/s, with half the widths of their intervals.
#[derive(Debug, Clone, Copy)]
struct Solution {
    capacity: f64,
    capacity_half: f64,
    left: f64,
    left_half: f64,
}

impl TwoRates {
    /// Of a path of which nothing else is known.
    pub fn new(path: Path) -> Self {
        let (bursts, loads, troubles) = (Vec::new(), Vec::new(), Vec::new());
        Self { path, bursts, loads, asked: Asked::Nothing, longer: 1, fruitless: 0, troubles }
    }

    /// Rate at which bursts came, and half the width of its interval: the median, because a host that stalls for a
    /// moment hands a whole burst over at once, and one such burst would be most of a mean.
    fn burst_rate(&self) -> Option<(f64, f64)> {
        let rates = sorted(self.bursts.iter().map(|b| b.received));
        let (low, high) = (percentile(&rates, 0.25)?, percentile(&rates, 0.75)?);
        let came = median(rates.iter().copied())?;
        // A train near the capacity never comes faster than that: when it does, the bursts were held up.
        let passed = median(self.loads.iter().map(|l| l.sent / l.stretch));
        let median = passed.map_or(came, |p| p.max(came));
        // McGill, Tukey, Larsen 1978: 1.57 interquartile ranges over the root of the count hold a median at about 95 %.
        let spread = 1.57 * (high - low) / (rates.len() as f64).sqrt();
        // One burst, or two, know nothing of their spread: what one packet more or less between them makes.
        let alone = median / f64::from(BURST_PACKETS);
        Some((median, if rates.len() > 2 { spread } else { alone }))
    }

    fn solve(&self) -> Option<Solution> {
        let (burst, burst_half) = self.burst_rate()?;
        let sent = mean(self.bursts.iter().map(|b| b.sent))?;
        // C follows from the burst by the load, the load from C: a fixed point, reached in a few rounds because the
        // burst is far above C.
        let mut c = burst;
        for _ in 0..20 {
            let left = mean(self.left(c))?;
            let next = burst * (1.0 + (c - left).clamp(0.0, c) / sent.max(burst));
            let settled = (next - c).abs() < c * 1e-6;
            c = next;
            if settled {
                break;
            }
        }
        let each = self.left(c);
        let (left, count) = (mean(each.iter().copied())?, each.len() as f64);
        let busy = (1.0 - left / c).clamp(0.0, 1.0);
        let capacity_half = burst_half * c / burst;
        // Packets of a Poisson load that meet a train of N of ours: their number varies by its root, and by one at the ends.
        let packets = f64::from(LOAD_PACKETS * self.longer);
        let by_count = 2.0 * c * ((busy + 1.0 / packets) / (count * packets)).sqrt();
        let by_spread = confidence(&each).and_then(|e| e.half_width).filter(|_| each.len() > 2).unwrap_or(by_count);
        // left = C (1 - stretch) + sent: what is uncertain of C is so of what is left.
        let stretch = mean(self.loads.iter().map(|l| l.stretch))?;
        let left_half = by_spread.hypot((1.0 - stretch) * capacity_half);
        Some(Solution { capacity: c, capacity_half, left, left_half })
    }

    /// What each train says is left if the capacity is `c`. The outer tenths of many are drawn in (winsorised): a host
    /// that stalls while a train passes makes it many times as long.
    fn left(&self, c: f64) -> Vec<f64> {
        let mut all = sorted(self.loads.iter().map(|l| c - (l.stretch * c - l.sent)));
        let outer = all.len() / 10;
        if let Some((low, high)) = all.get(outer).copied().zip(all.len().checked_sub(outer + 1).map(|i| all[i])) {
            all.iter_mut().for_each(|v| *v = v.clamp(low, high));
        }
        all
    }

    fn is_ready(&self) -> bool {
        let narrow = |s: Solution| s.left_half <= GOOD * s.left && s.capacity_half <= GOOD * s.capacity;
        self.loads.len() > 2 && self.bursts.len() > 2 && self.solve().is_some_and(narrow)
    }

    fn wanted(&self) -> Option<(Asked, Train)> {
        if self.fruitless > 4 || self.loads.len() >= MOST_LOADS || self.is_ready() {
            return None;
        }
        match self.burst_rate() {
            Some((capacity, _)) if self.loads.len() < self.bursts.len() * LOADS_A_BURST => {
                Some((Asked::Load, self.load(capacity)))
            }
            _ => Some((Asked::Burst, Train::spaced(BURST_PACKETS * self.longer, self.path.mtu, Duration::ZERO))),
        }
    }

    fn load(&self, capacity: f64) -> Train {
        let fastest = f64::from(self.path.mtu) * 8e9 / (self.path.least_gap.as_nanos().max(1) as f64);
        Train::at_rate(LOAD_PACKETS * self.longer + 1, self.path.mtu, rate((capacity * LOAD_RATE).min(fastest)))
    }

    fn observe_burst(&mut self, passage: &Passage) -> Option<()> {
        let curve = ArrivalCurve::of(passage);
        if curve.is_batched() {
            self.troubles.push(Trouble::Batching);
            if curve.batches() < BATCHES && self.longer < LONGEST {
                self.longer *= 2;
                return Some(());
            }
        }
        let service = curve.service()?;
        let came = service.sustained.as_bps() as f64;
        let sent = passage.dispersion()?.sent_rate().map_or(f64::MAX, |r| r.as_bps() as f64);
        // Nothing comes faster than it was sent; what seems to is the jitter of the receiver's clock readings.
        self.bursts.push(Burst { sent, received: came.min(sent), has_bucket: service.burst.is_some() });
        Some(())
    }

    fn observe_load(&mut self, passage: &Passage) -> Option<()> {
        let d = passage.dispersion()?;
        let sent = d.sent_rate()?.as_bps() as f64;
        let curve = ArrivalCurve::of(passage);
        // The ends of a train that comes in batches are wrong by a batch each; its slope is not.
        let received = if curve.is_batched() { curve.rate()? } else { d.received_rate().as_bps() as f64 };
        let stretch = sent / received.max(1.0);
        // A train of which most is missing is another train.
        (passage.lost() * 4 <= passage.sent()).then(|| self.loads.push(Load { stretch, sent }))
    }

    /// What the trains together say of themselves.
    fn judged(&self, solution: Option<&Solution>) -> Vec<Trouble> {
        let mut all = Vec::new();
        let most = |count: usize| count * 2 > self.bursts.len();
        if most(self.bursts.iter().filter(|b| b.has_bucket).count()) {
            all.push(Trouble::TokenBucket);
        }
        if most(self.bursts.iter().filter(|b| b.sent < b.received * FASTER).count()) {
            all.extend([Trouble::SenderTooSlow, Trouble::LowerBound]);
        }
        if let Some(s) = solution
            && (self.loads.len() < 3 || s.left_half > s.left.max(0.0) / 2.0)
        {
            all.push(Trouble::TooFewSamples);
        }
        all
    }
}

impl Method for TwoRates {
    fn next(&mut self) -> Step {
        let Some((asked, train)) = self.wanted() else { return Step::Done(self.so_far()) };
        self.asked = asked;
        // The queue that a train leaves behind is gone after the time that the train took.
        let pause = (train.span() * 2).max(self.path.round_trip / 2).max(Duration::from_millis(5));
        Step::Send { train, pause }
    }

    fn observe(&mut self, passage: &Passage) {
        if passage.lost() > 0 {
            self.troubles.push(Trouble::Loss);
        }
        if passage.reordered() > 0 {
            self.troubles.push(Trouble::Reordering);
        }
        let told = match self.asked {
            Asked::Burst => self.observe_burst(passage),
            Asked::Load => self.observe_load(passage),
            Asked::Nothing => None,
        };
        self.fruitless += usize::from(told.is_none());
    }

    fn so_far(&self) -> Outcome {
        let solution = self.solve();
        let left = solution.map(|s| around(s.left, s.left_half).within(rate(s.capacity + s.capacity_half)));
        let capacity = solution.map(|s| (s.capacity, s.capacity_half)).or_else(|| self.burst_rate());
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, left);
        outcome.also.extend(capacity.map(|(c, half)| (Quantity::Capacity, around(c, half))));
        outcome.troubled(self.troubles.iter().copied()).troubled(self.judged(solution.as_ref()))
    }
}

fn around(value: f64, half: f64) -> Interval {
    Interval::from_bps(value, value - half, value + half)
}
