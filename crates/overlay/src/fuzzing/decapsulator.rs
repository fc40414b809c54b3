//! Datagrams at a node that has sessions: datagrams of unauthenticated senders, and frames that authenticated peers seal.

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
/// The peer that seals frames for this node, the one that hands envelopes over, and a caller that is not known yet.
const FAR: [Member; 3] = [Member(2), Member(3), UNVERIFIED_PEER];
const ORIGIN: usize = 0;
const RELAY: usize = 1;
const AT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 5460);

/// Datagrams, each with a byte that says how it is sealed and two for its length.
///
/// Nothing but a frame that a session authenticates is delivered or passed on, once only, and a packet has a source of its peer.
///
/// # Panics
/// One of these promises is broken.
pub fn decapsulator(mut data: &[u8]) {
    let node = Node::new();
    while let Some((&[how, low, high], rest)) = data.split_first_chunk::<3>() {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([low, high]))));
        data = rest;
        if let Some(datagram) = node.sealed(how, body) {
            node.take(how, &datagram);
        }
    }
}

struct Node {
    table: Table,
    decapsulator: Decapsulator,
    counters: Counters,
    /// The other ends of the sessions, in the order of [`FAR`].
    far: [Arc<Session>; 3],
}

impl Node {
    fn new() -> Self {
        let session = |number: usize, is_near: bool| {
            let (near, far) = ([number as u8 + 1; 32], [number as u8 + 101; 32]);
            let (send, receive) = if is_near { (near, far) } else { (far, near) };
            let keys = Keys { cipher: Cipher::ChaCha20Poly1305, send, receive };
            let peer = if is_near { FAR[number] } else { OWN };
            let local = number as u32 + 10;
            Session::new(peer, local, local, Instant::ZERO, false, &keys).map(Arc::new)
        };
        let ends = |is_near: bool| [0, 1, 2].map(|n| session(n, is_near));
        let [Some(origin), Some(relay), Some(unverified)] = ends(true) else { panic!("keys of 32 bytes are keys") };
        let [Some(a), Some(b), Some(c)] = ends(false) else { panic!("keys of 32 bytes are keys") };
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
            index: HashMap::from([(FAR[ORIGIN], 0), (FAR[RELAY], 1)]),
            sessions: [&origin, &relay, &unverified].into_iter().map(|s| (s.local, Arc::clone(s))).collect(),
            relay: true,
            ..Table::default()
        };
        let keys = MacKeys::of(&Identity::from_seed(&[1; 32]).public());
        Self {
            table,
            decapsulator: Decapsulator::new(keys, Arc::default(), None),
            counters: Counters::default(),
            far: [a, b, c],
        }
    }

    /// The datagram that a peer with these keys makes of the input's headers and contents; nothing where it has none.
    fn sealed(&self, how: u8, body: &[u8]) -> Option<Vec<u8>> {
        match how % 4 {
            0 => Some(body.to_vec()),
            1 => self.frame(usize::from(how / 4) % FAR.len(), body),
            2 => self.envelope(body, |inner| Some(inner.to_vec())),
            _ => self.envelope(body, |inner| self.frame(ORIGIN, inner)),
        }
    }

    fn frame(&self, from: usize, body: &[u8]) -> Option<Vec<u8>> {
        let session = self.far.get(from)?;
        let header = Sealed { receiver: session.remote, ..Sealed::decode(body)? };
        let mut frame = [&header.encode()[..], body.get(SEALED_BYTES..)?, &[0; TAG_BYTES]].concat();
        session.seal(Number::of_frame(&header)?, &mut frame)?;
        Some(frame)
    }

    fn envelope(&self, body: &[u8], inner: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let session = &self.far[RELAY];
        let envelope = Envelope { receiver: session.remote, ..Envelope::decode(body)? };
        let inner = inner(body.get(ENVELOPE_BYTES..)?)?;
        let mut datagram = [&envelope.encode()[..], &inner, &[0; TAG_BYTES]].concat();
        session.seal_envelope(Number::of_envelope(&envelope)?, &mut datagram)?;
        Some(datagram)
    }

    fn take(&self, how: u8, datagram: &[u8]) {
        let arrival = Arrival { came: Instant::ZERO, from: AT, traffic_class: how >> 6 };
        let mut events = 0;
        let mut once = datagram.to_vec();
        let taken = self.decapsulator.take(&self.table, &mut once, arrival, &self.counters, &mut |_, _| {
            events += 1;
            true
        });
        assert!(events <= 3, "a datagram makes few events");
        match taken {
            Verdict::Nothing => return,
            Verdict::Packet { begin, end, .. } => {
                let source = once.get(begin..end).and_then(packet::source);
                let is_of_peer = |s| self.table.peers.iter().any(|p| p.sources.has(s));
                assert!(source.is_some_and(is_of_peer), "a packet has a source of its peer");
            }
            Verdict::Forward(envelope) => {
                let next = self.table.peer(Member(envelope.hop_to()));
                assert!(next.is_some(), "an envelope goes on to a peer");
            }
        }
        assert!(!how.is_multiple_of(4), "a datagram that no session sealed is not taken");
        let again =
            self.decapsulator.take(&self.table, &mut datagram.to_vec(), arrival, &self.counters, &mut |_, _| true);
        assert_eq!(again, Verdict::Nothing, "a frame is taken once");
    }
}
