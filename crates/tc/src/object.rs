use std::time::Duration;

use units::{Bytes, Rate};

use crate::filter::Filter;
use crate::handle::Handle;

/// A traffic control object of the kernel. The caller knows its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A queueing discipline.
    Qdisc(Qdisc),
    /// A class of HTB.
    Class(Class),
    /// Any other class, or one of HTB with settings that [`HtbClass`] does not hold.
    OtherClass(OtherClass),
    /// A filter.
    Filter(Filter),
}

/// A queueing discipline (qdisc).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// Its own name. [`Handle::NONE`] for those that the kernel attached by itself.
    pub handle: Handle,
    /// [`Handle::ROOT`], [`Handle::INGRESS`], or the class whose queue it is.
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
        /// Standing delay that is put up with.
        target: Duration,
        /// Time in which it is noticed.
        interval: Duration,
        /// Number of queues.
        flows: u32,
        /// Bytes of each turn.
        quantum: u32,
        /// Maximum bytes in all queues.
        memory_limit: Bytes,
        /// Mark instead of dropping where the transport can.
        ecn: bool,
    },
    /// Holds filters for what comes in (`ingress`), queues nothing.
    Ingress,
    /// Holds filters for both directions (`clsact`), queues nothing.
    Clsact,
    /// Any other, with its options as the kernel gave them.
    Other {
        /// Its name.
        kind: String,
        /// The payload of TCA_OPTIONS.
        options: Vec<u8>,
        /// Attributes beside the options, as the kernel gave them: a size table (TCA_STAB, whose base is all that the kernel
        /// tells), shared blocks (TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK), and what is not known here.
        attributes: Vec<u8>,
    },
}

/// Settings of an HTB discipline as a whole (TCA_HTB_INIT and TCA_HTB_DIRECT_QLEN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HtbRoot {
    /// Minor number of the default class for packets that no filter matches. Without that class they pass unshaped.
    pub default_class: u16,
    /// Divisor by which the kernel makes a quantum from a rate where none is given.
    pub rate_to_quantum: u32,
    /// Maximum packets in the queue of unshaped traffic.
    pub direct_queue: u32,
}

/// Settings of a token bucket filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Rate of tokens.
    pub rate: Rate,
    /// Depth of the bucket as a time at `rate`: what the kernel keeps, in units of 64 ns.
    pub burst: Duration,
    /// Maximum bytes in the queue.
    pub limit: Bytes,
}

/// A class of an HTB discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub handle: Handle,
    /// The class above, or the discipline.
    pub parent: Handle,
    /// Its settings.
    pub htb: HtbClass,
}

/// A class that is kept as the kernel gave it. Some disciplines make such classes by themselves (mq one for each transmit
/// queue, fq_codel one for each flow queue): they are there to be seen, and cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherClass {
    /// Its name.
    pub handle: Handle,
    /// The class above, or the discipline.
    pub parent: Handle,
    /// Name of its discipline's kind.
    pub kind: String,
    /// The payload of TCA_OPTIONS.
    pub options: Vec<u8>,
    /// Attributes beside the options, as the kernel gave them.
    pub attributes: Vec<u8>,
}

/// Settings of an HTB class (struct tc_htb_opt).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HtbClass {
    /// Guaranteed rate. The kernel counts bytes per second.
    pub rate: Rate,
    /// Ceiling, reached by borrowing.
    pub ceiling: Rate,
    /// Depth of the bucket of `rate`, as a time at that rate: what the kernel keeps, in units of 64 ns.
    pub burst: Duration,
    /// Depth of the bucket of `ceiling`, as a time at that rate.
    pub ceiling_burst: Duration,
    /// 0 (served first) to 7; counts among classes that borrow from the same parent.
    pub priority: u32,
    /// Bytes of each turn among classes of one priority.
    pub quantum: u32,
}

/// Counters of an object (TCA_STATS2 and, for HTB, struct tc_htb_xstats).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Sent.
    pub bytes: Bytes,
    /// Sent; each segment of a super-packet counts.
    pub packets: u64,
    /// Discarded.
    pub drops: u64,
    /// How often sending had to wait.
    pub overlimits: u64,
    /// Handed back by the device.
    pub requeues: u64,
    /// Waiting now.
    pub backlog: Bytes,
    /// Waiting now.
    pub backlog_packets: u64,
    /// HTB: packets sent by the class's own tokens.
    pub lends: u64,
    /// HTB: packets sent by the tokens of a class above.
    pub borrows: u64,
    /// HTB: packets larger than the rate table holds.
    pub giants: u64,
}
