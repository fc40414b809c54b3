//! Decapsulation of datagrams from the network: replay check, decryption, source check and verdict. A state machine
//! without socket and clock.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Handshake initiations that may wait for the controlling thread. Any host can send them; a flood must not displace
/// link reports.
const INITIATIONS_MAX: usize = 256;
/// Handshake responses and cookies that may wait. Only those for a pending handshake pass, so forgeries are few;
/// initiations must not displace them.
const RESPONSES_MAX: usize = 64;

/// Burst of envelopes that a peer may hand over for relaying: the configured rate for this time, but at least
/// [`RELAY_BURST_BYTES_MIN`].
const RELAY_BURST: Duration = Duration::from_millis(250);
const RELAY_BURST_BYTES_MIN: Bytes = Bytes::new(65_536);

/// An input for the controlling thread.
#[derive(Debug)]
pub(crate) enum Event {
    /// A handshake message.
    Handshake { source: Source, datagram: Vec<u8> },
    /// An authenticated message of a peer.
    Message {
        from: Member,
        session: u32,
        /// Packet number space of its frame.
        space: u8,
        message: Message,
    },
    /// A packet of a packet train.
    Train { from: Member, packet: TrainPacket },
    /// Direct frames of a peer arrive from a new address.
    EndpointChanged { member: Member, to: SocketAddr },
    /// Frames of a packet number space arrive over other relays than before.
    PathChanged { from: Member, session: u32, space: u8, envelope: Envelope },
    /// The first authentic frame of a session has arrived.
    Confirmed,
}

/// One received packet of a train.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrainPacket {
    pub(crate) session: u32,
    /// Number of the train.
    pub(crate) number: u32,
    pub(crate) index: u16,
    pub(crate) count: u16,
    /// Size of its datagram in IP bytes.
    pub(crate) bytes: u32,
    /// Transmit time by the sender's clock.
    pub(crate) sent: Instant,
    pub(crate) received_at: Instant,
}

/// Result of the decapsulation of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is left to do.
    Nothing,
    /// Deliver the IP packet in this range of the datagram to the host; `partial`: its checksum is partial.
    Packet { begin: usize, end: usize, partial: bool },
    /// Forward the datagram with this envelope.
    Forward(Envelope),
}

/// Arrival of a datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// The kernel's receive timestamp, which excludes the scheduling delay of this thread.
    pub(crate) received_at: Instant,
    pub(crate) from: SocketAddr,
    /// DSCP and ECN of the IP header.
    pub(crate) traffic_class: u8,
}

/// Decapsulates datagrams. Each receive thread has a clone.
#[derive(Clone)]
pub(crate) struct Decapsulator {
    keys: MacKeys,
    pending_handshakes: Arc<PendingHandshakes>,
    initiations: QueuePermits,
    responses: QueuePermits,
    relay_rate: Option<Rate>,
}

impl Decapsulator {
    /// `keys`: of this member. `pending_handshakes`: responses to other handshakes are dropped. `relay_rate`: maximum
    /// rate of relayed traffic per peer that hands it over; `None`: unlimited.
    pub(crate) fn new(keys: MacKeys, pending_handshakes: Arc<PendingHandshakes>, relay_rate: Option<Rate>) -> Self {
        let (initiations, responses) = (QueuePermits::new(INITIATIONS_MAX), QueuePermits::new(RESPONSES_MAX));
        Self { keys, pending_handshakes, initiations, responses, relay_rate }
    }

    /// Decapsulates a datagram in place. `emit` passes an event on and returns whether its queue had room.
    pub(crate) fn handle_datagram(
        &self,
        table: &Table,
        datagram: &mut [u8],
        arrival: Arrival,
        counters: &Counters,
        emit: &mut impl FnMut(Event, Permit) -> bool,
    ) -> Verdict {
        let mut context = DatagramContext { decapsulator: self, table, arrival, counters, emit };
        match Kind::of(datagram) {
            Some(Kind::Sealed) => {
                let bytes = datagram.len() + outer(arrival.from);
                context.open(datagram, 0, bytes, None)
            }
            Some(Kind::Envelope) => context.envelope(datagram),
            Some(Kind::Initiation | Kind::Response | Kind::Cookie) => {
                context.handshake(datagram, Source::Direct(arrival.from));
                Verdict::Nothing
            }
            None => context.drop_with(&counters.malformed),
        }
    }
}

/// Inputs for the processing of one datagram.
struct DatagramContext<'a, T> {
    decapsulator: &'a Decapsulator,
    table: &'a Table,
    arrival: Arrival,
    counters: &'a Counters,
    emit: &'a mut T,
}

impl<T: FnMut(Event, Permit) -> bool> DatagramContext<'_, T> {
    /// Counts a dropped datagram.
    fn drop_with(&self, counter: &AtomicU64) -> Verdict {
        bump(counter);
        Verdict::Nothing
    }

    fn handshake(&mut self, datagram: &[u8], source: Source) {
        if !is_for(&self.decapsulator.keys, &self.decapsulator.pending_handshakes, datagram) {
            return bump(&self.counters.handshake_unauthenticated);
        }
        let is_initiation = Kind::of(datagram) == Some(Kind::Initiation);
        let permits = if is_initiation { &self.decapsulator.initiations } else { &self.decapsulator.responses };
        match permits.try_acquire() {
            Some(permit) => drop((self.emit)(Event::Handshake { source, datagram: datagram.to_vec() }, permit)),
            None => bump(&self.counters.control_queue_full),
        }
    }

    /// Emits an event of a peer if the peer has a permit left; false: the event was dropped.
    fn emit_for(&mut self, from: Member, event: Event) -> bool {
        let permits = self.table.peer(from).map(|p| match event {
            Event::Train { .. } => &p.permits.packets,
            Event::PathChanged { .. } => &p.permits.paths,
            Event::Handshake { .. } | Event::Message { .. } | Event::EndpointChanged { .. } | Event::Confirmed => {
                &p.permits.messages
            }
        });
        let Some(permit) = permits.and_then(QueuePermits::try_acquire) else {
            bump(&self.counters.control_queue_full);
            return false;
        };
        (self.emit)(event, permit)
    }

    /// Counts a frame that the replay check rejects.
    fn drop_stale(&self, stale: Stale) -> Verdict {
        self.drop_with(match stale {
            Stale::Replayed => &self.counters.replayed,
            Stale::TooOld => &self.counters.outside_replay_window,
        })
    }

    /// Accepts an authentic frame of `bytes` IP bytes, sent at `sent` (microseconds), in the replay window and the
    /// receive statistics.
    fn accept(&mut self, session: &Session, number: Number, bytes: usize, sent: u32) -> Result<(), Stale> {
        let received_at = micros(self.arrival.received_at);
        let ahead = session.accept(number, received_at)?;
        if let Some(arrivals) = session.arrivals.get(usize::from(number.space)) {
            arrivals.note(ahead, bytes as u64, sent, received_at);
        }
        let is_first = !session.confirmed.load(Ordering::Relaxed) && !session.confirmed.swap(true, Ordering::Relaxed);
        if is_first && session.peer != UNVERIFIED_PEER {
            self.emit_for(session.peer, Event::Confirmed);
        }
        Ok(())
    }

    /// Opens a sealed frame for this member. `at`: offset of the frame in its datagram. `bytes`: IP bytes of the
    /// datagram. `via`: its envelope.
    fn open(&mut self, frame: &mut [u8], at: usize, bytes: usize, via: Option<Envelope>) -> Verdict {
        let counters = self.counters;
        let decoded = Sealed::decode(frame).and_then(|h| Some((h, Number::of_frame(&h)?)));
        let Some((header, number)) = decoded else { return self.drop_with(&counters.malformed) };
        let Some(session) = self.table.sessions.get(&header.receiver) else {
            return self.drop_with(&counters.no_session);
        };
        // Direct frames and relayed frames use separate packet number spaces, so that the direct ones measure this link
        // only.
        let is_direct = matches!(header.space, SPACE_DIRECT | SPACE_PROBES | SPACE_SENSOR);
        if header.space == SPACE_RELAYED || via.is_none() != is_direct {
            return self.drop_with(&counters.malformed);
        }
        if session.peer == UNVERIFIED_PEER
            && (via.is_some() || (header.space, header.queue) != (SPACE_DIRECT, CONTROL_QUEUE))
        {
            return self.drop_with(&counters.handshake_unauthenticated);
        }
        if let Err(stale) = session.check(number) {
            return self.drop_stale(stale);
        }
        let Some(contents) = session.open(number, frame) else { return self.drop_with(&counters.auth_failed) };
        if let Err(stale) = self.accept(session, number, bytes, header.sent) {
            return self.drop_stale(stale);
        }
        bump(&counters.frames_opened);
        if session.peer == UNVERIFIED_PEER {
            self.receive_certificate(session, contents);
            return Verdict::Nothing;
        }
        self.note_path(session, header.space, via);
        match header.content {
            Content::Message => {
                self.receive_message(session, contents, bytes, &header);
                Verdict::Nothing
            }
            Content::Packet { partial } => {
                let begin = at + SEALED_BYTES;
                let end = begin + contents.len();
                if let Some(arrivals) = session.arrivals.get(usize::from(header.space)) {
                    arrivals.note_packet(contents.len() as u64);
                }
                let is_allowed = self.may_deliver(session, contents);
                if is_allowed { Verdict::Packet { begin, end, partial } } else { Verdict::Nothing }
            }
        }
    }

    /// Emits an event when the frames of a peer arrive from a new address or over other relays.
    fn note_path(&mut self, session: &Session, space: u8, via: Option<Envelope>) {
        let from = session.peer;
        let Some(envelope) = via else {
            session.note_source(self.arrival.from);
            // Frames from another source than those of the session in use may come from another host with the same key.
            let is_duplicate = |p: &PeerEntry| p.session.as_ref().is_some_and(|s| session.has_other_source(s));
            let has_moved = |p: &PeerEntry| p.endpoint != Some(self.arrival.from) && !is_duplicate(p);
            if self.table.peer(from).is_some_and(has_moved) {
                self.emit_for(from, Event::EndpointChanged { member: from, to: self.arrival.from });
            }
            return;
        };
        // The relays of an envelope are authenticated by the hops, not by the origin. A wrong reverse path loses a
        // reply and nothing else.
        if envelope.origin == from.0 && session.note_relays(space, envelope.relays) {
            let event = Event::PathChanged { from, session: session.local, space, envelope };
            if !self.emit_for(from, event) {
                session.forget_relays(space);
            }
        }
    }

    /// An unverified peer may send one message: its certificate.
    fn receive_certificate(&mut self, session: &Session, contents: &[u8]) {
        let Some(message @ Message::Certificate(_)) = Message::decode(contents) else { return };
        if session.certificate_received.swap(true, Ordering::Relaxed) {
            return;
        }
        match self.decapsulator.initiations.try_acquire() {
            Some(permit) => {
                let (from, session, space) = (UNVERIFIED_PEER, session.local, SPACE_DIRECT);
                let _ = (self.emit)(Event::Message { from, session, space, message }, permit);
            }
            None => bump(&self.counters.control_queue_full),
        }
    }

    fn receive_message(&mut self, session: &Session, contents: &[u8], bytes: usize, header: &Sealed) {
        let received_at = self.arrival.received_at;
        match Message::decode(contents) {
            // A loss probe has no contents; the receive statistics have counted it.
            Some(Message::Probe) => {}
            Some(Message::Train { number, index, count }) => {
                let sent = Instant::from_nanos(u64::from(header.sent) * 1000);
                let (session, from, bytes) = (session.local, session.peer, bytes as u32);
                let packet = TrainPacket { session, number, index, count, bytes, sent, received_at };
                self.emit_for(from, Event::Train { from, packet });
            }
            Some(message) => {
                let (from, session, space) = (session.peer, session.local, header.space);
                self.emit_for(from, Event::Message { from, session, space, message });
            }
            None => bump(&self.counters.malformed),
        }
    }

    /// Whether the peer may send from the packet's source address, and whether a congestion mark of the datagram can be
    /// copied to the packet (RFC 6040).
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

    /// Authenticates an envelope, and opens or forwards its contents.
    fn envelope(&mut self, datagram: &mut [u8]) -> Verdict {
        let counters = self.counters;
        let decoded = Envelope::decode(datagram).and_then(|e| Some((e, Number::of_envelope(&e)?)));
        let Some((envelope, number)) = decoded else { return self.drop_with(&counters.malformed) };
        let Some(session) = self.table.sessions.get(&envelope.receiver) else {
            return self.drop_with(&counters.no_session);
        };
        if session.peer == UNVERIFIED_PEER {
            return self.drop_with(&counters.relay_denied);
        }
        if let Err(stale) = session.check(number) {
            return self.drop_stale(stale);
        }
        if !session.verify_envelope(number, datagram) {
            return self.drop_with(&counters.auth_failed);
        }
        let bytes = datagram.len() + outer(self.arrival.from);
        if let Err(stale) = self.accept(session, number, bytes, envelope.sent) {
            return self.drop_stale(stale);
        }
        // The hop in the envelope must match the session and this member: a peer cannot make others relay over an
        // invalid path.
        if envelope.hop_from() != session.peer.0 || envelope.hop_to() != self.table.own.0 {
            return self.drop_with(&counters.relay_denied);
        }
        if envelope.destination != self.table.own.0 {
            return self.forward(envelope, session.peer, bytes);
        }
        let end = datagram.len() - TAG_BYTES;
        let Some(body) = datagram.get_mut(ENVELOPE_BYTES..end) else { return self.drop_with(&counters.malformed) };
        match Kind::of(body) {
            Some(Kind::Sealed) => self.open(body, ENVELOPE_BYTES, bytes, Some(envelope)),
            Some(Kind::Initiation | Kind::Response | Kind::Cookie) => {
                self.handshake(body, Source::Relayed(envelope));
                Verdict::Nothing
            }
            Some(Kind::Envelope) | None => self.drop_with(&counters.malformed),
        }
    }

    fn forward(&mut self, mut envelope: Envelope, from: Member, bytes: usize) -> Verdict {
        envelope.position += 1;
        let next = self.table.peer(Member(envelope.hop_to()));
        let reachable = next.is_some_and(|p| p.session.is_some() && p.endpoint.is_some());
        // An unverified peer has a session, but no entry in the index.
        let are_members = [from, Member(envelope.origin)].iter().all(|m| self.table.index.contains_key(m));
        if !self.table.relay || !reachable || !are_members {
            return self.drop_with(&self.counters.relay_denied);
        }
        if !self.within_quota(from, bytes) {
            return self.drop_with(&self.counters.relay_rate_limited);
        }
        Verdict::Forward(envelope)
    }

    /// Charges the peer that hands the envelope over, which its session authenticates. The origin is a claim of the
    /// earlier hops and could shift the charge to another peer.
    fn within_quota(&self, from: Member, bytes: usize) -> bool {
        let Some(rate) = self.decapsulator.relay_rate else { return true };
        let burst = rate.time_for(RELAY_BURST_BYTES_MIN).map(|min| min.max(RELAY_BURST));
        let peer = self.table.peer(from);
        peer.zip(burst)
            .is_some_and(|(p, burst)| p.quota.try_consume(self.arrival.received_at, rate, burst, bytes as u64))
    }
}

/// Range of a delivered packet in a buffer of many datagrams, and whether its checksum is partial. `datagram`: range of
/// its datagram.
pub(crate) fn packet_range(verdict: Verdict, datagram: &Range<usize>) -> Option<(Range<usize>, bool)> {
    match verdict {
        Verdict::Packet { begin, end, partial } => Some((datagram.start + begin..datagram.start + end, partial)),
        Verdict::Nothing | Verdict::Forward(_) => None,
    }
}
