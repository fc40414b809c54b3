//! What a link carries: trains of packets as fast as the sender can, and how they come out of the link. Their receiver tells.

use std::collections::VecDeque;
use std::time::Duration;

use estimate::probe::{ArrivalCurve, PacketOutcome, TrainObservation};
use route::{Member, Path};
use units::{Bytes, Instant, Rate};
use wire::overlay::{Message, SPACE_DIRECT, SPACE_PROBES};

use super::{Core, Output};
use crate::decapsulate::TrainPacket;
use crate::encapsulate::outer;
use crate::settings::Settings;

/// Packets of the first train, and most of a train.
const PACKETS: (u16, u16) = (10, 320);
/// A train that comes out sooner is followed by a longer one: a thread that is woken 50 µs late is a fortieth of it then. One that takes
/// [`TOO_LONG`] is followed by a shorter one, as others wait behind it.
const LEAST_SPAN: Duration = Duration::from_millis(2);
const TOO_LONG: Duration = Duration::from_millis(16);
/// Part of what probes may cost that trains may; the rest is for what tells losses.
pub(super) const PART: f64 = 0.25;
/// Mean time between trains once they agree.
const SELDOM: Duration = Duration::from_secs(30);
/// Trains whose median is the capacity.
const KEPT: usize = 5;
/// Trains agree that are within this of their median, and so many are enough.
const AGREE: f64 = 0.1;
const ENOUGH: usize = 3;
/// So many confirm what is known of a link that may be another.
const ANEW: usize = 2;
/// Two in a row that are off by this factor say that the link is another.
const ANOTHER: f64 = 1.5;
/// After so long without one of its packets a train is over, at its receiver; and after so long and a round trip there will be no answer.
const OVER: Duration = Duration::from_millis(200);
const UNANSWERED: Duration = Duration::from_secs(1);

/// Rates at which the last trains of one length came.
#[derive(Default)]
pub(super) struct Rates {
    packets: u16,
    bps: VecDeque<u64>,
    /// The last one of that length or more came too fast to be read.
    was_fast: bool,
    /// How many trains more are to say what the link carries before that is known, as it may be another.
    wanted: usize,
    /// When the last of them came: at its receiver, or, where a train was ours, the word of it.
    told: Option<Instant>,
}

impl Rates {
    /// A longer train than before says it better than all before; so does a shorter one, of a link that became slower. What came too fast to be read
    /// says nothing, unless there is no longer one.
    fn note(&mut self, now: Instant, packets: u16, bps: u64, span: Duration) {
        self.wanted = self.wanted.saturating_sub(1);
        if bps == 0 {
            return;
        }
        if span < LEAST_SPAN && packets < PACKETS.1 {
            // Two in a row: the link has become faster. For one, and for shorter ones, a shaper may just have had credit.
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
        if self.bps.len() == KEPT {
            self.bps.pop_front();
        }
        self.bps.push_back(bps);
        self.told = Some(now);
    }

    /// How long ago a train last told what the link carries.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        self.told.map(|at| now.saturating_since(at))
    }

    fn median(&self) -> Option<u64> {
        let mut sorted: Vec<u64> = self.bps.iter().copied().collect();
        sorted.sort_unstable();
        // Of two the lower one.
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }

    /// What the link carries, as far as known.
    pub(super) fn capacity(&self) -> Option<Rate> {
        self.median().map(Rate::from_bps)
    }

    /// The link may be another: [`ANEW`] trains are to confirm what is known, which counts for as many and not for one. The queue of a link makes its round trip another
    /// one, too, and then a single train that was held up would tell what the link carries.
    fn doubt(&mut self) {
        self.wanted = ANEW;
        let Some(known) = self.median().filter(|_| self.bps.len() > ANEW) else { return };
        let off = self.bps.back().copied().filter(|last| is_off(*last, known));
        self.bps = std::iter::repeat_n(known, ANEW).chain(off).collect();
    }

    /// Whether the last train is off: the link may be another.
    fn is_in_doubt(&self) -> bool {
        let last = self.median().zip(self.bps.back().copied());
        self.was_fast || self.wanted > 0 || last.is_some_and(|(median, last)| is_off(last, median))
    }

    fn agree(&self) -> bool {
        let Some(median) = self.median().map(|m| m as f64) else { return false };
        let near = self.bps.iter().filter(|bps| (**bps as f64 - median).abs() <= AGREE * median).count();
        near >= ENOUGH && near * 2 > self.bps.len()
    }
}

/// A train on its way in.
struct Coming {
    session: u32,
    number: u32,
    count: u16,
    latest: Instant,
    passage: TrainObservation,
}

/// Trains on a link, both ways.
pub(super) struct CapacityProber {
    pub(super) to: Rates,
    pub(super) from: Rates,
    coming: Option<Coming>,
    packets: u16,
    /// What the link carries at least, as the last train came in less than [`LEAST_SPAN`].
    floor: Option<Rate>,
    number: u32,
    next: Option<Instant>,
    /// When the budget has paid for the last one.
    paid: Option<Instant>,
    /// The least round trip when it was sent.
    rtt: Option<Duration>,
    /// When the train was sent that waits for an answer.
    waiting: Option<Instant>,
    /// Trains sent.
    pub(super) sent: u64,
}

impl Default for CapacityProber {
    fn default() -> Self {
        let (to, from) = (Rates::default(), Rates::default());
        Self {
            to,
            from,
            coming: None,
            packets: PACKETS.0,
            floor: None,
            number: 0,
            next: None,
            paid: None,
            rtt: None,
            waiting: None,
            sent: 0,
        }
    }
}

impl CapacityProber {
    /// What the link to the member carries, or carries at least.
    pub(super) fn carries(&self) -> Option<Rate> {
        self.to.capacity().max(self.floor)
    }

    /// The way that the link takes may be another: what it carries is found anew, as soon as the budget allows.
    pub(super) fn doubt(&mut self) {
        self.to.doubt();
        self.from.doubt();
        self.next = self.next.min(self.paid);
    }

    /// Takes the answer to the train of this number, of packets of `bytes`; says whether the next one can wait.
    fn on_report(&mut self, now: Instant, number: u32, bytes: usize, span: Duration, bps: u64) -> Option<bool> {
        if number != self.number || self.waiting.take().is_none() {
            return None;
        }
        let before = self.packets;
        self.to.note(now, before, bps, span);
        if span < LEAST_SPAN {
            self.floor = Some(Rate::of(Bytes::new(u64::from(before) * bytes as u64), LEAST_SPAN));
            self.packets = (self.packets * 2).min(PACKETS.1);
        } else {
            self.floor = None;
            if span > TOO_LONG {
                self.packets = (self.packets / 2).max(PACKETS.0);
            }
        }
        Some(self.packets == before && !self.to.is_in_doubt() && (self.to.agree() || bps == 0))
    }
}

/// Whether one rate is that of another link than the other.
fn is_off(bps: u64, known: u64) -> bool {
    bps as f64 > known as f64 * ANOTHER || (bps as f64) < known as f64 / ANOTHER
}

/// About the rate from which on links are too fast to be told apart.
pub(super) fn fastest(settings: &Settings) -> Rate {
    Rate::of(Bytes::new(u64::from(PACKETS.1) * u64::from(settings.mtu)), LEAST_SPAN)
}

/// Whether a round trip says that the way is another: the least of some seconds is more than a quarter off, and by more than threads are late.
fn is_another(now: Duration, then: Duration) -> bool {
    let off = now.abs_diff(then);
    off > then / 4 && off > Duration::from_millis(2)
}

/// Rate of a train, b/s of IP; 0: it cannot be told. One that came too fast to be read has that of the slowest that would be, which is the same each time.
fn rate_of(passage: &TrainObservation, span: Duration) -> u64 {
    if span < LEAST_SPAN {
        let bytes = passage.packets.iter().map(|p| u64::from(p.bytes)).sum();
        return Rate::of(Bytes::new(bytes), LEAST_SPAN).as_bps();
    }
    ArrivalCurve::of(passage).service().map_or(0, |s| s.sustained.as_bps())
}

impl Core {
    /// Sends the trains that are due, and ends those whose rest will not come.
    pub(super) fn poll_capacity_probes(&mut self, now: Instant) {
        let all: Vec<Member> = self.peers.keys().copied().collect();
        for member in all {
            let Some(peer) = self.peers.get_mut(&member) else { continue };
            let patience = UNANSWERED + peer.link.rtt().unwrap_or_default();
            let is_up = peer.link.is_up();
            let trains = &mut peer.trains;
            if peer.link.rtt().zip(trains.rtt).is_some_and(|(now, then)| is_another(now, then)) {
                trains.rtt = peer.link.rtt();
                trains.doubt();
            }
            if trains.coming.as_ref().is_some_and(|c| now.saturating_since(c.latest) > OVER) {
                self.end_train(now, member);
                continue;
            }
            if !is_up {
                // A link that comes back may be another.
                *trains = CapacityProber { number: trains.number, sent: trains.sent, ..CapacityProber::default() };
            } else if trains.waiting.is_some_and(|at| now.saturating_since(at) > patience) {
                trains.waiting = None;
                trains.packets = (trains.packets / 2).max(PACKETS.0);
            } else if trains.waiting.is_none() && trains.next.is_none_or(|at| now >= at) {
                self.send_train(now, member);
            }
        }
    }

    fn send_train(&mut self, now: Instant, member: Member) {
        let bytes = self.most_on(&Path::direct(member));
        let Some(peer) = self.peers.get_mut(&member) else { return };
        let trains = &mut peer.trains;
        trains.number = trains.number.wrapping_add(1);
        let (number, count) = (trains.number, trains.packets);
        let datagrams = (0..count).map_while(|index| {
            let mut train = Message::Train { number, index, count }.encode();
            train.resize(bytes, 0);
            self.sealed(now, Path::direct(member), SPACE_PROBES, &train)
        });
        let datagrams: Vec<(_, Vec<u8>)> = datagrams.collect();
        let Some((to, each)) = datagrams.first().map(|(to, d)| (*to, d.len())) else { return };
        let sent = datagrams.len();
        let burst: Vec<u8> = datagrams.into_iter().flat_map(|(_, d)| d).collect();
        let bytes_sent = burst.len() + sent * outer(to);
        self.outputs.push_back(Output::Trial { to, datagrams: burst, each });
        let next = self.next_train(now, member, false);
        let Some(peer) = self.peers.get_mut(&member) else { return };
        (peer.trains.waiting, peer.trains.next, peer.trains.paid) = (Some(now), Some(next), Some(next));
        peer.trains.rtt = peer.link.rtt();
        peer.trains.sent += 1;
        peer.link.probing().note_train(now, bytes_sent);
    }

    /// When the budget allows the next train; `seldom`: there is no haste.
    fn next_train(&mut self, now: Instant, member: Member, seldom: bool) -> Instant {
        let packets = self.peers.get(&member).map_or(0, |o| o.trains.packets);
        let bits = f64::from(packets) * f64::from(self.settings.mtu) * 8.0;
        let affordable = bits / (self.probe_budget(member) * PART).max(1.0);
        let wanted = if seldom { SELDOM.mul_f64(0.5 + self.prng.unit()) } else { Duration::ZERO };
        now + wanted.max(Duration::try_from_secs_f64(affordable).unwrap_or(SELDOM))
    }

    /// A packet of a train came.
    pub(crate) fn handle_train(&mut self, now: Instant, from: Member, packet: &TrainPacket) {
        let Some(peer) = self.peers.get_mut(&from).filter(|_| packet.count <= PACKETS.1) else { return };
        let is_same = |c: &Coming| (c.session, c.number, c.count) == (packet.session, packet.number, packet.count);
        if !peer.trains.coming.as_ref().is_some_and(is_same) {
            let passage = TrainObservation::default();
            let (session, number, count) = (packet.session, packet.number, packet.count);
            peer.trains.coming = Some(Coming { session, number, count, latest: packet.received_at, passage });
        }
        let Some(coming) = &mut peer.trains.coming else { return };
        coming.latest = packet.received_at;
        if coming.passage.packets.len() == usize::from(packet.count) {
            return;
        }
        coming.passage.packets.push(PacketOutcome {
            bytes: packet.bytes,
            sent: Some(packet.sent),
            received: Some(packet.received_at),
        });
        if packet.index + 1 == packet.count {
            self.end_train(now, from);
        }
    }

    /// Says what a train told.
    fn end_train(&mut self, now: Instant, from: Member) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(coming) = peer.trains.coming.take() else { return };
        let span = coming.passage.span_received();
        let bps = rate_of(&coming.passage, span);
        peer.trains.from.note(now, coming.count, bps, span);
        let Some(session) = peer.sessions.iter().find(|s| s.local == coming.session).cloned() else { return };
        let span = u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        let told = Message::TrainSeen { number: coming.number, span, bps };
        self.send_with(now, &session, Path::direct(from), SPACE_DIRECT, &told.encode());
    }

    /// What a train of ours told its receiver.
    pub(super) fn on_train_result(&mut self, now: Instant, from: Member, number: u32, span: Duration, bps: u64) {
        let bytes = self.most_on(&Path::direct(from));
        // No train tells more; and what it tells, decides how many more are sent.
        let bps = bps.min(fastest(&self.settings).as_bps());
        let on_report = |o: &mut super::Peer| o.trains.on_report(now, number, bytes, span, bps);
        let Some(seldom) = self.peers.get_mut(&from).and_then(on_report) else { return };
        let next = self.next_train(now, from, seldom);
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.trains.next = Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_train_that_comes_all_at_once_makes_no_known_link_unknown() {
        let now = Instant::ZERO;
        // Twenty packets of 1500 bytes take 48 ms at 5 Mb/s; where a shaper had credit, no time.
        let note = |rates: &mut Rates, is_fast: bool| {
            let (bps, span) = if is_fast { (120_000_000, 0) } else { (5_000_000, 48) };
            rates.note(now, 20, bps, Duration::from_millis(span));
            (rates.capacity().map(Rate::as_bps), rates.is_in_doubt())
        };
        let mut rates = Rates::default();
        (0..3).for_each(|_| assert_eq!(note(&mut rates, false), (Some(5_000_000), false)));
        for _ in 0..2 {
            assert_eq!(note(&mut rates, true), (Some(5_000_000), true));
            assert_eq!(note(&mut rates, false), (Some(5_000_000), false));
        }
        // Two in a row are no credit: the link is another.
        note(&mut rates, true);
        assert_eq!(note(&mut rates, true).0, None);
    }

    #[test]
    fn one_train_that_is_held_up_makes_no_known_link_slow_whatever_the_round_trip_says_of_it() {
        let mut rates = Rates::default();
        let mut note = |mbps: u64, is_doubted: bool| {
            if is_doubted {
                rates.doubt();
            }
            // Ten packets of 1500 bytes.
            rates.note(Instant::ZERO, 10, mbps * 1_000_000, Duration::from_micros(120_000 / mbps));
            (rates.capacity().map(|c| c.as_bps() / 1_000_000), rates.agree() && !rates.is_in_doubt())
        };
        (0..3).for_each(|_| assert_eq!(note(20, false).0, Some(20)));
        // Wherever the doubt falls: before the train, after it, and both.
        for doubts in [[true, false], [false, true], [true, true]] {
            assert_eq!(note(8, doubts[0]), (Some(20), false), "{doubts:?}");
            assert_eq!(note(20, doubts[1]).0, Some(20), "{doubts:?}");
            (0..3).for_each(|_| assert_eq!(note(20, false).0, Some(20)));
        }
        // Two in a row are another link; and one that is not off, but not the same, takes three.
        assert_eq!(note(8, true).0, Some(20));
        assert_eq!(note(8, false).0, Some(8));
        (0..3).for_each(|_| assert_eq!(note(8, false), (Some(8), true)));
        let slowly: Vec<_> = (0..3).map(|n| note(10, n == 0)).collect();
        assert_eq!(slowly, [(Some(8), false), (Some(8), false), (Some(10), true)]);
    }
}
