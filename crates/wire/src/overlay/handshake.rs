use super::{Kind, u32_at};

/// Length of an authentication code of a handshake's datagram.
pub const MAC_BYTES: usize = 16;

/// Noise's first message of IKpsk2 with our payload of 8 bytes: ephemeral key 32, static key 32 + 16, payload 8 + 16.
const NOISE_FIRST: usize = 104;
/// Its second: ephemeral key 32, payload 8 + 16.
const NOISE_SECOND: usize = 56;
/// What a cookie is sealed with: nonce 12, cookie 16, tag 16.
const COOKIE_SEALED: usize = 44;

/// Length of an initiation.
pub const INITIATION_BYTES: usize = 8 + NOISE_FIRST + 2 * MAC_BYTES;
/// Length of a response. Shorter than an initiation: nobody is made to amplify.
pub const RESPONSE_BYTES: usize = 12 + NOISE_SECOND + 2 * MAC_BYTES;
/// Length of a cookie's datagram.
pub const COOKIE_BYTES: usize = 8 + COOKIE_SEALED;

/// First datagram: `kind` u8 | zero 3 bytes | `sender` u32 | Noise 104 bytes | `mac1` | `mac2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Initiation {
    /// Number of the session at the sender.
    pub sender: u32,
    /// Noise's first message.
    pub noise: [u8; NOISE_FIRST],
}

/// Second datagram: `kind` u8 | zero 3 bytes | `sender` u32 | `receiver` u32 | Noise 56 bytes | `mac1` | `mac2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// Number of the session at the sender.
    pub sender: u32,
    /// Number of the session at the receiver, as the initiation said.
    pub receiver: u32,
    /// Noise's second message.
    pub noise: [u8; NOISE_SECOND],
}

/// Instead of a response: `kind` u8 | zero 3 bytes | `receiver` u32 | sealed cookie 44 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cookie {
    /// Number of the session at the receiver, as the initiation said.
    pub receiver: u32,
    /// Nonce and sealed cookie.
    pub sealed: [u8; COOKIE_SEALED],
}

/// The authentication codes at the end of an initiation or a response, and what they cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Macs<'a> {
    /// All before the first.
    pub body: &'a [u8],
    /// First: proves that the sender knows the receiver's public key.
    pub first: [u8; MAC_BYTES],
    /// Second: proves that the sender got our cookie; covers the first, too.
    pub second: [u8; MAC_BYTES],
}

impl<'a> Macs<'a> {
    /// Of a datagram; `None` when it is too short.
    pub fn of(datagram: &'a [u8]) -> Option<Self> {
        let (rest, second) = datagram.split_last_chunk::<MAC_BYTES>()?;
        let (body, first) = rest.split_last_chunk::<MAC_BYTES>()?;
        Some(Self { body, first: *first, second: *second })
    }

    /// What the second one covers, of the same datagram.
    pub fn with_first(datagram: &'a [u8]) -> &'a [u8] {
        datagram.get(..datagram.len().saturating_sub(MAC_BYTES)).unwrap_or_default()
    }
}

impl Initiation {
    /// The datagram, its authentication codes zero.
    pub fn encode(&self) -> [u8; INITIATION_BYTES] {
        let mut b = [0; INITIATION_BYTES];
        b[0] = Kind::Initiation.byte();
        b[4..8].copy_from_slice(&self.sender.to_be_bytes());
        b[8..8 + NOISE_FIRST].copy_from_slice(&self.noise);
        b
    }

    /// Reads a datagram; `None` when it is none.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let b: &[u8; INITIATION_BYTES] = datagram.try_into().ok()?;
        let known = b[..4] == [Kind::Initiation.byte(), 0, 0, 0];
        let noise = *b.get(8..)?.first_chunk()?;
        known.then_some(Self { sender: u32_at(b, 4)?, noise })
    }
}

impl Response {
    /// The datagram, its authentication codes zero.
    pub fn encode(&self) -> [u8; RESPONSE_BYTES] {
        let mut b = [0; RESPONSE_BYTES];
        b[0] = Kind::Response.byte();
        b[4..8].copy_from_slice(&self.sender.to_be_bytes());
        b[8..12].copy_from_slice(&self.receiver.to_be_bytes());
        b[12..12 + NOISE_SECOND].copy_from_slice(&self.noise);
        b
    }

    /// Reads a datagram; `None` when it is none.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let b: &[u8; RESPONSE_BYTES] = datagram.try_into().ok()?;
        let known = b[..4] == [Kind::Response.byte(), 0, 0, 0];
        let noise = *b.get(12..)?.first_chunk()?;
        known.then_some(Self { sender: u32_at(b, 4)?, receiver: u32_at(b, 8)?, noise })
    }
}

impl Cookie {
    /// The datagram.
    pub fn encode(&self) -> [u8; COOKIE_BYTES] {
        let mut b = [0; COOKIE_BYTES];
        b[0] = Kind::Cookie.byte();
        b[4..8].copy_from_slice(&self.receiver.to_be_bytes());
        b[8..].copy_from_slice(&self.sealed);
        b
    }

    /// Reads a datagram; `None` when it is none.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let b: &[u8; COOKIE_BYTES] = datagram.try_into().ok()?;
        let known = b[..4] == [Kind::Cookie.byte(), 0, 0, 0];
        let sealed = *b.get(8..)?.first_chunk()?;
        known.then_some(Self { receiver: u32_at(b, 4)?, sealed })
    }
}
