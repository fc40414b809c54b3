//! The server's part of the final report.

use std::collections::BTreeMap;

use results::{
    Decomposition, DelaySummary, Direction, EndTotals, Limit, LossEpisode, OneWayDelay, Role, TcpState, UdpSummary,
};
use serde::{Deserialize, Serialize};

/// What an end knows when the load is over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Each direction that carried bulk bytes, as this end saw it.
    pub directions: Vec<EndSide>,
    /// Resident set of this end at the start of the load.
    pub rss_start_bytes: u64,
    /// Resident set of this end at its end.
    pub rss_end_bytes: u64,
    /// What a reader must know before believing the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One direction as one end saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndSide {
    /// Which bytes.
    pub direction: Direction,
    /// Whether this end sent or received them.
    pub role: Role,
    /// What it counted.
    pub totals: EndTotals,
    /// Each stream.
    pub streams: Vec<SideStream>,
    /// Bytes over time, as `estimate` writes and reads them; opaque here.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub timeline: serde_json::Value,
    /// Where the delay of sampled blocks sits, as far as this end has the stamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decomposition: Option<Decomposition>,
    /// One-way delay of the bulk bytes, on the clocks of both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWayDelay>,
    /// One-way delay of the echoes on the way back (TCP sender).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_return: Option<OneWayDelay>,
    /// Block round trips of all streams (sender).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// Kernel smoothed round trips (sender).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_srtt: Option<DelaySummary>,
    /// Loss episodes (sender), the first 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_episodes: Vec<LossEpisode>,
    /// Number of loss episodes, also those beyond the list.
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

/// One stream as one end saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideStream {
    /// Number of the stream.
    pub stream: u32,
    /// Sender: bytes written. Receiver: bytes read.
    pub bytes: u64,
    /// Receiver: bytes of them that arrived after the load.
    #[serde(default)]
    pub drain_bytes: u64,
    /// Sender: blocks whose echo came back. Receiver: blocks whose header was read.
    pub blocks: u64,
    /// Segments retransmitted (sender).
    #[serde(default)]
    pub retransmits: u64,
    /// Round trip of the blocks (sender).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// The socket at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpState>,
}
