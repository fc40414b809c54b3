//! The header of a native UDP test datagram.

use units::Instant;

/// Length of the header in bytes, and so the shortest UDP payload of a test.
pub const DATAGRAM_HEADER_BYTES: usize = 24;

/// What a test datagram begins with: `token` 8 bytes | `sequence` u64 | `sent` ns u64, network order; [`crate::FILLER`] behind.
///
/// A datagram that begins with [`crate::udp_control::MAGIC`] is a control datagram, so a token never is that value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    /// The session, as the server named it in [`crate::Message::Accept`]; datagrams with another token are not counted.
    pub token: [u8; 8],
    /// Number of the datagram in its direction and stream, from 0.
    pub sequence: u64,
    /// When it was handed to the kernel, on the sender's clock.
    pub sent: Instant,
}

impl DatagramHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; DATAGRAM_HEADER_BYTES] {
        let mut bytes = [0; DATAGRAM_HEADER_BYTES];
        let (token, rest) = bytes.split_at_mut(8);
        let (sequence, sent) = rest.split_at_mut(8);
        token.copy_from_slice(&self.token);
        sequence.copy_from_slice(&self.sequence.to_be_bytes());
        sent.copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        bytes
    }

    /// Reads the header of a received datagram; `None` when it is too short. Whether the token is right is the caller's to judge.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let (token, rest) = datagram.split_first_chunk::<8>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (sent, _filler) = rest.split_first_chunk::<8>()?;
        Some(Self {
            token: *token,
            sequence: u64::from_be_bytes(*sequence),
            sent: Instant::from_nanos(u64::from_be_bytes(*sent)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_survive_a_round_trip(token: [u8; 8], sequence: u64, ns: u64, body in proptest::collection::vec(any::<u8>(), 0..50)) {
            let header = DatagramHeader { token, sequence, sent: Instant::from_nanos(ns) };
            let datagram = [&header.encode()[..], &body].concat();
            prop_assert_eq!(DatagramHeader::decode(&datagram), Some(header));
            prop_assert_eq!(DatagramHeader::decode(&datagram[..DATAGRAM_HEADER_BYTES - 1]), None);
        }
    }
}
