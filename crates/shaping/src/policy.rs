use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate};

/// Shaping policy of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Name of the device.
    pub device: String,
    /// Layer at which rates count bytes.
    pub accounting: Accounting,
    /// Limits above which a flow is an elephant, for classes by size.
    pub sizes: SizeLimits,
    /// Egress direction.
    pub egress: Option<Side>,
    /// Ingress direction: packets are redirected through an IFB device, which sends them at the planned rate.
    pub ingress: Option<Side>,
}

/// Layer at which the rates of a policy count bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Accounting {
    /// Bytes that the kernel counts: the packet with its Ethernet header, if the device has one.
    #[default]
    Frame,
    /// Bytes on the wire, including preamble, checksum and gap (24 bytes, IEEE 802.3). The conversion assumes full-size
    /// packets.
    Wire,
}

/// Limits of a mouse. A flow that exceeds one of them is an elephant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeLimits {
    /// Maximum bytes of a mouse; `None`: no limit.
    pub bytes: Option<Bytes>,
    /// Rate, and the longest time for which a mouse may exceed it; `None`: no limit.
    pub above: Option<(Rate, Duration)>,
    /// Idle time after which a flow is a mouse again.
    pub idle: Duration,
    /// Maximum number of flows in the table of each direction; the flow that was idle longest is evicted first.
    pub flows: u32,
}

impl Default for SizeLimits {
    /// 1 MB exceeds nearly all web transfers and is less than a flow of 10 Mb/s sends in one second.
    fn default() -> Self {
        Self { bytes: Some(Bytes::new(1_000_000)), above: None, idle: Duration::from_secs(5), flows: 65_536 }
    }
}

/// One direction of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Maximum rate of the direction.
    pub rate: Rate,
    /// Classes, parents before their children.
    pub classes: Vec<Class>,
    /// Index of the class of packets that match no other class; a leaf.
    pub default: usize,
}

/// A class of traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Name.
    pub name: String,
    /// Index of the parent class; `None`: a child of the direction's rate.
    pub parent: Option<usize>,
    /// Guaranteed rate.
    pub rate: Rate,
    /// Maximum rate with borrowing; at least `rate`.
    pub ceiling: Rate,
    /// Priority from 0 to 7; classes with lower numbers are served first.
    pub priority: u8,
    /// Queue; only leaves have one.
    pub queue: Queue,
    /// Depth of both buckets in time; `None`: 1 ms at the ceiling, and at least one super-packet.
    pub burst: Option<Duration>,
    /// Matches, of which any one suffices; only for leaves.
    pub matches: Vec<Match>,
}

/// Queue of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Longest queueing delay at the class's ceiling.
    pub limit: Duration,
    /// Queueing discipline.
    pub kind: QueueKind,
}

/// Queueing discipline of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum QueueKind {
    /// fq_codel if the kernel has it, else FIFO.
    #[default]
    Best,
    /// Flow queues with CoDel.
    FqCodel,
    /// First in, first out.
    Fifo,
}

/// Conditions of a match, all of which must hold. A match without conditions matches all packets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Match {
    /// Source networks; empty: any.
    pub from: Vec<IpNet>,
    /// Destination networks; empty: any.
    pub to: Vec<IpNet>,
    /// IP protocol number (6 TCP, 17 UDP).
    pub protocol: Option<u8>,
    /// Source ports; empty: any.
    pub from_ports: Vec<RangeInclusive<u16>>,
    /// Destination ports; empty: any.
    pub to_ports: Vec<RangeInclusive<u16>>,
    /// Source or destination ports; empty: any.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Differentiated services code points; empty: any.
    pub dscp: Vec<u8>,
    /// Cgroup (version 2) of the sending process, including descendants; path from the root of the hierarchy. Egress
    /// only.
    pub cgroup: Option<String>,
    /// User id of the sending socket. Egress only.
    pub user: Option<u32>,
    /// Mice or elephants only; `None`: both.
    pub size: Option<Traffic>,
}

/// Class of a flow by its size so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Traffic {
    /// Within the limits of [`SizeLimits`].
    Mouse,
    /// Above a limit of [`SizeLimits`].
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
