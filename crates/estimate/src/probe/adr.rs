//! Asymptotic dispersion rate: the rate at which long trains leave the path (Dovrolis, Ramanathan, Moore, INFOCOM
//! 2001).

use results::estimate::{Caveat, Quantity};
use units::Duration;

use super::{Interval, Method, Outcome, Path, Step, Train, TrainObservation};
use crate::samples::{mean, sorted};

/// Length of the packets in bytes of IP. *Choosing Internet Paths* (2002) §4.1.2: 1428 bytes.
const BYTES: u32 = 1428;

/// The two trains of the thesis (§4.1.2, §4.3), sent as fast as the sender can.
///
/// The two largest and the two smallest gaps of each train are dropped. The rate is one packet in the mean of the
/// remaining gaps. With a sender much faster than the path, the result is the capacity at any load. In 2002 the
/// interfaces of the hosts had about the rate of the narrowest link. [`super::TwoRates`] is the method for a fast host.
/// If no train arrives slower than it was sent, the rate is the sender's: a lower bound.
#[derive(Debug)]
pub struct Adr {
    path: Path,
    packets: u32,
    trains: u32,
    rates: Vec<f64>,
    gaps_ns: Vec<f64>,
    slowed: bool,
    caveats: Vec<Caveat>,
}

impl Adr {
    /// 2 trains of 30 packets.
    pub fn full(path: Path) -> Self {
        Self::new(path, 30)
    }

    /// 2 trains of 15 packets, the prefix of those above, which the thesis found equally good.
    pub fn short(path: Path) -> Self {
        Self::new(path, 15)
    }

    fn new(path: Path, packets: u32) -> Self {
        Self { path, packets, trains: 0, rates: Vec::new(), gaps_ns: Vec::new(), slowed: false, caveats: Vec::new() }
    }

    fn bytes(&self) -> u32 {
        BYTES.min(self.path.mtu)
    }
}

impl Method for Adr {
    fn next(&mut self) -> Step {
        if self.trains == 2 {
            return Step::Done(self.so_far());
        }
        self.trains += 1;
        Step::Send { train: Train::spaced(self.packets, self.bytes(), Duration::ZERO), pause: self.path.round_trip }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        let between = self.packets.saturating_sub(1) as usize;
        let gaps = sorted(observation.gaps().iter().take(between).map(|g| g.received.as_nanos() as f64));
        let kept = gaps.get(2..gaps.len().saturating_sub(2)).unwrap_or_default();
        self.gaps_ns.extend(kept);
        if observation.lost() > 0 {
            self.caveats.push(Caveat::Loss);
        }
        if observation.reordered() > 0 {
            self.caveats.push(Caveat::Reordering);
        }
        self.slowed |= observation.dispersion().is_some_and(|d| d.is_slowed());
        self.rates.extend(rate_of(kept, self.bytes()));
    }

    fn so_far(&self) -> Outcome {
        let interval = rate_of(&self.gaps_ns, self.bytes()).map(|bps| {
            let bounds = self.rates.iter().copied();
            let (low, high) = (bounds.clone().fold(bps, f64::min), bounds.fold(bps, f64::max));
            Interval::from_bps(bps, low, high)
        });
        let is_sender_limited = interval.is_some() && !self.slowed;
        let outcome = Outcome::of(Quantity::AsymptoticDispersion, interval).with_caveats(self.caveats.iter().copied());
        outcome.with_caveats([Caveat::SenderTooSlow, Caveat::LowerBound].into_iter().filter(|_| is_sender_limited))
    }
}

/// One packet in the mean of the gaps, in b/s (§4.3: L/dt_avg; §3.3 has it inverted).
fn rate_of(gaps_ns: &[f64], bytes: u32) -> Option<f64> {
    mean(gaps_ns.iter().copied()).filter(|ns| *ns > 0.0).map(|ns| f64::from(bytes) * 8e9 / ns)
}
