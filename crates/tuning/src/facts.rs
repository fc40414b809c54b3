use std::collections::BTreeMap;

use units::{Bytes, Rate};

use crate::Offload;

/// Result of reading a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Its value; it may be changed here.
    Own(String),
    /// Its value; it is the host's and read-only in this network namespace.
    OfHost(String),
    /// It is not there in this network namespace, though the host has it.
    HiddenInNamespace,
    /// The kernel has no such setting.
    Absent,
    /// The setting could not be read; the text of the error.
    Failed(String),
}

impl Reading {
    /// The value, where there is one.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Own(value) | Self::OfHost(value) => Some(value),
            Self::HiddenInNamespace | Self::Absent | Self::Failed(_) => None,
        }
    }
}

/// A host's settings as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Variables by their name in sysctl(8).
    pub sysctls: BTreeMap<String, Reading>,
    /// Version of the kernel: major and minor number.
    pub kernel: (u32, u32),
    /// Whether the kernel has the queueing discipline `fq`; `None`: unknown.
    pub has_fq: Option<bool>,
    /// Size of a page of memory.
    pub page: Bytes,
    /// All memory of the machine.
    pub memory: Option<Bytes>,
    /// Counters of the receive path.
    pub softnet: Option<Softnet>,
    /// Governors of the CPUs' frequency, one for each CPU; `None` where the machine does not show them.
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
    /// Packets taken in.
    pub processed: u64,
    /// Packets dropped because a CPU's backlog was full.
    pub dropped: u64,
    /// Times that the budget was used up with packets left.
    pub squeezed: u64,
}

/// A network device as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Driver, if the kernel reports it.
    pub driver: Option<String>,
    /// Speed of its link, if the kernel reports it.
    pub speed: Option<Rate>,
    /// Largest packet without the Ethernet header.
    pub mtu: u32,
    /// Length of the device's transmit queue in packets.
    pub queue_length: u32,
    /// Kind of its root queueing discipline, and of those below it.
    pub qdiscs: Option<Vec<String>>,
    /// Its offloads, as far as they can be read.
    pub offloads: BTreeMap<Offload, OffloadState>,
    /// Large receive offload, merging by the device; `None`: absent or not reported.
    pub lro: Option<bool>,
    /// Checksums of what is sent, by the device.
    pub tx_checksum: Option<OffloadState>,
    /// Rings of descriptors between device and driver.
    pub rings: Option<Rings>,
    /// Received packets that the device or its driver had no room for.
    pub received_lost: Option<u64>,
    /// Its interrupts.
    pub interrupts: Option<Vec<Interrupt>>,
    /// For each receive queue the mask of the CPUs that packets are spread to (RPS); zeros: off.
    pub rps: Option<Vec<String>>,
    /// For each send queue the mask of the CPUs that use it (XPS); zeros: off.
    pub xps: Option<Vec<String>>,
}

/// An offload of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadState {
    /// It is on.
    pub on: bool,
    /// It can be switched.
    pub changeable: bool,
}

/// Descriptors of a device's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// For receiving.
    pub receive: u32,
    /// Maximum size of the receive ring.
    pub receive_max: u32,
    /// For sending.
    pub send: u32,
    /// Maximum size of the transmit ring.
    pub send_max: u32,
}

/// An interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// CPUs that it goes to, as a list such as `0-3,8`.
    pub cpus: String,
}
