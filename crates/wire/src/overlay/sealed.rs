use super::{Kind, u32_at, u64_at};

/// Length of the header of a sealed frame.
pub const SEALED_BYTES: usize = 24;

/// Lane of frames that go to their receiver directly.
pub const LANE_DIRECT: u8 = 0;
/// Lane of envelopes on one hop.
pub const LANE_RELAYED: u8 = 1;
/// Lane of what goes to its receiver directly and may be lost by its own doing: trains and datagrams of uncertain size. Frames over relays have
/// the lanes between it and [`LANE_SENSOR`], a path each.
pub const LANE_TRIALS: u8 = 2;
/// Lane of probes that a sensor of losses sends directly and counts apart from all else (Mark et al. 2008, section II.A).
pub const LANE_SENSOR: u8 = 16;

/// Threads that a member may send by, each of which numbers its own frames: two for each of 16 queues, and one more.
pub const MOST_QUEUES: usize = 33;

/// Class of a flow that has carried little.
pub const CLASS_MOUSE: u8 = 1;
/// Class of a flow that has carried much.
pub const CLASS_ELEPHANT: u8 = 2;

/// Code of an available rate that nobody knows (draft-ietf-scone-protocol: signal 127).
pub const UNKNOWN_RATE: u8 = 127;

/// What a sealed frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// An IP packet; `partial`: its checksum is, for the receiver vouches for the rest by the frame's tag.
    Packet {
        /// Whether the transport checksum is the sum of the pseudo-header only.
        partial: bool,
    },
    /// A [`super::Message`].
    Message,
}

/// Header of a sealed frame, all of it authenticated:
/// `kind` u8 | `content` 4 bits, `class` 4 bits | `queue` u8 | `lane` u8 | `receiver` u32 | `sequence` u64 | `sent` u32 | `rate` u8 | zero 3 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// What is inside.
    pub content: Content,
    /// Flow class, 0 to 15: 0 a flow of no known kind, 1 a mouse, 2 an elephant, 3 a rate-aware sender.
    pub class: u8,
    /// Which of its sender's queues it went through, below [`MOST_QUEUES`]: each numbers the frames of a lane by itself, so that none waits for
    /// another, and what one overtakes of another is no loss.
    pub queue: u8,
    /// Which path of the session it belongs to.
    pub lane: u8,
    /// Number of the session, chosen by who receives the frame.
    pub receiver: u32,
    /// Number in its lane and queue, from 0: with both the nonce, and what tells losses.
    pub sequence: u64,
    /// When it was sent, microseconds of the sender's clock, modulo 2^32.
    pub sent: u32,
    /// Room for the available rate (100 kb/s times 10^(n/20)); [`UNKNOWN_RATE`] until explicit rate uses it.
    pub rate: u8,
}

impl Sealed {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; SEALED_BYTES] {
        let content = match self.content {
            Content::Packet { partial: false } => 0,
            Content::Packet { partial: true } => 1,
            Content::Message => 2,
        };
        let mut b = [0; SEALED_BYTES];
        b[0] = Kind::Sealed.byte();
        b[1] = content << 4 | self.class & 0x0f;
        b[2..4].copy_from_slice(&[self.queue, self.lane]);
        b[4..8].copy_from_slice(&self.receiver.to_be_bytes());
        b[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        b[16..20].copy_from_slice(&self.sent.to_be_bytes());
        b[20] = self.rate;
        b
    }

    /// Reads the header of a frame; `None` when it is too short, of another kind, or says what no header says.
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let (b, _rest) = frame.split_first_chunk::<SEALED_BYTES>()?;
        let content = match b[1] >> 4 {
            0 => Content::Packet { partial: false },
            1 => Content::Packet { partial: true },
            2 => Content::Message,
            _ => return None,
        };
        let known = b[0] == Kind::Sealed.byte() && usize::from(b[2]) < MOST_QUEUES && b[21..] == [0; 3];
        known.then_some(Self {
            content,
            class: b[1] & 0x0f,
            queue: b[2],
            lane: b[3],
            receiver: u32_at(b, 4)?,
            sequence: u64_at(b, 8)?,
            sent: u32_at(b, 16)?,
            rate: b[20],
        })
    }
}
