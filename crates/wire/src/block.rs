//! The header at the front of every TCP block; the receiver echoes it unchanged.

use units::Instant;

/// Length of a block header and of its echo in bytes: that of thrulay, so that one data path serves both protocols.
pub const BLOCK_HEADER_BYTES: usize = 16;

/// Byte that fills a block after its header, as in thrulay.
pub const FILLER: u8 = b'2';

/// Header that precedes a block: `sent` ns u64 | `number` u32 | `next_sample` u32, network order.
///
/// Opaque to a thrulay server. A header from a peer may contain any values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// Time at which the sender started to write the block, on the sender's clock.
    pub sent: Instant,
    /// Number of the block in its stream, from 0; wraps after 2^32 blocks (256 TiB of 64 KiB blocks).
    pub number: u32,
    /// Number of the next block whose delay is broken down by timestamps. Block 0 always is, so that a receiver knows
    /// of every sampled block before it reads it.
    pub next_sample: u32,
}

impl BlockHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        let (sent, rest) = bytes.split_at_mut(8);
        let (number, next_sample) = rest.split_at_mut(4);
        sent.copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        number.copy_from_slice(&self.number.to_be_bytes());
        next_sample.copy_from_slice(&self.next_sample.to_be_bytes());
        bytes
    }

    /// Decodes a header; any 16 bytes are valid.
    pub fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Self {
        let all = u128::from_be_bytes(*bytes);
        Self { sent: Instant::from_nanos((all >> 64) as u64), number: (all >> 32) as u32, next_sample: all as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_network_order() {
        let header = BlockHeader { sent: Instant::from_nanos(0x0102_0304_0506_0708), number: 9, next_sample: 0x0a0b };
        assert_eq!(header.encode(), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0, 0, 0x0a, 0x0b]);
    }

    proptest! {
        #[test]
        fn every_sixteen_bytes_survive_a_round_trip(bytes: [u8; 16]) {
            prop_assert_eq!(BlockHeader::decode(&bytes).encode(), bytes);
        }
    }
}
