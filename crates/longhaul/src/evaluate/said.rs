//! What methods said of a path beside what was true.

use results::estimate::{EstimateResult, Layer, Quantity, RateInterval, Trouble};
use results::evaluate::JoinedEstimate;
use scenario::Flow;

use super::folder::Usage;
use super::join::Asked;
use super::probes::Call;
use super::truth::{Path, Sent, Window};

/// What is true of a path, for each quantity.
pub(super) struct Truth<'a> {
    pub(super) path: &'a Path,
    pub(super) usage: &'a Usage,
    /// What all methods sent.
    pub(super) sent: Vec<Sent>,
    /// What the transfer got, payload.
    pub(super) got: u64,
}

impl Truth<'_> {
    /// `None` for what the links do not tell: the dispersion of a train depends on how fast it was sent.
    fn of(&self, quantity: Quantity, window: Window) -> Option<u64> {
        match quantity {
            Quantity::Capacity => self.path.capacity(window).map(whole),
            Quantity::AvailableBandwidth => self.path.available(window, self.usage, &self.sent).map(whole),
            Quantity::AsymptoticDispersion | Quantity::LossLimit => None,
            Quantity::BulkTransferCapacity => Some(self.got),
        }
    }

    fn joined(&self, method: String, told: Told, window: Window, cost: (u64, u64)) -> JoinedEstimate {
        let payload = told.rate_bps.map(|bps| match told.layer {
            Layer::Ip => whole(bps as f64 * self.path.payload_share()),
            Layer::Payload => bps,
        });
        let of_transfer = told.quantity == Quantity::BulkTransferCapacity;
        JoinedEstimate {
            method,
            quantity: told.quantity,
            estimate_bps: if of_transfer { payload } else { told.rate_bps },
            payload_bps: payload,
            truth_bps: self.of(told.quantity, window),
            bytes: cost.0,
            elapsed_ns: cost.1,
        }
    }
}

/// One value.
#[derive(Clone, Copy)]
struct Told {
    quantity: Quantity,
    layer: Layer,
    rate_bps: Option<u64>,
}

/// What a method said: its own quantity, then what else the same probes told. Squeezed pairs tell no rate.
pub(super) fn told(asked: &Asked<'_>, truth: &Truth<'_>) -> Vec<JoinedEstimate> {
    let r = asked.result;
    if r.squeezed.is_some() {
        return Vec::new();
    }
    let (name, cost) = (method_name(r, asked.budget), (r.bytes, r.elapsed_ns));
    // Who was stopped and knows a bound on one side has not told what is asked.
    let is_bound = r.troubles.iter().any(|t| matches!(t, Trouble::LowerBound | Trouble::UpperBound));
    let value = r.estimate.filter(|_| !is_bound);
    let own = Told { quantity: r.quantity, layer: r.layer, rate_bps: value.map(|e| e.rate_bps) };
    let also = |e: &RateInterval| {
        let told = Told { quantity: e.quantity, layer: r.layer, rate_bps: Some(e.rate_bps) };
        truth.joined(format!("{name}, {}", short(e.quantity)), told, asked.window, cost)
    };
    let own = truth.joined(name.clone(), own, asked.window, cost);
    std::iter::once(own).chain(r.also.iter().map(also)).collect()
}

/// What a call predicted for a transfer like the one that followed, at the cost of the whole call; named after the method that
/// told the available bandwidth.
pub(super) fn predicted(call: &Call, flow: &Flow, truth: &Truth<'_>) -> Option<JoinedEstimate> {
    let control = flow.congestion_control.as_deref();
    let prediction = call.predictions.iter().find(|p| Some(p.congestion_control.as_str()) == control)?;
    let tells =
        |r: &&EstimateResult| r.estimate.iter().chain(&r.also).any(|e| e.quantity == Quantity::AvailableBandwidth);
    let by = call.results.iter().rfind(tells)?;
    let method = format!("{} -> goodput", method_name(by, call.start.budget_bytes));
    let quantity = Quantity::BulkTransferCapacity;
    let told = Told { quantity, layer: Layer::Payload, rate_bps: Some(prediction.goodput_bps) };
    let cost = (call.results.iter().map(|r| r.bytes).sum(), call.results.iter().map(|r| r.elapsed_ns).sum());
    Some(truth.joined(method, told, Window { begin_s: 0.0, end_s: 0.0 }, cost))
}

/// `pathload-2002`, `auto/41kB`.
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
