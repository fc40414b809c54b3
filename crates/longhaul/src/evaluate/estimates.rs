//! Estimates of the methods for a path, joined with the reference values.

use results::estimate::{Caveat, EstimateResult, Layer, Quantity, RateInterval};
use results::evaluate::JoinedEstimate;
use scenario::Flow;

use super::directory::Usage;
use super::join::TimedResult;
use super::probes::Call;
use super::truth::{Path, Sent, Window};

/// Reference values of a path for each quantity.
pub(super) struct Truth<'a> {
    pub(super) path: &'a Path,
    pub(super) usage: &'a Usage,
    /// Probes that all methods sent.
    pub(super) sent: Vec<Sent>,
    /// Throughput of the transfer in payload bits per second.
    pub(super) throughput_bps: u64,
}

impl Truth<'_> {
    /// Reference value of a quantity; `None` for the dispersion rate, which depends on the rate of the train, and for
    /// loss.
    fn of(&self, quantity: Quantity, window: Window) -> Option<u64> {
        match quantity {
            Quantity::Capacity => self.path.capacity(window).map(whole),
            Quantity::AvailableBandwidth => self.path.available(window, self.usage, &self.sent).map(whole),
            Quantity::AsymptoticDispersion | Quantity::LossLimit => None,
            Quantity::BulkTransferCapacity => Some(self.throughput_bps),
        }
    }

    fn joined(&self, method: String, value: Value, window: Window, cost: (u64, u64)) -> JoinedEstimate {
        let payload = value.rate_bps.map(|bps| match value.layer {
            Layer::Ip => whole(bps as f64 * self.path.payload_share()),
            Layer::Payload => bps,
        });
        let of_transfer = value.quantity == Quantity::BulkTransferCapacity;
        JoinedEstimate {
            method,
            quantity: value.quantity,
            estimate_bps: if of_transfer { payload } else { value.rate_bps },
            payload_bps: payload,
            truth_bps: self.of(value.quantity, window),
            bytes: cost.0,
            elapsed_ns: cost.1,
        }
    }
}

/// Estimate of one quantity by one method.
#[derive(Clone, Copy)]
struct Value {
    quantity: Quantity,
    layer: Layer,
    rate_bps: Option<u64>,
}

/// Estimates of a method: its own quantity, then the quantities from the same probes. Squeezed pairs estimate no rate.
pub(super) fn estimates_of(timed: &TimedResult<'_>, truth: &Truth<'_>) -> Vec<JoinedEstimate> {
    let r = timed.result;
    if r.squeezed.is_some() {
        return Vec::new();
    }
    let (name, cost) = (method_name(r, timed.budget), (r.bytes, r.elapsed_ns));
    // A one-sided bound is not an estimate.
    let is_bound = r.caveats.iter().any(|t| matches!(t, Caveat::LowerBound | Caveat::UpperBound));
    let value = r.estimate.filter(|_| !is_bound);
    let own = Value { quantity: r.quantity, layer: r.layer, rate_bps: value.map(|e| e.rate_bps) };
    let also = |e: &RateInterval| {
        let value = Value { quantity: e.quantity, layer: r.layer, rate_bps: Some(e.rate_bps) };
        truth.joined(format!("{name}, {}", short(e.quantity)), value, timed.window, cost)
    };
    let own = truth.joined(name.clone(), own, timed.window, cost);
    std::iter::once(own).chain(r.other_estimates.iter().map(also)).collect()
}

/// Prediction of a call for a transfer with the congestion control of the flow, at the cost of the whole call. Its name
/// is that of the method that estimated the available bandwidth.
pub(super) fn predicted(call: &Call, flow: &Flow, truth: &Truth<'_>) -> Option<JoinedEstimate> {
    let control = flow.congestion_control.as_deref();
    let prediction = call.predictions.iter().find(|p| Some(p.congestion_control.as_str()) == control)?;
    let has_available = |r: &&EstimateResult| {
        r.estimate.iter().chain(&r.other_estimates).any(|e| e.quantity == Quantity::AvailableBandwidth)
    };
    let by = call.results.iter().rfind(has_available)?;
    let method = format!("{} -> goodput", method_name(by, call.start.budget_bytes));
    let quantity = Quantity::BulkTransferCapacity;
    let value = Value { quantity, layer: Layer::Payload, rate_bps: Some(prediction.goodput_bps) };
    let cost = (call.results.iter().map(|r| r.bytes).sum(), call.results.iter().map(|r| r.elapsed_ns).sum());
    Some(truth.joined(method, value, Window { start_s: 0.0, end_s: 0.0 }, cost))
}

/// Name of a method with its parameters, such as `pathload-2002` or `auto/41kB`.
fn method_name(result: &EstimateResult, budget: Option<u64>) -> String {
    let of_2002 = if result.faithful { "-2002" } else { "" };
    let budget = match budget {
        None => String::new(),
        Some(bytes) if bytes % 1_000_000 == 0 => format!("/{}MB", bytes / 1_000_000),
        Some(bytes) if bytes % 1000 == 0 => format!("/{}kB", bytes / 1000),
        Some(bytes) => format!("/{bytes}B"),
    };
    format!("{}{of_2002}{budget}", result.method)
}

const fn short(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Capacity => "capacity",
        Quantity::AvailableBandwidth => "available",
        Quantity::AsymptoticDispersion => "dispersion",
        Quantity::BulkTransferCapacity => "goodput",
        Quantity::LossLimit => "loss limit",
    }
}

const fn whole(bps: f64) -> u64 {
    bps.round() as u64
}
