use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DelayHistogram;

/// Quantiles of one kind of delay, each with a relative error of at most 10^-3 ([`crate::RELATIVE_ERROR`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DelaySummary {
    /// Number of samples.
    pub count: u64,
    /// Minimum.
    pub min_ns: u64,
    /// Lower quartile.
    pub p25_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// Upper quartile.
    pub p75_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Histogram in HDR V2 encoding, base64, for merging and plotting.
    pub histogram: String,
}

/// Division of the delay of sampled blocks into stages, from kernel timestamps on the bytes of the block header.
///
/// The stages are consecutive: socket buffer, queueing discipline, network until the acknowledgement. The last stage,
/// by the receiver's clock, is the receiving socket until the application reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decomposition {
    /// Number of sampled blocks with at least one stage.
    pub samples: u64,
    /// Sender's socket buffer: from the write to the hand-over to the queueing discipline (SOF_TIMESTAMPING_TX_SCHED).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_buffer: Option<DelaySummary>,
    /// Sender's queueing discipline: from its hand-over to that to the device driver (SOF_TIMESTAMPING_TX_SOFTWARE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qdisc: Option<DelaySummary>,
    /// Driver, network in both directions and receiver's kernel: from the hand-over to the driver to the
    /// acknowledgement (SOF_TIMESTAMPING_TX_ACK).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<DelaySummary>,
    /// Receiving application: from the arrival in the receiver's kernel (RX_SOFTWARE) to the application's read, by the
    /// receiver's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_app: Option<DelaySummary>,
    /// Missing stages and the reasons, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// One-way delay with the uncertainty of the clocks: the true value lies within `bound_ns` of each quantile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OneWayDelay {
    /// Minimum; a negative value can occur within the bound.
    pub min_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 95th percentile.
    pub p95_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Maximum.
    pub max_ns: i64,
    /// Number of samples.
    pub count: u64,
    /// Samples excluded from all other fields: below zero by more than `bound_ns` and 100 us for reading the clocks,
    /// because a timestamp belongs to another packet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub discarded: u64,
    /// Maximum error of the values due to the clocks (RFC 7679 §3.7: Esynch + Rsource + Rdest), without an assumption
    /// of symmetry.
    pub bound_ns: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl DelaySummary {
    /// Summary of all samples of several summaries, from their histograms; `None` without samples.
    ///
    /// Unreadable histograms are excluded.
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut sum = DelayHistogram::new();
        for part in all.into_iter().filter_map(|s| DelayHistogram::decode(&s.histogram).ok()) {
            sum.merge(&part);
        }
        sum.summary()
    }
}

impl Decomposition {
    /// Decomposition of all samples of several decompositions; `None` without any.
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let all: Vec<&Self> = all.into_iter().collect();
        if all.is_empty() {
            return None;
        }
        let stage = |of: fn(&Self) -> Option<&DelaySummary>| DelaySummary::merged(all.iter().filter_map(|d| of(d)));
        let mut missing: Vec<String> = Vec::new();
        for text in all.iter().flat_map(|d| &d.missing) {
            if !missing.contains(text) {
                missing.push(text.clone());
            }
        }
        Some(Self {
            samples: all.iter().fold(0, |a, d| a.saturating_add(d.samples)),
            socket_buffer: stage(|d| d.socket_buffer.as_ref()),
            qdisc: stage(|d| d.qdisc.as_ref()),
            network: stage(|d| d.network.as_ref()),
            receiver_app: stage(|d| d.receiver_app.as_ref()),
            missing,
        })
    }
}
