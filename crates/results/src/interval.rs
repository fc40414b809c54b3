use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Decomposition, DelaySummary, Direction, End, OneWayDelay, Role, TcpState};

/// Factor that limits a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The receiver's advertised window: its socket buffer is smaller than the bandwidth-delay product.
    ReceiveWindow,
    /// The sender's socket buffer.
    SendBuffer,
    /// The path, which is fully utilised. Losses, if any, are overflows of its queue.
    Bottleneck,
    /// The congestion window, which loss or an ECN mark keeps far below the capacity of the path.
    #[serde(alias = "congestion_loss")]
    Loss,
    /// The congestion window without loss: it is still growing, or the congestion control limits it.
    CongestionWindow,
    /// A pacing rate set by the user.
    Pacing,
    /// The sending application, which provides too little data.
    Application,
    /// The receiving application, which reads too slowly although CPU time is available.
    ReceiverApplication,
    /// The sender's CPU.
    SenderCpu,
    /// The receiver's CPU.
    ReceiverCpu,
    /// The disk that the test reads or writes (`longhaul test --file`).
    Disk,
    /// A path that drops full-size packets without notice to the sender; only in the totals of a direction without
    /// delivered data.
    PathMtu,
    /// Unknown: too little data for a verdict.
    Unknown,
}

impl Limit {
    /// Name for text and pages. Records use the name in lower case with `_` in place of spaces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReceiveWindow => "receive window",
            Self::SendBuffer => "send buffer",
            Self::Bottleneck => "bottleneck",
            Self::Loss => "loss",
            Self::CongestionWindow => "congestion window",
            Self::Pacing => "pacing",
            Self::Application => "application",
            Self::ReceiverApplication => "receiver application",
            Self::SenderCpu => "sender CPU",
            Self::ReceiverCpu => "receiver CPU",
            Self::Disk => "disk",
            Self::PathMtu => "path MTU",
            Self::Unknown => "unknown",
        }
    }
}

/// A limit with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitVerdict {
    /// Main limit of the transfer.
    pub limit: Limit,
    /// Share of the interval for which the evidence holds, 0 to 1.
    pub share: f64,
    /// The evidence as text with numbers.
    pub evidence: String,
}

/// CPU time of one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// CPU time in seconds (user and system) of the threads that transferred the data.
    pub threads_s: f64,
    /// Maximum share of one CPU used by a single thread, 0 to 1.
    pub busiest_thread: f64,
    /// Utilisation of the busiest CPU of the host, 0 to 1; absent if /proc/stat is unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_cpu: Option<f64>,
}

/// Counts of datagrams in one interval at the receiver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UdpInterval {
    /// Datagrams received, without duplicates.
    pub received: u64,
    /// Increase of the number of missing datagrams: those below the highest received sequence number without arrival.
    pub lost: u64,
    /// Copies of datagrams that were already received.
    pub duplicates: u64,
    /// Datagrams that arrived after one with a higher sequence number (RFC 4737 §3.3).
    pub reordered: u64,
    /// Interarrival jitter (RFC 3550 §6.4.1) at the end of the interval; absent before the second datagram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
}

/// One stream in one interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamInterval {
    /// Number of the stream.
    pub stream: u32,
    /// Sender: bytes acknowledged. Receiver: bytes read by the application.
    pub bytes: u64,
    /// Rate of `bytes` in the interval.
    pub throughput_bps: u64,
    /// Segments retransmitted in this interval (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Round trips of the blocks whose echo arrived in this interval (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// State of the socket at the end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpState>,
    /// Limit of this stream (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitVerdict>,
    /// Datagram counts (UDP receiver).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpInterval>,
    /// CPU time of this stream's thread in seconds.
    pub cpu_s: f64,
}

/// Counts of one end for one direction in one interval, by its own clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalRecord {
    /// Identifier of the test.
    pub test_id: String,
    /// End that measured the interval.
    pub end: End,
    /// Direction of the data.
    pub direction: Direction,
    /// Role of the end: sender or receiver of the data.
    pub role: Role,
    /// Number of the interval, from 0; the intervals of both ends with one number cover nearly the same time.
    pub index: u64,
    /// Start of the interval, in seconds since this end started the load.
    pub start_s: f64,
    /// End of the interval, in seconds since this end started the load.
    pub end_s: f64,
    /// Whether the summary excludes this interval (`longhaul test --omit`); absent: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omitted: bool,
    /// Bytes of all streams.
    pub bytes: u64,
    /// Rate of `bytes` in the interval.
    pub throughput_bps: u64,
    /// Approximate bytes that arrived out of order and waited for a lost segment (TCP receiver); absent for zero. The
    /// application reads them at once after the retransmission, so that the rate may exceed that of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_bytes: Option<u64>,
    /// Mean time in seconds that each of this end's streams spent at the disk (`longhaul test --file`); absent without
    /// a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_s: Option<f64>,
    /// Block round trips of all streams (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// Division of the delay of sampled blocks into stages (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decomposition: Option<Decomposition>,
    /// One-way delay of the bulk data: TCP from the sender's driver to the receiver's kernel, UDP from transmission to
    /// arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWayDelay>,
    /// One-way delay of the echoes in the return direction (TCP): from the receiving application's read to the sender's
    /// read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way_return: Option<OneWayDelay>,
    /// Limit of the direction, from those of its streams (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitVerdict>,
    /// Datagram counts of all streams (UDP receiver).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpInterval>,
    /// CPU time of this end's threads for this direction.
    pub cpu: CpuUse,
    /// Counts of each stream.
    pub streams: Vec<StreamInterval>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_text_use_one_name_and_the_old_record_name_is_read() {
        use Limit as L;
        let all = [L::ReceiveWindow, L::SendBuffer, L::Bottleneck, L::Loss, L::CongestionWindow, L::Pacing]
            .into_iter()
            .chain([L::Application, L::ReceiverApplication, L::SenderCpu, L::ReceiverCpu, L::Disk, L::Unknown]);
        for limit in all {
            let record = serde_json::to_value(limit).unwrap();
            assert_eq!(record, limit.name().to_lowercase().replace(' ', "_"));
        }
        assert_eq!(serde_json::from_str::<Limit>("\"congestion_loss\"").unwrap(), Limit::Loss);
    }
}
