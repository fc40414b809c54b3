//! What the methods told of the path, for the prediction of a transfer.

use estimate::prediction::{Control, LossOver, Lost, PathState, predict};
use estimate::probe::{Interval, Path};
use results::estimate::{EstimateResult, ProbeLoss, Quantity, RateInterval, TransferPrediction};
use units::{Duration, Rate};

use super::cli::EstimateOptions;
use crate::history::memory::Memory;

#[derive(Debug, Default)]
pub(super) struct Facts {
    capacity: Option<Interval>,
    available: Option<Interval>,
    lost: Option<Lost>,
    queue: Option<Duration>,
    any: bool,
}

impl Facts {
    /// Later methods replace what earlier ones told.
    pub(super) fn note(&mut self, result: &EstimateResult) {
        self.queue = result.queue_ns.map(Duration::from_nanos).or(self.queue);
        let is_value = |told: &&RateInterval| told.bound.is_none();
        self.any |= result.estimate.iter().any(|told| is_value(&told));
        // Of a bound nothing follows.
        for told in result.estimate.iter().chain(&result.also).filter(is_value) {
            match told.quantity {
                Quantity::Capacity => self.capacity = Some(interval(told)),
                Quantity::AvailableBandwidth => self.available = Some(interval(told)),
                Quantity::AsymptoticDispersion | Quantity::BulkTransferCapacity | Quantity::LossLimit => {}
            }
        }
        self.any |= result.squeezed.as_ref().is_some_and(|s| s.label.is_some());
        // Only RON's probes are counted, and they are echoed.
        let lost = |l: ProbeLoss| Lost { lost: l.lost, sent: l.sent, over: LossOver::RoundTrip };
        self.lost = result.loss.map(lost).or(self.lost);
    }

    /// Rate of the narrow link, if a method has told it.
    pub(super) fn capacity(&self) -> Option<Rate> {
        self.capacity.map(|c| c.value)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any
    }

    /// What transfers get, for each congestion control; nothing where it is not known what is left of the path.
    pub(super) fn predict(
        &self,
        options: &EstimateOptions,
        path: &Path,
        memory: Option<&Memory>,
    ) -> Vec<TransferPrediction> {
        let Some(available) = self.available else { return Vec::new() };
        let bounds = PathState::new(path, self.capacity, available);
        let state = PathState { loss: self.lost, queue: self.queue, window: options.window, ..bounds };
        let of = |control| {
            let earlier = memory.and_then(|m| m.goodput(control));
            predict(&PathState { earlier, ..state }, control, options.transfer)
        };
        Control::ALL.map(of).to_vec()
    }
}

fn interval(told: &RateInterval) -> Interval {
    let rate = Rate::from_bps;
    Interval { value: rate(told.rate_bps), low: rate(told.low_bps), high: rate(told.high_bps) }
}
