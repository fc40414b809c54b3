//! Detection of a batching receiver and of a token bucket from the longest trains.

use super::batched_trains::is_coalesced;
use super::plan::Plan;
use super::{ArrivalCurve, TrainObservation};
use crate::samples::{percentile, sorted};

/// Minimum ratio of batches to packets of an unbatched train. If a third of the packets arrived with the previous one,
/// pairs measure the receiver's clock and not the path.
const UNBATCHED_RATIO_MIN: (usize, usize) = (2, 3);

/// Majority vote of trains, because cross traffic can distort a single one.
#[derive(Debug, Default)]
pub(super) struct TrainVotes {
    all: usize,
    batched: usize,
    /// Rates after a burst, in b/s, of trains with a burst.
    sustained: Vec<f64>,
}

impl TrainVotes {
    /// Adds a train; returns its packets that arrived and their batches, if it arrived in batches.
    pub(super) fn observe(&mut self, plan: &Plan, observation: &TrainObservation) -> Option<(usize, usize)> {
        self.all += 1;
        if !plan.by_curve {
            self.batched += usize::from(is_coalesced(observation));
            return None;
        }
        let curve = ArrivalCurve::of(observation);
        let service = curve.service().filter(|s| s.burst.is_some());
        self.sustained.extend(service.map(|s| s.sustained.as_bps() as f64));
        let (arrived, batches) = (observation.sent() - observation.lost(), curve.batches());
        let batched =
            curve.is_batched() || arrived > 3 && batches * UNBATCHED_RATIO_MIN.1 < arrived * UNBATCHED_RATIO_MIN.0;
        self.batched += usize::from(batched);
        batched.then_some((arrived, batches))
    }

    /// Whether the receiver takes packets in batches.
    pub(super) fn is_batched(&self) -> bool {
        self.is_majority(self.batched)
    }

    /// The sustained rate of a token bucket in b/s, with minimum and maximum.
    pub(super) fn bucket(&self) -> Option<(f64, f64, f64)> {
        let rates = sorted(self.sustained.iter().copied());
        let is_majority = rates.len() > 1 && self.is_majority(rates.len());
        let at = |share| percentile(&rates, share);
        Some((at(0.5)?, at(0.0)?, at(1.0)?)).filter(|_| is_majority)
    }

    fn is_majority(&self, votes: usize) -> bool {
        votes * 2 > self.all
    }
}
