//! Methods that are TCP transfers: their limits and their results.

use results::estimate::{Caveat, EstimateResult, Layer, Quantity, RateInterval};
use units::Duration;

use super::{Bounds, MethodName};

/// Volume of the short transfer in bytes. *Choosing Internet Paths* (2002) §4.3.
const SHORT_BYTES: u64 = 128 << 10;

/// Duration of a long transfer.
const LONG_DURATION: Duration = Duration::from_secs(10);
/// Duration of a long transfer in the thesis of 2002 (§4.1.5).
const LONG_DURATION_2002: Duration = Duration::from_secs(30);
/// Minimum volume of a long transfer in the thesis of 2002 (§4.1.5), in bytes.
const LONG_2002_BYTES_MIN: u64 = 2_000_000;

/// Ratio of packet size to payload in a full TCP segment with timestamps.
const TCP_PACKET_RATIO: f64 = 1500.0 / 1448.0;

/// Limits of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferLimits {
    /// Maximum payload in bytes.
    pub bytes: Option<u64>,
    /// Whether the budget reduces the payload.
    is_cut: bool,
    /// Duration and payload in bytes, both of which complete the transfer.
    complete_at: Option<(Duration, u64)>,
    /// Maximum duration.
    pub time_max: Duration,
}

/// Reason for the end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferEnd {
    /// All data has arrived, or the planned time has passed.
    ByItself,
    /// Duration and payload complete the transfer ([`TransferLimits::are_met`]).
    Enough,
    /// The maximum duration has passed.
    TimeSpent,
    /// The transfer failed or the user stopped it; its rate is not valid.
    Broken,
}

impl TransferLimits {
    /// Limits of the method `name` ([`MethodName::ShortTcp`], otherwise a long transfer). `has_budget`: whether the
    /// user set the limit of bytes.
    pub fn new(name: MethodName, faithful: bool, has_budget: bool, bounds: Bounds) -> Self {
        let affordable = (bounds.bytes as f64 / TCP_PACKET_RATIO) as u64;
        let time_max = bounds.time;
        if name == MethodName::ShortTcp {
            let bytes = Some(SHORT_BYTES.min(affordable));
            return Self { bytes, is_cut: affordable < SHORT_BYTES, complete_at: None, time_max };
        }
        let complete_at = if faithful { (LONG_DURATION_2002, LONG_2002_BYTES_MIN) } else { (LONG_DURATION, 0) };
        // The volume of a timed transfer depends on the path; only a budget that the user sets limits it.
        let bytes = has_budget.then_some(affordable);
        Self { bytes, is_cut: has_budget, complete_at: Some(complete_at), time_max }
    }

    /// Planned duration. A transfer with a minimum volume is planned at its maximum and stopped early.
    pub fn planned_time(&self) -> Duration {
        self.complete_at.filter(|(_, bytes)| *bytes == 0).map_or(self.time_max, |(time, _)| time.min(self.time_max))
    }

    /// Whether the transfer is complete after `elapsed`, with `arrived` bytes of payload.
    pub fn are_met(&self, elapsed: Duration, arrived: u64) -> bool {
        self.complete_at.is_some_and(|(time, bytes)| elapsed >= time && arrived >= bytes)
    }

    /// Caveat of a transfer that ended for this reason.
    fn caveat(&self, end: TransferEnd) -> Option<Caveat> {
        match end {
            TransferEnd::Broken => Some(Caveat::NoAnswer),
            TransferEnd::TimeSpent => Some(Caveat::TimeSpent),
            TransferEnd::ByItself if self.is_cut => Some(Caveat::BudgetSpent),
            TransferEnd::ByItself | TransferEnd::Enough => None,
        }
    }

    /// Record of a transfer that sent `sent` bytes of payload at a goodput of `bps`.
    pub fn result(
        &self,
        name: MethodName,
        faithful: bool,
        end: TransferEnd,
        (sent, bps): (u64, u64),
    ) -> EstimateResult {
        let end = if bps == 0 { TransferEnd::Broken } else { end };
        let wire = (sent as f64 * TCP_PACKET_RATIO) as u64;
        let quantity = Quantity::BulkTransferCapacity;
        // A single transfer gives no estimate of the variance, so the interval is empty.
        let rate = RateInterval { quantity, rate_bps: bps, low_bps: bps, high_bps: bps, bound: None };
        EstimateResult {
            estimate: (end != TransferEnd::Broken).then_some(rate),
            packets: wire.div_ceil(1500),
            bytes: wire,
            caveats: self.caveat(end).into_iter().collect(),
            ..no_transfer(name, faithful, Caveat::NoAnswer)
        }
    }
}

/// Record of a transfer that did not take place.
pub fn no_transfer(name: MethodName, faithful: bool, caveat: Caveat) -> EstimateResult {
    EstimateResult {
        method: name.name().to_owned(),
        faithful,
        congestion_control: None,
        quantity: Quantity::BulkTransferCapacity,
        layer: Layer::Payload,
        estimate: None,
        other_estimates: Vec::new(),
        loss: None,
        queue_ns: None,
        squeezed: None,
        packets: 0,
        bytes: 0,
        elapsed_ns: 0,
        caveats: vec![caveat],
        error: None,
    }
}
