use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Direction, HostReport};

/// Transport of the bulk data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP, unlimited or paced.
    Tcp,
    /// UDP datagrams at a constant interval.
    UdpConstant,
    /// UDP datagrams with exponential gaps, a Poisson process (RFC 2330 §11.1).
    UdpPoisson,
    /// Packet trains, requested individually by the client (`longhaul estimate`).
    Probe,
}

/// Settings of a test as requested by the user, and as proposed by the client to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestPlan {
    /// Transport of the bulk data.
    pub transport: Transport,
    /// Directions of the bulk data; two entries run simultaneously.
    pub directions: Vec<Direction>,
    /// Number of streams in each direction.
    pub streams: u32,
    /// Duration of the load; absent if `bytes` limits the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// Bytes that each direction sends in total; absent if `duration_ns` limits the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Length of a reporting interval.
    pub interval_ns: u64,
    /// Size of a block (TCP), or of the UDP payload of a datagram, in bytes.
    pub block_bytes: u64,
    /// Requested size of the socket buffers; absent: autotuning by the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// Requested congestion control of the sending end; absent: the default of each host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Maximum rate of each stream of the sender (SO_MAX_PACING_RATE); for UDP the rate itself, in bits of UDP payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Differentiated services code point (0..=63) of the data packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Requested TCP maximum segment size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
    /// Maximum of unsent bytes in the sender's socket, as set by the user. Absent: 50 ms at `rate_bps`, or without a
    /// rate the bytes delivered in 250 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notsent_lowat_bytes: Option<u32>,
    /// Whether the sender sends from the page cache (sendfile) and the receiver discards in the kernel (MSG_TRUNC).
    #[serde(default)]
    pub zero_copy: bool,
    /// Seed of the Poisson schedule.
    #[serde(default)]
    pub seed: u64,
}

/// Socket buffers as requested and as granted by the kernel (`getsockopt`; Linux doubles the requested size).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferGrant {
    /// Size requested with SO_SNDBUF and SO_RCVBUF; absent: autotuning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<u64>,
    /// Size of the send buffer at the start.
    pub send_bytes: u64,
    /// Size of the receive buffer at the start.
    pub receive_bytes: u64,
}

/// A data connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamStart {
    /// Number of the stream, from 0, unique over both directions.
    pub stream: u32,
    /// Direction of its bulk data.
    pub direction: Direction,
    /// Address and port of the client.
    pub client: String,
    /// Address and port of the server.
    pub server: String,
    /// Maximum segment size at the client after the handshake (TCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u64>,
    /// Path MTU in the client's kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pmtu_bytes: Option<u64>,
    /// Congestion control of the sending end (TCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// TCP options in use at the client: any of `timestamps`, `sack`, `wscale`, `ecn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Socket buffers of the client.
    pub client_buffers: BufferGrant,
    /// Socket buffers of the server.
    pub server_buffers: BufferGrant,
}

/// First record of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartRecord {
    /// Name and version of the record format ([`crate::SCHEMA`]).
    pub schema: String,
    /// Identifier of the test, equal in all its records.
    pub test_id: String,
    /// Version of longhaul at the client.
    pub version: String,
    /// Start of the test in UTC (RFC 3339).
    pub time_utc: String,
    /// Host name or address as given by the user.
    pub target: String,
    /// Label of the test as given by the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Protocol of the session: `longhaul/2` (`longhaul/1` in older records) or `thrulay/2`.
    pub protocol: String,
    /// Settings as requested by the user.
    pub plan: TestPlan,
    /// Changes by the server, and features that an older protocol lacks, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Data connections.
    pub streams: Vec<StreamStart>,
    /// Idle round trip before the load: the minimum of the exchanges of the two programs, or with a thrulay server the
    /// minimum of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_rtt_ns: Option<u64>,
    /// Maximum relative error of each quantile of a delay in this result, for any number of samples.
    #[serde(default)]
    pub quantile_relative_error: f64,
    /// Settings of the client's host.
    pub client: HostReport,
    /// Settings of the server's host; absent with thrulay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<HostReport>,
}
