//! The header of a probe packet.
//!
//! It has four bytes, because the probes of RON are 32 bytes long with the headers of IP and UDP. Addresses and ports
//! identify the session: both ends use connected sockets. Times travel on the control connection.

/// Length of the header in bytes, and thus the shortest UDP payload of a probe.
pub const PROBE_HEADER_BYTES: usize = 4;

/// Maximum number of packets in a train: more do not improve the measurement, and both ends store a time for each.
pub const TRAIN_PACKETS_MAX: u32 = 4096;

/// Number of train numbers, after which they wrap.
pub const TRAIN_NUMBERS: u16 = 1 << 15;

/// Position of a datagram in its train: `echo` 1 bit | `train` 15 bits | `index` u16, network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeHeader {
    /// Number of the train, below [`TRAIN_NUMBERS`].
    pub train: u16,
    /// Index of the packet in its train.
    pub index: u16,
    /// Whether the receiver echoes the datagram unchanged, once.
    pub echo: bool,
}

impl ProbeHeader {
    /// Encodes the header.
    pub const fn encode(self) -> [u8; PROBE_HEADER_BYTES] {
        let echo = if self.echo { TRAIN_NUMBERS } else { 0 };
        let [a, b] = ((self.train % TRAIN_NUMBERS) | echo).to_be_bytes();
        let [c, d] = self.index.to_be_bytes();
        [a, b, c, d]
    }

    /// Decodes the header of a received datagram; `None` when it is too short.
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
