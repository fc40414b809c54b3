//! Records of an emulated experiment: what each link did to every packet, what each flow got, and whether to believe it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DelaySummary, HostReport};

/// Name and version of the lab's record format.
pub const LAB_SCHEMA: &str = "longhaul.lab/2";

/// One line of a lab's result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a handful of records per second; boxing would only burden readers")]
pub enum LabRecord {
    /// First line: the whole experiment.
    Experiment(LabExperiment),
    /// Begin of one run: one point of the sweep, one repetition.
    Run(LabRun),
    /// What one direction of a link did in one interval: the truth.
    Link(LinkInterval),
    /// What a flow got in one interval.
    Flow(FlowInterval),
    /// One small transfer.
    Transfer(Transfer),
    /// The emulator itself in one interval.
    Engine(EngineInterval),
    /// End of one run, with its verdict.
    RunEnd(LabRunEnd),
    /// Last line: over all runs.
    Summary(LabSummary),
}

/// The whole experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabExperiment {
    /// Name and version of this format: `longhaul.lab/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Name of the experiment.
    pub name: String,
    /// What it shows, in the author's words.
    pub about: String,
    /// Begin, seconds since 1970 UTC.
    pub start_utc_s: f64,
    /// Seed of the first repetition; the n-th has this plus n.
    pub seed: u64,
    /// Number of repetitions of each point.
    pub repetitions: u32,
    /// Number of points of the sweep; 1 without a sweep.
    pub points: u32,
    /// Changes made on the command line, dotted key and value.
    pub overrides: Vec<KeyValue>,
    /// How the privilege for namespaces was had: `root` or `user namespace`.
    pub privilege: String,
    /// The machine that ran it.
    pub host: HostReport,
    /// Plot over the sweep that the author asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plot: Option<LabPlot>,
    /// The variant of the experiment file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// What others have published, to show beside the means of this experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedValue>,
}

/// A value that others have published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedValue {
    /// The metric of the summary that it compares with: `flow.flow2.packets`.
    pub metric: String,
    /// The value, in the metric's unit.
    pub value: f64,
    /// Where it stands: publication, section or table.
    pub source: String,
}

/// A key and its value, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyValue {
    /// Dotted key in the experiment file.
    pub key: String,
    /// Value as written there.
    pub value: String,
}

/// What a sweep's plot shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabMetric {
    /// Goodput of each flow, bits per second.
    Throughput,
    /// Median completion time of the small transfers, seconds.
    Completion,
    /// 95th percentile of the waiting time in the link with the longest queue, seconds.
    QueueDelay,
    /// Share of the capacity used on the busiest link, 0..=1.
    Utilisation,
}

/// A plot over the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabPlot {
    /// Dotted key whose values are on the x axis.
    pub x: String,
    /// What the y axis shows.
    pub y: LabMetric,
    /// Dotted key with one curve for each of its values; absent: one curve a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Logarithmic axes.
    pub log: bool,
    /// Curves of formulas, to draw beside the measurements.
    pub models: Vec<ModelCurve>,
}

/// Values of a formula over the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCurve {
    /// Name of the formula with its source.
    pub name: String,
    /// The x values, in base units: seconds, bits per second, bytes, ratios. No curve has a place beside names.
    pub x: Vec<f64>,
    /// The y values: bits per second, seconds or a share, as the plot.
    pub y: Vec<f64>,
}

/// Begin of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRun {
    /// Number of the run, from 0; all records of a run carry it.
    pub run: u32,
    /// Point of the sweep, from 0.
    pub point: u32,
    /// The values of the sweep at this point; empty without a sweep.
    pub values: Vec<KeyValue>,
    /// Repetition, from 0.
    pub repetition: u32,
    /// Attempt, from 0: a run is made again in place of an invalid one when that is asked for (`--attempts`).
    #[serde(default)]
    pub attempt: u32,
    /// Seed of this run.
    pub seed: u64,
    /// Planned length.
    pub duration_s: f64,
    /// Begin, seconds since 1970 UTC.
    pub start_utc_s: f64,
    /// The links, each direction one entry, with their settings at the start in words.
    pub links: Vec<LinkDescription>,
    /// The flows and streams of small transfers, in words.
    pub flows: Vec<FlowDescription>,
    /// What the schedule changes, for marks on the time axis.
    pub changes: Vec<ScheduleMark>,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkDescription {
    /// Name of the link, or of the LAN with the member's name: `west/westc1`.
    pub link: String,
    /// Node that sends into it (`switch` on the way from a LAN to its member).
    pub from: String,
    /// Node that receives.
    pub to: String,
    /// Its settings at the start: rate, delay, queue, impairments.
    pub settings: String,
    /// The rate, where it is constant at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Propagation delay at the start.
    pub delay_ns: u64,
}

/// A flow or a stream of small transfers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowDescription {
    /// Its name.
    pub flow: String,
    /// Node that sends.
    pub from: String,
    /// Node that receives.
    pub to: String,
    /// Transport, congestion control, start, extent, in words.
    pub settings: String,
    /// The command that was run, for repeating it by hand; absent for small transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A change by the schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleMark {
    /// When, in seconds since the start of the run.
    pub at_s: f64,
    /// What: `north: loss 0.05`.
    pub text: String,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Packets: segments, however the kernel had bundled them.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
}

/// Packets that did not arrive, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drops {
    /// The queue was full.
    pub queue: u64,
    /// CoDel dropped them.
    pub codel: u64,
    /// Random loss.
    pub loss: u64,
    /// Loss by packet index.
    pub listed: u64,
    /// The link was down.
    pub outage: u64,
    /// Larger than the MTU.
    pub mtu: u64,
    /// Not the model but the emulator or the machine lost them; such a run is invalid.
    pub emulator: u64,
}

impl Drops {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.queue + self.codel + self.loss + self.listed + self.outage + self.mtu + self.emulator
    }
}

/// How much waited over an interval. Quantiles are over time, not over packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueDepth {
    /// Half of the time at most this many IP bytes waited.
    pub p50_bytes: u64,
    /// 95 % of the time.
    pub p95_bytes: u64,
    /// 99 % of the time.
    pub p99_bytes: u64,
    /// Most that ever waited.
    pub max_bytes: u64,
}

/// What one direction of a link did in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkInterval {
    /// The run.
    pub run: u32,
    /// Name of the link.
    pub link: String,
    /// Node that sends into it.
    pub from: String,
    /// Node that receives.
    pub to: String,
    /// Begin, in seconds since the start of the run.
    pub start_s: f64,
    /// End, in seconds since the start of the run.
    pub end_s: f64,
    /// What was offered.
    pub offered: Volume,
    /// What left the queue and was not lost; copies included. It arrives a propagation delay later.
    pub delivered: Volume,
    /// Copies among the delivered.
    pub duplicated: u64,
    /// Packets that were held back for reordering.
    pub reordered: u64,
    /// What did not arrive.
    pub dropped: Drops,
    /// How much waited.
    pub queue: QueueDepth,
    /// How long the packets that left the queue had waited in it, by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<DelaySummary>,
    /// Share of the capacity that was used, 0..=1; absent at unlimited rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// How much later than the model says packets were handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<DelaySummary>,
}

/// What a flow got in one interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowInterval {
    /// The run.
    pub run: u32,
    /// Name of the flow.
    pub flow: String,
    /// Begin, in seconds since the start of the run.
    pub start_s: f64,
    /// End, in seconds since the start of the run.
    pub end_s: f64,
    /// Bytes that the receiving application read.
    pub bytes: u64,
    /// The same as a rate.
    pub throughput_bps: u64,
    /// Segments retransmitted by the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Datagrams lost (UDP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Round trip of the flow's own blocks, the wait in the sender's buffer included: what an application feels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// The kernel's smoothed round trip at the end of the interval, mean over the streams: the network's, without the
    /// sender's own buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub srtt_ns: Option<u64>,
    /// Congestion windows of all streams at the end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u64>,
    /// What limited it, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

/// One small transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// The run.
    pub run: u32,
    /// Name of the stream of small transfers.
    pub flow: String,
    /// Begin of the handshake, in seconds since the start of the run.
    pub start_s: f64,
    /// Bytes asked for.
    pub bytes: u64,
    /// From the begin of the handshake to the last byte; absent when it did not complete before the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_ns: Option<u64>,
    /// What it would have taken alone on the way: handshake, slow start from 10 segments over the base round trip, then
    /// the rate of the slowest link; absent where a link on the way has no constant rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_ns: Option<u64>,
    /// Why it broke, when it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The emulator itself in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineInterval {
    /// The run.
    pub run: u32,
    /// Begin, in seconds since the start of the run.
    pub start_s: f64,
    /// End, in seconds since the start of the run.
    pub end_s: f64,
    /// Share of one CPU that each worker used, 0..=1.
    pub worker_cpu: Vec<f64>,
    /// Share of all CPUs of the machine that was not idle, 0..=1; absent when /proc/stat is not readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_cpu: Option<f64>,
    /// Share of all CPUs of the machine that its own host gave to others (`steal` of /proc/stat), 0..=1; absent when that is not
    /// readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_cpu: Option<f64>,
    /// How much later than the model says packets were handed over, all links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<DelaySummary>,
    /// Upper bound of how long packets had lain in the device before the emulator saw them, all links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_uncertainty: Option<DelaySummary>,
    /// How the emulator's threads are scheduled: `SCHED_FIFO`, `nice -20`, `short slice` or `ordinary`.
    #[serde(default)]
    pub scheduling: String,
    /// Bytes held by the emulator at the end of the interval.
    pub held_bytes: u64,
}

/// Whether a run can be believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Verdict {
    /// The machine carried it.
    Valid,
    /// It did not; numbers of this run say something about the machine, not about the experiment.
    Invalid {
        /// Why, one sentence each.
        reasons: Vec<String>,
    },
}

/// One direction of a link over a whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkTotals {
    /// Name of the link.
    pub link: String,
    /// Node that sends into it.
    pub from: String,
    /// Node that receives.
    pub to: String,
    /// What was offered.
    pub offered: Volume,
    /// What was delivered, copies included.
    pub delivered: Volume,
    /// Copies among the delivered.
    pub duplicated: u64,
    /// Packets that were held back for reordering.
    pub reordered: u64,
    /// What did not arrive.
    pub dropped: Drops,
    /// How much waited.
    pub queue: QueueDepth,
    /// How long packets had waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<DelaySummary>,
    /// Share of the capacity that was used, 0..=1; absent at unlimited rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// How late packets were handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<DelaySummary>,
}

/// How much longer small transfers took than they would have alone on the way: completion time over the ideal one of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowdown {
    /// Number of transfers.
    pub count: u64,
    /// Half of them were slower by at most this factor.
    pub p50: f64,
    /// 95 % of them.
    pub p95: f64,
    /// 99 % of them.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// Small transfers of one range of sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeBin {
    /// The range in words, as in the names of the metrics: `0-10kB`, `10-100kB`, `100kB-1MB`, `over-1MB`.
    pub sizes: String,
    /// Transfers that completed.
    pub completed: u64,
    /// Transfers that did not.
    pub incomplete: u64,
    /// Completion times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<DelaySummary>,
    /// Completion times over the ideal ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
}

/// A flow, or all small transfers of one name, over a whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowTotals {
    /// Name.
    pub flow: String,
    /// Bytes received.
    pub bytes: u64,
    /// Mean rate over the flow's own time (bulk flows).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_bps: Option<u64>,
    /// Rate once ramped up: median rate of the second half (bulk flows).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady_bps: Option<u64>,
    /// Standard deviation of the interval rates over their mean (bulk flows).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variation: Option<f64>,
    /// From its start until the end of the first interval in which it had 90 % of its mean rate (bulk flows).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_s: Option<f64>,
    /// Standard deviation of its rates in bins of 1 s over their mean, once it has settled; absent where intervals are longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_1s: Option<f64>,
    /// The same in bins of 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_100ms: Option<f64>,
    /// Segments with data that the receiver got, each once: bytes over the segment size (TCP), or datagrams (UDP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Median over the intervals, once it has settled, of congestion window over smoothed round trip over throughput: near
    /// 1 where the congestion window explains the throughput, above where something else limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ratio: Option<f64>,
    /// Segments retransmitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// The kernel's smoothed round trip: what TCP measures, without the sender's own buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_srtt: Option<DelaySummary>,
    /// Round trip of the flow's own blocks, the wait in the sender's buffer included: what an application feels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// Completion times of small transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<DelaySummary>,
    /// Small transfers that did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<u64>,
    /// Completion times of small transfers over the ideal ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// Small transfers by size, where there are any of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<SizeBin>,
    /// What limited it most, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Why it failed, when it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A program's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramEnd {
    /// Its name.
    pub program: String,
    /// Node.
    pub node: String,
    /// Exit status in words: `0`, `3`, `signal 9`, `stopped at the end of the run`.
    pub status: String,
    /// Whether that counts as a failure of the run.
    pub failed: bool,
}

/// All flows and small transfers of a run together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Goodput of everything over the planned length of the run: what flows received within it, and complete transfers.
    pub goodput_bps: u64,
    /// Part of it that was flows.
    pub flows_bps: u64,
    /// Part of it that was small transfers.
    pub mice_bps: u64,
    /// Segments of all flows that were received.
    pub packets: u64,
    /// Jain's fairness index of the flows: of their rates in each second in which at least two of them were active from its
    /// begin to its end (of these alone), averaged over these seconds. 1: all had the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain: Option<f64>,
    /// Time over which the index was averaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain_over_s: Option<f64>,
    /// Share of the capacity used on the busiest link direction, 0..=1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
}

/// A change of way that a member of the run's overlay decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteChange {
    /// When, in seconds since the start of the run; before it while members found each other.
    pub at_s: f64,
    /// Who decided.
    pub member: String,
    /// Where the way leads.
    pub destination: String,
    /// The way that was left, `direct` or `via` its relays; absent for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The way that was taken; absent where none was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Why: `initial`, `better`, `failed`, `degraded`, `restored`, `removed`, `fewer-hops`, as in the events of the node.
    pub reason: String,
}

/// Datagrams that a link delivered and that found the socket's receive buffer full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FullSockets {
    /// The node.
    pub node: String,
    /// Datagrams, IPv4 and IPv6 (`RcvbufErrors`).
    pub datagrams: u64,
}

/// End of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRunEnd {
    /// The run.
    pub run: u32,
    /// Whether to believe it.
    pub verdict: Verdict,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// Time zero of the run, from which its intervals count, in seconds since 1970 UTC: for what programs date by the wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_utc_s: Option<f64>,
    /// Each direction of each link.
    pub links: Vec<LinkTotals>,
    /// Each flow.
    pub flows: Vec<FlowTotals>,
    /// All of them together; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// Each program.
    pub programs: Vec<ProgramEnd>,
    /// Nodes whose own sockets dropped datagrams that a link had delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full_sockets: Vec<FullSockets>,
    /// What the members of the overlay decided, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route_changes: Vec<RouteChange>,
    /// Largest share of one CPU that a worker used in any interval, 0..=1.
    pub busiest_worker: f64,
    /// Share of all CPUs of the machine that its own host gave to others over the run, 0..=1; absent when that is not readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_cpu: Option<f64>,
    /// How late packets were handed over, all links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<DelaySummary>,
}

/// A mean over repetitions with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Arithmetic mean over the valid runs.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval (Student's t); absent with fewer than two runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
    /// Number of runs that it is made of.
    pub runs: u32,
}

/// One point of the sweep over its repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointSummary {
    /// Point of the sweep, from 0.
    pub point: u32,
    /// The values of the sweep at this point.
    pub values: Vec<KeyValue>,
    /// Metrics by name: `flow.elephant.throughput_bps`, `flow.elephant.rtt_p50_s` (the kernel's smoothed round trip),
    /// `flow.elephant.block_rtt_p50_s` (of the flow's own blocks; both also `_min_s`, `_mean_s`, `_p95_s`), `mice.web.completion_p50_s`, `mice.web.slowdown_p99`,
    /// `bin.web.10-100kB.slowdown_p99` (transfers of one range of sizes), `link.path.forward.wait_p95_s`,
    /// `link.path.forward.utilisation`, `link.path.forward.dropped`, `run.goodput_bps`, `run.jain` (all traffic). Only runs that are
    /// valid count.
    pub metrics: BTreeMap<String, Estimate>,
}

/// The whole experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabSummary {
    /// Valid when every run is; the reasons name the run otherwise.
    pub verdict: Verdict,
    /// Runs made.
    pub runs: u32,
    /// Runs that were valid.
    pub valid_runs: u32,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// Each point of the sweep.
    pub points: Vec<PointSummary>,
}
