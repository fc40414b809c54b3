//! Capacity of a link, by packet trains: a train is sent as fast as the sender can, and its receiver measures the rate
//! at which it comes out of the link.

use std::collections::VecDeque;
use std::time::Duration;

use estimate::probe::{ArrivalCurve, PacketOutcome, TrainObservation};
use units::{Bytes, Instant, Rate};
use wire::overlay::Message;

use crate::decapsulate::TrainPacket;
use crate::settings::Settings;

/// Packets of the first train, and of the longest one.
const TRAIN_PACKETS_MIN: u16 = 10;
const TRAIN_PACKETS_MAX: u16 = 320;
/// A train of a shorter span is followed by a longer train: a thread that wakes up 50 us late is a fortieth of it then.
const SPAN_MIN: Duration = Duration::from_millis(2);
/// A train of a longer span is followed by a shorter one, as other packets wait behind it.
const SPAN_MAX: Duration = Duration::from_millis(16);
/// Share of the probe budget for trains.
pub(super) const BUDGET_SHARE: f64 = 0.25;
/// Mean interval of trains that agree.
const SETTLED_INTERVAL: Duration = Duration::from_secs(30);
/// The capacity is the median of so many trains.
const TRAINS_KEPT: usize = 5;
/// Trains agree if they are within this share of their median, and so many do.
const AGREEMENT: f64 = 0.1;
const AGREEING_MIN: usize = 3;
/// Trains that confirm the capacity of a link that may have changed.
const CONFIRMING_TRAINS: usize = 2;
/// Two trains in a row that are off by this factor belong to another link.
const OTHER_LINK_FACTOR: f64 = 1.5;
/// A train has ended when none of its packets has come for so long.
const TRAIN_TIMEOUT: Duration = Duration::from_millis(200);
/// A train has no result after this time and a round trip.
const RESULT_TIMEOUT: Duration = Duration::from_secs(1);

/// Rates of the last trains of one length.
#[derive(Default)]
pub(super) struct TrainRates {
    packets: u16,
    bps: VecDeque<u64>,
    /// The last train of that length or more was too fast to measure.
    was_fast: bool,
    /// Trains that are still needed to confirm the capacity.
    to_confirm: usize,
    /// Time of the last result.
    measured: Option<Instant>,
}

impl TrainRates {
    /// Takes the result of a train. A longer train replaces all shorter ones, and so does a shorter one of a link that
    /// became slower. A train that was too fast to measure counts only while no longer train exists.
    fn note(&mut self, now: Instant, packets: u16, bps: u64, span: Duration) {
        self.to_confirm = self.to_confirm.saturating_sub(1);
        if bps == 0 {
            return;
        }
        if span < SPAN_MIN && packets < TRAIN_PACKETS_MAX {
            // Two in a row: the link has become faster. One, or shorter ones, may have used the credit of a token
            // bucket.
            if packets >= self.packets && std::mem::replace(&mut self.was_fast, true) {
                self.bps.retain(|known| *known >= bps);
            }
            return;
        }
        self.was_fast = false;
        if packets != self.packets {
            (self.packets, self.bps) = (packets, VecDeque::new());
        }
        if let (Some(known), Some(last)) = (self.median(), self.bps.back())
            && is_off(bps, known)
            && is_off(*last, known)
        {
            self.bps = VecDeque::from([*last]);
        }
        if self.bps.len() == TRAINS_KEPT {
            self.bps.pop_front();
        }
        self.bps.push_back(bps);
        self.measured = Some(now);
    }

    /// Time since the last result.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        self.measured.map(|at| now.saturating_since(at))
    }

    /// The lower median.
    fn median(&self) -> Option<u64> {
        let mut sorted: Vec<u64> = self.bps.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }

    /// The measured capacity.
    pub(super) fn capacity(&self) -> Option<Rate> {
        self.median().map(Rate::from_bps)
    }

    /// The link may be another one: [`CONFIRMING_TRAINS`] trains have to confirm the capacity, which counts for as
    /// many. The queue of a link changes its round trip, too, and a single train that was held up would set the
    /// capacity otherwise.
    fn invalidate(&mut self) {
        self.to_confirm = CONFIRMING_TRAINS;
        let Some(known) = self.median().filter(|_| self.bps.len() > CONFIRMING_TRAINS) else { return };
        let off = self.bps.back().copied().filter(|last| is_off(*last, known));
        self.bps = std::iter::repeat_n(known, CONFIRMING_TRAINS).chain(off).collect();
    }

    fn is_uncertain(&self) -> bool {
        let last = self.median().zip(self.bps.back().copied());
        self.was_fast || self.to_confirm > 0 || last.is_some_and(|(median, last)| is_off(last, median))
    }

    fn agree(&self) -> bool {
        let Some(median) = self.median().map(|m| m as f64) else { return false };
        let near = self.bps.iter().filter(|bps| (**bps as f64 - median).abs() <= AGREEMENT * median).count();
        near >= AGREEING_MIN && near * 2 > self.bps.len()
    }
}

/// A train on its way in.
struct IncomingTrain {
    session: u32,
    number: u32,
    count: u16,
    latest: Instant,
    observation: TrainObservation,
}

/// A train to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Train {
    pub(super) number: u32,
    /// Number of its packets.
    pub(super) count: u16,
}

/// Packet trains on a link, in both directions.
#[derive(Default)]
pub(super) struct CapacityProber {
    pub(super) to: TrainRates,
    pub(super) from: TrainRates,
    incoming: Option<IncomingTrain>,
    /// Packets of the next train beyond the first length.
    more_packets: u16,
    /// Lower bound of the capacity, since the last train was shorter than [`SPAN_MIN`].
    floor: Option<Rate>,
    number: u32,
    next: Option<Instant>,
    /// Time at which the budget has paid for the last train.
    paid: Option<Instant>,
    /// Round trip of the link when the last train was sent.
    rtt: Option<Duration>,
    /// Time of a train without a result.
    waiting: Option<Instant>,
    /// Number of trains sent.
    pub(super) sent: u64,
}

impl CapacityProber {
    fn packets(&self) -> u16 {
        TRAIN_PACKETS_MIN + self.more_packets
    }

    fn set_packets(&mut self, packets: u16) {
        self.more_packets = packets.clamp(TRAIN_PACKETS_MIN, TRAIN_PACKETS_MAX) - TRAIN_PACKETS_MIN;
    }

    /// Packets of the next train.
    pub(super) fn train_packets(&self) -> f64 {
        f64::from(self.packets())
    }

    /// Whether trains have measured the capacity to the peer.
    pub(super) fn is_known(&self) -> bool {
        self.to.capacity().is_some()
    }

    /// The capacity to the peer, or its lower bound.
    pub(super) fn at_least(&self) -> Option<Rate> {
        self.to.capacity().max(self.floor)
    }

    /// The link may be another one: its capacity is measured again as soon as the budget allows.
    pub(super) fn invalidate(&mut self) {
        self.to.invalidate();
        self.from.invalidate();
        self.next = self.next.min(self.paid);
    }

    /// Compares the round trip with that at the last train. Says whether the incoming train has ended.
    pub(super) fn poll_incoming(&mut self, now: Instant, rtt: Option<Duration>) -> bool {
        if rtt.zip(self.rtt).is_some_and(|(now, then)| is_other_round_trip(now, then)) {
            self.rtt = rtt;
            self.invalidate();
        }
        self.incoming.as_ref().is_some_and(|i| now.saturating_since(i.latest) > TRAIN_TIMEOUT)
    }

    /// Whether a train is due.
    pub(super) fn poll_train(&mut self, now: Instant, link_is_up: bool, rtt: Option<Duration>) -> bool {
        if !link_is_up {
            // A link that comes back may be another one.
            *self = Self { number: self.number, sent: self.sent, ..Self::default() };
            return false;
        }
        let Some(waiting) = self.waiting else { return self.next.is_none_or(|at| now >= at) };
        if now.saturating_since(waiting) > RESULT_TIMEOUT + rtt.unwrap_or_default() {
            self.waiting = None;
            self.set_packets(self.packets() / 2);
        }
        false
    }

    /// Numbers the next train.
    pub(super) fn start_train(&mut self) -> Train {
        self.number = self.number.wrapping_add(1);
        Train { number: self.number, count: self.packets() }
    }

    /// The train was sent; `next`: time at which the budget affords another one.
    pub(super) fn on_sent(&mut self, now: Instant, next: Instant, rtt: Option<Duration>) {
        (self.waiting, self.next, self.paid) = (Some(now), Some(next), Some(next));
        self.rtt = rtt;
        self.sent += 1;
    }

    /// Time to the next train, which the budget affords after `affordable_s`; `settled`: an even number from 0 to 1 if
    /// trains agree.
    pub(super) fn interval(affordable_s: f64, settled: Option<f64>) -> Duration {
        let wanted = settled.map_or(Duration::ZERO, |draw| SETTLED_INTERVAL.mul_f64(0.5 + draw));
        wanted.max(Duration::try_from_secs_f64(affordable_s).unwrap_or(SETTLED_INTERVAL))
    }

    /// Sets the time of the next train.
    pub(super) fn schedule(&mut self, next: Instant) {
        self.next = Some(next);
    }

    /// A packet of a train came. Says whether the train is complete.
    pub(super) fn on_packet(&mut self, packet: &TrainPacket) -> bool {
        if packet.count > TRAIN_PACKETS_MAX {
            return false;
        }
        let id = (packet.session, packet.number, packet.count);
        let incoming = self.incoming.take().filter(|i| (i.session, i.number, i.count) == id);
        let incoming = self.incoming.insert(incoming.unwrap_or_else(|| IncomingTrain {
            session: packet.session,
            number: packet.number,
            count: packet.count,
            latest: packet.received_at,
            observation: TrainObservation::default(),
        }));
        incoming.latest = packet.received_at;
        let packets = &mut incoming.observation.packets;
        if packets.len() == usize::from(packet.count) {
            return false;
        }
        packets.push(PacketOutcome {
            bytes: packet.bytes,
            sent: Some(packet.sent),
            received: Some(packet.received_at),
        });
        packet.index + 1 == packet.count
    }

    /// Ends the incoming train; gives its session and the result for its sender.
    pub(super) fn end_incoming(&mut self, now: Instant) -> Option<(u32, Message)> {
        let train = self.incoming.take()?;
        let span = train.observation.span_received();
        let bps = train_rate(&train.observation, span);
        self.from.note(now, train.count, bps, span);
        let span = u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        Some((train.session, Message::TrainSeen { number: train.number, span, bps }))
    }

    /// Takes the result of a train of packets of `bytes`; `None`: no train with this number waits. Says whether the
    /// next one can wait.
    pub(super) fn on_result(
        &mut self,
        now: Instant,
        number: u32,
        bytes: usize,
        span: Duration,
        bps: u64,
    ) -> Option<bool> {
        if number != self.number || self.waiting.take().is_none() {
            return None;
        }
        let before = self.packets();
        self.to.note(now, before, bps, span);
        if span < SPAN_MIN {
            self.floor = Some(Rate::of(Bytes::new(u64::from(before) * bytes as u64), SPAN_MIN));
            self.set_packets(before * 2);
        } else {
            self.floor = None;
            if span > SPAN_MAX {
                self.set_packets(before / 2);
            }
        }
        Some(self.packets() == before && !self.to.is_uncertain() && (self.to.agree() || bps == 0))
    }
}

/// Whether a rate is that of another link than the known one.
fn is_off(bps: u64, known: u64) -> bool {
    bps as f64 > known as f64 * OTHER_LINK_FACTOR || (bps as f64) < known as f64 / OTHER_LINK_FACTOR
}

/// Rate from which on links are too fast to measure, about.
pub(super) fn fastest(settings: &Settings) -> Rate {
    Rate::of(Bytes::new(u64::from(TRAIN_PACKETS_MAX) * u64::from(settings.mtu)), SPAN_MIN)
}

/// Whether a round trip is that of another link: the minimum of some seconds is more than a quarter off, and by more
/// than threads are late.
fn is_other_round_trip(now: Duration, then: Duration) -> bool {
    let off = now.abs_diff(then);
    off > then / 4 && off > Duration::from_millis(2)
}

/// Rate of a train, b/s of IP; 0: it cannot be measured. A train that was too fast has the rate of the slowest one that
/// would be, each time the same.
fn train_rate(train: &TrainObservation, span: Duration) -> u64 {
    if span < SPAN_MIN {
        let bytes = train.packets.iter().map(|p| u64::from(p.bytes)).sum();
        return Rate::of(Bytes::new(bytes), SPAN_MIN).as_bps();
    }
    ArrivalCurve::of(train).service().map_or(0, |s| s.sustained.as_bps())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_train_with_the_credit_of_a_token_bucket_keeps_the_measured_capacity() {
        let now = Instant::ZERO;
        // Twenty packets of 1500 bytes take 48 ms at 5 Mb/s, and no time with credit.
        let note = |rates: &mut TrainRates, is_fast: bool| {
            let (bps, span) = if is_fast { (120_000_000, 0) } else { (5_000_000, 48) };
            rates.note(now, 20, bps, Duration::from_millis(span));
            (rates.capacity().map(Rate::as_bps), rates.is_uncertain())
        };
        let mut rates = TrainRates::default();
        (0..3).for_each(|_| assert_eq!(note(&mut rates, false), (Some(5_000_000), false)));
        for _ in 0..2 {
            assert_eq!(note(&mut rates, true), (Some(5_000_000), true));
            assert_eq!(note(&mut rates, false), (Some(5_000_000), false));
        }
        // Two in a row: the link is another one.
        note(&mut rates, true);
        assert_eq!(note(&mut rates, true).0, None);
    }

    #[test]
    fn one_delayed_train_keeps_the_measured_capacity_even_if_the_round_trip_has_changed() {
        let mut rates = TrainRates::default();
        let mut note = |mbps: u64, is_invalidated: bool| {
            if is_invalidated {
                rates.invalidate();
            }
            // Ten packets of 1500 bytes.
            rates.note(Instant::ZERO, 10, mbps * 1_000_000, Duration::from_micros(120_000 / mbps));
            (rates.capacity().map(|c| c.as_bps() / 1_000_000), rates.agree() && !rates.is_uncertain())
        };
        (0..3).for_each(|_| assert_eq!(note(20, false).0, Some(20)));
        // Before the train, after it, and both.
        for invalidations in [[true, false], [false, true], [true, true]] {
            assert_eq!(note(8, invalidations[0]), (Some(20), false), "{invalidations:?}");
            assert_eq!(note(20, invalidations[1]).0, Some(20), "{invalidations:?}");
            (0..3).for_each(|_| assert_eq!(note(20, false).0, Some(20)));
        }
        // Two in a row are another link; a rate that is not off but differs takes three trains.
        assert_eq!(note(8, true).0, Some(20));
        assert_eq!(note(8, false).0, Some(8));
        (0..3).for_each(|_| assert_eq!(note(8, false), (Some(8), true)));
        let slowly: Vec<_> = (0..3).map(|n| note(10, n == 0)).collect();
        assert_eq!(slowly, [(Some(8), false), (Some(8), false), (Some(10), true)]);
    }
}
