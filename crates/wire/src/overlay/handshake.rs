use super::{Kind, u32_at};

/// Length in bytes of an authentication code in a handshake datagram.
pub const MAC_BYTES: usize = 16;

/// First Noise message of IKpsk2 with a payload of 8 bytes: ephemeral key 32, static key 32 + 16, payload 8 + 16.
const NOISE_FIRST: usize = 104;
/// Second Noise message: ephemeral key 32, payload 8 + 16.
const NOISE_SECOND: usize = 56;
/// Length of a sealed cookie: nonce 12, cookie 16, tag 16.
const COOKIE_SEALED: usize = 44;

/// Length of an initiation in bytes.
pub const INITIATION_BYTES: usize = 8 + NOISE_FIRST + 2 * MAC_BYTES;
/// Length of a response in bytes. It is shorter than an initiation, which excludes amplification.
pub const RESPONSE_BYTES: usize = 12 + NOISE_SECOND + 2 * MAC_BYTES;
/// Length of a cookie datagram in bytes.
pub const COOKIE_BYTES: usize = 8 + COOKIE_SEALED;

/// First datagram: `kind` u8 | zero 3 bytes | `sender` u32 | Noise 104 bytes | `mac1` | `mac2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Initiation {
    /// Session identifier at the sender.
    pub sender: u32,
    /// First Noise message.
    pub noise: [u8; NOISE_FIRST],
}

/// Second datagram: `kind` u8 | zero 3 bytes | `sender` u32 | `receiver` u32 | Noise 56 bytes | `mac1` | `mac2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// Session identifier at the sender.
    pub sender: u32,
    /// Session identifier at the receiver, copied from the initiation.
    pub receiver: u32,
    /// Second Noise message.
    pub noise: [u8; NOISE_SECOND],
}

/// Cookie reply, sent instead of a response: `kind` u8 | zero 3 bytes | `receiver` u32 | sealed cookie 44 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cookie {
    /// Session identifier at the receiver, copied from the initiation.
    pub receiver: u32,
    /// Nonce and sealed cookie.
    pub sealed: [u8; COOKIE_SEALED],
}

/// The authentication codes at the end of an initiation or a response, and the bytes that they cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Macs<'a> {
    /// All bytes before the first code.
    pub body: &'a [u8],
    /// First code: proves that the sender knows the receiver's public key.
    pub first: [u8; MAC_BYTES],
    /// Second code: proves that the sender received this member's cookie; covers the first code, too.
    pub second: [u8; MAC_BYTES],
}

impl<'a> Macs<'a> {
    /// Splits a datagram; `None` when it is too short.
    pub fn of(datagram: &'a [u8]) -> Option<Self> {
        let (rest, second) = datagram.split_last_chunk::<MAC_BYTES>()?;
        let (body, first) = rest.split_last_chunk::<MAC_BYTES>()?;
        Some(Self { body, first: *first, second: *second })
    }

    /// The bytes of a datagram that the second code covers.
    pub fn with_first(datagram: &'a [u8]) -> &'a [u8] {
        datagram.get(..datagram.len().saturating_sub(MAC_BYTES)).unwrap_or_default()
    }
}

impl Initiation {
    /// Encodes the datagram with zero authentication codes.
    pub fn encode(&self) -> [u8; INITIATION_BYTES] {
        let mut b = [0; INITIATION_BYTES];
        b[0] = Kind::Initiation.byte();
        b[4..8].copy_from_slice(&self.sender.to_be_bytes());
        b[8..8 + NOISE_FIRST].copy_from_slice(&self.noise);
        b
    }

    /// Decodes a datagram; `None` when it is not an initiation.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let b: &[u8; INITIATION_BYTES] = datagram.try_into().ok()?;
        let known = b[..4] == [Kind::Initiation.byte(), 0, 0, 0];
        let noise = *b.get(8..)?.first_chunk()?;
        known.then_some(Self { sender: u32_at(b, 4)?, noise })
    }
}

impl Response {
    /// Encodes the datagram with zero authentication codes.
    pub fn encode(&self) -> [u8; RESPONSE_BYTES] {
        let mut b = [0; RESPONSE_BYTES];
        b[0] = Kind::Response.byte();
        b[4..8].copy_from_slice(&self.sender.to_be_bytes());
        b[8..12].copy_from_slice(&self.receiver.to_be_bytes());
        b[12..12 + NOISE_SECOND].copy_from_slice(&self.noise);
        b
    }

    /// Decodes a datagram; `None` when it is not a response.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let b: &[u8; RESPONSE_BYTES] = datagram.try_into().ok()?;
        let known = b[..4] == [Kind::Response.byte(), 0, 0, 0];
        let noise = *b.get(12..)?.first_chunk()?;
        known.then_some(Self { sender: u32_at(b, 4)?, receiver: u32_at(b, 8)?, noise })
    }
}

impl Cookie {
    /// Encodes the datagram.
    pub fn encode(&self) -> [u8; COOKIE_BYTES] {
        let mut b = [0; COOKIE_BYTES];
        b[0] = Kind::Cookie.byte();
        b[4..8].copy_from_slice(&self.receiver.to_be_bytes());
        b[8..].copy_from_slice(&self.sealed);
        b
    }

    /// Decodes a datagram; `None` when it is not a cookie.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let b: &[u8; COOKIE_BYTES] = datagram.try_into().ok()?;
        let known = b[..4] == [Kind::Cookie.byte(), 0, 0, 0];
        let sealed = *b.get(8..)?.first_chunk()?;
        known.then_some(Self { receiver: u32_at(b, 4)?, sealed })
    }
}
