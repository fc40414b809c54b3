use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Decomposition, DelaySummary, Direction, End, OneWayDelay, Role, TcpState};

/// What held a transfer back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The receiver's advertised window: its socket buffer is too small for the path.
    ReceiveWindow,
    /// The sender's socket buffer.
    SendBuffer,
    /// The path: it carries no more. Losses, if any, are its queue that overflows.
    Bottleneck,
    /// The congestion window, which loss or an ECN mark holds well below what the path carries.
    #[serde(alias = "congestion_loss")]
    Loss,
    /// The congestion window, still growing or held by the congestion control's own judgement, without loss.
    CongestionWindow,
    /// A pacing rate that the user set.
    Pacing,
    /// The sending application had too little to send.
    Application,
    /// The receiving application read too slowly, with CPU to spare.
    ReceiverApplication,
    /// The sender's CPU.
    SenderCpu,
    /// The receiver's CPU.
    ReceiverCpu,
    /// The disk that the test reads from or writes to (`longhaul test --file`).
    Disk,
    /// The path drops full-size packets without telling the sender; only in a direction's total, as nothing was delivered.
    PathMtu,
    /// Too little data to tell.
    Unknown,
}

impl Limit {
    /// The name in text and on pages; records have the same with `_` for the space, in lower case.
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

/// A judgement with the evidence for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitVerdict {
    /// What limited the transfer most.
    pub limit: Limit,
    /// Share of the interval for which the evidence holds, 0..=1.
    pub share: f64,
    /// The evidence in words and numbers.
    pub evidence: String,
}

/// CPU spent by one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// CPU seconds (user and system) of the threads that moved the bytes.
    pub threads_s: f64,
    /// Largest share of one CPU that a single one of those threads used, 0..=1.
    pub busiest_thread: f64,
    /// Share of the busiest CPU of the host that was not idle, 0..=1; absent when /proc/stat is not readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_cpu: Option<f64>,
}

/// Counters of datagrams in one interval, at the receiver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UdpInterval {
    /// Datagrams received, duplicates not counted.
    pub received: u64,
    /// Datagrams that the sender had sent by the highest sequence number seen and that had not arrived by then.
    pub lost: u64,
    /// Copies of datagrams already received.
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
    /// The same as a rate.
    pub throughput_bps: u64,
    /// Segments retransmitted in this interval (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Round trip of the blocks whose echo arrived in this interval (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// The socket's state at the end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpState>,
    /// What limited this stream (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitVerdict>,
    /// Datagram counters (UDP receiver).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpInterval>,
    /// CPU seconds of this stream's thread.
    pub cpu_s: f64,
}

/// What one end saw of one direction in one interval, cut by its own clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalRecord {
    /// The test.
    pub test_id: String,
    /// Who measured.
    pub end: End,
    /// Which bytes.
    pub direction: Direction,
    /// Whether `end` sent or received them.
    pub role: Role,
    /// Number of the interval, from 0; intervals of both ends with one number cover nearly the same time.
    pub index: u64,
    /// Begin, in seconds since this end started the load.
    pub start_s: f64,
    /// End, in seconds since this end started the load.
    pub end_s: f64,
    /// Whether the summary leaves this interval out (`longhaul test --omit`); absent: it does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omitted: bool,
    /// Bytes of all streams.
    pub bytes: u64,
    /// The same as a rate.
    pub throughput_bps: u64,
    /// About how many bytes arrived out of order and waited behind a lost segment (TCP receiver); the application reads them
    /// at once when it is replaced, so that the rate may exceed the link's. Absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_bytes: Option<u64>,
    /// Seconds that each of this end's streams spent at the disk on average (`longhaul test --file`); absent without a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_s: Option<f64>,
    /// Block round trips of all streams (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// Where the delay of sampled blocks sits (client's view of its senders, or the server's of its own).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decomposition: Option<Decomposition>,
    /// One-way delay of the bulk bytes: TCP from the sender's driver to the receiver's kernel, UDP from send to arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWayDelay>,
    /// One-way delay of the echoes on the way back (TCP): from the receiving application's read to the sender's read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way_return: Option<OneWayDelay>,
    /// What limited the direction (sender), judged over its streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitVerdict>,
    /// Datagram counters of all streams (UDP receiver).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpInterval>,
    /// CPU of this end's threads for this direction.
    pub cpu: CpuUse,
    /// Each stream.
    pub streams: Vec<StreamInterval>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_one_name_in_records_and_text_and_the_old_record_name_is_still_read() {
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
