//! The server's part of the final report.

use std::collections::BTreeMap;

use results::{
    Decomposition, DelaySummary, Direction, EndTotals, Limit, LossEpisode, OneWayDelay, Role, TcpState, UdpSummary,
};
use serde::{Deserialize, Serialize};

/// Results of one end after the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Results for each direction that carried bulk bytes.
    pub directions: Vec<EndSide>,
    /// Resident set of this end at the start of the load, in bytes.
    pub rss_start_bytes: u64,
    /// Resident set of this end at the end of the load, in bytes.
    pub rss_end_bytes: u64,
    /// Caveats that apply to the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Results for one direction at one end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndSide {
    /// Direction of the bulk bytes.
    pub direction: Direction,
    /// Whether this end sent or received them.
    pub role: Role,
    /// Counters of this end.
    pub totals: EndTotals,
    /// Results for each stream.
    pub streams: Vec<SideStream>,
    /// Bytes over time, as `estimate` writes and reads them; opaque here.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub timeline: serde_json::Value,
    /// Breakdown of the delay of sampled blocks, as far as this end has the stamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decomposition: Option<Decomposition>,
    /// One-way delay of the bulk bytes, on the clocks of both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWayDelay>,
    /// One-way delay of the echoes on the return path (TCP sender).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_return: Option<OneWayDelay>,
    /// Round-trip times of the blocks of all streams (sender).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// Smoothed round-trip times of the kernel (sender).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_srtt: Option<DelaySummary>,
    /// Loss episodes (sender), the first 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_episodes: Vec<LossEpisode>,
    /// Number of all loss episodes, including those beyond the list.
    #[serde(default)]
    pub loss_episode_count: u64,
    /// Share of the intervals in which each factor was the limit, 0..=1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<Limit, f64>,
    /// Datagram statistics (UDP receiver).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpSummary>,
    /// Datagrams sent (UDP sender).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_sent: Option<u64>,
}

/// Results for one stream at one end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideStream {
    /// Number of the stream.
    pub stream: u32,
    /// Sender: bytes written. Receiver: bytes read.
    pub bytes: u64,
    /// Receiver: bytes of these that arrived after the load.
    #[serde(default)]
    pub drain_bytes: u64,
    /// Sender: blocks whose echo returned. Receiver: blocks whose header was read.
    pub blocks: u64,
    /// Segments retransmitted (sender).
    #[serde(default)]
    pub retransmits: u64,
    /// Round-trip time of the blocks (sender).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// State of the socket at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpState>,
}
