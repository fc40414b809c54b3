use crate::handle::Handle;

/// A filter: selects a class for packets, or redirects them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Discipline or class that evaluates the filter.
    pub parent: Handle,
    /// Evaluation order, lowest first. 0: the kernel chooses.
    pub preference: u16,
    /// EtherType of the packets that the filter examines (0x0003 is `all`).
    pub protocol: u16,
    /// Handle of the filter; 0: the kernel chooses. tc(8) prints a u32 handle as `800::801`.
    pub handle: u32,
    /// Matching method and result.
    pub classifier: Classifier,
}

/// Matching method and result of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classifier {
    /// Compares 32-bit words of the packet (tc-u32(8)); all keys must match.
    U32 {
        /// Comparisons; an empty list matches every packet.
        keys: Vec<Key>,
        /// Class of matching packets; `None` without a class.
        class: Option<Handle>,
        /// Index of the device to which matching packets are redirected (tc-mirred(8), `egress redirect`).
        redirect: Option<u32>,
    },
    /// A BPF program of type sched_cls that returns the class's raw handle; 0 means no match (tc-bpf(8), without
    /// `direct-action`).
    Bpf(BpfProgram),
    /// Any other filter, with its raw options.
    Other {
        /// Kind.
        kind: String,
        /// Payload of TCA_OPTIONS.
        options: Vec<u8>,
        /// Attributes outside the options, in raw form: the chain (TCA_CHAIN) and unknown attributes.
        attributes: Vec<u8>,
    },
}

/// A 32-bit comparison: `(word at offset from the network header) & mask == value` (struct tc_u32_key).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Offset in bytes from the network header; a multiple of 4.
    pub offset: i32,
    /// Whether `offset` counts from the end of the IPv4 header (`nexthdr+`). The kernel computes that position only in
    /// a hash table that was linked with an offset (u32_classify in net/sched/cls_u32.c). In a preference's own table,
    /// `offset` counts from the network header.
    pub after_ip_header: bool,
    /// Mask in host byte order.
    pub mask: u32,
    /// The required value.
    pub value: u32,
}

/// BPF program of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfProgram {
    /// Descriptor to pass to the kernel; `None` for a filter that was read.
    pub descriptor: Option<i32>,
    /// Program id (TCA_BPF_ID); 0 until the filter is installed.
    pub id: u32,
    /// Name for display (TCA_BPF_NAME).
    pub name: String,
}
