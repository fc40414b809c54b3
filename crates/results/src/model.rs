//! Records of `longhaul model`: predictions of published formulas for a path.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the record format of `longhaul model`.
pub const MODEL_SCHEMA: &str = "longhaul.model/2";

/// One line of the output of `longhaul model`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum ModelRecord {
    /// First line: the request.
    Start(ModelStart),
    /// Result of one formula.
    Model(ModelResult),
}

/// The request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelStart {
    /// Name and version of this format: `longhaul.model/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Round trip, including queueing delay.
    pub rtt_ns: u64,
    /// Loss events per segment, 0 to 1.
    pub loss: f64,
    /// Payload of a segment in bytes.
    pub mss_bytes: u64,
    /// Retransmission timeout before any backoff.
    pub timeout_ns: u64,
    /// Number of segments acknowledged by one acknowledgement.
    pub segments_per_ack: f64,
    /// Rate of the slowest link; absent if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Maximum window of the receiver or the socket; absent if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// Size of a transfer; absent if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Limit that is lower than the result of a formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelBound {
    /// The rate of the slowest link.
    Link,
    /// The maximum window divided by the round trip.
    Window,
}

/// Result of one formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelResult {
    /// Short name, such as `pftk`.
    pub model: String,
    /// Description of the formula as text.
    pub about: String,
    /// Publication of the formula.
    pub source: String,
    /// Rate of payload by the formula alone, without the limits of link and window. Absent if it is undefined, such as
    /// without loss, and for a formula of completion times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formula_bps: Option<u64>,
    /// Rate of payload, limited by link and window; without loss, the limit of link and window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Limit that determines the rate; absent if the formula itself does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<ModelBound>,
    /// Completion time of a transfer of the given size; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_ns: Option<u64>,
}
