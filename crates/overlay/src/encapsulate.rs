//! Frames as they go out: sealed for their reader, and put into an envelope where relays are on the way.

use std::net::SocketAddr;

use route::{Member, Path};
use wire::overlay::{
    Content, ENVELOPE_BYTES, Envelope, QUEUES_MAX, SEALED_BYTES, SPACE_RELAYED, Sealed, TAG_BYTES, UNKNOWN_RATE,
};

use crate::session::{Number, Session};

/// Queues of the tunnel device, most. Each thread that sends numbers its frames by itself, those first: a number that waits in somebody's batch would look like a
/// lost frame when a later one of another thread arrives.
pub(crate) const DEVICE_QUEUES: usize = 16;
/// Numbers of what the controlling thread sends.
pub(crate) const CONTROL_QUEUE: u8 = DEVICE_QUEUES as u8;

/// Numbers of what the thread that receives for this queue passes on.
pub(crate) const fn relay_queue(queue: u8) -> u8 {
    CONTROL_QUEUE + 1 + queue
}

const _: () = assert!((relay_queue(DEVICE_QUEUES as u8 - 1) as usize) < QUEUES_MAX);

/// Bytes that a frame on a path has more than its contents, in front of them.
pub(crate) fn head(path: &Path) -> usize {
    if path.relays().is_empty() { SEALED_BYTES } else { ENVELOPE_BYTES + SEALED_BYTES }
}

/// Bytes behind them.
pub(crate) fn tail(path: &Path) -> usize {
    if path.relays().is_empty() { TAG_BYTES } else { 2 * TAG_BYTES }
}

/// Bytes of a datagram's IP and UDP headers to this address.
pub(crate) fn outer(to: SocketAddr) -> usize {
    if to.is_ipv4() { 28 } else { 48 }
}

/// Where a datagram of a path goes first, and the sessions that seal it.
pub(crate) struct FrameSealer<'a> {
    pub(crate) own: Member,
    pub(crate) path: Path,
    pub(crate) space: u8,
    /// Of this member: each thread that sends has its own.
    pub(crate) queue: u8,
    pub(crate) to: SocketAddr,
    /// With the destination.
    pub(crate) end: &'a Session,
    /// With the first relay; the same where there is none.
    pub(crate) hop: &'a Session,
}

impl FrameSealer<'_> {
    /// Seals a datagram in place, the contents already behind room for [`head`] and before room for [`tail`]. `now`: microseconds. `None`:
    /// the session is used up.
    pub(crate) fn seal(&self, datagram: &mut [u8], content: Content, class: u8, now: u32) -> Option<()> {
        let relayed = !self.path.relays().is_empty();
        let (begin, end) = if relayed { (ENVELOPE_BYTES, datagram.len() - TAG_BYTES) } else { (0, datagram.len()) };
        let number = self.end.next(self.queue, self.space)?;
        let header = Sealed {
            content,
            class,
            queue: self.queue,
            space: self.space,
            receiver: self.end.remote,
            sequence: number.sequence,
            sent: now,
            rate: UNKNOWN_RATE,
        };
        let frame = datagram.get_mut(begin..end)?;
        frame.get_mut(..SEALED_BYTES)?.copy_from_slice(&header.encode());
        self.end.seal(number, frame)?;
        self.hop.note_sent(self.queue, (datagram.len() + outer(self.to)) as u64);
        if relayed { self.envelop(datagram, now) } else { Some(()) }
    }

    /// Puts what is behind room for the header into an envelope for the first hop.
    fn envelop(&self, datagram: &mut [u8], now: u32) -> Option<()> {
        let mut relays = [0; 3];
        for (to, relay) in relays.iter_mut().zip(self.path.relays()) {
            *to = relay.0;
        }
        let relays = relays.get(..self.path.relays().len())?;
        let envelope = Envelope::new(self.own.0, relays, self.path.destination().0)?;
        address(self.hop, (envelope, self.queue), datagram, now)
    }
}

/// Writes an envelope's header for a hop, by a queue of this member, and authenticates it.
pub(crate) fn address(hop: &Session, (envelope, queue): (Envelope, u8), datagram: &mut [u8], now: u32) -> Option<()> {
    let number @ Number { sequence, .. } = hop.next(queue, SPACE_RELAYED)?;
    let envelope = Envelope { queue, receiver: hop.remote, sequence, sent: now, ..envelope };
    datagram.get_mut(..ENVELOPE_BYTES)?.copy_from_slice(&envelope.encode());
    hop.seal_envelope(number, datagram)
}

/// A datagram of a message, sealed.
pub(crate) fn message(line: &FrameSealer<'_>, message: &[u8], now: u32) -> Option<Vec<u8>> {
    let (head, tail) = (head(&line.path), tail(&line.path));
    let mut datagram = vec![0; head + message.len() + tail];
    datagram.get_mut(head..head + message.len())?.copy_from_slice(message);
    line.seal(&mut datagram, Content::Message, 0, now)?;
    Some(datagram)
}

/// A datagram that carries a handshake over relays: nothing in it is sealed by a session with the destination, as there is none yet.
pub(crate) fn handshake(hop: &Session, envelope: Envelope, body: &[u8], now: u32) -> Option<Vec<u8>> {
    let mut datagram = vec![0; ENVELOPE_BYTES + body.len() + TAG_BYTES];
    datagram.get_mut(ENVELOPE_BYTES..ENVELOPE_BYTES + body.len())?.copy_from_slice(body);
    hop.note_sent(CONTROL_QUEUE, (datagram.len() + 48) as u64);
    address(hop, (envelope, CONTROL_QUEUE), &mut datagram, now)?;
    Some(datagram)
}
