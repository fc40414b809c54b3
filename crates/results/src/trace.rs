//! Records of `longhaul trace`: what the kernel's TCP keeps of connections, as it changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the record format of `longhaul trace`.
pub const TRACE_SCHEMA: &str = "longhaul.trace/2";

/// One line of what `longhaul trace` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "nearly all are samples")]
pub enum TraceRecord {
    /// First line: the host, and what is followed.
    Start(TraceStart),
    /// A connection, before its first sample.
    Flow(TraceFlow),
    /// What was kept of a connection at a time.
    Sample(TraceSample),
    /// Last line: what was seen and what was lost.
    End(TraceEnd),
}

/// Where the samples come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceSource {
    /// BPF programs at the kernel's tracepoints: every packet, every change.
    Bpf,
    /// Socket diagnostics (sock_diag(7)), asked again and again.
    Diagnostics,
}

/// The host, and what is followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStart {
    /// Name and version of this format: `longhaul.trace/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Where the samples come from.
    pub source: TraceSource,
    /// Least time between two samples of a connection; 0: at every packet that arrives for it.
    pub interval_s: f64,
    /// Which connections, in words.
    pub filter: String,
    /// When it began, in seconds since 1970 (UTC).
    pub start_utc_s: f64,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceFlow {
    /// Its number in this trace, from 1.
    pub flow: u32,
    /// When it was first seen.
    pub at_s: f64,
    /// This host's address and port.
    pub local: String,
    /// The other end's address and port.
    pub remote: String,
    /// Its congestion control.
    pub congestion_control: String,
}

/// What made a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceCause {
    /// A packet arrived (bpf), or it was time (diagnostics).
    Ack,
    /// The state changed.
    State,
    /// Something was sent again.
    Retransmission,
    /// The connection ended.
    End,
}

/// State of a connection (enum tcp_ca_state of the kernel).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceState {
    /// Nothing is amiss.
    Open,
    /// Something was selectively acknowledged.
    Disorder,
    /// The window was reduced without a loss: a congestion mark, or a full queue of this host.
    Reduced,
    /// Losses are being repaired.
    Recovery,
    /// A timeout.
    Loss,
}

/// What was kept of a connection at a time. Windows are in packets of `mss_bytes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSample {
    /// Number of the connection.
    pub flow: u32,
    /// Since the trace began.
    pub at_s: f64,
    /// What made the sample.
    pub cause: TraceCause,
    /// State of the connection.
    pub state: TraceState,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Slow start threshold; absent while infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssthresh_segments: Option<u32>,
    /// Packets in the network: sent, and neither acknowledged nor thought lost.
    pub in_flight_segments: u32,
    /// Smoothed round trip.
    pub srtt_ns: u64,
    /// Its mean deviation.
    pub rttvar_ns: u64,
    /// Smallest round trip in the kernel's window; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_ns: Option<u64>,
    /// Rate of the last measured delivery; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_rate_bps: Option<u64>,
    /// What pacing would allow, which the kernel computes for every connection; absent while unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_rate_bps: Option<u64>,
    /// Packets thought lost and not yet repaired.
    pub lost_segments: u32,
    /// Packets sent again since the connection began.
    pub retransmitted_segments: u32,
    /// Bytes acknowledged since the connection began.
    pub acked_bytes: u64,
    /// Bytes of a packet.
    pub mss_bytes: u32,
    /// Window of the peer.
    pub peer_window_bytes: u64,
    /// The application sends less than it could: at the moment (bpf), or when the last rate was measured (diagnostics).
    pub application_limited: bool,
    /// The congestion window holds it back. Absent from diagnostics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_limited: Option<bool>,
    /// State of FAST TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast: Option<FastState>,
    /// State of H-TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub htcp: Option<HtcpState>,
}

/// What FAST TCP keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FastState {
    /// Smallest round trip of the connection: what it takes for the empty path.
    pub base_rtt_ns: u64,
    /// Mean round trip.
    pub average_rtt_ns: u64,
    /// Packets that it believes to have queued: the part of those in flight by which the round trip exceeds the smallest.
    pub queue_segments: f64,
    /// Window that it goes to.
    pub target_segments: u32,
    /// Whether FAST holds the window for a round trip.
    pub holding: bool,
}

/// What H-TCP keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtcpState {
    /// Smallest smoothed round trip.
    pub min_rtt_ns: u64,
    /// Largest, slowly forgotten.
    pub max_rtt_ns: u64,
    /// Packets by which the window grows each round trip.
    pub alpha_segments: f64,
    /// Factor of decrease.
    pub beta: f64,
}

/// What was seen and what was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceEnd {
    /// How long it lasted.
    pub seconds: f64,
    /// Connections.
    pub flows: u32,
    /// Samples.
    pub samples: u64,
    /// Events that found no room on their way to this program: they are missing above.
    pub lost_events: u64,
}
