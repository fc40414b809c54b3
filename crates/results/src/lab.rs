//! Records of an emulated experiment: statistics of each link, results of each flow, and the validity of the runs.

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
    /// First line: the experiment.
    Experiment(LabExperiment),
    /// Start of one run: one point of the sweep, one repetition.
    Run(LabRun),
    /// Exact statistics of one direction of a link in one interval.
    Link(LinkInterval),
    /// Results of a flow in one interval.
    Flow(FlowInterval),
    /// One small transfer.
    Transfer(Transfer),
    /// State of the emulator in one interval.
    Engine(EngineInterval),
    /// End of one run, with its verdict.
    RunEnd(LabRunEnd),
    /// Last line: summary of all runs.
    Summary(LabSummary),
}

/// What runs an experiment. Results of different engines are comparable within the tolerances of the engines only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabEngine {
    /// The kernel of the machine, in real time.
    Kernel,
    /// A guest kernel in virtual time (`--virtual`).
    VirtualKernel,
    /// The packet-level simulator (`--simulate`).
    Simulator,
}

impl LabEngine {
    /// Description for readers.
    pub fn text(self) -> &'static str {
        match self {
            Self::Kernel => "kernel in real time",
            Self::VirtualKernel => "guest kernel in virtual time",
            Self::Simulator => "simulator",
        }
    }
}

/// The experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabExperiment {
    /// Name and version of this format: `longhaul.lab/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Name of the experiment.
    pub name: String,
    /// Purpose of the experiment, as stated by its author.
    pub about: String,
    /// Start, in seconds since 1970 (UTC).
    pub start_utc_s: f64,
    /// Seed of the first repetition; repetition n has this value plus n.
    pub seed: u64,
    /// Number of repetitions of each point.
    pub repetitions: u32,
    /// Number of points of the sweep; 1 without a sweep.
    pub points: u32,
    /// Number of runs selected with `--points` or `--shard`, or that `lab merge` found; absent: all repetitions of all
    /// points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_runs: Option<u32>,
    /// Changes on the command line: dotted key and value.
    pub overrides: Vec<KeyValue>,
    /// Source of the privilege for namespaces: `root` or `user namespace`.
    pub privilege: String,
    /// What ran the experiment.
    pub engine: LabEngine,
    /// Settings of the machine.
    pub host: HostReport,
    /// Requested plot over the sweep; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plot: Option<LabPlot>,
    /// Variant of the experiment file; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Published values for comparison with the means of this experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedValue>,
}

impl LabExperiment {
    /// Number of planned runs of these results, without further attempts.
    pub fn planned_runs(&self) -> u64 {
        self.selected_runs.map_or_else(|| u64::from(self.points) * u64::from(self.repetitions), u64::from)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A published value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedValue {
    /// Metric of the summary with which it is compared, such as `flow.flow2.packets`.
    pub metric: String,
    /// Published value, in the unit of the metric.
    pub value: f64,
    /// Publication, with section or table.
    pub source: String,
}

/// A key and its value as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyValue {
    /// Dotted key in the experiment file.
    pub key: String,
    /// Value as in the experiment file.
    pub value: String,
}

/// Metric of a plot over the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabMetric {
    /// Goodput of each flow, in bits per second.
    Throughput,
    /// Median completion time of the small transfers, in seconds.
    Completion,
    /// 95th percentile of the queueing delay in the link with the longest queue, in seconds.
    QueueDelay,
    /// Utilisation of the busiest link, 0 to 1.
    Utilisation,
}

/// A plot over the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabPlot {
    /// Dotted key whose values are on the x axis.
    pub x: String,
    /// Metric of the y axis.
    pub y: LabMetric,
    /// Dotted key with one curve for each of its values; absent: one curve for each flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Whether the axes are logarithmic.
    pub log: bool,
    /// Curves of formulas, drawn beside the measurements.
    pub models: Vec<ModelCurve>,
}

/// Values of a formula over the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCurve {
    /// Name of the formula with its source.
    pub name: String,
    /// Values of x in base units: seconds, bits per second, bytes, ratios. A sweep over names has no curves.
    pub x: Vec<f64>,
    /// Values of y in the unit of the plot: bits per second, seconds, or a share.
    pub y: Vec<f64>,
}

/// Start of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRun {
    /// Number of the run, from 0; all records of a run carry it.
    pub run: u32,
    /// Point of the sweep, from 0.
    pub point: u32,
    /// Values of the sweep at this point; empty without a sweep.
    pub values: Vec<KeyValue>,
    /// Repetition, from 0.
    pub repetition: u32,
    /// Number of the attempt, from 0: an invalid run is repeated if requested (`--attempts`).
    #[serde(default)]
    pub attempt: u32,
    /// Seed of this run.
    pub seed: u64,
    /// Planned duration in seconds.
    pub duration_s: f64,
    /// Start, in seconds since 1970 (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_utc_s: Option<f64>,
    /// Links, one entry for each direction, with their initial settings.
    pub links: Vec<LinkDescription>,
    /// Flows and streams of small transfers.
    pub flows: Vec<FlowDescription>,
    /// Scheduled changes, for marks on the time axis.
    pub changes: Vec<ScheduleMark>,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkDescription {
    /// Name of the link, or of the LAN and its member, such as `west/westc1`.
    pub link: String,
    /// Node that sends into the link; `switch` for the direction from a LAN to its member.
    pub from: String,
    /// Node that receives from the link.
    pub to: String,
    /// Initial settings: rate, delay, queue, impairments.
    pub settings: String,
    /// Initial rate, if it is constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Initial propagation delay.
    pub delay_ns: u64,
}

/// A flow or a stream of small transfers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowDescription {
    /// Name of the flow.
    pub flow: String,
    /// Node that sends.
    pub from: String,
    /// Node that receives.
    pub to: String,
    /// Transport, congestion control, start and extent, as text.
    pub settings: String,
    /// Command line of the flow, for repetition by hand; absent for small transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Whether the flow uses the experiment's overlay; absent: no.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overlay: bool,
}

/// A scheduled change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleMark {
    /// Time in seconds since the start of the run.
    pub at_s: f64,
    /// Text of the change, such as `north: loss 0.05`.
    pub text: String,
}

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Packets: individual segments, also of a super-packet.
    pub packets: u64,
    /// Bytes of IP.
    pub bytes: u64,
}

/// Packets that did not arrive, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drops {
    /// Packets dropped because the queue was full.
    pub queue: u64,
    /// Packets dropped by CoDel.
    pub codel: u64,
    /// Packets dropped by random loss.
    pub loss: u64,
    /// Packets dropped by their listed index.
    pub listed: u64,
    /// Packets dropped while the link was down.
    pub outage: u64,
    /// Packets larger than the MTU.
    pub mtu: u64,
    /// Packets lost by the emulator or the machine instead of the model; they make the run invalid.
    pub emulator: u64,
}

impl Drops {
    /// Sum of all causes; the counters of a damaged record do not overflow it.
    pub const fn total(&self) -> u64 {
        self.queue
            .saturating_add(self.codel)
            .saturating_add(self.loss)
            .saturating_add(self.listed)
            .saturating_add(self.outage)
            .saturating_add(self.mtu)
            .saturating_add(self.emulator)
    }
}

/// Queue length over an interval. The quantiles are over time, not over packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueDepth {
    /// Median of the queue length, in bytes of IP.
    pub p50_bytes: u64,
    /// 95th percentile of the queue length, in bytes of IP.
    pub p95_bytes: u64,
    /// 99th percentile of the queue length, in bytes of IP.
    pub p99_bytes: u64,
    /// Maximum queue length, in bytes of IP.
    pub max_bytes: u64,
}

/// Statistics of one direction of a link in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkInterval {
    /// Number of the run.
    pub run: u32,
    /// Start of the interval, in seconds since the start of the run.
    pub start_s: f64,
    /// End of the interval, in seconds since the start of the run.
    pub end_s: f64,
    /// The link and its statistics in the interval.
    #[serde(flatten)]
    pub statistics: LinkStatistics,
}

/// Results of a flow in one interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowInterval {
    /// Number of the run.
    pub run: u32,
    /// Name of the flow.
    pub flow: String,
    /// Start of the interval, in seconds since the start of the run.
    pub start_s: f64,
    /// End of the interval, in seconds since the start of the run.
    pub end_s: f64,
    /// Bytes that the receiving application read.
    pub bytes: u64,
    /// Rate of `bytes` in the interval.
    pub throughput_bps: u64,
    /// Segments retransmitted by the sender; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Datagrams lost (UDP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Round trips of the flow's own blocks, including the wait in the sender's buffer: the delay at application level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// Kernel smoothed round trip at the end of the interval, mean over the streams: the network's delay without the
    /// sender's buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub srtt_ns: Option<u64>,
    /// Sum of the streams' congestion windows at the end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u64>,
    /// Limit of the flow, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

/// One small transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// Number of the run.
    pub run: u32,
    /// Name of the stream of small transfers.
    pub flow: String,
    /// Start of the handshake, in seconds since the start of the run.
    pub start_s: f64,
    /// Requested bytes.
    pub bytes: u64,
    /// Time from the start of the handshake to the last byte; absent if the transfer did not complete before the end of
    /// the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_ns: Option<u64>,
    /// Ideal completion time without other traffic: handshake, slow start from 10 segments over the base round trip,
    /// then the rate of the slowest link. Absent if a link of the path has no constant rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_ns: Option<u64>,
    /// Error of a failed transfer; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// State of the emulator in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineInterval {
    /// Number of the run.
    pub run: u32,
    /// Start of the interval, in seconds since the start of the run.
    pub start_s: f64,
    /// End of the interval, in seconds since the start of the run.
    pub end_s: f64,
    /// Share of one CPU used by each worker, 0 to 1.
    pub worker_cpu: Vec<f64>,
    /// Utilisation of all CPUs of the machine, 0 to 1; absent if /proc/stat is unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_cpu: Option<f64>,
    /// Share of all CPUs that the hypervisor withheld from this machine (`steal` in /proc/stat), 0 to 1; absent if
    /// unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_cpu: Option<f64>,
    /// Lateness over all links: delay of the delivery of packets beyond that of the model; absent without packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<DelaySummary>,
    /// Upper bound of the time that packets waited in the device before the emulator read them, over all links; absent
    /// without packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_uncertainty: Option<DelaySummary>,
    /// Scheduling of the emulator's threads: `SCHED_FIFO`, `nice -20`, `short slice` or `ordinary`.
    #[serde(default)]
    pub scheduling: String,
    /// Bytes in the emulator's memory at the end of the interval.
    pub held_bytes: u64,
}

/// Validity of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Verdict {
    /// The machine kept up with the emulation.
    Valid,
    /// The machine did not keep up with the emulation: the numbers of the run describe the machine instead of the
    /// experiment.
    Invalid {
        /// Reasons, one sentence each.
        reasons: Vec<String>,
    },
}

/// Statistics of one direction of a link, in one interval or over a whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkStatistics {
    /// Name of the link.
    pub link: String,
    /// Node that sends into the link.
    pub from: String,
    /// Node that receives from the link.
    pub to: String,
    /// Packets that arrived at the link.
    pub offered: Volume,
    /// Packets that left the queue and were not lost, with copies; they arrive a propagation delay later.
    pub delivered: Volume,
    /// Number of copies among the delivered packets.
    pub duplicated: u64,
    /// Number of packets delayed for reordering.
    pub reordered: u64,
    /// Packets that did not arrive, by cause.
    pub dropped: Drops,
    /// Queue length.
    pub queue: QueueDepth,
    /// Queueing delay in the model, of the packets that left the queue; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<DelaySummary>,
    /// Utilisation of the link, 0 to 1; absent at unlimited rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Lateness: delay of the delivery of packets beyond that of the model; absent without packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<DelaySummary>,
}

/// Slowdown of small transfers: completion time divided by the ideal one, for each transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowdown {
    /// Number of transfers.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// Small transfers of one range of sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeBin {
    /// Range of sizes as in the names of the metrics: `0-10kB`, `10-100kB`, `100kB-1MB`, `over-1MB`.
    pub sizes: String,
    /// Number of completed transfers.
    pub completed: u64,
    /// Number of transfers that did not complete.
    pub incomplete: u64,
    /// Completion times; absent without completed transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<DelaySummary>,
    /// Completion times divided by the ideal ones; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
}

/// Totals of a flow, or of all small transfers of one name, over a whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowTotals {
    /// Name of the flow or of the stream of small transfers.
    pub flow: String,
    /// Bytes received.
    pub bytes: u64,
    /// Mean rate over the duration of the flow (bulk flows).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_bps: Option<u64>,
    /// Steady rate: median rate of the second half of the flow (bulk flows).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady_bps: Option<u64>,
    /// Coefficient of variation of the interval rates: standard deviation divided by mean (bulk flows).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variation: Option<f64>,
    /// Time in seconds from the start of the flow to the end of the first interval with 90 % of its mean rate (bulk
    /// flows).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_s: Option<f64>,
    /// Coefficient of variation of the rates in bins of 1 s after `settled_s`; absent with longer intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_1s: Option<f64>,
    /// Coefficient of variation of the rates in bins of 100 ms after `settled_s`; absent with longer intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_100ms: Option<f64>,
    /// Data segments received, each counted once: bytes divided by the segment size (TCP), or datagrams (UDP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Ratio of congestion window divided by smoothed round trip to throughput, median over the intervals after
    /// `settled_s`. A value near 1 indicates that the congestion window determines the throughput; a larger value
    /// indicates another limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ratio: Option<f64>,
    /// Number of retransmitted segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Kernel smoothed round trips: the delay measured by TCP, without the sender's buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_srtt: Option<DelaySummary>,
    /// Round trips of the flow's own blocks, including the wait in the sender's buffer: the delay at application level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_rtt: Option<DelaySummary>,
    /// Completion times of small transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<DelaySummary>,
    /// Number of small transfers that did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<u64>,
    /// Completion times of small transfers divided by the ideal ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// Small transfers by size, without empty ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<SizeBin>,
    /// Main limit of the flow, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Error of a failed flow; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// End of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramEnd {
    /// Name of the program or call.
    pub program: String,
    /// Node of the program.
    pub node: String,
    /// Exit status as text: `0`, `3`, `signal 9`, `stopped by the lab`.
    pub status: String,
    /// Whether the exit status is a failure of the run.
    pub failed: bool,
}

/// Totals of all flows and small transfers of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Goodput over the planned duration of the run: data of flows received within it, and complete transfers.
    pub goodput_bps: u64,
    /// Goodput of the flows.
    pub flows_bps: u64,
    /// Goodput of the small transfers.
    pub mice_bps: u64,
    /// Number of received segments of all flows.
    pub packets: u64,
    /// Jain's fairness index of the flows' rates, 1 for equal rates. It is computed for each second in which at least
    /// two flows are active throughout, and averaged over these seconds; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain: Option<f64>,
    /// Time in seconds over which the index is averaged; absent without an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain_over_s: Option<f64>,
    /// Utilisation of the busiest link direction, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
}

/// A route change by a node of the run's overlay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteChange {
    /// Time in seconds since the start of the run; negative before the start, during discovery.
    pub at_s: f64,
    /// Node that changed the route.
    pub member: String,
    /// Destination of the route.
    pub destination: String,
    /// Previous route, `direct` or `via` its relays; absent for the first route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// New route; absent if none was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Reason: `initial`, `better`, `failed`, `degraded`, `restored`, `removed` or `fewer-hops`, as in the events of
    /// the node.
    pub reason: String,
}

/// Datagrams that a link delivered and a full socket receive buffer dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FullSockets {
    /// Name of the node.
    pub node: String,
    /// Number of datagrams, IPv4 and IPv6 (`RcvbufErrors`).
    pub datagrams: u64,
}

/// End of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRunEnd {
    /// Number of the run.
    pub run: u32,
    /// Validity of the run.
    pub verdict: Verdict,
    /// Whether the user stopped the run early.
    pub interrupted: bool,
    /// Time zero of the run's intervals, in seconds since 1970 (UTC), for comparison with programs that log the wall
    /// clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_utc_s: Option<f64>,
    /// Totals of each direction of each link.
    pub links: Vec<LinkStatistics>,
    /// Totals of each flow.
    pub flows: Vec<FlowTotals>,
    /// Totals of all flows and small transfers; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// End of each call of `longhaul estimate` and of each program.
    pub programs: Vec<ProgramEnd>,
    /// Nodes whose sockets dropped datagrams that a link had delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full_sockets: Vec<FullSockets>,
    /// Route changes by the nodes of the overlay, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route_changes: Vec<RouteChange>,
    /// Maximum share of one CPU used by a worker in an interval, 0 to 1.
    pub busiest_worker: f64,
    /// Share of all CPUs that the hypervisor withheld from this machine over the run, 0 to 1; absent if unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_cpu: Option<f64>,
    /// Lateness over all links: delay of the delivery of packets beyond that of the model; absent without packets.
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
    /// Number of runs in the mean.
    pub runs: u32,
}

/// One point of the sweep with all its repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointSummary {
    /// Number of the point of the sweep, from 0.
    pub point: u32,
    /// Values of the sweep at this point.
    pub values: Vec<KeyValue>,
    /// Metrics of the valid runs by name, such as `flow.elephant.throughput_bps`, `flow.elephant.rtt_p50_s` (kernel
    /// smoothed round trip), `flow.elephant.block_rtt_p50_s` (the flow's own blocks), `mice.web.completion_p50_s`,
    /// `mice.web.slowdown_p99`, `bin.web.10-100kB.slowdown_p99` (transfers of one range of sizes),
    /// `link.path.forward.wait_p95_s`, `link.path.forward.utilisation`, `link.path.forward.dropped`, and
    /// `run.goodput_bps` and `run.jain` (all traffic). Round trips also have `_min_s`, `_mean_s` and `_p95_s`.
    pub metrics: BTreeMap<String, Estimate>,
}

/// Summary of all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabSummary {
    /// Validity of the experiment: valid if every run is; otherwise the reasons name the runs.
    pub verdict: Verdict,
    /// Number of runs.
    pub runs: u32,
    /// Number of valid runs.
    pub valid_runs: u32,
    /// Whether the user stopped the experiment early.
    pub interrupted: bool,
    /// Summary of each point of the sweep.
    pub points: Vec<PointSummary>,
}
