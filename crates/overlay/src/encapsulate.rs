//! Encapsulation: frames are sealed for their destination, and put into an envelope on a path over relays.

use std::net::SocketAddr;

use route::{Member, Path};
use wire::overlay::{
    Content, ENVELOPE_BYTES, Envelope, QUEUES_MAX, SEALED_BYTES, SPACE_RELAYED, Sealed, TAG_BYTES, UNKNOWN_RATE,
};

use crate::session::{Number, Session};

/// Maximum number of queues of the tunnel device. Each transmit thread has its own sequence numbers, and the device
/// queues come first: with shared numbers, a frame that waits in a batch would look lost when a later frame of another
/// thread arrives.
pub(crate) const DEVICE_QUEUES: usize = 16;
/// Transmit queue of the controlling thread.
pub(crate) const CONTROL_QUEUE: u8 = DEVICE_QUEUES as u8;

/// Transmit queue for the envelopes that the receive thread of `queue` forwards.
pub(crate) const fn relay_queue(queue: u8) -> u8 {
    CONTROL_QUEUE + 1 + queue
}

const _: () = assert!((relay_queue(DEVICE_QUEUES as u8 - 1) as usize) < QUEUES_MAX);

/// Bytes of the headers in front of a frame's contents on a path.
pub(crate) fn head(path: &Path) -> usize {
    if path.relays().is_empty() { SEALED_BYTES } else { ENVELOPE_BYTES + SEALED_BYTES }
}

/// Bytes of the authentication tags behind a frame's contents on a path.
pub(crate) fn tail(path: &Path) -> usize {
    if path.relays().is_empty() { TAG_BYTES } else { 2 * TAG_BYTES }
}

/// Bytes of the IP and UDP headers of a datagram to an address.
pub(crate) fn outer(to: SocketAddr) -> usize {
    if to.is_ipv4() { 28 } else { 48 }
}

/// Seals the frames of one transmit queue for a path.
pub(crate) struct FrameSealer<'a> {
    pub(crate) own: Member,
    pub(crate) path: Path,
    pub(crate) space: u8,
    /// Transmit queue of this member; each transmit thread has its own.
    pub(crate) queue: u8,
    /// Endpoint of the first hop.
    pub(crate) to: SocketAddr,
    /// Session with the destination.
    pub(crate) end: &'a Session,
    /// Session with the first relay; on a direct path that with the destination.
    pub(crate) hop: &'a Session,
}

impl FrameSealer<'_> {
    /// Seals a datagram in place. The contents lie between [`head`] and [`tail`] bytes of room. `now`: microseconds.
    /// `None`: the session has no sequence numbers left.
    pub(crate) fn seal(&self, datagram: &mut [u8], content: Content, class: u8, now: u32) -> Option<()> {
        let is_relayed = !self.path.relays().is_empty();
        let (start, end) = if is_relayed { (ENVELOPE_BYTES, datagram.len() - TAG_BYTES) } else { (0, datagram.len()) };
        let number = self.end.next_number(self.queue, self.space)?;
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
        let frame = datagram.get_mut(start..end)?;
        frame.get_mut(..SEALED_BYTES)?.copy_from_slice(&header.encode());
        self.end.seal(number, frame)?;
        self.hop.note_sent(self.queue, (datagram.len() + outer(self.to)) as u64);
        if is_relayed { self.seal_envelope(datagram, now) } else { Some(()) }
    }

    /// Fills in and authenticates the envelope for the first hop.
    fn seal_envelope(&self, datagram: &mut [u8], now: u32) -> Option<()> {
        let mut relays = [0; 3];
        for (to, relay) in relays.iter_mut().zip(self.path.relays()) {
            *to = relay.0;
        }
        let relays = relays.get(..self.path.relays().len())?;
        let envelope = Envelope::new(self.own.0, relays, self.path.destination().0)?;
        address(self.hop, (envelope, self.queue), datagram, now)
    }
}

/// Writes the header of an envelope for a hop and authenticates it. `None`: the session has no sequence numbers left.
pub(crate) fn address(hop: &Session, (envelope, queue): (Envelope, u8), datagram: &mut [u8], now: u32) -> Option<()> {
    let number @ Number { sequence, .. } = hop.next_number(queue, SPACE_RELAYED)?;
    let envelope = Envelope { queue, receiver: hop.remote, sequence, sent: now, ..envelope };
    datagram.get_mut(..ENVELOPE_BYTES)?.copy_from_slice(&envelope.encode());
    hop.seal_envelope(number, datagram)
}

/// A datagram with a sealed message.
pub(crate) fn message(sealer: &FrameSealer<'_>, message: &[u8], now: u32) -> Option<Vec<u8>> {
    let (head, tail) = (head(&sealer.path), tail(&sealer.path));
    let mut datagram = vec![0; head + message.len() + tail];
    datagram.get_mut(head..head + message.len())?.copy_from_slice(message);
    sealer.seal(&mut datagram, Content::Message, 0, now)?;
    Some(datagram)
}

/// A datagram with a handshake message over relays. No session with the destination exists yet, so only the first hop
/// authenticates the envelope.
pub(crate) fn handshake(hop: &Session, envelope: Envelope, body: &[u8], now: u32) -> Option<Vec<u8>> {
    let mut datagram = vec![0; ENVELOPE_BYTES + body.len() + TAG_BYTES];
    datagram.get_mut(ENVELOPE_BYTES..ENVELOPE_BYTES + body.len())?.copy_from_slice(body);
    hop.note_sent(CONTROL_QUEUE, (datagram.len() + 48) as u64);
    address(hop, (envelope, CONTROL_QUEUE), &mut datagram, now)?;
    Some(datagram)
}
