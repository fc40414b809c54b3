use std::time::Duration;

use units::{Bytes, Rate};

use crate::filter::Filter;
use crate::handle::Handle;

/// A traffic control object of the kernel, without its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A queueing discipline.
    Qdisc(Qdisc),
    /// A class of HTB.
    Class(Class),
    /// Any other class, or an HTB class with settings that [`HtbClass`] does not represent.
    OtherClass(OtherClass),
    /// A filter.
    Filter(Filter),
}

/// A queueing discipline (qdisc).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// Handle; [`Handle::NONE`] for disciplines that the kernel attached.
    pub handle: Handle,
    /// [`Handle::ROOT`], [`Handle::INGRESS`], or the class that owns the queue.
    pub parent: Handle,
    /// Type and settings.
    pub discipline: Discipline,
}

/// Type of a queueing discipline with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discipline {
    /// Hierarchical token buckets (tc-htb(8)).
    Htb(HtbRoot),
    /// One token bucket (tc-tbf(8)).
    Tbf(TokenBucket),
    /// First in, first out; limit in packets.
    PacketFifo {
        /// Maximum packets in the queue.
        limit: u32,
    },
    /// First in, first out; limit in bytes.
    ByteFifo {
        /// Maximum bytes in the queue.
        limit: Bytes,
    },
    /// Flow queues with CoDel (RFC 8290).
    FqCodel {
        /// Maximum packets in all queues; the kernel's default is 10240.
        limit: u32,
        /// Acceptable standing queue delay.
        target: Duration,
        /// Time above `target` after which CoDel starts to drop.
        interval: Duration,
        /// Number of queues.
        flows: u32,
        /// Bytes per scheduling round.
        quantum: u32,
        /// Maximum bytes in all queues.
        memory_limit: Bytes,
        /// Whether packets of ECN-capable transports are marked instead of dropped.
        ecn: bool,
    },
    /// Holds ingress filters (`ingress`) and queues nothing.
    Ingress,
    /// Holds filters for both directions (`clsact`), queues nothing.
    Clsact,
    /// Any other discipline, with its raw options.
    Other {
        /// Kind.
        kind: String,
        /// Payload of TCA_OPTIONS.
        options: Vec<u8>,
        /// Attributes outside the options, in raw form: a size table (TCA_STAB; the kernel reports only its base),
        /// shared blocks (TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK), and unknown attributes.
        attributes: Vec<u8>,
    },
}

/// Settings of an HTB discipline (TCA_HTB_INIT and TCA_HTB_DIRECT_QLEN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HtbRoot {
    /// Minor number of the class for packets that match no filter. If that class does not exist, they bypass shaping.
    pub default_class: u16,
    /// Divisor with which the kernel derives a quantum from a rate.
    pub rate_to_quantum: u32,
    /// Maximum packets in the queue of unshaped traffic.
    pub direct_queue: u32,
}

/// Settings of a token bucket filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Rate of tokens.
    pub rate: Rate,
    /// Depth of the bucket as a time at `rate`; the kernel stores it in units of 64 ns.
    pub burst: Duration,
    /// Maximum bytes in the queue.
    pub limit: Bytes,
}

/// A class of an HTB discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// Handle.
    pub handle: Handle,
    /// Parent class, or the discipline.
    pub parent: Handle,
    /// Settings.
    pub htb: HtbClass,
}

/// A class in raw form. The kernel creates the classes of some disciplines (mq: one per transmit queue; fq_codel: one
/// per flow queue); requests cannot create them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherClass {
    /// Handle.
    pub handle: Handle,
    /// Parent class, or the discipline.
    pub parent: Handle,
    /// Kind of its discipline.
    pub kind: String,
    /// Payload of TCA_OPTIONS.
    pub options: Vec<u8>,
    /// Attributes outside the options, in raw form.
    pub attributes: Vec<u8>,
}

/// Settings of an HTB class (struct tc_htb_opt).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HtbClass {
    /// Guaranteed rate, stored in whole bytes per second.
    pub rate: Rate,
    /// Ceiling, reached by borrowing.
    pub ceiling: Rate,
    /// Depth of the bucket of `rate`, as a time at that rate; the kernel stores it in units of 64 ns.
    pub burst: Duration,
    /// Depth of the bucket of `ceiling`, as a time at that rate.
    pub ceiling_burst: Duration,
    /// Priority from 0 (highest) to 7 among classes that borrow from the same parent.
    pub priority: u32,
    /// Bytes per scheduling round among classes of equal priority.
    pub quantum: u32,
}

/// Counters of an object (TCA_STATS2 and, for HTB, struct tc_htb_xstats).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes sent.
    pub bytes: Bytes,
    /// Packets sent; each segment of a super-packet counts.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Number of times that transmission was delayed.
    pub overlimits: u64,
    /// Packets that the device returned to the queue.
    pub requeues: u64,
    /// Bytes in the queue.
    pub backlog: Bytes,
    /// Packets in the queue.
    pub backlog_packets: u64,
    /// HTB: packets sent with the class's own tokens.
    pub lends: u64,
    /// HTB: packets sent with tokens of a parent class.
    pub borrows: u64,
    /// HTB: packets larger than the rate table covers.
    pub giants: u64,
}
