use std::sync::Arc;
use std::time::Duration;

use units::{Bytes, Rate};

use crate::Trace;

/// Everything that one direction of a link does to packets, at one moment. A schedule replaces it as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How fast packets leave.
    pub capacity: Capacity,
    /// Overhead of a packet on the wire beyond its IP bytes.
    pub overhead: Overhead,
    /// Propagation delay, added after the packet has left.
    pub delay: Duration,
    /// Variation of the propagation delay.
    pub jitter: Jitter,
    /// Where packets wait for the wire.
    pub queue: Queue,
    /// Random loss on the wire, after the queue: a lost packet has used its share of the rate.
    pub loss: Loss,
    /// Packets to lose by their index, after the queue; the first packet offered since the clock of the link started is
    /// 0.
    pub loss_list: Arc<[u64]>,
    /// Probability that a packet arrives twice, 0..=1. The copy arrives right behind the original and uses none of the
    /// rate.
    pub duplicate: f64,
    /// Packets that are held back, so that later ones overtake them.
    pub reorder: Reorder,
    /// Largest IP packet that passes; larger ones are dropped silently (a black hole). `None`: all pass.
    pub mtu: Option<u32>,
    /// Whether the link works. While it does not, what is offered and what waits in the queue is lost (cause `outage`);
    /// what is already under way arrives.
    pub up: bool,
}

impl Default for Settings {
    /// A wire: no limit, no delay, no loss.
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

/// How fast packets leave.
#[derive(Debug, Clone, PartialEq)]
pub enum Capacity {
    /// At once.
    Unlimited,
    /// At a constant rate, counted on IP bytes plus [`Overhead`]. A rate of zero counts as 1 b/s: a link that is down
    /// has `up` false.
    Constant(Rate),
    /// By delivery opportunities (mahimahi). The trace begins with the link's clock ([`crate::Direction::restart`]) and
    /// loops. Counted on IP bytes plus 4, as mahimahi does, whatever the overhead.
    Trace(Arc<Trace>),
}

/// Bytes that a packet occupies on the wire beyond its IP bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overhead {
    /// Added to each packet.
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
    /// The rate counts all that the wire carries: frame, preamble and start delimiter (8), interpacket gap (12) (IEEE
    /// 802.3 §3.1.1, §4A.4.2). A full packet of 1500 bytes occupies 1538.
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
    /// Evenly between minus and plus the amount.
    #[default]
    Uniform,
    /// Normal distribution with the amount as standard deviation, cut at 4 of it.
    Normal,
    /// Only later, never earlier: exponential with the amount as mean, cut at 20 of it.
    Exponential,
}

/// Variation of the propagation delay, drawn for each packet. The sum with the delay never falls below zero.
///
/// The same seed draws the same jitter; the logarithm and cosine behind two of the shapes may round differently on
/// another machine, by about a nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Jitter {
    /// Size of the variation.
    pub amount: Duration,
    /// How it is distributed.
    pub shape: JitterShape,
    /// Whether packets may overtake each other by it. If not, none arrives before one sent earlier.
    pub reorders: bool,
}

/// Where packets wait for the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queue {
    /// Maximum queue length. A packet in transmission does not count; an idle link accepts a packet with any limit.
    pub limit: QueueLimit,
    /// Discipline that drops packets.
    pub discipline: Discipline,
}

impl Default for Queue {
    /// 1000 packets, tail drop: what Linux's pfifo and netem default to.
    fn default() -> Self {
        Self { limit: QueueLimit::Packets(1000), discipline: Discipline::TailDrop }
    }
}

/// How much may wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueLimit {
    /// Any amount.
    Unlimited,
    /// IP bytes.
    Bytes(Bytes),
    /// Packets (segments, not super-packets).
    Packets(u64),
    /// Wire time at the present rate: a packet is dropped when it would have to wait longer. Without effect at
    /// unlimited rate.
    Time(Duration),
}

/// Discipline that selects the packets to drop when the queue is long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    /// The packet that finds the queue full.
    TailDrop,
    /// CoDel (RFC 8289): also packets at the head, when all have waited longer than `target` for `interval`.
    CoDel {
        /// Acceptable standing delay (RFC 8289 §3.2; default 5 ms).
        target: Duration,
        /// Time in which a queue may drain (RFC 8289 §3.2; default 100 ms).
        interval: Duration,
    },
}

/// Random loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// None.
    None,
    /// Each packet with the same probability, 0..=1.
    Independent(f64),
    /// Two states (Gilbert 1960, Elliott 1963). The state changes before each packet is judged.
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
    /// Probability for each packet, 0..=1.
    pub probability: f64,
    /// By how much it arrives later than it would have.
    pub by: Duration,
}
