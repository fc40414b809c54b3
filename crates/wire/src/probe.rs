//! What a probe packet begins with.
//!
//! Four bytes, because the probes of RON are 32 bytes long with the headers of IP and UDP. Whose they are, the addresses
//! and ports say: both ends use connected sockets. Times travel on the control connection.

/// Length of the header in bytes, and so the shortest UDP payload of a probe.
pub const PROBE_HEADER_BYTES: usize = 4;

/// Most packets in a train: more say nothing more about a path, and every one is a time that both ends keep.
pub const MAX_TRAIN: u32 = 4096;

/// Number of trains after which the count begins anew.
pub const TRAIN_NUMBERS: u16 = 1 << 15;

/// Which packet of which train a datagram is: `echo` 1 bit | `train` 15 bits | `index` u16, network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeHeader {
    /// Number of the train, below [`TRAIN_NUMBERS`].
    pub train: u16,
    /// Number of the packet in its train.
    pub index: u16,
    /// Whether it is to be sent back as it is, once.
    pub echo: bool,
}

impl ProbeHeader {
    /// The header's bytes.
    pub const fn encode(self) -> [u8; PROBE_HEADER_BYTES] {
        let echo = if self.echo { TRAIN_NUMBERS } else { 0 };
        let [a, b] = ((self.train % TRAIN_NUMBERS) | echo).to_be_bytes();
        let [c, d] = self.index.to_be_bytes();
        [a, b, c, d]
    }

    /// Reads the header of a received datagram; `None` when it is too short.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let (&[a, b, c, d], _filler) = datagram.split_first_chunk::<PROBE_HEADER_BYTES>()?;
        let first = u16::from_be_bytes([a, b]);
        Some(Self { train: first % TRAIN_NUMBERS, index: u16::from_be_bytes([c, d]), echo: first >= TRAIN_NUMBERS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_survive_a_round_trip(train in 0..TRAIN_NUMBERS, index: u16, echo: bool, body in proptest::collection::vec(any::<u8>(), 0..50)) {
            let header = ProbeHeader { train, index, echo };
            let datagram = [&header.encode()[..], &body].concat();
            prop_assert_eq!(ProbeHeader::decode(&datagram), Some(header));
        }

        #[test]
        fn every_four_bytes_are_a_header(bytes: [u8; 4]) {
            prop_assert_eq!(ProbeHeader::decode(&bytes).map(ProbeHeader::encode), Some(bytes));
            prop_assert_eq!(ProbeHeader::decode(&bytes[..3]), None);
        }
    }
}
