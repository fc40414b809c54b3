use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::{Decomposition, DelaySummary, Direction, Limit, OneWayDelay, TcpState};

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Completion {
    /// As planned.
    Complete,
    /// Stopped by the user or a signal; what was measured until then counts.
    Interrupted,
    /// Broken off by a fault; what was measured until then is reported, not a result of the plan.
    Failed {
        /// What happened, and at which end.
        reason: String,
    },
}

/// The clocks of the two ends, compared before, during and after the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockSummary {
    /// Server clock minus client clock at the start of the load.
    pub offset_ns: i64,
    /// Largest error of the offset: half the width of the interval that all exchanges allow, without assuming symmetry.
    pub bound_ns: u64,
    /// Drift of the server's clock against the client's, parts per million.
    pub drift_ppm: f64,
    /// Largest error of the drift, parts per million.
    pub drift_bound_ppm: f64,
    /// Exchanges used, before the load.
    pub exchanges_before: u64,
    /// Exchanges used, during the load.
    pub exchanges_during: u64,
    /// Exchanges used, after the load.
    pub exchanges_after: u64,
    /// Smallest round trip of the exchanges before the load.
    pub idle_rtt_before_ns: u64,
    /// Smallest round trip of the exchanges after the load; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_rtt_after_ns: Option<u64>,
}

/// When each end began the load, each on its own clock (CLOCK_MONOTONIC_RAW). Intervals of an end count from its begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadStart {
    /// The client.
    pub client_ns: u64,
    /// The server.
    pub server_ns: u64,
}

/// What one end counted in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndTotals {
    /// Sender: bytes written to sockets. Receiver: bytes read from them, those of the drain included.
    pub bytes: u64,
    /// Sender: from the first byte to the last, on this end's clock; a datagram stands for the gap behind it. Receiver of a
    /// timed load: the load's time from the first arrival on; what arrives later is drain.
    pub duration_s: f64,
    /// Bytes without those of the drain over that time.
    pub throughput_bps: u64,
    /// Receiver: bytes that arrived after the load, out of the sender's buffers; absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_bytes: Option<u64>,
    /// Receiver: time in seconds from the end of the load to the last byte of the drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_s: Option<f64>,
    /// CPU seconds of the threads that moved the bytes.
    pub cpu_s: f64,
    /// CPU seconds per 10^9 bytes.
    pub cpu_s_per_gb: f64,
}

impl EndTotals {
    /// Bytes counted during the load.
    pub fn load_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.drain_bytes.unwrap_or(0))
    }
}

impl Agreement {
    /// The explanation where there is nothing to compare.
    pub const MISSING: &'static str = "one end's count is missing";

    /// Whether one end's count is missing: the counts then neither agree nor disagree.
    pub fn is_missing(&self) -> bool {
        !self.agree && self.explanation.as_deref() == Some(Self::MISSING)
    }
}

/// Whether the two ends tell the same story.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Bytes that the sender wrote.
    pub sent_bytes: u64,
    /// Bytes that the receiver read.
    pub received_bytes: u64,
    /// Blocks whose echo came back to the sender (TCP).
    pub echoed_blocks: u64,
    /// Whether every sent byte was received (TCP), or sent = received + lost - duplicates (UDP).
    pub agree: bool,
    /// What differs and why, when they do not agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// How the transfer got up to speed, from the receiver's byte counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RampUp {
    /// The steady rate: median rate of the second half of the transfer.
    pub steady_bps: u64,
    /// Time from the first byte until the rate first reached 90 % of it.
    pub time_to_90_s: f64,
    /// The same in baseline round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_90_rtts: Option<f64>,
    /// Bytes received until then.
    pub bytes_to_90: u64,
    /// Resolution of the time.
    pub resolution_s: f64,
}

/// One reaction of the sender to loss.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossEpisode {
    /// Stream.
    pub stream: u32,
    /// Begin, in seconds since the load started.
    pub start_s: f64,
    /// Segments retransmitted in the episode.
    pub retransmits: u64,
    /// How far the congestion window fell, as a share of what it was before, 0..=1.
    pub depth: f64,
    /// Time until the window was back at 90 % of what it was; absent when the test ended earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// The same in baseline round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_rtts: Option<f64>,
}

/// The metrics of RFC 6349.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rfc6349 {
    /// Path MTU (§3.1) as TCP used it.
    pub path_mtu_bytes: u64,
    /// Whether TCP sent full segments of exactly that size and they were acknowledged, so that the MTU is verified and not
    /// assumed.
    pub path_mtu_verified: bool,
    /// Baseline round trip (§3.2): the kernel's smallest, from the idle path to the end of the load.
    pub baseline_rtt_ns: u64,
    /// Bottleneck bandwidth: as the user gave it, or the highest rate at which bytes arrived over several round trips during
    /// the load.
    pub bottleneck_bps: u64,
    /// Whether the user gave it.
    pub bottleneck_given: bool,
    /// Bandwidth-delay product (§3.3.1).
    pub bdp_bytes: u64,
    /// Highest TCP throughput that the bottleneck allows with this MTU and these options (§3.3.2, Ethernet framing when given as a link rate).
    pub ideal_throughput_bps: u64,
    /// Actual over ideal transfer time (§4.1), at least 1.
    pub transfer_time_ratio: f64,
    /// TCP efficiency (§4.2) in per cent: bytes not retransmitted over bytes transmitted.
    pub tcp_efficiency_percent: f64,
    /// Mean of the round trips sampled every second during the load (kernel srtt).
    pub mean_rtt_ns: u64,
    /// Buffer delay (§4.3) in per cent of the baseline, at least 0; absent where round trips are below 1 ms, as those of the
    /// hosts themselves are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_delay_percent: Option<f64>,
    /// Connections needed to fill the path with this window (§5.1); absent when the window is autotuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_needed: Option<u64>,
}

/// Datagrams of one direction over the whole test (RFC 7680, RFC 4737, RFC 5560).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UdpSummary {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received, duplicates not counted.
    pub received: u64,
    /// Datagrams that never arrived within the waiting time.
    pub lost: u64,
    /// Lost over sent.
    pub loss_ratio: f64,
    /// Copies of datagrams already received.
    pub duplicates: u64,
    /// Duplicates over sent.
    pub duplicate_ratio: f64,
    /// Late by sequence number (RFC 4737 type-P-reordered).
    pub reordered: u64,
    /// Reordered over received.
    pub reordered_ratio: f64,
    /// n-reordering (RFC 4737 §5.4): element n-1 counts datagrams that are n-reordered.
    pub n_reordering: Vec<u64>,
    /// Lengths of runs of lost datagrams: run length to number of runs.
    #[serde(deserialize_with = "run_lengths")]
    pub loss_runs: BTreeMap<u64, u64>,
    /// Lost datagrams by the interval in which they were sent, from interval 0 on, without trailing zeros. The send times
    /// of lost datagrams are interpolated between those that arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_by_interval: Vec<u64>,
    /// Interarrival jitter (RFC 3550) at the end; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
    /// Waiting time that separates late from lost (Tmax, RFC 7680 §2.4).
    pub tmax_ns: u64,
    /// Datagrams that the sender's own kernel refused.
    pub send_errors: u64,
    /// Largest lag of the sender behind its schedule.
    pub sender_lag_max_ns: u64,
    /// Datagrams sent more than one gap, and more than 100 us, behind schedule: the generator, not the path.
    pub sender_late: u64,
}

/// JSON keys are strings. serde_json turns them into numbers by itself, but not inside a tagged enum, where every record
/// and message is.
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
    /// Received bytes over the receiver's duration.
    pub throughput_bps: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Round trip of the blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// The sender's socket at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_tcp: Option<TcpState>,
    /// The receiver's socket at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_tcp: Option<TcpState>,
}

/// One direction over the whole test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionSummary {
    /// Which way the bytes went.
    pub direction: Direction,
    /// Goodput: bytes that the receiving application read during the load over the load's time; zero when the receiver's
    /// count is missing.
    pub throughput_bps: u64,
    /// Seconds at the beginning that `throughput_bps`, `block_rtt` and `limits` leave out (`longhaul test --omit`); all other
    /// figures are those of the whole test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_s: Option<f64>,
    /// What the sender counted.
    pub sender: EndTotals,
    /// What the receiver counted.
    pub receiver: EndTotals,
    /// Whether they agree.
    pub agreement: Agreement,
    /// Block round trip: what the application feels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// Smallest kernel round trip (TCP_INFO min_rtt) of any stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_min_rtt_ns: Option<u64>,
    /// Kernel smoothed round trips, sampled by each stream at most every 10 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_srtt: Option<DelaySummary>,
    /// Where the delay sits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decomposition: Option<Decomposition>,
    /// One-way delay of the bulk bytes: TCP from the sender's driver to the receiver's kernel, UDP from send to arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWayDelay>,
    /// One-way delay of the echoes on the way back (TCP): from the receiving application's read to the sender's read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way_return: Option<OneWayDelay>,
    /// What was found of the path where full-size segments did not get through (TCP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<PathMtu>,
    /// Share of the intervals in which each factor was the limit, 0..=1.
    pub limits: BTreeMap<Limit, f64>,
    /// RFC 6349 metrics (TCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rfc6349: Option<Rfc6349>,
    /// Ramp-up (TCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp_up: Option<RampUp>,
    /// Loss episodes (TCP), the first 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_episodes: Vec<LossEpisode>,
    /// Number of loss episodes, also those beyond the list.
    pub loss_episode_count: u64,
    /// Datagram statistics (UDP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpSummary>,
    /// Each stream.
    pub streams: Vec<StreamTotals>,
}

/// A path that drops large packets without telling the sender (a path MTU black hole, RFC 8899), found after the load with connections
/// of smaller segments. Sizes are of IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathMtu {
    /// Packets of this size do not get through to the server and back: those of the test's full-size segments.
    pub lost_bytes: u64,
    /// Largest packets that do.
    pub passing_bytes: u64,
    /// The maximum segment size that gives them (`-M`).
    pub passing_mss_bytes: u64,
}

/// Resident set of each end, so that growth shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Client, start of load.
    pub client_rss_start_bytes: u64,
    /// Client, end of load.
    pub client_rss_end_bytes: u64,
    /// Server, start of load; zero when unknown.
    pub server_rss_start_bytes: u64,
    /// Server, end of load; zero when unknown.
    pub server_rss_end_bytes: u64,
}

/// Last record of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndRecord {
    /// The test.
    pub test_id: String,
    /// How it ended.
    pub completion: Completion,
    /// Start of the load; absent with thrulay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_start: Option<LoadStart>,
    /// Each direction that carried bulk bytes.
    pub directions: Vec<DirectionSummary>,
    /// The clocks; absent with thrulay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSummary>,
    /// Resident sets.
    pub memory: Memory,
    /// What a reader must know before believing the numbers: generator limits, missing stamps, clock steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_lengths_survive_a_tagged_record() {
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
