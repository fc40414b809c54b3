use units::{Bytes, Duration, Instant, Rate};

/// Observation of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketOutcome {
    /// Length with headers in bytes.
    pub bytes: u32,
    /// Departure time on the sender's clock; `None` if the sender could not send it.
    pub sent: Option<Instant>,
    /// Arrival time on the receiver's clock, which is independent of the sender's; `None` if the packet did not arrive.
    pub received: Option<Instant>,
}

/// Observation of a train by both ends.
///
/// Only differences between times of the same end are meaningful. Times can contradict each other, because a remote end
/// can report any value. The derived values are then implausible or absent; the functions never panic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrainObservation {
    /// The packets in order of departure.
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

    /// The observation without the first packet. A host that was idle delivers the first packet about 0.1 ms late and
    /// the following ones on time, so that the whole train appears faster than it is.
    #[must_use]
    pub(super) fn without_first(&self) -> Self {
        Self { packets: self.packets.iter().skip(1).copied().collect() }
    }

    /// Number of packets sent.
    pub fn sent(&self) -> usize {
        self.packets.iter().filter(|p| p.sent.is_some()).count()
    }

    /// Number of packets sent that did not arrive.
    pub fn lost(&self) -> usize {
        self.packets.iter().filter(|p| p.sent.is_some() && p.received.is_none()).count()
    }

    /// Lost packets as a share of those sent; 0 if none was sent.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent() == 0 { 0.0 } else { self.lost() as f64 / self.sent() as f64 }
    }

    /// Number of packets that arrived after a packet that was sent later.
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

    /// Gaps at sender and receiver between consecutive packets that both arrived, in ns, with the length of the second
    /// packet. Reordered packets have no gap.
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

    /// Largest increase of the gap between consecutive packets on the path; `None` if no two consecutive packets
    /// arrived.
    pub fn longest_added_gap(&self) -> Option<Duration> {
        let times =
            self.packets.windows(2).filter_map(|w| Some([w[0].sent?, w[1].sent?, w[0].received?, w[1].received?]));
        times.map(|[a, b, x, y]| y.saturating_since(x).saturating_sub(b.saturating_since(a))).max()
    }

    /// Time from the first to the last departure of packets that arrived, time from the first to the last arrival, and
    /// the bytes of all but the first. `None` with fewer than two packets, or if the times do not advance.
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

    /// Bytes after the first arrival over the duration without the longest gap, in b/s. If a path delivers in batches,
    /// the train ends with part of one; the result is still an upper bound of the path's rate.
    pub(super) fn delivered_at_most(&self) -> Option<f64> {
        let d = self.dispersion()?;
        let longest = self.gaps().iter().map(|g| g.received).max().unwrap_or(Duration::ZERO);
        let ns = d.received.saturating_sub(longest).as_nanos().max(1) as f64;
        Some(d.bytes.as_u64() as f64 * 8e9 / ns)
    }

    /// Time from the earliest to the latest arrival; zero with fewer than two.
    pub fn span_received(&self) -> Duration {
        let times = || self.packets.iter().filter_map(|p| p.received);
        times().max().zip(times().min()).map_or(Duration::ZERO, |(last, first)| last.saturating_since(first))
    }

    /// One-way delays of the packets that arrived, in order of departure, in ns above the minimum; the clock offset
    /// cancels out.
    pub fn delays_ns(&self) -> Vec<u64> {
        let all: Vec<i128> =
            self.arrived().map(|p| i128::from(p.received.as_nanos()) - i128::from(p.sent.as_nanos())).collect();
        let min = all.iter().min().copied().unwrap_or(0);
        all.into_iter().map(|d| u64::try_from(d - min).unwrap_or(u64::MAX)).collect()
    }

    /// Length of the full queue, if the train filled one: the longest wait above the minimum delay of the train. It
    /// requires that packets were lost only from a queue of about that length. Under load it is an overestimate,
    /// because the first packet also waited.
    pub fn full_queue(&self) -> Option<Duration> {
        let delay = |sent: Instant, received: Instant| i128::from(received.as_nanos()) - i128::from(sent.as_nanos());
        let min = self.arrived().map(|p| delay(p.sent, p.received)).min()?;
        let (mut wait, mut longest, mut at_losses) = (0, 0, Vec::new());
        for p in &self.packets {
            match (p.sent, p.received) {
                (Some(sent), Some(received)) => wait = delay(sent, received) - min,
                (Some(_), None) => at_losses.push(wait),
                (None, _) => {}
            }
            longest = longest.max(wait);
        }
        let full = |wait: &i128| wait * FULL_SHARE.1 >= longest * FULL_SHARE.0;
        let is_located = at_losses.len() >= LOSSES_MIN && longest > 0 && at_losses.iter().all(full);
        is_located.then(|| Duration::from_nanos(u64::try_from(longest).unwrap_or(u64::MAX)))
    }

    /// Round trips of an echoed train, in order of departure; negative ones are left out.
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

/// The gap between two consecutive packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Gap at the sender.
    pub sent: Duration,
    /// Gap at the receiver.
    pub received: Duration,
    /// Length of the second packet with headers.
    pub bytes: u32,
}

/// Minimum number of losses of a train that locate a full queue. Three random losses in a queue that grows evenly all
/// fall in its last quarter in one of 64 trains.
const LOSSES_MIN: usize = 3;

/// Share of the longest wait from which on a queue counts as full, as a fraction: cross traffic leaves room at times.
const FULL_SHARE: (i128, i128) = (3, 4);

/// Minimum ratio of the received to the sent duration at which a train measures the path rather than the sender.
const SLOWED_RATIO_MIN: f64 = 1.1;

/// Dispersion of a train from its first to its last packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispersion {
    /// Bytes of all packets that arrived except the first.
    pub bytes: Bytes,
    /// From first to last departure.
    pub sent: Duration,
    /// From first to last arrival.
    pub received: Duration,
}

impl Dispersion {
    /// Rate at the sender; `None` if all packets left at one instant.
    pub fn sent_rate(&self) -> Option<Rate> {
        (!self.sent.is_zero()).then(|| Rate::of(self.bytes, self.sent))
    }

    /// Rate at the receiver.
    pub fn received_rate(&self) -> Rate {
        Rate::of(self.bytes, self.received)
    }

    /// Whether the train arrived clearly slower than it was sent. Otherwise its rate is the sender's, and the path may
    /// be faster.
    pub fn is_slowed(&self) -> bool {
        let threshold = self.received_rate().as_bps() as f64 * SLOWED_RATIO_MIN;
        self.sent_rate().is_none_or(|sent| sent.as_bps() as f64 > threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(packets: &[(u64, Option<u64>)]) -> TrainObservation {
        let outcome = |&(sent, received): &(u64, Option<u64>)| PacketOutcome {
            bytes: 1500,
            sent: Some(Instant::from_nanos(sent)),
            received: received.map(Instant::from_nanos),
        };
        TrainObservation { packets: packets.iter().map(outcome).collect() }
    }

    #[test]
    fn the_clocks_need_not_agree() {
        // The receiver's clock is far behind the sender's.
        let p = observation(&[(9_000_000, Some(100)), (9_012_000, Some(120_100)), (9_024_000, Some(240_100))]);
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
        let p = observation(&[(0, Some(10)), (1, None), (2, Some(30)), (3, Some(40))]);
        assert_eq!((p.lost(), p.gaps().len(), p.loss_ratio()), (1, 1, 0.25));
    }

    #[test]
    fn a_queue_is_full_where_it_loses_arriving_packets() {
        // A packet every ms leaves after 2 ms; five wait, so that every other one is lost from the tenth on.
        let queue = |lost: fn(u64) -> bool| {
            let mut waits = 0;
            let mut outcome = |i: u64| {
                let received = (!lost(i)).then(|| (i + waits) * 1_000_000);
                waits += u64::from(!lost(i) && waits < 5);
                (i * 1_000_000, received)
            };
            observation(&(0..30).map(&mut outcome).collect::<Vec<_>>())
        };
        assert_eq!(queue(|i| i > 9 && i % 2 == 0).full_queue(), Some(Duration::from_millis(5)));
        // Losses anywhere, a single loss or the loss of all packets do not indicate a queue that overflows.
        assert_eq!(queue(|i| i % 3 == 1).full_queue(), None);
        assert_eq!(queue(|i| i == 20).full_queue(), None);
        assert_eq!(queue(|_| true).full_queue(), None);
        assert_eq!(queue(|_| false).full_queue(), None);
    }

    #[test]
    fn contradictory_times_give_no_values() {
        let p = observation(&[(5, Some(u64::MAX)), (6, Some(0)), (u64::MAX, Some(1))]);
        assert_eq!(p.reordered(), 2);
        assert!(p.dispersion().is_none());
        assert_eq!(p.gaps().len(), 1);
        assert_eq!(p.delays_ns().len(), 3);
        assert_eq!(p.full_queue(), None);
        assert_eq!(observation(&[]).dispersion(), None);
    }
}
