use units::{Bytes, Duration, Instant, Rate};

/// What became of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketOutcome {
    /// Its length with headers.
    pub bytes: u32,
    /// When it left, as measured by the sender on its clock; `None`: the sender could not send it.
    pub sent: Option<Instant>,
    /// When it came, on the receiver's clock, which has nothing to do with the sender's. `None`: it did not.
    pub received: Option<Instant>,
}

/// How a train passed, as both ends saw it.
///
/// Only differences between times of one end mean something. Times may contradict each other: a far end can write
/// what it likes. What follows from them is then implausible or absent, and never a panic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrainObservation {
    /// The packets, in the order in which they were to leave.
    pub packets: Vec<PacketOutcome>,
}

/// One packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrived {
    index: usize,
    bytes: u32,
    sent: Instant,
    received: Instant,
}

impl TrainObservation {
    fn arrived(&self) -> impl Iterator<Item = Arrived> + '_ {
        self.packets
            .iter()
            .enumerate()
            .filter_map(|(index, p)| Some(Arrived { index, bytes: p.bytes, sent: p.sent?, received: p.received? }))
    }

    /// The same without the first packet. Hosts that were idle hand that one over late, by some 0.1 ms, and those behind it not:
    /// with it a train seems to come faster than it does.
    #[must_use]
    pub(super) fn without_first(&self) -> Self {
        Self { packets: self.packets.iter().skip(1).copied().collect() }
    }

    /// How many left.
    pub fn sent(&self) -> usize {
        self.packets.iter().filter(|p| p.sent.is_some()).count()
    }

    /// How many left and did not arrive.
    pub fn lost(&self) -> usize {
        self.packets.iter().filter(|p| p.sent.is_some() && p.received.is_none()).count()
    }

    /// Lost packets over those that left; 0 when none left.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent() == 0 { 0.0 } else { self.lost() as f64 / self.sent() as f64 }
    }

    /// How many arrived after a packet that left later.
    pub fn reordered(&self) -> usize {
        let mut latest = Instant::ZERO;
        self.arrived()
            .filter(|p| {
                let behind = p.received < latest;
                latest = latest.max(p.received);
                behind
            })
            .count()
    }

    /// Distances at sender and receiver between packets that left one right after the other and both arrived, in ns,
    /// with the length of the second. Packets that overtook each other have none.
    pub fn gaps(&self) -> Vec<Gap> {
        let arrived: Vec<Arrived> = self.arrived().collect();
        arrived
            .windows(2)
            .filter(|w| w[1].index == w[0].index + 1)
            .filter_map(|w| {
                let sent = w[1].sent.as_nanos().checked_sub(w[0].sent.as_nanos())?;
                let received = w[1].received.as_nanos().checked_sub(w[0].received.as_nanos())?;
                Some(Gap {
                    sent: Duration::from_nanos(sent),
                    received: Duration::from_nanos(received),
                    bytes: w[1].bytes,
                })
            })
            .collect()
    }

    /// From the first to the last departure of packets that arrived, and from the first to the last arrival, with the
    /// bytes of all of them but the first. `None` with fewer than two, or with times that do not advance.
    pub fn dispersion(&self) -> Option<Dispersion> {
        let mut arrived = self.arrived();
        let first = arrived.next()?;
        let (mut bytes, mut last, mut latest) = (0_u64, None, first.received);
        for p in arrived {
            bytes += u64::from(p.bytes);
            latest = latest.max(p.received);
            last = Some(p);
        }
        let sent = last?.sent.as_nanos().checked_sub(first.sent.as_nanos())?;
        let received = latest.as_nanos().checked_sub(first.received.as_nanos()).filter(|ns| *ns > 0)?;
        Some(Dispersion {
            bytes: Bytes::new(bytes),
            sent: Duration::from_nanos(sent),
            received: Duration::from_nanos(received),
        })
    }

    /// What came after the first arrival over the time that it took without the longest silence, in b/s: where a path lets
    /// packets through in batches the train ends with part of one, and this is still no less than what the path carries.
    pub(super) fn delivered_at_most(&self) -> Option<f64> {
        let d = self.dispersion()?;
        let longest = self.gaps().iter().map(|g| g.received).max().unwrap_or(Duration::ZERO);
        let ns = d.received.saturating_sub(longest).as_nanos().max(1) as f64;
        Some(d.bytes.as_u64() as f64 * 8e9 / ns)
    }

    /// From the earliest to the latest arrival; zero without two.
    pub fn span_received(&self) -> Duration {
        let times = || self.packets.iter().filter_map(|p| p.received);
        times().max().zip(times().min()).map_or(Duration::ZERO, |(last, first)| last.saturating_since(first))
    }

    /// One-way delays of the packets that arrived, in ns above the smallest of them: the offset of the clocks falls out.
    /// In order of departure.
    pub fn delays_ns(&self) -> Vec<u64> {
        let all: Vec<i128> =
            self.arrived().map(|p| i128::from(p.received.as_nanos()) - i128::from(p.sent.as_nanos())).collect();
        let least = all.iter().min().copied().unwrap_or(0);
        all.into_iter().map(|d| u64::try_from(d - least).unwrap_or(u64::MAX)).collect()
    }

    /// How long a packet waits in a queue that is full, if the train filled one: the longest wait, above the least delay
    /// in the train, where packets were lost only from a queue about that long. Under load it is somewhat more, for the first
    /// packet waited, too.
    pub fn full_queue(&self) -> Option<Duration> {
        let delay = |sent: Instant, received: Instant| i128::from(received.as_nanos()) - i128::from(sent.as_nanos());
        let least = self.arrived().map(|p| delay(p.sent, p.received)).min()?;
        let (mut wait, mut longest, mut at_losses) = (0, 0, Vec::new());
        for p in &self.packets {
            match (p.sent, p.received) {
                (Some(sent), Some(received)) => wait = delay(sent, received) - least,
                (Some(_), None) => at_losses.push(wait),
                (None, _) => {}
            }
            longest = longest.max(wait);
        }
        let full = |wait: &i128| wait * FULL.1 >= longest * FULL.0;
        let is_told = at_losses.len() >= LOSSES_MIN && longest > 0 && at_losses.iter().all(full);
        is_told.then(|| Duration::from_nanos(u64::try_from(longest).unwrap_or(u64::MAX)))
    }

    /// Round trips of an echoed train, in order of departure; those that are negative are left out.
    pub fn round_trips(&self) -> Vec<Option<Duration>> {
        self.packets
            .iter()
            .filter_map(|p| p.sent.map(|sent| (sent, p.received)))
            .map(|(sent, received)| {
                received.and_then(|r| r.as_nanos().checked_sub(sent.as_nanos())).map(Duration::from_nanos)
            })
            .collect()
    }
}

/// Two packets that left one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Distance at the sender.
    pub sent: Duration,
    /// Distance at the receiver.
    pub received: Duration,
    /// Length of the second packet with headers.
    pub bytes: u32,
}

/// Losses of a train that tell where its packets were lost: fewer are in a place by chance. Three at random in a queue that
/// grows evenly are all in its last quarter in one of 64 trains.
const LOSSES_MIN: usize = 3;

/// Share of the longest wait from which on a queue is about full, as a fraction: packets of others leave room now and then.
const FULL: (i128, i128) = (3, 4);

/// How much slower than it left a train must come to tell of the path and not of the sender.
const SLOWED: f64 = 1.1;

/// A whole train from its first to its last packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispersion {
    /// All packets that arrived but the first.
    pub bytes: Bytes,
    /// From first to last departure.
    pub sent: Duration,
    /// From first to last arrival.
    pub received: Duration,
}

impl Dispersion {
    /// Rate at which they left; `None` when they left at one instant.
    pub fn sent_rate(&self) -> Option<Rate> {
        (!self.sent.is_zero()).then(|| Rate::of(self.bytes, self.sent))
    }

    /// Rate at which they came.
    pub fn received_rate(&self) -> Rate {
        Rate::of(self.bytes, self.received)
    }

    /// Whether they came clearly slower than they left. The rate of what did not is the sender's: the path may be any
    /// faster.
    pub fn is_slowed(&self) -> bool {
        let least = self.received_rate().as_bps() as f64 * SLOWED;
        self.sent_rate().is_none_or(|sent| sent.as_bps() as f64 > least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(packets: &[(u64, Option<u64>)]) -> TrainObservation {
        let fate = |&(sent, received): &(u64, Option<u64>)| PacketOutcome {
            bytes: 1500,
            sent: Some(Instant::from_nanos(sent)),
            received: received.map(Instant::from_nanos),
        };
        TrainObservation { packets: packets.iter().map(fate).collect() }
    }

    #[test]
    fn the_clocks_need_not_agree() {
        // The receiver's clock is far behind the sender's.
        let p = passage(&[(9_000_000, Some(100)), (9_012_000, Some(120_100)), (9_024_000, Some(240_100))]);
        let d = p.dispersion().unwrap();
        // 3000 bytes in 24 us are 1 Gb/s, in 240 us 100 Mb/s.
        assert_eq!(d.sent_rate(), Some(Rate::from_bps(1_000_000_000)));
        assert_eq!(d.received_rate(), Rate::from_bps(100_000_000));
        assert!(d.is_slowed());
        assert_eq!(p.delays_ns(), [0, 108_000, 216_000]);
        assert_eq!(p.gaps().len(), 2);
    }

    #[test]
    fn lost_packets_leave_no_gap_behind() {
        let p = passage(&[(0, Some(10)), (1, None), (2, Some(30)), (3, Some(40))]);
        assert_eq!((p.lost(), p.gaps().len(), p.loss_ratio()), (1, 1, 0.25));
    }

    #[test]
    fn a_queue_is_full_where_it_loses_what_comes() {
        // A packet each ms leaves in 2 ms; five wait, so that from the tenth on every other one is lost.
        let queue = |lost: fn(u64) -> bool| {
            let mut waits = 0;
            let mut fate = |i: u64| {
                let received = (!lost(i)).then(|| (i + waits) * 1_000_000);
                waits += u64::from(!lost(i) && waits < 5);
                (i * 1_000_000, received)
            };
            passage(&(0..30).map(&mut fate).collect::<Vec<_>>())
        };
        assert_eq!(queue(|i| i > 9 && i % 2 == 0).full_queue(), Some(Duration::from_millis(5)));
        // Lost anywhere, or but once, or all: that is no queue that overflows.
        assert_eq!(queue(|i| i % 3 == 1).full_queue(), None);
        assert_eq!(queue(|i| i == 20).full_queue(), None);
        assert_eq!(queue(|_| true).full_queue(), None);
        assert_eq!(queue(|_| false).full_queue(), None);
    }

    #[test]
    fn contradictions_give_nothing_and_do_no_harm() {
        let p = passage(&[(5, Some(u64::MAX)), (6, Some(0)), (u64::MAX, Some(1))]);
        assert_eq!(p.reordered(), 2);
        assert!(p.dispersion().is_none());
        assert_eq!(p.gaps().len(), 1);
        assert_eq!(p.delays_ns().len(), 3);
        assert_eq!(p.full_queue(), None);
        assert_eq!(passage(&[]).dispersion(), None);
    }
}
