use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Direction, HostReport};

/// What carries the bulk bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP: as fast as it goes, or paced.
    Tcp,
    /// UDP datagrams at a constant interval.
    UdpConstant,
    /// UDP datagrams as a Poisson process (RFC 2330 §11.1).
    UdpPoisson,
    /// Packet trains, as the client asks for them one by one (`longhaul estimate`).
    Probe,
}

/// What the user asked for. Also what the client proposes to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestPlan {
    /// What carries the bytes.
    pub transport: Transport,
    /// The directions that carry bulk bytes; both at once when both are named.
    pub directions: Vec<Direction>,
    /// Number of streams in each direction.
    pub streams: u32,
    /// How long bulk data is sent; absent when `bytes` decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// How many bytes each direction sends in total; absent when `duration_ns` decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Length of a reporting interval.
    pub interval_ns: u64,
    /// TCP: bytes in a block. UDP: bytes of UDP payload in a datagram.
    pub block_bytes: u64,
    /// Socket buffers asked for; absent leaves the kernel's autotuning in charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// Congestion control asked for at the sending end; absent is each host's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Ceiling of the sender's rate per stream (SO_MAX_PACING_RATE); for UDP the rate itself, in bits of UDP payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Differentiated services code point (0..=63) of the data packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// TCP maximum segment size asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
    /// Most bytes that may wait unsent in the sender's socket, as the user set it; absent is 50 ms of `rate_bps`, and without a rate
    /// what the path takes in 250 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notsent_lowat_bytes: Option<u32>,
    /// Whether the sender sends from the page cache (sendfile) and the receiver discards in the kernel (MSG_TRUNC).
    #[serde(default)]
    pub zero_copy: bool,
    /// Seed of the Poisson schedule.
    #[serde(default)]
    pub seed: u64,
}

/// Socket buffers as asked and as the kernel granted them (`getsockopt`; Linux doubles what was asked).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferGrant {
    /// Asked with SO_SNDBUF and SO_RCVBUF; absent means autotuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<u64>,
    /// Send buffer as read back at the start.
    pub send_bytes: u64,
    /// Receive buffer as read back at the start.
    pub receive_bytes: u64,
}

/// One data connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamStart {
    /// Number of the stream, from 0, unique over both directions.
    pub stream: u32,
    /// Which way its bulk bytes go.
    pub direction: Direction,
    /// Client's address and port.
    pub client: String,
    /// Server's address and port.
    pub server: String,
    /// Maximum segment size at the client after the handshake (TCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u64>,
    /// Path MTU that the client's kernel assumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pmtu_bytes: Option<u64>,
    /// Congestion control in force at the sending end (TCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// TCP options in force at the client: any of `timestamps`, `sack`, `wscale`, `ecn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Buffers at the client.
    pub client_buffers: BufferGrant,
    /// Buffers at the server.
    pub server_buffers: BufferGrant,
}

/// First record of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartRecord {
    /// Name and version of the record format ([`crate::SCHEMA`]).
    pub schema: String,
    /// Identifies the test; the same in all its records.
    pub test_id: String,
    /// longhaul version of the client.
    pub version: String,
    /// Start of the test, UTC, RFC 3339.
    pub time_utc: String,
    /// Host as the user named it.
    pub target: String,
    /// A label that the user gave this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Protocol spoken with the server: `longhaul/2` (`longhaul/1` in older records) or `thrulay/2`.
    pub protocol: String,
    /// What was asked.
    pub plan: TestPlan,
    /// What the server changed of it, and features lost to an older protocol, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The data connections.
    pub streams: Vec<StreamStart>,
    /// Smallest round trip on the idle path before the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_rtt_ns: Option<u64>,
    /// Largest relative error of every quantile of a delay in this result, for any number of samples.
    #[serde(default)]
    pub quantile_relative_error: f64,
    /// The client's settings.
    pub client: HostReport,
    /// The server's settings; absent with thrulay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<HostReport>,
}
