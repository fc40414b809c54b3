use std::sync::Arc;
use std::time::Duration;

use units::{Bytes, Rate};

use crate::Trace;

/// All parameters of one direction of a link at one moment. A schedule replaces them as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Rate at which packets leave.
    pub capacity: Capacity,
    /// Overhead of a packet on the wire beyond its IP bytes.
    pub overhead: Overhead,
    /// Propagation delay, added after the packet has left.
    pub delay: Duration,
    /// Variation of the propagation delay.
    pub jitter: Jitter,
    /// Queue in front of the wire.
    pub queue: Queue,
    /// Random loss on the wire, after the queue. A lost packet uses its share of the rate.
    pub loss: Loss,
    /// Indices of packets to lose, after the queue. The first packet since the clock of the link started has index 0.
    pub loss_list: Arc<[u64]>,
    /// Probability that a packet arrives twice, 0..=1. The copy arrives right after the original and uses no capacity.
    pub duplicate: f64,
    /// Packets that are held back, so that later packets overtake them.
    pub reorder: Reorder,
    /// Largest IP packet that passes; larger packets are dropped silently (a black hole). `None`: no limit.
    pub mtu: Option<u32>,
    /// Whether the link is up. While it is down, offered and queued packets are lost (cause `outage`); packets in
    /// flight arrive.
    pub up: bool,
}

impl Default for Settings {
    /// A link without limits, delay or loss.
    fn default() -> Self {
        Self {
            capacity: Capacity::Unlimited,
            overhead: Overhead::ETHERNET,
            delay: Duration::ZERO,
            jitter: Jitter::default(),
            queue: Queue::default(),
            loss: Loss::None,
            loss_list: Arc::from([]),
            duplicate: 0.0,
            reorder: Reorder::default(),
            mtu: None,
            up: true,
        }
    }
}

/// Rate at which packets leave.
#[derive(Debug, Clone, PartialEq)]
pub enum Capacity {
    /// Immediate transmission.
    Unlimited,
    /// Constant rate, counted on IP bytes plus [`Overhead`]. A rate of zero counts as 1 b/s; a link that is down has
    /// `up` false.
    Constant(Rate),
    /// Delivery opportunities (mahimahi). The trace starts with the link's clock ([`crate::Direction::restart`]) and
    /// loops. It counts IP bytes plus 4, as in mahimahi, regardless of the overhead.
    Trace(Arc<Trace>),
}

/// Bytes that a packet occupies on the wire beyond its IP bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overhead {
    /// Bytes added to each packet.
    pub per_packet: u32,
    /// Minimum total in bytes, overhead included.
    pub minimum: u32,
}

impl Overhead {
    /// The rate counts IP bytes.
    pub const IP: Self = Self { per_packet: 0, minimum: 0 };
    /// The rate counts Ethernet frames with their check sequence: 14 + 4 bytes, at least 64 (IEEE 802.3 §3.1.1,
    /// §4A.4.2).
    pub const ETHERNET_FRAME: Self = Self { per_packet: 18, minimum: 64 };
    /// The rate counts all bytes on the wire: frame, preamble and start delimiter (8), interpacket gap (12) (IEEE 802.3
    /// §3.1.1, §4A.4.2). A full packet of 1500 bytes occupies 1538.
    pub const ETHERNET: Self = Self { per_packet: 38, minimum: 84 };

    /// Size on the wire of a packet of `ip` bytes.
    pub const fn wire(self, ip: u32) -> u32 {
        let sum = ip.saturating_add(self.per_packet);
        if sum < self.minimum { self.minimum } else { sum }
    }
}

/// Distribution of a delay variation. A value beyond a cut is clamped to the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JitterShape {
    /// Uniform between minus and plus the amount.
    #[default]
    Uniform,
    /// Normal distribution with the amount as standard deviation, bounded at 4 standard deviations.
    Normal,
    /// Exponential distribution with the amount as mean, bounded at 20 means; it only adds delay.
    Exponential,
}

/// Variation of the propagation delay, drawn for each packet. The sum with the delay is never below zero.
///
/// The same seed draws the same jitter. The logarithm and cosine of two shapes may round differently on another
/// machine, by about a nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Jitter {
    /// Size of the variation.
    pub amount: Duration,
    /// Distribution of the variation.
    pub shape: JitterShape,
    /// Whether packets may overtake each other because of jitter. Otherwise no packet arrives before one sent earlier.
    pub reorders: bool,
}

/// Queue in front of the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queue {
    /// Maximum queue length. A packet in transmission does not count; an idle link accepts a packet with any limit.
    pub limit: QueueLimit,
    /// Discipline that drops packets.
    pub discipline: Discipline,
}

impl Default for Queue {
    /// 1000 packets with tail drop, the default of Linux's pfifo and netem.
    fn default() -> Self {
        Self { limit: QueueLimit::Packets(1000), discipline: Discipline::TailDrop }
    }
}

/// Maximum queue length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueLimit {
    /// No limit.
    Unlimited,
    /// Limit in IP bytes.
    Bytes(Bytes),
    /// Limit in packets (segments, not super-packets).
    Packets(u64),
    /// Limit in wire time at the present rate: a packet that would wait longer is dropped. Without effect at unlimited
    /// rate.
    Time(Duration),
}

/// Discipline that selects the packets to drop when the queue is long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    /// Drops a packet that arrives at a full queue.
    TailDrop,
    /// CoDel (RFC 8289): drops packets at the head, too, when all have waited longer than `target` for `interval`.
    CoDel {
        /// Acceptable standing delay (RFC 8289 §3.2; default 5 ms).
        target: Duration,
        /// Time in which a queue should drain (RFC 8289 §3.2; default 100 ms).
        interval: Duration,
    },
}

/// Random loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// No loss.
    None,
    /// Independent loss with this probability, 0..=1.
    Independent(f64),
    /// Two states (Gilbert 1960, Elliott 1963). The state may change before each packet.
    GilbertElliott {
        /// Probability of the change from good to bad, per packet.
        to_bad: f64,
        /// Probability of the change from bad to good, per packet.
        to_good: f64,
        /// Probability of loss in the bad state (1 - h).
        loss_bad: f64,
        /// Probability of loss in the good state (1 - k).
        loss_good: f64,
    },
}

/// Packets that are held back.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reorder {
    /// Probability per packet, 0..=1.
    pub probability: f64,
    /// Additional delay.
    pub by: Duration,
}
