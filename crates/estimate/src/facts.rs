//! Results of several methods on one path, the input of transfer predictions.

use results::estimate::{EstimateResult, ProbeLoss, Quantity, RateInterval, TransferPrediction};
use units::{Bytes, Duration, Rate};

use crate::history::Prediction;
use crate::prediction::{Control, LossCount, LossScope, PathState, predict};
use crate::probe::{Interval, Path};

/// Values that the methods of one call have found so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    capacity: Option<Interval>,
    available: Option<Interval>,
    lost: Option<LossCount>,
    queue: Option<Duration>,
    any: bool,
}

impl Facts {
    /// Adds the result of a method; later methods replace values of earlier ones.
    pub fn add(&mut self, result: &EstimateResult) {
        self.queue = result.queue_ns.map(Duration::from_nanos).or(self.queue);
        let is_value = |rate: &&RateInterval| rate.bound.is_none();
        self.any |= result.estimate.iter().any(|rate| is_value(&rate));
        // Bounds are not used for predictions.
        for rate in result.estimate.iter().chain(&result.other_estimates).filter(is_value) {
            match rate.quantity {
                Quantity::Capacity => self.capacity = Some(interval(rate)),
                Quantity::AvailableBandwidth => self.available = Some(interval(rate)),
                Quantity::AsymptoticDispersion | Quantity::BulkTransferCapacity | Quantity::LossLimit => {}
            }
        }
        self.any |= result.squeezed.as_ref().is_some_and(|s| s.label.is_some());
        // Only RON's probes report losses; they are echoed, so the losses are those of the round trip.
        let lost = |l: ProbeLoss| LossCount { lost: l.lost, sent: l.sent, over: LossScope::RoundTrip };
        self.lost = result.loss.map(lost).or(self.lost);
    }

    /// Capacity of the bottleneck link, if a method has found it.
    pub fn capacity(&self) -> Option<Rate> {
        self.capacity.map(|c| c.value)
    }

    /// Whether no method has found a value; a bound is not a value.
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Predicts transfers for each congestion control; empty if the available bandwidth is unknown. `window` is the
    /// maximum window of the transfer, `transfer` its size, `earlier` the goodput of earlier transfers of the path.
    pub fn predict(
        &self,
        path: &Path,
        window: Option<Bytes>,
        transfer: Option<Bytes>,
        earlier: impl Fn(Control) -> Option<Prediction>,
    ) -> Vec<TransferPrediction> {
        let Some(available) = self.available else { return Vec::new() };
        let bounds = PathState::new(path, self.capacity, available);
        let state = PathState { loss: self.lost, queue: self.queue, window, ..bounds };
        let prediction = |control| predict(&PathState { earlier: earlier(control), ..state }, control, transfer);
        Control::ALL.map(prediction).to_vec()
    }
}

fn interval(rate: &RateInterval) -> Interval {
    let [value, low, high] = [rate.rate_bps, rate.low_bps, rate.high_bps].map(Rate::from_bps);
    Interval { value, low, high }
}
