//! What the longest trains tell of the receiver and of a token bucket in front of it.

use super::bunches::is_coalesced;
use super::plan::Plan;
use super::{ArrivalCurve, TrainObservation};
use crate::samples::{percentile, sorted};

/// Batches of fewer packets than these over those are batches too: where a third came with the one before, pairs tell the
/// receiver's clock and not the path.
const BATCHED: (usize, usize) = (2, 3);

/// Votes of trains: what most of them show is so, for one may have met a burst of others.
#[derive(Debug, Default)]
pub(super) struct Looks {
    all: usize,
    batched: usize,
    /// What follows the burst, in b/s, where there is one.
    sustained: Vec<f64>,
}

impl Looks {
    /// Packets that came and their batches, if the train came in batches.
    pub(super) fn observe(&mut self, plan: &Plan, passage: &TrainObservation) -> Option<(usize, usize)> {
        self.all += 1;
        if !plan.by_curve {
            self.batched += usize::from(is_coalesced(passage));
            return None;
        }
        let curve = ArrivalCurve::of(passage);
        let service = curve.service().filter(|s| s.burst.is_some());
        self.sustained.extend(service.map(|s| s.sustained.as_bps() as f64));
        let (arrived, batches) = (passage.sent() - passage.lost(), curve.batches());
        let batched = curve.is_batched() || arrived > 3 && batches * BATCHED.1 < arrived * BATCHED.0;
        self.batched += usize::from(batched);
        batched.then_some((arrived, batches))
    }

    /// Whether the receiver takes packets in batches.
    pub(super) fn is_batched(&self) -> bool {
        self.most(self.batched)
    }

    /// What a token bucket lets through in the long run, in b/s, with least and most.
    pub(super) fn bucket(&self) -> Option<(f64, f64, f64)> {
        let rates = sorted(self.sustained.iter().copied());
        let told = rates.len() > 1 && self.most(rates.len());
        let at = |share| percentile(&rates, share);
        Some((at(0.5)?, at(0.0)?, at(1.0)?)).filter(|_| told)
    }

    fn most(&self, of: usize) -> bool {
        of * 2 > self.all
    }
}
