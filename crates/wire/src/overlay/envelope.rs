use super::{Kind, QUEUES_MAX, UNKNOWN_RATE, u32_at, u64_at};

/// Length of an envelope's header in bytes. The frame and the envelope's tag follow it.
pub const ENVELOPE_BYTES: usize = 40;

/// Maximum number of relays on a path. A bounded list of relays and a position that only grows exclude loops.
pub const RELAYS_MAX: usize = 3;

/// The header that carries a frame over relays. On each hop the session of its two ends authenticates it together
/// with the head of the frame. The sender of each hop rewrites position, queue, session, sequence, time and rate.
///
/// `kind` u8 | `relays` 4 bits, `position` 4 bits | `rate` u8 | `queue` u8 | `receiver` u32 | `sequence` u64 |
/// `origin` u32 | three `relays` u32 | `destination` u32 | `sent` u32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// Number of relays that the frame has passed, without the one that reads it.
    pub position: u8,
    /// Reserved for the lowest available rate of the hops so far, which relays may only lower. Members write
    /// [`UNKNOWN_RATE`] at present.
    pub rate: u8,
    /// Queue of this hop's sender, below [`QUEUES_MAX`].
    pub queue: u8,
    /// Session identifier of this hop, chosen by the receiver of the datagram.
    pub receiver: u32,
    /// Sequence number in this hop's packet number space and queue.
    pub sequence: u64,
    /// Member that sealed the frame.
    pub origin: u32,
    /// Relays of the path, in order; entries from `count` on are zero.
    pub relays: [u32; RELAYS_MAX],
    /// Number of relays.
    pub count: u8,
    /// Member for which the frame is destined.
    pub destination: u32,
    /// Send time on this hop, in microseconds of the sender's clock, modulo 2^32.
    pub sent: u32,
}

impl Envelope {
    /// Creates the envelope for the first hop of a path. `None` with no or too many relays.
    pub fn new(origin: u32, relays: &[u32], destination: u32) -> Option<Self> {
        let count = relays.len();
        let mut all = [0; RELAYS_MAX];
        all.get_mut(..count)?.copy_from_slice(relays);
        let count = u8::try_from(count).ok().filter(|c| *c > 0)?;
        Some(Self {
            position: 0,
            rate: UNKNOWN_RATE,
            queue: 0,
            receiver: 0,
            sequence: 0,
            origin,
            relays: all,
            count,
            destination,
            sent: 0,
        })
    }

    /// The relays of the path, in order.
    pub fn route(&self) -> &[u32] {
        self.relays.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// Receiver of this hop's datagram: a relay, or the destination on the last hop.
    pub fn hop_to(&self) -> u32 {
        self.route().get(usize::from(self.position)).copied().unwrap_or(self.destination)
    }

    /// Sender of this hop's datagram.
    pub fn hop_from(&self) -> u32 {
        let before = usize::from(self.position).checked_sub(1);
        before.and_then(|i| self.route().get(i)).copied().unwrap_or(self.origin)
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; ENVELOPE_BYTES] {
        let mut b = [0; ENVELOPE_BYTES];
        b[0] = Kind::Envelope.byte();
        b[1] = self.count << 4 | self.position & 0x0f;
        b[2] = self.rate;
        b[3] = self.queue;
        b[4..8].copy_from_slice(&self.receiver.to_be_bytes());
        b[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        b[16..20].copy_from_slice(&self.origin.to_be_bytes());
        for (to, relay) in b[20..32].chunks_exact_mut(4).zip(self.relays) {
            to.copy_from_slice(&relay.to_be_bytes());
        }
        b[32..36].copy_from_slice(&self.destination.to_be_bytes());
        b[36..40].copy_from_slice(&self.sent.to_be_bytes());
        b
    }

    /// Decodes the header of a datagram. `None` when it is too short, of another type, or has an invalid route: more
    /// than three relays, a position past the end, or a member that occurs twice.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let (b, _frame) = datagram.split_first_chunk::<ENVELOPE_BYTES>()?;
        let (count, position) = (b[1] >> 4, b[1] & 0x0f);
        let envelope = Self {
            position,
            rate: b[2],
            queue: b[3],
            receiver: u32_at(b, 4)?,
            sequence: u64_at(b, 8)?,
            origin: u32_at(b, 16)?,
            relays: [u32_at(b, 20)?, u32_at(b, 24)?, u32_at(b, 28)?],
            count,
            destination: u32_at(b, 32)?,
            sent: u32_at(b, 36)?,
        };
        let is_envelope = b[0] == Kind::Envelope.byte() && usize::from(b[3]) < QUEUES_MAX;
        let bounded = (1..=RELAYS_MAX as u8).contains(&count) && position <= count;
        (is_envelope && bounded && envelope.is_simple()).then_some(envelope)
    }

    /// Whether no member occurs twice on the route, and the entries after the route are zero.
    fn is_simple(&self) -> bool {
        let route = self.route();
        let ends = [self.origin, self.destination];
        let has_duplicate =
            route.iter().enumerate().any(|(i, r)| ends.contains(r) || route.get(..i).is_some_and(|b| b.contains(r)));
        let rest = self.relays.get(route.len()..).unwrap_or_default();
        !has_duplicate && self.origin != self.destination && rest.iter().all(|r| *r == 0)
    }
}
