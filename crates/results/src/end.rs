use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::{Decomposition, DelaySummary, Direction, Limit, OneWayDelay, TcpState};

/// Outcome of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Completion {
    /// The test completed as planned.
    Complete,
    /// The user or a signal stopped the test; the data up to then is valid.
    Interrupted,
    /// A fault aborted the test. The data up to then is reported, but is not a result of the plan.
    Failed {
        /// Reason of the failure, and the end at which it occurred.
        reason: String,
    },
}

/// Comparison of the clocks of the two ends before, during and after the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockSummary {
    /// Server clock minus client clock at the start of the load.
    pub offset_ns: i64,
    /// Maximum error of the offset: half the width of the interval consistent with all exchanges, without an assumption
    /// of symmetry.
    pub bound_ns: u64,
    /// Drift of the server's clock relative to the client's, in parts per million.
    pub drift_ppm: f64,
    /// Maximum error of the drift, in parts per million.
    pub drift_bound_ppm: f64,
    /// Number of clock exchanges used before the load.
    pub exchanges_before: u64,
    /// Number of clock exchanges used during the load.
    pub exchanges_during: u64,
    /// Number of clock exchanges used after the load.
    pub exchanges_after: u64,
    /// Minimum round trip of the clock exchanges before the load.
    pub idle_rtt_before_ns: u64,
    /// Minimum round trip of the clock exchanges after the load; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_rtt_after_ns: Option<u64>,
}

/// Start of the load at each end, by its own clock (CLOCK_MONOTONIC_RAW). The intervals of an end are counted from its
/// start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadStart {
    /// Start at the client.
    pub client_ns: u64,
    /// Start at the server.
    pub server_ns: u64,
}

/// Counts of one end in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndTotals {
    /// Sender: bytes written to sockets. Receiver: bytes read from sockets, including the drain.
    pub bytes: u64,
    /// Sender: time from the first byte to the last, by this end's clock; the last datagram includes the gap after it.
    /// Receiver of a load limited by time: the planned time from the first arrival; later arrivals are the drain.
    pub duration_s: f64,
    /// Bytes without the drain, divided by the duration.
    pub throughput_bps: u64,
    /// Receiver: bytes that arrived after the load from the sender's buffers; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_bytes: Option<u64>,
    /// Receiver: time in seconds from the end of the load to the last byte of the drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_s: Option<f64>,
    /// CPU time in seconds of the threads that transferred the data.
    pub cpu_s: f64,
    /// CPU time in seconds for 10^9 bytes.
    pub cpu_s_per_gb: f64,
}

impl EndTotals {
    /// Bytes counted during the load.
    pub fn load_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.drain_bytes.unwrap_or(0))
    }
}

impl Agreement {
    /// Explanation if the count of an end is missing.
    pub const MISSING: &'static str = "one end's count is missing";

    /// Whether the count of an end is missing, so that the counts cannot be compared.
    pub fn is_missing(&self) -> bool {
        !self.agree && self.explanation.as_deref() == Some(Self::MISSING)
    }
}

/// Comparison of the counts of both ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Bytes that the sender wrote.
    pub sent_bytes: u64,
    /// Bytes that the receiver read.
    pub received_bytes: u64,
    /// Number of blocks whose echo the sender received (TCP).
    pub echoed_blocks: u64,
    /// Whether the receiver got every sent byte (TCP), or sent = received + lost and the runs of losses add up (UDP).
    pub agree: bool,
    /// Difference and its reason; absent if the counts agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// Increase of the rate at the start of the transfer, from the receiver's byte counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RampUp {
    /// Steady rate: median rate of the second half of the transfer.
    pub steady_bps: u64,
    /// Time in seconds from the first byte until the rate first reached 90 % of the steady rate.
    pub time_to_90_s: f64,
    /// Time until the rate first reached 90 % of the steady rate, in baseline round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_90_rtts: Option<f64>,
    /// Bytes received until the rate first reached 90 % of the steady rate.
    pub bytes_to_90: u64,
    /// Resolution of the times in seconds.
    pub resolution_s: f64,
}

/// One reaction of the sender to loss.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossEpisode {
    /// Number of the stream.
    pub stream: u32,
    /// Start, in seconds since the start of the load.
    pub start_s: f64,
    /// Segments retransmitted during the episode.
    pub retransmits: u64,
    /// Reduction of the congestion window, as a share of its size before the episode, 0 to 1.
    pub depth: f64,
    /// Time in seconds until the window reached 90 % of its size before the episode; absent if the test ended earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// Time until the window reached 90 % of its size before the episode, in baseline round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_rtts: Option<f64>,
}

/// Metrics of RFC 6349.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rfc6349 {
    /// Path MTU (§3.1) used by TCP.
    pub path_mtu_bytes: u64,
    /// Whether TCP sent full segments of exactly the path MTU and received their acknowledgements. Otherwise the path
    /// MTU is an assumption.
    pub path_mtu_verified: bool,
    /// Baseline round trip (§3.2): the minimum of the sending kernel (`tcpi_min_rtt`) from the idle path to the end of
    /// the load.
    pub baseline_rtt_ns: u64,
    /// Bottleneck bandwidth: the value given by the user, or the maximum arrival rate over several round trips during
    /// the load.
    pub bottleneck_bps: u64,
    /// Whether the user gave the bottleneck bandwidth.
    pub bottleneck_given: bool,
    /// Bandwidth-delay product (§3.3.1).
    pub bdp_bytes: u64,
    /// Maximum TCP throughput with this bottleneck, MTU and these options (§3.3.2); with Ethernet framing if the user
    /// gave a link rate.
    pub ideal_throughput_bps: u64,
    /// Actual transfer time divided by the ideal one (§4.1), at least 1.
    pub transfer_time_ratio: f64,
    /// TCP efficiency (§4.2) in per cent: bytes not retransmitted divided by bytes transmitted.
    pub tcp_efficiency_percent: f64,
    /// Mean of the kernel's smoothed round trips during the load.
    pub mean_rtt_ns: u64,
    /// Buffer delay (§4.3) in per cent of the baseline round trip, at least 0; absent for round trips below 1 ms, which
    /// the hosts dominate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_delay_percent: Option<f64>,
    /// Number of connections needed to fill the path with the configured window (§5.1); absent for an autotuned window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_needed: Option<u64>,
}

/// Datagrams of one direction over the whole test (RFC 7680, RFC 4737, RFC 5560).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UdpSummary {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received, without duplicates.
    pub received: u64,
    /// Datagrams that did not arrive within the waiting time.
    pub lost: u64,
    /// Lost datagrams divided by sent datagrams.
    pub loss_ratio: f64,
    /// Copies of datagrams that were already received.
    pub duplicates: u64,
    /// Duplicates divided by sent datagrams.
    pub duplicate_ratio: f64,
    /// Datagrams that arrived after one with a higher sequence number (RFC 4737 type-P-reordered).
    pub reordered: u64,
    /// Reordered datagrams divided by received datagrams.
    pub reordered_ratio: f64,
    /// n-reordering (RFC 4737 §5.4): element n-1 is the number of n-reordered datagrams.
    pub n_reordering: Vec<u64>,
    /// Runs of lost datagrams: length of the run to number of runs.
    #[serde(deserialize_with = "run_lengths")]
    pub loss_runs: BTreeMap<u64, u64>,
    /// Lost datagrams by the interval of their transmission, from interval 0, without trailing zeros. Their send times
    /// are interpolated between received datagrams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_by_interval: Vec<u64>,
    /// Interarrival jitter (RFC 3550) at the end of the test; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
    /// Waiting time that separates late from lost datagrams (Tmax, RFC 7680 §2.4).
    pub tmax_ns: u64,
    /// Datagrams that the sender's kernel refused.
    pub send_errors: u64,
    /// Maximum lag of the sender behind its schedule.
    pub sender_lag_max_ns: u64,
    /// Datagrams sent more than one gap, and more than 100 us, behind schedule: an effect of the sending host, not of
    /// the path.
    pub sender_late: u64,
}

/// Reads the keys, which JSON stores as strings. serde_json converts them to numbers by itself except inside a tagged
/// enum, as every record and message is.
fn run_lengths<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<u64, u64>, D::Error> {
    BTreeMap::<String, u64>::deserialize(from)?
        .into_iter()
        .map(|(length, runs)| Ok((length.parse().map_err(serde::de::Error::custom)?, runs)))
        .collect()
}

/// One stream over the whole test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamTotals {
    /// Number of the stream.
    pub stream: u32,
    /// Bytes that the sender wrote.
    pub sent_bytes: u64,
    /// Bytes that the receiver read.
    pub received_bytes: u64,
    /// Bytes received during the load, divided by the receiver's duration.
    pub throughput_bps: u64,
    /// Number of retransmitted segments.
    pub retransmits: u64,
    /// Round trips of the blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// State of the sender's socket at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_tcp: Option<TcpState>,
    /// State of the receiver's socket at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_tcp: Option<TcpState>,
}

/// One direction over the whole test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionSummary {
    /// Direction of the bulk data.
    pub direction: Direction,
    /// Goodput: bytes that the receiving application read during the load, divided by the duration of the load; zero if
    /// the receiver's count is missing.
    pub throughput_bps: u64,
    /// Time in seconds at the start that `throughput_bps`, `block_rtt` and `limits` exclude (`longhaul test --omit`).
    /// All other values cover the whole test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_s: Option<f64>,
    /// Bytes that the receiver counted after the omitted time and before the drain; present with `omitted_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_bytes: Option<u64>,
    /// Time in seconds in which the receiver counted `measured_bytes`; present with `omitted_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_s: Option<f64>,
    /// Counts of the sender.
    pub sender: EndTotals,
    /// Counts of the receiver.
    pub receiver: EndTotals,
    /// Comparison of the counts of both ends.
    pub agreement: Agreement,
    /// Block round trips: the delay at application level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// Minimum kernel round trip (TCP_INFO min_rtt) of all streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_min_rtt_ns: Option<u64>,
    /// Kernel smoothed round trips, sampled for each stream at most every 10 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_srtt: Option<DelaySummary>,
    /// Division of the delay into stages.
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
    /// Path MTU black hole, if full-size segments did not pass (TCP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<PathMtu>,
    /// Share of the intervals in which each factor was the limit, 0 to 1.
    pub limits: BTreeMap<Limit, f64>,
    /// RFC 6349 metrics (TCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rfc6349: Option<Rfc6349>,
    /// Increase of the rate at the start (TCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp_up: Option<RampUp>,
    /// Loss episodes (TCP), at most the first 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_episodes: Vec<LossEpisode>,
    /// Total number of loss episodes.
    pub loss_episode_count: u64,
    /// Datagram statistics (UDP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpSummary>,
    /// Totals of each stream.
    pub streams: Vec<StreamTotals>,
}

/// Path MTU black hole (RFC 8899): a path that drops large packets without notice to the sender. The search after the
/// load uses connections of smaller segments. The sizes are those of IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathMtu {
    /// Size of packets that do not pass to the server and back: that of the test's full-size segments.
    pub lost_bytes: u64,
    /// Maximum size of packets that pass.
    pub passing_bytes: u64,
    /// Maximum segment size for packets that pass (`-M`).
    pub passing_mss_bytes: u64,
}

/// Resident set size of each end, which shows growth of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Resident set of the client at the start of the load.
    pub client_rss_start_bytes: u64,
    /// Resident set of the client at the end of the load.
    pub client_rss_end_bytes: u64,
    /// Resident set of the server at the start of the load; zero if unknown.
    pub server_rss_start_bytes: u64,
    /// Resident set of the server at the end of the load; zero if unknown.
    pub server_rss_end_bytes: u64,
}

/// Last record of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndRecord {
    /// Identifier of the test.
    pub test_id: String,
    /// Outcome of the test.
    pub completion: Completion,
    /// Start of the load; absent with thrulay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_start: Option<LoadStart>,
    /// Each direction with bulk data.
    pub directions: Vec<DirectionSummary>,
    /// Comparison of the clocks; absent with thrulay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSummary>,
    /// Resident sets.
    pub memory: Memory,
    /// Conditions that limit the meaning of the numbers: generator limits, missing timestamps, clock steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_lengths_are_read_from_a_tagged_record() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "record")]
        enum Tagged {
            Udp(UdpSummary),
        }
        let udp = UdpSummary { loss_runs: BTreeMap::from([(1, 40), (65_536, 2)]), ..UdpSummary::default() };
        let text = serde_json::to_string(&Tagged::Udp(udp.clone())).unwrap();
        assert!(text.contains(r#""loss_runs":{"1":40,"65536":2}"#), "{text}");
        assert_eq!(serde_json::from_str::<Tagged>(&text).unwrap(), Tagged::Udp(udp));
        assert!(serde_json::from_str::<Tagged>(&text.replace("\"1\"", "\"one\"")).is_err());
    }
}
