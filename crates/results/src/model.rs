//! Records of `longhaul model`: what published formulas say of a path.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the record format of `longhaul model`.
pub const MODEL_SCHEMA: &str = "longhaul.model/2";

/// One line of what `longhaul model` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum ModelRecord {
    /// First line: what was asked.
    Start(ModelStart),
    /// What one formula says.
    Model(ModelResult),
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelStart {
    /// Name and version of this format: `longhaul.model/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Round trip, queues included.
    pub rtt_ns: u64,
    /// Loss events per segment, 0..1.
    pub loss: f64,
    /// Data in a segment.
    pub mss_bytes: u64,
    /// Retransmission timeout before any backoff.
    pub timeout_ns: u64,
    /// Segments for which one acknowledgement comes.
    pub segments_per_ack: f64,
    /// Rate of the slowest link; absent when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Largest window, the receiver's or the socket's; absent when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// Size of a transfer; absent when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What holds a rate below what a formula says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelBound {
    /// The rate of the slowest link.
    Link,
    /// The largest window over the round trip.
    Window,
}

/// What one formula says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelResult {
    /// Short name, such as `pftk`.
    pub model: String,
    /// What it describes, in words.
    pub about: String,
    /// Where it stands.
    pub source: String,
    /// Rate of payload that the formula says, whatever link and window allow; absent where it is not defined, such as without loss, and for
    /// a formula of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formula_bps: Option<u64>,
    /// The same, at most what link and window allow; without loss what they allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// What made it less; absent where the formula itself is the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<ModelBound>,
    /// Time for the transfer of the size that was given; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_ns: Option<u64>,
}
