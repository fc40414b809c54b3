use std::collections::BTreeMap;

use units::{Bytes, Rate};

use crate::Offload;

/// Result of reading a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Value of a setting that can be changed in this network namespace.
    Own(String),
    /// Value of a setting of the host, which is read-only in this network namespace.
    OfHost(String),
    /// The host has the setting, but this network namespace does not show it.
    HiddenInNamespace,
    /// The kernel has no such setting.
    Absent,
    /// The setting could not be read; text of the error.
    Failed(String),
}

impl Reading {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Own(value) | Self::OfHost(value) => Some(value),
            Self::HiddenInNamespace | Self::Absent | Self::Failed(_) => None,
        }
    }
}

/// Settings of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Values of sysctl(8) variables by name.
    pub sysctls: BTreeMap<String, Reading>,
    /// Major and minor version of the kernel.
    pub kernel: (u32, u32),
    /// Whether the kernel has the queueing discipline `fq`; `None`: unknown.
    pub has_fq: Option<bool>,
    /// Size of a memory page.
    pub page: Bytes,
    /// Total memory of the machine.
    pub memory: Option<Bytes>,
    /// Counters of the receive path.
    pub softnet: Option<Softnet>,
    /// Frequency governor of each CPU; `None` if the machine does not show them.
    pub governors: Option<Vec<String>>,
    /// Number of CPUs.
    pub cpus: u32,
    /// Whether irqbalance runs; `None`: unknown.
    pub irqbalance: Option<bool>,
    /// The egress device of the path.
    pub device: Option<Device>,
}

/// Sums of /proc/net/softnet_stat over the CPUs, since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Softnet {
    /// Packets processed.
    pub processed: u64,
    /// Packets dropped because a CPU's backlog was full.
    pub dropped: u64,
    /// Number of times that the budget ended before the backlog was empty.
    pub squeezed: u64,
}

/// Properties of a network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name.
    pub name: String,
    /// Driver, if the kernel reports it.
    pub driver: Option<String>,
    /// Link speed, if the kernel reports it.
    pub speed: Option<Rate>,
    /// Largest packet in bytes, without the Ethernet header.
    pub mtu: u32,
    /// Length of the device's transmit queue in packets.
    pub queue_length: u32,
    /// Kinds of its root queueing discipline and of those below it.
    pub qdiscs: Option<Vec<String>>,
    /// Readable offloads.
    pub offloads: BTreeMap<Offload, OffloadState>,
    /// Large receive offload, merging by the device; `None`: absent or not reported.
    pub lro: Option<bool>,
    /// Transmit checksum offload.
    pub tx_checksum: Option<OffloadState>,
    /// Descriptor rings.
    pub rings: Option<Rings>,
    /// Received packets that the device or its driver dropped for lack of buffers.
    pub received_drops: Option<u64>,
    /// Interrupts.
    pub interrupts: Option<Vec<Interrupt>>,
    /// Mask of the CPUs to which packets are distributed (RPS), for each receive queue; zeros: off.
    pub rps: Option<Vec<String>>,
    /// Mask of the CPUs that use the queue (XPS), for each transmit queue; zeros: off.
    pub xps: Option<Vec<String>>,
}

/// An offload of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadState {
    /// Whether the offload is on.
    pub on: bool,
    /// Whether the offload can be switched.
    pub changeable: bool,
}

/// Descriptors of a device's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// Size of the receive ring.
    pub receive: u32,
    /// Maximum size of the receive ring.
    pub receive_max: u32,
    /// Size of the transmit ring.
    pub send: u32,
    /// Maximum size of the transmit ring.
    pub send_max: u32,
}

/// An interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupt {
    /// Number of the interrupt.
    pub number: u32,
    /// CPUs that handle the interrupt, as a list such as `0-3,8`.
    pub cpus: String,
}
