//! Capacity and load from the dispersion of trains at two rates.
//!
//! Where a link of capacity `C` carries a load `l` besides, a train that enters at `Ri` and fills what is left leaves at
//! `Ro = C Ri / (Ri + l)` (fluid, one queue in order of arrival; Melander, Björkman, Gunningberg, *TOPP*, 2000). A train far
//! above `C` therefore tells `C`, and one near `C` tells `l`. Trains of one rate, as of 2002, mix both.

use results::estimate::{Quantity, Trouble};
use units::{Duration, Rate};

use super::curve::ArrivalCurve;
use super::{Interval, Method, Outcome, Passage, Path, Step, Train};

/// Packets of the train that tells the capacity: enough to see a token bucket of some packets end.
const BURST_PACKETS: u32 = 12;

/// Packets of a train that tells the load, the first not counted.
const LOAD_PACKETS: u32 = 16;

/// Rate of the trains that tell the load, over the capacity: above what is left whatever the load, and as little above
/// as the uncertainty of the capacity allows, for the load shows in what it adds to the train.
const LOAD_RATE: f64 = 1.05;

/// Trains of load beyond which no more are sent.
const MOST_TRAINS: usize = 400;

/// Half the width of the interval, over the value, that is good enough.
const GOOD: f64 = 0.05;

/// The method; spends at most the bytes that it is given and stops earlier when its interval is narrow.
#[derive(Debug)]
pub struct TwoRates {
    path: Path,
    budget: u64,
    spent: u64,
    /// Rates of the bursts at which they left, if slower than at once, and came, in b/s.
    bursts: Vec<Seen>,
    loads: Vec<Seen>,
    asked: Asked,
    troubles: Vec<Trouble>,
}

/// A train that told something.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Time at the receiver over time at the sender.
    stretch: f64,
    /// Rate at the sender in b/s.
    sent: f64,
    /// Rate at the receiver in b/s.
    received: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Burst,
    Load,
}

impl TwoRates {
    /// To spend at most `budget` bytes, headers included.
    pub fn new(path: Path, budget: u64) -> Self {
        let (bursts, loads, troubles) = (Vec::new(), Vec::new(), Vec::new());
        Self { path, budget, spent: 0, bursts, loads, asked: Asked::Nothing, troubles }
    }

    /// Capacity by the bursts alone: load makes it too small by what of it comes between their packets.
    fn burst_rate(&self) -> Option<f64> {
        let mut rates: Vec<f64> = self.bursts.iter().map(|b| b.received).collect();
        rates.sort_unstable_by(f64::total_cmp);
        // Cross traffic between the packets only ever makes a burst slower.
        rates.last().copied()
    }

    fn solve(&self) -> Option<Solution> {
        let capacity = self.burst_rate()?;
        let burst = self.bursts.iter().find(|b| b.received == capacity)?;
        if self.loads.is_empty() {
            return None;
        }
        // y = Ri/Ro = (Ri + l)/C for each train of load. C follows from the burst by the load, the load from C: a
        // fixed point, reached in a few rounds because the burst is far above C.
        let mut c = capacity;
        let mut loads = Vec::new();
        for _ in 0..20 {
            loads = self.loads.iter().map(|s| (s.stretch * c - s.sent).max(0.0)).collect::<Vec<f64>>();
            let load = (loads.iter().sum::<f64>() / loads.len() as f64).min(c);
            let next = capacity * (1.0 + if burst.sent > 0.0 { load / burst.sent } else { 0.0 });
            let settled = (next - c).abs() < c * 1e-6;
            c = next;
            if settled {
                break;
            }
        }
        let left: Vec<f64> = loads.iter().map(|l| c - l).collect();
        Some(Solution { capacity: c, left })
    }

    fn ready(&self) -> bool {
        let Some(solution) = self.solve() else { return false };
        let Some(i) = solution.available() else { return false };
        let half = i.high.as_bps().abs_diff(i.low.as_bps()) as f64 / 2.0;
        self.loads.len() >= 3 && half <= GOOD * i.value.as_bps() as f64
    }

    fn burst(&self) -> Train {
        Train::spaced(BURST_PACKETS, self.path.mtu, Duration::ZERO)
    }

    fn load(&self, capacity: f64) -> Train {
        let fastest = f64::from(self.path.mtu) * 8e9 / (self.path.least_gap.as_nanos().max(1) as f64);
        let rate = Rate::from_bps((capacity * LOAD_RATE).min(fastest).round() as u64);
        Train::at_rate(LOAD_PACKETS + 1, self.path.mtu, rate)
    }

    fn wanted(&self) -> Option<(Asked, Train)> {
        match self.burst_rate() {
            _ if self.bursts.len() < 2 => Some((Asked::Burst, self.burst())),
            None => None,
            Some(_) if self.loads.len() >= MOST_TRAINS || self.ready() => None,
            Some(capacity) => Some((Asked::Load, self.load(capacity))),
        }
    }

    fn observe_burst(&mut self, passage: &Passage) {
        let curve = ArrivalCurve::of(passage);
        if curve.is_batched() {
            self.troubles.push(Trouble::Batching);
        }
        let Some(service) = curve.service() else { return };
        if service.burst.is_some() {
            self.troubles.push(Trouble::TokenBucket);
        }
        let sent = passage.dispersion().and_then(|d| d.sent_rate()).map_or(0.0, |r| r.as_bps() as f64);
        let received = service.sustained.as_bps() as f64;
        // A sender that is no faster than the path tells its own rate.
        if sent > 0.0 && sent < received * 1.1 {
            self.troubles.push(Trouble::SenderTooSlow);
        }
        self.bursts.push(Seen { stretch: 1.0, sent, received });
    }

    fn observe_load(&mut self, passage: &Passage) {
        let Some(d) = passage.dispersion() else { return };
        let Some(sent) = d.sent_rate() else { return };
        let stretch = d.received.as_nanos() as f64 / d.sent.as_nanos().max(1) as f64;
        self.loads.push(Seen { stretch, sent: sent.as_bps() as f64, received: d.received_rate().as_bps() as f64 });
    }
}

struct Solution {
    capacity: f64,
    /// What each train says is left, in b/s.
    left: Vec<f64>,
}

impl Solution {
    fn available(&self) -> Option<Interval> {
        Interval::of_mean(&self.left).map(|i| i.within(Rate::from_bps(self.capacity.round() as u64)))
    }
}

impl Method for TwoRates {
    fn next(&mut self) -> Step {
        let Some((asked, train)) = self.wanted() else { return Step::Done(self.so_far()) };
        let bytes = train.bytes().as_u64();
        if self.spent + bytes > self.budget {
            return Step::Done(self.so_far());
        }
        self.spent += bytes;
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
        match self.asked {
            Asked::Burst => self.observe_burst(passage),
            Asked::Load => self.observe_load(passage),
            Asked::Nothing => {}
        }
    }

    fn so_far(&self) -> Outcome {
        let solution = self.solve();
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, solution.as_ref().and_then(Solution::available));
        let capacity = solution.map(|s| s.capacity).or_else(|| self.burst_rate());
        outcome.also.extend(capacity.map(|c| {
            let slowest = self.bursts.iter().map(|b| b.received).fold(c, f64::min);
            let rate = |bps: f64| Rate::from_bps(bps.round() as u64);
            (Quantity::Capacity, Interval { value: rate(c), low: rate(slowest), high: rate(c) })
        }));
        outcome.troubled(self.troubles.iter().copied())
    }
}
