use std::time::Duration;

use crate::Distribution;
use crate::transmitter::Usage;

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets: segments, however they were bundled.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
}

impl Volume {
    pub(crate) const fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    const fn merge(&mut self, o: Self) {
        self.packets += o.packets;
        self.bytes += o.bytes;
    }
}

/// Packets that did not arrive, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// They found the queue full.
    pub queue: Volume,
    /// CoDel dropped them at the head of the queue.
    pub codel: Volume,
    /// Random loss.
    pub loss: Volume,
    /// Loss by packet index.
    pub listed: Volume,
    /// The link was down.
    pub outage: Volume,
    /// Larger than the MTU.
    pub mtu: Volume,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> Volume {
        let mut sum = Volume::default();
        [self.queue, self.codel, self.loss, self.listed, self.outage, self.mtu].into_iter().for_each(|v| sum.merge(v));
        sum
    }

    const fn merge(&mut self, o: &Self) {
        self.queue.merge(o.queue);
        self.codel.merge(o.codel);
        self.loss.merge(o.loss);
        self.listed.merge(o.listed);
        self.outage.merge(o.outage);
        self.mtu.merge(o.mtu);
    }
}

/// Ground truth of one direction of a link over a span of time.
///
/// `offered` = `delivered` - `duplicated` + `dropped` + what more waits (or is being sent) at the end than at the
/// begin. Tallies of adjacent spans add up, exactly, to the tally of both.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Packets offered.
    pub offered: Volume,
    /// Packets that left and were not lost, copies included. They arrive a propagation delay later.
    pub delivered: Volume,
    /// Copies among the delivered.
    pub duplicated: Volume,
    /// Packets among the delivered that are held back.
    pub reordered: u64,
    /// Packets that do not arrive.
    pub dropped: Drops,
    /// IP bytes in the queue, weighted by time in microseconds. A packet in transmission does not count.
    pub queue_bytes: Distribution,
    /// Nanoseconds that packets waited, from their arrival to the begin of their transmission; those that left the
    /// queue in the span, each with weight 1. Without those that were dropped.
    pub wait_ns: Distribution,
    /// Length of the span.
    pub span: Duration,
    pub(crate) usage: Usage,
}

impl Tally {
    /// Share of the capacity that was used, 0..=1; `None` when none was offered (unlimited rate, link down, a trace
    /// without an opportunity in the span).
    ///
    /// Used and offered are bits on the wire: with a constant rate, the rate times the time of transmission and the
    /// rate times all the time that the link is up; with a trace, the used bytes of opportunities and all bytes of
    /// opportunities. So spans with different rates count by their capacity. A transmission that outlasts a change or
    /// the link counts at the rate at which it began.
    pub fn utilisation(&self) -> Option<f64> {
        let Usage { used, offered } = self.usage;
        (offered > 0).then(|| used as f64 / offered as f64)
    }

    /// Adds the tally of another span.
    pub fn merge(&mut self, other: &Self) {
        self.offered.merge(other.offered);
        self.delivered.merge(other.delivered);
        self.duplicated.merge(other.duplicated);
        self.reordered += other.reordered;
        self.dropped.merge(&other.dropped);
        self.queue_bytes.merge(&other.queue_bytes);
        self.wait_ns.merge(&other.wait_ns);
        self.span = self.span.saturating_add(other.span);
        self.usage.used = self.usage.used.saturating_add(other.usage.used);
        self.usage.offered = self.usage.offered.saturating_add(other.usage.offered);
    }
}
