//! The header of a native UDP test datagram.

use units::Instant;

/// Length of the header in bytes, and thus the shortest UDP payload of a test.
pub const DATAGRAM_HEADER_BYTES: usize = 24;

/// Builds the token of one stream, which each of its datagrams carries: the session's name with the stream's number
/// in its last byte.
///
/// Streams are numbered below 256 ([`crate::plan::STREAMS_MAX`] in each of two directions), so that the tokens of a
/// session differ.
pub const fn stream_token(session: [u8; 8], stream: u32) -> [u8; 8] {
    let [a, b, c, d, e, f, g, last] = session;
    [a, b, c, d, e, f, g, last ^ stream as u8]
}

/// The stream of a token that belongs to `session`; the reverse of [`stream_token`].
pub fn token_stream(session: [u8; 8], token: [u8; 8]) -> Option<u32> {
    let ([head @ .., last], [token_head @ .., token_last]) = (session, token);
    (head == token_head).then_some(u32::from(last ^ token_last))
}

/// Whether a session may have this name: none of its tokens may equal [`crate::udp_control::MAGIC`].
pub fn is_session_name(name: [u8; 8]) -> bool {
    token_stream(name, crate::udp_control::MAGIC).is_none()
}

/// Header of a test datagram: `token` 8 bytes | `sequence` u64 | `sent` ns u64, network order; [`crate::FILLER`]
/// follows.
///
/// A datagram that starts with [`crate::udp_control::MAGIC`] is a control datagram, so a token never has that value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Token of the stream ([`stream_token`]); datagrams with another token are not counted.
    pub token: [u8; 8],
    /// Sequence number of the datagram in its direction and stream, from 0.
    pub sequence: u64,
    /// Time at which the datagram was passed to the kernel, on the sender's clock.
    pub sent: Instant,
}

impl DatagramHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; DATAGRAM_HEADER_BYTES] {
        let mut bytes = [0; DATAGRAM_HEADER_BYTES];
        let (token, rest) = bytes.split_at_mut(8);
        let (sequence, sent) = rest.split_at_mut(8);
        token.copy_from_slice(&self.token);
        sequence.copy_from_slice(&self.sequence.to_be_bytes());
        sent.copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        bytes
    }

    /// Decodes the header of a received datagram; `None` when it is too short. The caller checks the token.
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

    #[test]
    fn tokens_identify_the_stream_and_never_look_like_control() {
        let session = *b"\xffLHudp\x007";
        assert!(!is_session_name(session) && is_session_name([7; 8]));
        assert_eq!(token_stream([7; 8], stream_token([7; 8], 255)), Some(255));
        assert_eq!(token_stream([7; 8], stream_token([8; 8], 0)), None);
    }

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
