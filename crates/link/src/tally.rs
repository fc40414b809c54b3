use std::time::Duration;

use crate::Distribution;
use crate::train::Run;
use crate::transmitter::Usage;

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets; each segment counts.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
}

impl Volume {
    /// Saturates, because trains of absurd sizes must not cause a panic.
    pub(crate) const fn add(&mut self, run: Run) {
        self.packets = self.packets.saturating_add(run.count as u64);
        self.bytes = self.bytes.saturating_add(run.total());
    }

    const fn merge(&mut self, o: Self) {
        self.packets += o.packets;
        self.bytes += o.bytes;
    }
}

/// Packets that did not arrive, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// Dropped at a full queue.
    pub queue: Volume,
    /// Dropped by CoDel at the head of the queue.
    pub codel: Volume,
    /// Lost at random.
    pub loss: Volume,
    /// Lost by packet index.
    pub listed: Volume,
    /// Lost while the link was down.
    pub outage: Volume,
    /// Larger than the MTU.
    pub mtu: Volume,
}

impl Drops {
    /// Sum of all causes.
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

/// Ground truth of one direction of a link over a time span.
///
/// `offered` = `delivered` - `duplicated` + `dropped` + the increase of the backlog, including a packet in
/// transmission. Tallies of adjacent spans add up exactly to the tally of both.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Packets offered.
    pub offered: Volume,
    /// Packets that left the link without loss, including copies. They arrive after the propagation delay.
    pub delivered: Volume,
    /// Copies among the delivered packets.
    pub duplicated: Volume,
    /// Held packets among the delivered packets.
    pub reordered: u64,
    /// Packets that do not arrive, by cause.
    pub dropped: Drops,
    /// IP bytes in the queue, weighted by time in microseconds. A packet in transmission does not count.
    pub queue_bytes: Distribution,
    /// Nanoseconds from arrival to start of transmission, with weight 1 for each packet that left the queue in the
    /// span. Dropped packets do not count.
    pub wait_ns: Distribution,
    /// Length of the span.
    pub span: Duration,
    pub(crate) usage: Usage,
}

impl Tally {
    /// Utilisation: used share of the capacity, 0..=1; `None` if no capacity was offered (unlimited rate, link down, a
    /// trace without an opportunity in the span).
    ///
    /// Used and offered capacity are bits on the wire. With a constant rate, they are the rate times the transmission
    /// time, and the rate times the time for which the link is up. With a trace, they are the used bytes and all bytes
    /// of opportunities. Spans with different rates are thus weighted by their capacity. A transmission that outlasts a
    /// change or the link counts at its original rate.
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
