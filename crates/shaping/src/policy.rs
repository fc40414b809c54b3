use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate};

/// How a device's traffic is divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Name of the device.
    pub device: String,
    /// Layer that rates count.
    pub accounting: Accounting,
    /// When a flow is an elephant, for classes that go by size.
    pub sizes: SizeLimits,
    /// Egress direction.
    pub egress: Option<Side>,
    /// Ingress direction: packets are redirected through an IFB device and leave it at the planned rate.
    pub ingress: Option<Side>,
}

/// Which bytes the rates of a policy count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Accounting {
    /// Bytes that the kernel counts: the packet with its Ethernet header, where the device has one.
    #[default]
    Frame,
    /// Bytes on the wire: also preamble, checksum and gap (24 bytes, IEEE 802.3). Converted for packets of full size.
    Wire,
}

/// When a flow is an elephant: as soon as one of the limits is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeLimits {
    /// More bytes than this; `None`: bytes do not matter.
    pub bytes: Option<Bytes>,
    /// Longer than this time above this rate; `None`: the rate does not matter.
    pub above: Option<(Rate, Duration)>,
    /// Idle time after which a flow counts as a mouse again.
    pub idle: Duration,
    /// Maximum number of flows in the table of each direction; the flow that was idle longest is evicted first.
    pub flows: u32,
}

impl Default for SizeLimits {
    /// 1 MB: above nearly all web transfers and below one second of a flow of 10 Mb/s.
    fn default() -> Self {
        Self { bytes: Some(Bytes::new(1_000_000)), above: None, idle: Duration::from_secs(5), flows: 65_536 }
    }
}

/// One direction of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Maximum rate of the direction.
    pub rate: Rate,
    /// Parents before their children.
    pub classes: Vec<Class>,
    /// Index of the class for what belongs to no other; a leaf.
    pub default: usize,
}

/// A class of traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Name.
    pub name: String,
    /// Index of the class above; `None`: directly below the device's rate.
    pub parent: Option<usize>,
    /// Guaranteed rate.
    pub rate: Rate,
    /// Ceiling, reached by borrowing. At least `rate`.
    pub ceiling: Rate,
    /// 0 to 7; a lower number is served first.
    pub priority: u8,
    /// Where its packets wait. Only leaves have one.
    pub queue: Queue,
    /// Depth of both buckets in time; `None`: 1 ms of the ceiling, and at least one super-packet.
    pub burst: Option<Duration>,
    /// Matches of the class, any of which suffices. Only for leaves.
    pub matches: Vec<Match>,
}

/// Where packets of a class wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Longest wait at the class's ceiling.
    pub limit: Duration,
    /// Which discipline.
    pub kind: QueueKind,
}

/// Which queueing discipline a leaf has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum QueueKind {
    /// The best that the kernel has: fq_codel, else fifo.
    #[default]
    Best,
    /// Flow queues with CoDel.
    FqCodel,
    /// First in, first out.
    Fifo,
}

/// Conditions of a match, all of which must hold. A match without conditions takes all packets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Match {
    /// From one of these; empty: from anywhere.
    pub from: Vec<IpNet>,
    /// To one of these; empty: to anywhere.
    pub to: Vec<IpNet>,
    /// IP protocol number (6 TCP, 17 UDP).
    pub protocol: Option<u8>,
    /// Source ports; empty: any.
    pub from_ports: Vec<RangeInclusive<u16>>,
    /// Destination ports; empty: any.
    pub to_ports: Vec<RangeInclusive<u16>>,
    /// Ports of either end; empty: any.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Differentiated services code points; empty: any.
    pub dscp: Vec<u8>,
    /// Sent by a process in this cgroup (version 2) or below; path from the root of the hierarchy. Egress only.
    pub cgroup: Option<String>,
    /// Sent by a socket of this user. Egress only.
    pub user: Option<u32>,
    /// Mice or elephants only.
    pub size: Option<Traffic>,
}

/// Flows by their size so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Traffic {
    /// Below the limits of [`SizeLimits`].
    Mouse,
    /// Above.
    Elephant,
}

/// A direction, from the host's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Direction {
    /// Out of the host.
    Egress,
    /// Into the host.
    Ingress,
}
