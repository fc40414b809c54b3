use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of a TCP socket from the kernel (`TCP_INFO`, include/uapi/linux/tcp.h). The counters start with the
/// connection.
///
/// Fields that the kernel does not provide are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpState {
    /// Congestion window in bytes (`tcpi_snd_cwnd` x `tcpi_snd_mss`).
    pub cwnd_bytes: u64,
    /// Slow-start threshold in bytes; absent while infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssthresh_bytes: Option<u64>,
    /// Smoothed round trip (`tcpi_rtt`).
    pub srtt_ns: u64,
    /// Mean deviation of the round trip (`tcpi_rttvar`).
    pub rttvar_ns: u64,
    /// Minimum round trip in the kernel's window (`tcpi_min_rtt`); absent before the first sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_ns: Option<u64>,
    /// Maximum segment size of the sender.
    pub mss_bytes: u64,
    /// Path MTU (`tcpi_pmtu`).
    pub pmtu_bytes: u64,
    /// Segments retransmitted (`tcpi_total_retrans`).
    pub retransmits: u64,
    /// Segments in flight (`tcpi_unacked`).
    pub unacked_segments: u64,
    /// Congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss (`tcpi_ca_state`).
    pub ca_state: u8,
    /// Bytes sent, with retransmissions (`tcpi_bytes_sent`, Linux 4.19).
    pub bytes_sent: u64,
    /// Bytes retransmitted (`tcpi_bytes_retrans`, Linux 4.19).
    pub bytes_retransmitted: u64,
    /// Bytes acknowledged (`tcpi_bytes_acked`).
    pub bytes_acked: u64,
    /// Bytes received in order (`tcpi_bytes_received`).
    pub bytes_received: u64,
    /// Unsent bytes in the send buffer (`tcpi_notsent_bytes`).
    pub notsent_bytes: u64,
    /// Most recent delivery rate (`tcpi_delivery_rate`).
    pub delivery_rate_bps: u64,
    /// Whether the application provided too little data during the measurement of the delivery rate.
    pub delivery_rate_app_limited: bool,
    /// Current pacing rate (`tcpi_pacing_rate`); absent if unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_rate_bps: Option<u64>,
    /// Time with outstanding data (`tcpi_busy_time`).
    pub busy_ns: u64,
    /// Part of the busy time limited by the peer's receive window (`tcpi_rwnd_limited`).
    pub rwnd_limited_ns: u64,
    /// Part of the busy time limited by the send buffer (`tcpi_sndbuf_limited`).
    pub sndbuf_limited_ns: u64,
    /// Advertised window of the peer (`tcpi_snd_wnd`, Linux 5.4).
    pub snd_wnd_bytes: u64,
    /// Number of reordering events (`tcpi_reord_seen`, Linux 4.19).
    pub reorder_events: u64,
    /// Segments received out of order (`tcpi_rcv_ooopack`, Linux 5.4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_order_segments: Option<u64>,
    /// Data segments sent, with retransmissions (`tcpi_data_segs_out`, Linux 4.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_segments_sent: Option<u64>,
    /// Delivered packets with a congestion-experienced mark (`tcpi_delivered_ce`, Linux 4.18).
    pub delivered_ce: u64,
}
