//! Records of `longhaul shape`: what a policy comes to on a device, and what its classes did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the format.
pub const SHAPE_SCHEMA: &str = "longhaul.shape/2";

/// One line of what `longhaul shape --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum ShapeRecord {
    /// First line about a device: its policy as planned or as installed.
    Policy(ShapePolicy),
    /// A class with its values after the kernel's rounding.
    Class(ShapeClass),
    /// A command of tc(8) that does a part of the same; of `plan` only.
    Command(ShapeCommand),
    /// What a class did since the reading before.
    Counters(ShapeCounters),
    /// What the program of a direction remembers and costs.
    Flows(ShapeFlows),
}

/// Which way packets go, from the host's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrafficDirection {
    /// Out of the host.
    Egress,
    /// Into the host.
    Ingress,
}

/// Whether a policy is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShapeState {
    /// Nothing was changed.
    Planned,
    /// The kernel has it, read back and compared.
    Installed,
    /// The kernel has something else: a change by another program, or a crash.
    Disturbed,
}

/// A policy on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapePolicy {
    /// Name and version of this format: `longhaul.shape/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// The device.
    pub device: String,
    /// Whether it is installed.
    pub state: ShapeState,
    /// What the kernel has otherwise than planned, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Time until it is undone by itself, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_in_s: Option<f64>,
    /// Whether that can be prevented by `shape confirm`.
    #[serde(default)]
    pub awaits_confirmation: bool,
    /// Its directions.
    pub directions: Vec<ShapeDirection>,
}

/// One direction of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeDirection {
    /// Which.
    pub direction: TrafficDirection,
    /// The device that holds its classes: the policy's own, or the IFB device that what comes in is led through.
    pub device: String,
    /// What it carries at most, in frames (L2: with the Ethernet header, without preamble, checksum and gap), bits per second.
    pub rate_bps: u64,
    /// The same on the wire (L1) when packets are of full size, bits per second.
    pub wire_rate_bps: u64,
    /// The class for what belongs to no other.
    pub default_class: String,
    /// How packets find their class: `u32`, `bpf`, or `none` with a single class.
    pub classifier: String,
    /// Number of u32 filters, or of rules of the program.
    pub rules: u32,
}

/// A class with its values after the kernel's rounding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeClass {
    /// The policy's device.
    pub device: String,
    /// Which direction.
    pub direction: TrafficDirection,
    /// Name in the policy.
    pub class: String,
    /// Name in the kernel, such as `1:10`.
    pub handle: String,
    /// The class above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it always gets, in frames, bits per second.
    pub rate_bps: u64,
    /// What it gets at most, in frames, bits per second.
    pub ceiling_bps: u64,
    /// Its rate on the wire when packets are of full size, bits per second.
    pub wire_rate_bps: u64,
    /// Its ceiling on the wire when packets are of full size, bits per second.
    pub wire_ceiling_bps: u64,
    /// Depth of the bucket of its rate, bytes.
    pub burst_bytes: u64,
    /// Depth of the bucket of its ceiling, bytes.
    pub ceiling_burst_bytes: u64,
    /// Bytes of each turn among classes of one priority.
    pub quantum_bytes: u32,
    /// 0 (served first) to 7.
    pub priority: u32,
    /// Its queue, if it is a leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<ShapeQueue>,
}

/// The queue of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeQueue {
    /// Queueing discipline: `bfifo` or `fq_codel`.
    pub discipline: String,
    /// Bytes that wait at most.
    pub limit_bytes: u64,
    /// The longest wait at the class's ceiling, seconds.
    pub limit_s: f64,
}

/// A command of tc(8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeCommand {
    /// The policy's device.
    pub device: String,
    /// The line.
    pub command: String,
}

/// What a class did between two readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeCounters {
    /// The policy's device.
    pub device: String,
    /// Which direction.
    pub direction: TrafficDirection,
    /// Name in the policy.
    pub class: String,
    /// Time of the reading, seconds since 1970 UTC.
    pub utc_s: f64,
    /// Time since the reading before, seconds.
    pub seconds: f64,
    /// Sent in that time, bytes of frames.
    pub bytes: u64,
    /// Sent in that time; each segment of a super-packet counts.
    pub packets: u64,
    /// Rate of that time in frames, bits per second.
    pub rate_bps: u64,
    /// Super-packets that went by borrowed tokens in that time.
    pub borrowed: u64,
    /// Discarded in that time.
    pub dropped: u64,
    /// Waiting now, bytes.
    pub backlog_bytes: u64,
    /// Waiting now.
    pub backlog_packets: u64,
    /// How long they will wait at the class's present rate, or at its ceiling when it is idle, seconds.
    pub backlog_s: f64,
    /// Sent since the class exists, bytes of frames.
    pub total_bytes: u64,
    /// Discarded since the class exists.
    pub total_dropped: u64,
}

/// What a direction's program remembers and costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeFlows {
    /// The policy's device.
    pub device: String,
    /// Which direction.
    pub direction: TrafficDirection,
    /// Flows that are mice now, idle ones included.
    pub mice: u64,
    /// Flows that are elephants now.
    pub elephants: u64,
    /// Maximum number of flows in the table.
    pub flows_max: u64,
    /// Mean time of the program for a packet or super-packet, nanoseconds; only while the kernel counts it
    /// (`sysctl kernel.bpf_stats_enabled=1`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_ns: Option<f64>,
}
