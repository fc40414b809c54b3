use crate::handle::Handle;

/// A filter: chooses a class for packets, or sends them elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The discipline that asks it.
    pub parent: Handle,
    /// Order: lower ones are asked first. 0: the kernel chooses.
    pub preference: u16,
    /// EtherType of the packets that it sees (0x0003 is `all`).
    pub protocol: u16,
    /// The kernel's name of the filter; 0: the kernel chooses. For u32 tc(8) writes it `800::801`.
    pub handle: u32,
    /// How it decides.
    pub classifier: Classifier,
}

/// How a filter decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classifier {
    /// Compares 32-bit words of the packet (tc-u32(8)); all keys must match.
    U32 {
        /// The comparisons; none matches everything.
        keys: Vec<Key>,
        /// The class, if it chooses one.
        class: Option<Handle>,
        /// Index of the device that packets are sent into instead (tc-mirred(8), `egress redirect`).
        redirect: Option<u32>,
    },
    /// A BPF program of type sched_cls that returns the class's raw handle; 0 means no match (tc-bpf(8), without
    /// `direct-action`).
    Bpf(BpfProgram),
    /// Any other, with its options as the kernel gave them.
    Other {
        /// Its name.
        kind: String,
        /// The payload of TCA_OPTIONS.
        options: Vec<u8>,
        /// Attributes beside the options, as the kernel gave them: the chain (TCA_CHAIN), and what is not known here.
        attributes: Vec<u8>,
    },
}

/// A 32-bit comparison: `(word at offset from the network header) & mask == value` (struct tc_u32_key).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Bytes from the network header on; a multiple of 4.
    pub offset: i32,
    /// Whether `offset` counts from behind the IPv4 header instead (`nexthdr+`). The kernel knows where that is only in a hash
    /// table that was linked to with an offset (u32_classify in net/sched/cls_u32.c); in a preference's own table it takes the
    /// network header.
    pub after_ip_header: bool,
    /// Bits that count, as a number.
    pub mask: u32,
    /// The required value.
    pub value: u32,
}

/// A BPF program of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfProgram {
    /// The descriptor to hand in; `None` for a filter that was read.
    pub descriptor: Option<i32>,
    /// The kernel's number of the program (TCA_BPF_ID); 0 before it is applied.
    pub id: u32,
    /// Name for people (TCA_BPF_NAME).
    pub name: String,
}
