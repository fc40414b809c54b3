//! Records of `longhaul shape`: policies on devices, and the counters of their classes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the record format of `longhaul shape`.
pub const SHAPE_SCHEMA: &str = "longhaul.shape/2";

/// One line of the output of `longhaul shape --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum ShapeRecord {
    /// First line of a device: its policy, planned or installed.
    Policy(ShapePolicy),
    /// A class with its values after rounding by the kernel.
    Class(ShapeClass),
    /// A tc(8) command equivalent to a part of the policy; only for `plan`.
    Command(ShapeCommand),
    /// Counters of a class since the previous reading.
    Counters(ShapeCounters),
    /// State and cost of the BPF program of a direction.
    Flows(ShapeFlows),
}

/// Direction of packets, as seen from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrafficDirection {
    /// Packets leaving the host.
    Egress,
    /// Packets entering the host.
    Ingress,
}

/// Installation state of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShapeState {
    /// The policy is planned; nothing was changed.
    Planned,
    /// The policy is installed, as verified in the kernel.
    Installed,
    /// The kernel's state differs from the policy: a change by another program, or a crash.
    Disturbed,
}

/// A policy on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapePolicy {
    /// Name and version of this format: `longhaul.shape/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Name of the device.
    pub device: String,
    /// Installation state of the policy.
    pub state: ShapeState,
    /// Differences of the kernel's state from the plan, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Time in seconds until the policy is removed automatically; absent if it is permanent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_in_s: Option<f64>,
    /// Whether `shape confirm` can prevent the automatic removal.
    #[serde(default)]
    pub awaits_confirmation: bool,
    /// Directions of the policy.
    pub directions: Vec<ShapeDirection>,
}

/// One direction of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeDirection {
    /// Direction of the packets.
    pub direction: TrafficDirection,
    /// Device of the classes: that of the policy, or the IFB device through which ingress packets are redirected.
    pub device: String,
    /// Maximum rate in frames (layer 2: with the Ethernet header, without preamble, checksum and gap), in bits per
    /// second.
    pub rate_bps: u64,
    /// Maximum rate on the wire (layer 1) with full-size packets, in bits per second.
    pub wire_rate_bps: u64,
    /// Class of packets that match no rule.
    pub default_class: String,
    /// Classifier: `u32`, `bpf`, or `none` with a single class.
    pub classifier: String,
    /// Number of u32 filters, or of rules of the BPF program.
    pub rules: u32,
}

/// A class with its values after rounding by the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeClass {
    /// Device of the policy.
    pub device: String,
    /// Direction of the packets.
    pub direction: TrafficDirection,
    /// Name of the class in the policy.
    pub class: String,
    /// Handle of the class in the kernel, such as `1:10`.
    pub handle: String,
    /// Parent class; absent at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Guaranteed rate in frames, in bits per second.
    pub rate_bps: u64,
    /// Maximum rate in frames, in bits per second.
    pub ceiling_bps: u64,
    /// Guaranteed rate on the wire with full-size packets, in bits per second.
    pub wire_rate_bps: u64,
    /// Maximum rate on the wire with full-size packets, in bits per second.
    pub wire_ceiling_bps: u64,
    /// Depth of the token bucket of the guaranteed rate, in bytes.
    pub burst_bytes: u64,
    /// Depth of the token bucket of the maximum rate, in bytes.
    pub ceiling_burst_bytes: u64,
    /// Quantum of the class among classes of one priority, in bytes.
    pub quantum_bytes: u32,
    /// Priority from 0 (served first) to 7.
    pub priority: u32,
    /// Queue of a leaf class; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<ShapeQueue>,
}

/// Queue of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeQueue {
    /// Queueing discipline: `bfifo` or `fq_codel`.
    pub discipline: String,
    /// Maximum length of the queue in bytes.
    pub limit_bytes: u64,
    /// Maximum queueing delay at the maximum rate of the class, in seconds.
    pub limit_s: f64,
}

/// A tc(8) command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeCommand {
    /// Device of the policy.
    pub device: String,
    /// Command line.
    pub command: String,
}

/// Counters of a class between two readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeCounters {
    /// Device of the policy.
    pub device: String,
    /// Direction of the packets.
    pub direction: TrafficDirection,
    /// Name of the class in the policy.
    pub class: String,
    /// Time of the reading, in seconds since 1970 (UTC).
    pub utc_s: f64,
    /// Time since the previous reading, in seconds.
    pub seconds: f64,
    /// Bytes of frames sent since the previous reading.
    pub bytes: u64,
    /// Packets sent since the previous reading; each segment of a super-packet counts.
    pub packets: u64,
    /// Rate since the previous reading in frames, in bits per second.
    pub rate_bps: u64,
    /// Super-packets sent with borrowed tokens since the previous reading.
    pub borrowed: u64,
    /// Packets dropped since the previous reading.
    pub dropped: u64,
    /// Bytes in the queue.
    pub backlog_bytes: u64,
    /// Packets in the queue.
    pub backlog_packets: u64,
    /// Time to send the queue at the current rate of the class, or at its maximum rate if it is idle, in seconds.
    pub backlog_s: f64,
    /// Bytes of frames sent since the creation of the class.
    pub total_bytes: u64,
    /// Packets dropped since the creation of the class.
    pub total_dropped: u64,
}

/// State and cost of the BPF program of a direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeFlows {
    /// Device of the policy.
    pub device: String,
    /// Direction of the packets.
    pub direction: TrafficDirection,
    /// Number of flows classified as mice, idle ones included.
    pub mice: u64,
    /// Number of flows classified as elephants.
    pub elephants: u64,
    /// Maximum number of flows in the table.
    pub flows_max: u64,
    /// Mean run time of the program for a packet or super-packet, in nanoseconds; only while the kernel collects it
    /// (`sysctl kernel.bpf_stats_enabled=1`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_ns: Option<f64>,
}
