//! Records of `longhaul trace`: changes of the kernel's state of TCP connections.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the record format of `longhaul trace`.
pub const TRACE_SCHEMA: &str = "longhaul.trace/2";

/// One line of the output of `longhaul trace`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "nearly all are samples")]
pub enum TraceRecord {
    /// First line: the host and the traced connections.
    Start(TraceStart),
    /// A connection, before its first sample.
    Flow(TraceFlow),
    /// State of a connection at one time.
    Sample(TraceSample),
    /// Last line: counts of samples and of lost events.
    End(TraceEnd),
}

/// Source of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceSource {
    /// BPF programs at the kernel's tracepoints: every packet and every change.
    Bpf,
    /// Socket diagnostics (sock_diag(7)), polled periodically.
    Diagnostics,
}

/// The host and the traced connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStart {
    /// Name and version of this format: `longhaul.trace/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Source of the samples.
    pub source: TraceSource,
    /// Minimum time between two samples of a connection, in seconds; 0: a sample for every received packet.
    pub interval_s: f64,
    /// Filter for connections, as text.
    pub filter: String,
    /// Start of the trace, in seconds since 1970 (UTC).
    pub start_utc_s: f64,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceFlow {
    /// Number of the connection in this trace, from 1.
    pub flow: u32,
    /// Time of the first observation, in seconds since the start of the trace.
    pub at_s: f64,
    /// Local address and port.
    pub local: String,
    /// Remote address and port.
    pub remote: String,
    /// Congestion control of the connection.
    pub congestion_control: String,
}

/// Event that caused a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceCause {
    /// A packet arrived (bpf), or the interval ended (diagnostics).
    Ack,
    /// The congestion state changed.
    State,
    /// A segment was retransmitted.
    Retransmission,
    /// The connection ended.
    End,
}

/// Congestion state of a connection (enum tcp_ca_state of the kernel).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceState {
    /// Normal operation.
    Open,
    /// Duplicate or selective acknowledgements arrived.
    Disorder,
    /// The window was reduced without loss: a congestion mark, or a full queue of this host.
    Reduced,
    /// Lost segments are being retransmitted.
    Recovery,
    /// A retransmission timeout occurred.
    Loss,
}

/// State of a connection at one time. Windows are counted in segments of `mss_bytes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSample {
    /// Number of the connection.
    pub flow: u32,
    /// Time in seconds since the start of the trace.
    pub at_s: f64,
    /// Event that caused the sample.
    pub cause: TraceCause,
    /// Congestion state of the connection.
    pub state: TraceState,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Slow-start threshold; absent while infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssthresh_segments: Option<u32>,
    /// Segments in flight: sent, and neither acknowledged nor assumed lost.
    pub in_flight_segments: u32,
    /// Smoothed round trip.
    pub srtt_ns: u64,
    /// Mean deviation of the round trip.
    pub rttvar_ns: u64,
    /// Minimum round trip in the kernel's window; absent before the first sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_ns: Option<u64>,
    /// Last measured delivery rate; absent before the first measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_rate_bps: Option<u64>,
    /// Pacing rate, which the kernel computes for every connection; absent while unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_rate_bps: Option<u64>,
    /// Segments assumed lost and not yet retransmitted.
    pub lost_segments: u32,
    /// Segments retransmitted since the start of the connection.
    pub retransmitted_segments: u32,
    /// Bytes acknowledged since the start of the connection.
    pub acked_bytes: u64,
    /// Maximum segment size in bytes.
    pub mss_bytes: u32,
    /// Advertised window of the peer in bytes.
    pub peer_window_bytes: u64,
    /// Whether the application provides too little data: currently (bpf), or during the last rate measurement
    /// (diagnostics).
    pub application_limited: bool,
    /// Whether the congestion window limits the connection; absent for diagnostics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_limited: Option<bool>,
    /// State of FAST TCP; absent for other congestion controls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast: Option<FastState>,
    /// State of H-TCP; absent for other congestion controls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub htcp: Option<HtcpState>,
}

/// State of FAST TCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FastState {
    /// Base round trip: the minimum of the connection, an estimate for the empty path.
    pub base_rtt_ns: u64,
    /// Mean round trip.
    pub average_rtt_ns: u64,
    /// Estimated number of queued segments: those in flight, times the share of the round trip beyond the base round
    /// trip.
    pub queue_segments: f64,
    /// Target window in segments.
    pub target_segments: u32,
    /// Whether FAST keeps the window constant for one round trip.
    pub holding: bool,
}

/// State of H-TCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtcpState {
    /// Minimum smoothed round trip.
    pub min_rtt_ns: u64,
    /// Maximum smoothed round trip, which decays slowly.
    pub max_rtt_ns: u64,
    /// Increase of the window in segments for each round trip.
    pub alpha_segments: f64,
    /// Factor of the window decrease.
    pub beta: f64,
}

/// Counts of samples and of lost events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceEnd {
    /// Duration of the trace in seconds.
    pub seconds: f64,
    /// Number of connections.
    pub flows: u32,
    /// Number of samples.
    pub samples: u64,
    /// Events lost for lack of buffer space between the kernel and this program; their samples are missing.
    pub lost_events: u64,
}
