//! What a datagram from the network is: opened, checked, and what is to be done with it. No socket and no clock.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use packet::{ecn, mark_congestion};
use route::Member;
use units::{Bytes, Instant, Rate};
use wire::overlay::{
    Content, ENVELOPE_BYTES, Envelope, Kind, Message, SEALED_BYTES, SPACE_DIRECT, SPACE_PROBES, SPACE_RELAYED,
    SPACE_SENSOR, Sealed, TAG_BYTES,
};

use crate::core::{PendingHandshakes, Source, UNVERIFIED_PEER, is_for, micros};
use crate::counters::{Counters, bump};
use crate::encapsulate::{CONTROL_QUEUE, outer};
use crate::handshake_limiter::MacKeys;
use crate::permits::{Permit, QueuePermits};
use crate::session::{Number, Session};
use crate::table::{PeerEntry, Table};
use crate::window::Stale;

/// Calls that may wait for the controlling thread: anybody can make them, and no flood of them shall keep reports out.
const CALLS: usize = 256;
/// Answers to own calls that may wait: few can be forged, as they name a call that is open, and calls must not keep them out.
const ANSWERS: usize = 64;

/// What a member may hand over at once to be passed on: what its rate is for so long, and this much at least.
const RELAY_BURST: Duration = Duration::from_millis(250);
const LEAST_RELAY_BURST: Bytes = Bytes::new(65_536);

/// What the controlling thread must see.
#[derive(Debug)]
pub(crate) enum Event {
    Handshake {
        source: Source,
        datagram: Vec<u8>,
    },
    Message {
        from: Member,
        session: u32,
        /// That it came in.
        space: u8,
        message: Message,
    },
    /// A packet of a train.
    Train {
        from: Member,
        packet: TrainPacket,
    },
    Moved {
        member: Member,
        to: SocketAddr,
    },
    /// Frames of a packet number space come by this way now.
    Came {
        from: Member,
        session: u32,
        space: u8,
        envelope: Envelope,
    },
    /// A session was used for the first time.
    Confirmed,
}

/// One packet of a train.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrainPacket {
    pub(crate) session: u32,
    pub(crate) number: u32,
    pub(crate) index: u16,
    pub(crate) count: u16,
    /// IP bytes of its datagram.
    pub(crate) bytes: u32,
    /// By its sender's clock.
    pub(crate) sent: Instant,
    pub(crate) came: Instant,
}

/// What is to be done with a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing more.
    Nothing,
    /// There is an IP packet for this host at this place of the datagram; `partial`: its checksum is.
    Packet { begin: usize, end: usize, partial: bool },
    /// It is to be passed on with this envelope.
    Forward(Envelope),
}

/// When and how a datagram came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// As the kernel took it from the network: how soon this thread had a CPU is not in it.
    pub(crate) came: Instant,
    pub(crate) from: SocketAddr,
    /// DSCP and ECN of its IP header.
    pub(crate) traffic_class: u8,
}

/// Opens datagrams. Each thread that does so has a copy.
#[derive(Clone)]
pub(crate) struct Decapsulator {
    keys: MacKeys,
    pending_handshakes: Arc<PendingHandshakes>,
    calls: QueuePermits,
    answers: QueuePermits,
    relay_rate: Option<Rate>,
}

impl Decapsulator {
    /// `keys`: this member's own. `pending_handshakes`: those to which answers are let through. `relay_rate`: most that is passed on of what each
    /// member hands over.
    pub(crate) fn new(keys: MacKeys, pending_handshakes: Arc<PendingHandshakes>, relay_rate: Option<Rate>) -> Self {
        Self {
            keys,
            pending_handshakes,
            calls: QueuePermits::new(CALLS),
            answers: QueuePermits::new(ANSWERS),
            relay_rate,
        }
    }

    /// Takes a datagram, opening it in place.
    pub(crate) fn take(
        &self,
        table: &Table,
        datagram: &mut [u8],
        arrival: Arrival,
        counters: &Counters,
        tell: &mut impl FnMut(Event, Permit) -> bool,
    ) -> Verdict {
        let mut turn = Turn { decapsulator: self, table, arrival, counters, tell };
        match Kind::of(datagram) {
            Some(Kind::Sealed) => {
                let bytes = datagram.len() + outer(arrival.from);
                turn.open(datagram, 0, bytes, None)
            }
            Some(Kind::Envelope) => turn.envelope(datagram),
            Some(Kind::Initiation | Kind::Response | Kind::Cookie) => {
                turn.handshake(datagram, Source::Direct(arrival.from));
                Verdict::Nothing
            }
            None => turn.refuse(&counters.malformed),
        }
    }
}

/// One datagram's way through the opener.
struct Turn<'a, T> {
    decapsulator: &'a Decapsulator,
    table: &'a Table,
    arrival: Arrival,
    counters: &'a Counters,
    tell: &'a mut T,
}

impl<T: FnMut(Event, Permit) -> bool> Turn<'_, T> {
    fn refuse(&self, counter: &std::sync::atomic::AtomicU64) -> Verdict {
        bump(counter);
        Verdict::Nothing
    }

    fn handshake(&mut self, datagram: &[u8], source: Source) {
        if !is_for(&self.decapsulator.keys, &self.decapsulator.pending_handshakes, datagram) {
            return bump(&self.counters.handshake_unauthenticated);
        }
        let is_call = Kind::of(datagram) == Some(Kind::Initiation);
        let permits = if is_call { &self.decapsulator.calls } else { &self.decapsulator.answers };
        match permits.take() {
            Some(place) => drop((self.tell)(Event::Handshake { source, datagram: datagram.to_vec() }, place)),
            None => bump(&self.counters.control_queue_full),
        }
    }

    /// Tells what a frame of a member brings, if there is room for it; says whether there was.
    fn told(&mut self, from: Member, event: Event) -> bool {
        let permits = self.table.peer(from).map(|p| match event {
            Event::Train { .. } => &p.permits.packets,
            Event::Came { .. } => &p.permits.paths,
            Event::Handshake { .. } | Event::Message { .. } | Event::Moved { .. } | Event::Confirmed => {
                &p.permits.messages
            }
        });
        let Some(place) = permits.and_then(QueuePermits::take) else {
            bump(&self.counters.control_queue_full);
            return false;
        };
        (self.tell)(event, place)
    }

    /// A frame that is not taken.
    fn refuse_stale(&self, stale: Stale) -> Verdict {
        self.refuse(match stale {
            Stale::Replayed => &self.counters.replayed,
            Stale::TooOld => &self.counters.outside_replay_window,
        })
    }

    /// Takes an authentic frame of `bytes`.
    fn note(&mut self, session: &Session, number: Number, bytes: usize, sent: u32) -> Result<(), Stale> {
        let came = micros(self.arrival.came);
        let ahead = session.note(number, came)?;
        if let Some(arrivals) = session.arrivals.get(usize::from(number.space)) {
            arrivals.note(ahead, bytes as u64, sent, came);
        }
        let is_first = !session.confirmed.load(Ordering::Relaxed) && !session.confirmed.swap(true, Ordering::Relaxed);
        if is_first && session.peer != UNVERIFIED_PEER {
            self.told(session.peer, Event::Confirmed);
        }
        Ok(())
    }

    /// A sealed frame for this member, `at` bytes behind the begin of its datagram of `bytes`.
    fn open(&mut self, frame: &mut [u8], at: usize, bytes: usize, via: Option<Envelope>) -> Verdict {
        let counters = self.counters;
        let decoded = Sealed::decode(frame).and_then(|h| Some((h, Number::of_frame(&h)?)));
        let Some((header, number)) = decoded else { return self.refuse(&counters.malformed) };
        let Some(session) = self.table.sessions.get(&header.receiver) else { return self.refuse(&counters.no_session) };
        // The packet number space of hops is for envelopes, the direct ones for what came directly: only so do they tell of this link.
        let is_direct = matches!(header.space, SPACE_DIRECT | SPACE_PROBES | SPACE_SENSOR);
        if header.space == SPACE_RELAYED || via.is_none() != is_direct {
            return self.refuse(&counters.malformed);
        }
        if session.peer == UNVERIFIED_PEER
            && (via.is_some() || (header.space, header.queue) != (SPACE_DIRECT, CONTROL_QUEUE))
        {
            return self.refuse(&counters.handshake_unauthenticated);
        }
        if let Err(stale) = session.check(number) {
            return self.refuse_stale(stale);
        }
        let Some(contents) = session.open(number, frame) else { return self.refuse(&counters.auth_failed) };
        if let Err(stale) = self.note(session, number, bytes, header.sent) {
            return self.refuse_stale(stale);
        }
        bump(&counters.frames_opened);
        if session.peer == UNVERIFIED_PEER {
            self.unverified(session, contents);
            return Verdict::Nothing;
        }
        self.note_path(session, header.space, via);
        match header.content {
            Content::Message => {
                self.message(session, contents, bytes, &header);
                Verdict::Nothing
            }
            Content::Packet { partial } => {
                let begin = at + SEALED_BYTES;
                let end = begin + contents.len();
                if let Some(arrivals) = session.arrivals.get(usize::from(header.space)) {
                    arrivals.note_packet(contents.len() as u64);
                }
                let may = self.may_deliver(session, contents);
                if may { Verdict::Packet { begin, end, partial } } else { Verdict::Nothing }
            }
        }
    }

    /// Tells when a member's frames come another way than before.
    fn note_path(&mut self, session: &Session, space: u8, via: Option<Envelope>) {
        let from = session.peer;
        let Some(envelope) = via else {
            session.came_from(self.arrival.from);
            // Frames from elsewhere than those of the session in use may be another host's that has the same key.
            let is_anothers = |p: &PeerEntry| p.session.as_ref().is_some_and(|s| session.is_elsewhere(s));
            let has_moved = |p: &PeerEntry| p.endpoint != Some(self.arrival.from) && !is_anothers(p);
            if self.table.peer(from).is_some_and(has_moved) {
                self.told(from, Event::Moved { member: from, to: self.arrival.from });
            }
            return;
        };
        // What an envelope says of its way is not its origin's word but that of the hops; an answer that goes astray is lost, no more.
        if envelope.origin == from.0 && session.came_over(space, envelope.relays) {
            let is_told = self.told(from, Event::Came { from, session: session.local, space, envelope });
            if !is_told {
                session.forget_path(space);
            }
        }
    }

    /// Who has called and is not known yet is heard once: with its certificate.
    fn unverified(&mut self, session: &Session, contents: &[u8]) {
        let Some(message @ Message::Certificate(_)) = Message::decode(contents) else { return };
        if session.shown.swap(true, Ordering::Relaxed) {
            return;
        }
        match self.decapsulator.calls.take() {
            Some(place) => {
                let told =
                    Event::Message { from: UNVERIFIED_PEER, session: session.local, space: SPACE_DIRECT, message };
                let _ = (self.tell)(told, place);
            }
            None => bump(&self.counters.control_queue_full),
        }
    }

    fn message(&mut self, session: &Session, contents: &[u8], bytes: usize, header: &Sealed) {
        let came = self.arrival.came;
        match Message::decode(contents) {
            // Only to be counted.
            Some(Message::Probe) => {}
            Some(Message::Train { number, index, count }) => {
                let sent = Instant::from_nanos(u64::from(header.sent) * 1000);
                let packet =
                    TrainPacket { session: session.local, number, index, count, bytes: bytes as u32, sent, came };
                self.told(session.peer, Event::Train { from: session.peer, packet });
            }
            Some(message) => {
                let (from, session, space) = (session.peer, session.local, header.space);
                self.told(from, Event::Message { from, session, space, message });
            }
            None => bump(&self.counters.malformed),
        }
    }

    /// Whether the packet is its member's to send, and may carry the mark that its datagram got on the way.
    fn may_deliver(&self, session: &Session, contents: &mut [u8]) -> bool {
        let counter = match packet::source(contents) {
            None => &self.counters.malformed,
            Some(source) if !self.table.peer(session.peer).is_some_and(|p| p.sources.has(source)) => {
                &self.counters.spoofed
            }
            Some(_) if self.arrival.traffic_class & 3 == 3 && ecn(contents).is_some() && !mark_congestion(contents) => {
                &self.counters.ecn_ce_dropped
            }
            Some(_) => return true,
        };
        bump(counter);
        false
    }

    /// An envelope: for this member, or to be passed on.
    fn envelope(&mut self, datagram: &mut [u8]) -> Verdict {
        let counters = self.counters;
        let decoded = Envelope::decode(datagram).and_then(|e| Some((e, Number::of_envelope(&e)?)));
        let Some((envelope, number)) = decoded else { return self.refuse(&counters.malformed) };
        let Some(session) = self.table.sessions.get(&envelope.receiver) else {
            return self.refuse(&counters.no_session);
        };
        if session.peer == UNVERIFIED_PEER {
            return self.refuse(&counters.relay_denied);
        }
        if let Err(stale) = session.check(number) {
            return self.refuse_stale(stale);
        }
        if !session.opens_envelope(number, datagram) {
            return self.refuse(&counters.auth_failed);
        }
        let bytes = datagram.len() + outer(self.arrival.from);
        if let Err(stale) = self.note(session, number, bytes, envelope.sent) {
            return self.refuse_stale(stale);
        }
        // Who sent this hop is who the envelope says, and this member is who it is for: nobody is made to relay a way that is none.
        if envelope.hop_from() != session.peer.0 || envelope.hop_to() != self.table.own.0 {
            return self.refuse(&counters.relay_denied);
        }
        if envelope.destination != self.table.own.0 {
            return self.onward(envelope, session.peer, bytes);
        }
        let end = datagram.len() - TAG_BYTES;
        let Some(body) = datagram.get_mut(ENVELOPE_BYTES..end) else { return self.refuse(&counters.malformed) };
        match Kind::of(body) {
            Some(Kind::Sealed) => self.open(body, ENVELOPE_BYTES, bytes, Some(envelope)),
            Some(Kind::Initiation | Kind::Response | Kind::Cookie) => {
                self.handshake(body, Source::Relayed(envelope));
                Verdict::Nothing
            }
            Some(Kind::Envelope) | None => self.refuse(&counters.malformed),
        }
    }

    fn onward(&mut self, mut envelope: Envelope, from: Member, bytes: usize) -> Verdict {
        envelope.position += 1;
        let next = self.table.peer(Member(envelope.hop_to()));
        let reachable = next.is_some_and(|p| p.session.is_some() && p.endpoint.is_some());
        // Who has not shown a certificate yet has a session, too.
        let is_among_members = [from, Member(envelope.origin)].iter().all(|m| self.table.index.contains_key(m));
        if !self.table.relay || !reachable || !is_among_members {
            return self.refuse(&self.counters.relay_denied);
        }
        if !self.within_quota(from, bytes) {
            return self.refuse(&self.counters.relay_rate_limited);
        }
        Verdict::Forward(envelope)
    }

    /// The origin is what those before on the way say, who could spare themselves and burden others; `from` is who hands it over, by its session.
    fn within_quota(&self, from: Member, bytes: usize) -> bool {
        let Some(rate) = self.decapsulator.relay_rate else { return true };
        let burst = rate.time_for(LEAST_RELAY_BURST).map(|least| least.max(RELAY_BURST));
        let peer = self.table.peer(from);
        peer.zip(burst).is_some_and(|(p, burst)| p.quota.takes(self.arrival.came, rate, burst, bytes as u64))
    }
}

/// Where in a room of many datagrams a packet lies.
pub(crate) fn place(taken: Verdict, datagram: &Range<usize>) -> Option<(Range<usize>, bool)> {
    match taken {
        Verdict::Packet { begin, end, partial } => Some((datagram.start + begin..datagram.start + end, partial)),
        Verdict::Nothing | Verdict::Forward(_) => None,
    }
}
