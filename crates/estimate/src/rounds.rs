//! Results of repeated runs over one path, for a choice between paths.

use results::estimate::{Caveat, Quantity, TransferPrediction};
use units::{Duration, Rate};

use crate::choice::Belief;
use crate::history::Prediction;
use crate::prediction::{Control, PathState, predict};
use crate::probe::{Interval, Outcome, Path};

/// Minimum number of runs whose spread indicates their certainty. The factor of the standard error falls from 12.7 with
/// two runs and 4.3 with three to 3.2 with four (Student), and little after that.
pub const ROUNDS_MIN: usize = 4;

/// Number of runs for which the budget of a candidate is meant.
const ROUNDS: u64 = 12;

/// Minimum bytes of a run with useful information about the available bandwidth: the cheapest good method of 2002.
const ROUND_BYTES: u64 = 41_000;

/// Maximum rate that hosts can pace. Above it the results of trains are lower bounds, whether the method detected that
/// or not.
pub const HOST_PACING_RATE_MAX: Rate = Rate::from_bps(1_000_000_000);

/// Separate results of runs of [`crate::probe::TwoRates`] over one path. Their spread shows the variation by the path,
/// its load and both hosts, which a single run cannot show.
#[derive(Debug, Clone, Default)]
pub struct Rounds {
    left: Vec<f64>,
    capacity: Vec<f64>,
    last: Option<Interval>,
    queue: Option<Duration>,
    /// Number of runs that measured the rate of the sender.
    limited: usize,
    count: usize,
}

impl Rounds {
    /// Bytes of each run, for a budget of all.
    pub const fn bytes_of_each(budget: u64) -> u64 {
        let each = budget / ROUNDS;
        if each >= ROUND_BYTES {
            return each;
        }
        let few = budget / ROUNDS_MIN as u64;
        if few < ROUND_BYTES { few } else { ROUND_BYTES }
    }

    /// Adds the result of one run, as the method returned it.
    pub fn add(&mut self, outcome: &Outcome) {
        let capacity = outcome.also.iter().find(|(q, _)| *q == Quantity::Capacity).map(|(_, i)| *i);
        // A capacity alone is an upper bound of the available bandwidth.
        let open = |c: Interval| {
            let part = |share: u64| Rate::from_bps(c.value.as_bps() / share);
            Interval { value: part(2), low: part(8), high: c.high }
        };
        let Some(left) = outcome.interval.or_else(|| capacity.map(open)) else { return };
        self.count += 1;
        self.last = Some(left);
        self.left.push(left.value.as_bps() as f64);
        self.capacity.extend(capacity.map(|c| c.value.as_bps() as f64));
        self.queue = self.queue.max(outcome.queue);
        self.limited += usize::from(outcome.caveats.contains(&Caveat::LowerBound));
    }

    /// Number of runs with a result.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether there are enough runs for a choice.
    pub fn are_enough(&self) -> bool {
        self.count >= ROUNDS_MIN
    }

    /// Whether the result is a lower bound: most runs measured the rate of the sender, or the mean exceeds the rate
    /// that a host can pace.
    pub fn is_limited(&self) -> bool {
        self.limited * 2 > self.count || self.available().is_some_and(|i| i.value > HOST_PACING_RATE_MAX)
    }

    /// The available bandwidth: the mean of all runs with the interval of their spread (Student).
    pub fn available(&self) -> Option<Interval> {
        if self.left.len() > 1 { Interval::of_mean(&self.left) } else { self.last }
    }

    /// The capacity: the mean of all runs with the interval of their spread.
    pub fn capacity(&self) -> Option<Interval> {
        Interval::of_mean(&self.capacity)
    }

    /// The prediction for a CUBIC transfer.
    pub fn predicted(&self, path: &Path, earlier: Option<Prediction>) -> Option<TransferPrediction> {
        let state =
            PathState { earlier, queue: self.queue, ..PathState::new(path, self.capacity(), self.available()?) };
        Some(predict(&state, Control::Cubic, None))
    }

    /// The belief about the goodput that follows from a prediction.
    pub fn belief(predicted: &TransferPrediction) -> Option<Belief> {
        Belief::new(predicted.goodput_bps as f64, predicted.low_bps as f64, predicted.high_bps as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(mbps: u64) -> Outcome {
        let rate = Rate::from_bps(mbps * 1_000_000);
        Outcome::of(Quantity::AvailableBandwidth, Some(Interval::between(rate, rate)))
    }

    fn rounds(all: &[u64]) -> Rounds {
        let mut rounds = Rounds::default();
        all.iter().for_each(|mbps| rounds.add(&left(*mbps)));
        rounds
    }

    #[test]
    fn the_interval_follows_from_the_spread_of_the_runs() {
        // Mean 100, s = sqrt(10/4), t(4) = 2.776: half the interval is 1.96.
        let available = rounds(&[98, 99, 100, 101, 102]).available().unwrap();
        assert!((available.high.as_bps() as f64 / 1e6 - 101.96).abs() < 0.01, "{available:?}");
        // As measured between two addresses of one interface: 129, 1397, 3252 Mb/s. The result is undetermined.
        assert_eq!(rounds(&[129, 1397, 3252]).available().unwrap().low, Rate::ZERO);
        assert!(!rounds(&[50, 50, 50]).are_enough() && rounds(&[50; 4]).are_enough());
    }

    #[test]
    fn a_rate_that_a_host_cannot_pace_is_a_lower_bound() {
        assert!(rounds(&[1500; 4]).is_limited() && !rounds(&[900; 4]).is_limited());
        let mut slow = Rounds::default();
        (0..4).for_each(|_| slow.add(&left(500).with_caveats([Caveat::SenderTooSlow, Caveat::LowerBound])));
        assert!(slow.is_limited());
    }

    #[test]
    fn a_budget_is_for_twelve_runs_or_for_four() {
        for (budget, each) in [(500_000, 41_666), (1_200_000, 100_000), (200_000, 41_000), (100_000, 25_000), (0, 0)] {
            assert_eq!(Rounds::bytes_of_each(budget), each);
        }
    }
}
