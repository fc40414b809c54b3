//! Datagrams at a node with sessions: from unauthenticated senders, and sealed by authenticated peers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use route::Member;
use units::Instant;
use wire::overlay::{ENVELOPE_BYTES, Envelope, SEALED_BYTES, Sealed, TAG_BYTES};

use crate::core::UNVERIFIED_PEER;
use crate::counters::Counters;
use crate::decapsulate::{Arrival, Decapsulator, Verdict};
use crate::handshake_limiter::MacKeys;
use crate::identity::Identity;
use crate::permits::PeerPermits;
use crate::session::{Cipher, Keys, Number, Session};
use crate::table::{PeerEntry, Sources, Table};

const OWN: Member = Member(1);
/// The peer that seals frames for this node, the relay that hands envelopes over, and an unverified peer.
const PEERS: [Member; 3] = [Member(2), Member(3), UNVERIFIED_PEER];
const ORIGIN: usize = 0;
const RELAY: usize = 1;
const AT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 5460);

/// Fuzz target: datagrams, each preceded by a byte for the kind of sealing and two bytes for its length.
///
/// Only an authenticated frame is delivered or forwarded, and only once; a delivered packet has a source address of its
/// peer.
///
/// # Panics
/// One of these invariants is violated.
pub fn decapsulator(mut data: &[u8]) {
    let node = Node::new();
    while let Some((&[how, low, high], rest)) = data.split_first_chunk::<3>() {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([low, high]))));
        data = rest;
        if let Some(datagram) = node.sealed(how, body) {
            node.receive(how, &datagram);
        }
    }
}

struct Node {
    table: Table,
    decapsulator: Decapsulator,
    counters: Counters,
    /// The peers' ends of the sessions, in the order of [`PEERS`].
    peer_sessions: [Arc<Session>; 3],
}

impl Node {
    fn new() -> Self {
        let session = |number: usize, is_own: bool| {
            let (own, theirs) = ([number as u8 + 1; 32], [number as u8 + 101; 32]);
            let (send, receive) = if is_own { (own, theirs) } else { (theirs, own) };
            let keys = Keys { cipher: Cipher::ChaCha20Poly1305, send, receive };
            let peer = if is_own { PEERS[number] } else { OWN };
            let local = number as u32 + 10;
            Session::new(peer, local, local, Instant::ZERO, false, &keys).map(Arc::new)
        };
        let ends = |is_own: bool| [0, 1, 2].map(|n| session(n, is_own));
        let [Some(origin), Some(relay), Some(unverified)] = ends(true) else { panic!("32 bytes are a valid key") };
        let [Some(a), Some(b), Some(c)] = ends(false) else { panic!("32 bytes are a valid key") };
        let peer = |session: &Arc<Session>, last: u8| PeerEntry {
            endpoint: Some(AT),
            session: Some(Arc::clone(session)),
            sources: Sources::new(&[IpAddr::from([10, 77, 0, last]).into()], [].iter()),
            routes: Vec::new(),
            quota: Arc::default(),
            permits: PeerPermits::default(),
        };
        let peers = vec![peer(&origin, 2), peer(&relay, 3)];
        let table = Table {
            own: OWN,
            peers,
            index: HashMap::from([(PEERS[ORIGIN], 0), (PEERS[RELAY], 1)]),
            sessions: [&origin, &relay, &unverified].into_iter().map(|s| (s.local, Arc::clone(s))).collect(),
            relay: true,
            ..Table::default()
        };
        let keys = MacKeys::of(&Identity::from_seed(&[1; 32]).public());
        Self {
            table,
            decapsulator: Decapsulator::new(keys, Arc::default(), None),
            counters: Counters::default(),
            peer_sessions: [a, b, c],
        }
    }

    /// The input as a datagram that a peer seals; `None`: the input has no valid header.
    fn sealed(&self, how: u8, body: &[u8]) -> Option<Vec<u8>> {
        match how % 4 {
            0 => Some(body.to_vec()),
            1 => self.frame(usize::from(how / 4) % PEERS.len(), body),
            2 => self.envelope(body, |inner| Some(inner.to_vec())),
            _ => self.envelope(body, |inner| self.frame(ORIGIN, inner)),
        }
    }

    fn frame(&self, from: usize, body: &[u8]) -> Option<Vec<u8>> {
        let session = self.peer_sessions.get(from)?;
        let header = Sealed { receiver: session.remote, ..Sealed::decode(body)? };
        let mut frame = [&header.encode()[..], body.get(SEALED_BYTES..)?, &[0; TAG_BYTES]].concat();
        session.seal(Number::of_frame(&header)?, &mut frame)?;
        Some(frame)
    }

    fn envelope(&self, body: &[u8], inner: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let session = &self.peer_sessions[RELAY];
        let envelope = Envelope { receiver: session.remote, ..Envelope::decode(body)? };
        let inner = inner(body.get(ENVELOPE_BYTES..)?)?;
        let mut datagram = [&envelope.encode()[..], &inner, &[0; TAG_BYTES]].concat();
        session.seal_envelope(Number::of_envelope(&envelope)?, &mut datagram)?;
        Some(datagram)
    }

    fn receive(&self, how: u8, datagram: &[u8]) {
        let arrival = Arrival { received_at: Instant::ZERO, from: AT, traffic_class: how >> 6 };
        let mut events = 0;
        let mut opened = datagram.to_vec();
        let verdict =
            self.decapsulator.handle_datagram(&self.table, &mut opened, arrival, &self.counters, &mut |_, _| {
                events += 1;
                true
            });
        assert!(events <= 3, "a datagram causes few events");
        match verdict {
            Verdict::Nothing => return,
            Verdict::Packet { begin, end, .. } => {
                let source = opened.get(begin..end).and_then(packet::source);
                let is_of_peer = |s| self.table.peers.iter().any(|p| p.sources.has(s));
                assert!(source.is_some_and(is_of_peer), "a packet has a source of its peer");
            }
            Verdict::Forward(envelope) => {
                let next = self.table.peer(Member(envelope.hop_to()));
                assert!(next.is_some(), "an envelope is forwarded to a peer");
            }
        }
        assert!(!how.is_multiple_of(4), "an unsealed datagram is dropped");
        let again = self.decapsulator.handle_datagram(
            &self.table,
            &mut datagram.to_vec(),
            arrival,
            &self.counters,
            &mut |_, _| true,
        );
        assert_eq!(again, Verdict::Nothing, "a frame is accepted once");
    }
}
