//! UDP datagrams between overlay members: sealed frames with packets or messages, the envelope in which relays forward
//! frames, and the three datagrams of the handshake. docs/reference/overlay-protocol.md describes the layouts.
//!
//! This module does not encrypt: it defines layouts only, each of fixed length, in network order.

mod envelope;
pub mod gossip;
mod handshake;
mod message;
mod sealed;
#[cfg(test)]
mod tests;

pub use envelope::{ENVELOPE_BYTES, Envelope, RELAYS_MAX};
pub use handshake::{COOKIE_BYTES, Cookie, INITIATION_BYTES, Initiation, MAC_BYTES, Macs, RESPONSE_BYTES, Response};
pub use message::{MESSAGE_MAX, Message, REPORTS_MAX, SpaceReport};
pub use sealed::{
    CLASS_ELEPHANT, CLASS_MOUSE, Content, QUEUES_MAX, SEALED_BYTES, SPACE_DIRECT, SPACE_PROBES, SPACE_RELAYED,
    SPACE_SENSOR, Sealed, UNKNOWN_RATE,
};

/// Length in bytes of the authentication tag after a sealed frame and after an envelope.
pub const TAG_BYTES: usize = 16;

/// Type of a datagram, given by its first byte. The values exceed those of thrulay's and longhaul's other datagrams,
/// so that a datagram sent to the wrong port is not misread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// First datagram of a handshake.
    Initiation,
    /// Answer to an initiation.
    Response,
    /// Answer to an initiation under load.
    Cookie,
    /// A sealed frame for the receiver of the datagram, or at the end of an envelope's route.
    Sealed,
    /// A frame that relays forward.
    Envelope,
}

impl Kind {
    /// Type of a datagram; `None` for any other first byte.
    pub fn of(datagram: &[u8]) -> Option<Self> {
        match datagram.first()? {
            0xb1 => Some(Self::Initiation),
            0xb2 => Some(Self::Response),
            0xb3 => Some(Self::Cookie),
            0xb4 => Some(Self::Sealed),
            0xb5 => Some(Self::Envelope),
            _ => None,
        }
    }

    /// The first byte of a datagram of this type.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Initiation => 0xb1,
            Self::Response => 0xb2,
            Self::Cookie => 0xb3,
            Self::Sealed => 0xb4,
            Self::Envelope => 0xb5,
        }
    }
}

/// Reads the four bytes at `at` as a number.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Reads the eight bytes at `at` as a number.
fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
}
