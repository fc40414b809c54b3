use super::{Kind, u32_at, u64_at};

/// Length of the header of a sealed frame in bytes.
pub const SEALED_BYTES: usize = 24;

/// Packet number space of frames that go directly to their receiver.
pub const SPACE_DIRECT: u8 = 0;
/// Packet number space of envelopes on one hop.
pub const SPACE_RELAYED: u8 = 1;
/// Packet number space of packet trains and PMTU probes, so that losses which they cause themselves do not count as
/// loss of the link. Frames over relays use the spaces between this one and [`SPACE_SENSOR`], one for each path.
pub const SPACE_PROBES: u8 = 2;
/// Packet number space of direct loss-sensor probes, which are counted apart from all other frames (Mark et al. 2008,
/// section II.A).
pub const SPACE_SENSOR: u8 = 16;

/// Maximum number of sending threads of a member, each of which numbers its frames independently: two for each of 16
/// queues, and one more.
pub const QUEUES_MAX: usize = 33;

/// Class of a flow that has carried few bytes.
pub const CLASS_MOUSE: u8 = 1;
/// Class of a flow that has carried many bytes.
pub const CLASS_ELEPHANT: u8 = 2;

/// Code of an unknown available rate (draft-ietf-scone-protocol: signal 127).
pub const UNKNOWN_RATE: u8 = 127;

/// Type of a sealed frame's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// An IP packet. With `partial` its checksum is incomplete, as the frame's tag already protects the packet.
    Packet {
        /// Whether the transport checksum is the sum of the pseudo-header only.
        partial: bool,
    },
    /// A [`super::Message`].
    Message,
}

/// Header of a sealed frame, all of it authenticated:
/// `kind` u8 | `content` 4 bits, `class` 4 bits | `queue` u8 | `space` u8 | `receiver` u32 | `sequence` u64 |
/// `sent` u32 | `rate` u8 | zero 3 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Type of the content.
    pub content: Content,
    /// Flow class, 0 to 15: 0 unknown, 1 a mouse (short flow), 2 an elephant (large flow), 3 a rate-aware sender.
    pub class: u8,
    /// Queue of its sender, below [`QUEUES_MAX`]. Each queue numbers the frames of a packet number space independently,
    /// so that no queue waits for another and reordering between queues does not count as loss.
    pub queue: u8,
    /// Packet number space of the session, one for each path.
    pub space: u8,
    /// Session identifier, chosen by the receiver of the frame.
    pub receiver: u32,
    /// Sequence number in its packet number space and queue, from 0: with both it forms the nonce, and it reveals
    /// losses.
    pub sequence: u64,
    /// Send time in microseconds of the sender's clock, modulo 2^32.
    pub sent: u32,
    /// Reserved for the available rate (100 kb/s times 10^(n/20)); [`UNKNOWN_RATE`] until explicit rate uses it.
    pub rate: u8,
}

impl Sealed {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; SEALED_BYTES] {
        let content = match self.content {
            Content::Packet { partial: false } => 0,
            Content::Packet { partial: true } => 1,
            Content::Message => 2,
        };
        let mut b = [0; SEALED_BYTES];
        b[0] = Kind::Sealed.byte();
        b[1] = content << 4 | self.class & 0x0f;
        b[2..4].copy_from_slice(&[self.queue, self.space]);
        b[4..8].copy_from_slice(&self.receiver.to_be_bytes());
        b[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        b[16..20].copy_from_slice(&self.sent.to_be_bytes());
        b[20] = self.rate;
        b
    }

    /// Decodes the header of a frame; `None` when it is too short, of another type, or has an invalid field.
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let (b, _rest) = frame.split_first_chunk::<SEALED_BYTES>()?;
        let content = match b[1] >> 4 {
            0 => Content::Packet { partial: false },
            1 => Content::Packet { partial: true },
            2 => Content::Message,
            _ => return None,
        };
        let known = b[0] == Kind::Sealed.byte() && usize::from(b[2]) < QUEUES_MAX && b[21..] == [0; 3];
        known.then_some(Self {
            content,
            class: b[1] & 0x0f,
            queue: b[2],
            space: b[3],
            receiver: u32_at(b, 4)?,
            sequence: u64_at(b, 8)?,
            sent: u32_at(b, 16)?,
            rate: b[20],
        })
    }
}
