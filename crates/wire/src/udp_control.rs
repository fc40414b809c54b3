//! Small datagrams with which a client proves, before any bulk data, that it receives at its source address.

/// First bytes of every control datagram; the first byte is not ASCII, so that it is neither text nor
/// [`crate::FILLER`].
///
/// A server that draws this value as a token (probability 2^-64) draws another one.
pub const MAGIC: [u8; 8] = *b"\xffLHudp\x001";

/// Length of every control datagram in bytes. All have one length: no answer is longer than its request, so that a
/// server cannot be made to amplify traffic towards a forged address (RFC 9000 §8 describes the attack).
pub const UDP_CONTROL_BYTES: usize = 40;

/// A control datagram: [`MAGIC`] | kind u8 | seven zero bytes | token 8 bytes | nonce 16 bytes (zero where there is
/// none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpControl {
    /// Client: announces its address.
    Hello {
        /// The session.
        token: [u8; 8],
    },
    /// Server, to that address: requests the nonce back.
    Challenge {
        /// The session.
        token: [u8; 8],
        /// Not guessable by a host that does not receive at the address.
        nonce: [u8; 16],
    },
    /// Client: returns the nonce, which proves the address.
    Proof {
        /// The session.
        token: [u8; 8],
        /// The nonce as received.
        nonce: [u8; 16],
    },
    /// Server: the address is proven; bulk data may flow in both directions.
    Ready {
        /// The session.
        token: [u8; 8],
    },
}

impl UdpControl {
    /// The token of the datagram's session.
    pub const fn token(&self) -> [u8; 8] {
        match *self {
            Self::Hello { token }
            | Self::Challenge { token, .. }
            | Self::Proof { token, .. }
            | Self::Ready { token } => token,
        }
    }

    /// Encodes the datagram.
    pub fn encode(&self) -> [u8; UDP_CONTROL_BYTES] {
        let (kind, nonce) = match *self {
            Self::Hello { .. } => (1, [0; 16]),
            Self::Challenge { nonce, .. } => (2, nonce),
            Self::Proof { nonce, .. } => (3, nonce),
            Self::Ready { .. } => (4, [0; 16]),
        };
        let mut bytes = [0; UDP_CONTROL_BYTES];
        let parts = [&MAGIC[..], &[kind, 0, 0, 0, 0, 0, 0, 0], &self.token(), &nonce];
        bytes.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// Decodes a control datagram; `None` for any bytes that [`encode`](Self::encode) does not produce.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let datagram: &[u8; UDP_CONTROL_BYTES] = datagram.try_into().ok()?;
        let rest = datagram.strip_prefix(&MAGIC)?;
        let (&[kind, ref reserved @ ..], rest) = rest.split_first_chunk::<8>()?;
        let (&token, rest) = rest.split_first_chunk::<8>()?;
        let nonce: [u8; 16] = rest.try_into().ok()?;
        if *reserved != [0; 7] {
            return None;
        }
        match kind {
            1 if nonce == [0; 16] => Some(Self::Hello { token }),
            2 => Some(Self::Challenge { token, nonce }),
            3 => Some(Self::Proof { token, nonce }),
            4 if nonce == [0; 16] => Some(Self::Ready { token }),
            _ => None,
        }
    }
}

/// Whether a datagram is a control datagram: test this before reading it as data.
pub fn is_control(datagram: &[u8]) -> bool {
    datagram.starts_with(&MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::DatagramHeader;
    use proptest::prelude::*;
    use units::Instant;

    proptest! {
        #[test]
        fn each_kind_survives_a_round_trip(token: [u8; 8], nonce: [u8; 16]) {
            for control in [
                UdpControl::Hello { token },
                UdpControl::Challenge { token, nonce },
                UdpControl::Proof { token, nonce },
                UdpControl::Ready { token },
            ] {
                let bytes = control.encode();
                prop_assert!(is_control(&bytes));
                prop_assert_eq!(UdpControl::decode(&bytes), Some(control));
                prop_assert_eq!(UdpControl::decode(&bytes[..39]), None);
                prop_assert_eq!(UdpControl::decode(&[&bytes[..], &[0]].concat()), None);
            }
        }

        #[test]
        fn data_is_never_mistaken_for_control(token: [u8; 8], sequence: u64) {
            prop_assume!(token != MAGIC);
            let data = DatagramHeader { token, sequence, sent: Instant::ZERO }.encode();
            prop_assert!(!is_control(&data));
        }

        #[test]
        fn a_decoded_datagram_encodes_to_the_same_bytes(kind in 0_u8..6, tail: [u8; 24], reserved in 0_u8..2) {
            let bytes = [&MAGIC[..], &[kind, 0, 0, 0, 0, 0, 0, reserved], &tail].concat();
            if let Some(control) = UdpControl::decode(&bytes) {
                prop_assert_eq!(&control.encode()[..], &bytes[..]);
            }
        }
    }
}
