//! Messages of the gossip that are longer than a frame.

use std::collections::BTreeMap;

/// Maximum number of pieces of a message: those of the largest UDP datagram, the gossip's own bound.
const PIECES_MAX: u16 = 64;

/// Reassembly of one message of a peer that is not yet complete.
#[derive(Default)]
pub(super) struct Reassembly {
    number: u32,
    pieces: BTreeMap<u16, Vec<u8>>,
}

impl Reassembly {
    /// Adds piece `piece` of the `pieces` of message `number`; gives the message if it is complete. A piece of another
    /// message discards those before it.
    pub(super) fn add(&mut self, number: u32, (piece, pieces): (u16, u16), data: Vec<u8>) -> Option<Vec<u8>> {
        if pieces > PIECES_MAX || piece >= pieces {
            return None;
        }
        if self.number != number {
            *self = Self { number, pieces: BTreeMap::new() };
        }
        self.pieces.insert(piece, data);
        let is_complete = self.pieces.len() == usize::from(pieces);
        is_complete.then(|| std::mem::take(&mut self.pieces).into_values().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use wire::overlay::Message;

    use super::*;

    #[test]
    fn messages_arrive_whole_whatever_their_length() {
        for (number, length) in [1, 1091, 1092, 20_000].into_iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let chunks = bytes.chunks(Message::GOSSIP_DATA);
            let count = chunks.len() as u16;
            let mut pieces = Reassembly::default();
            // In the opposite order.
            let all: Vec<_> = (0..count).zip(chunks).rev().collect();
            let whole = all.into_iter().filter_map(|(n, c)| pieces.add(number as u32, (n, count), c.to_vec()));
            assert_eq!(Vec::from_iter(whole), [bytes], "{length}");
        }
    }

    #[test]
    fn a_message_of_too_many_pieces_or_a_piece_beyond_them_is_discarded() {
        let mut pieces = Reassembly::default();
        assert!((0..65).all(|piece| pieces.add(9, (piece, 65), vec![3; 1000]).is_none()));
        assert!((1..9).all(|piece| pieces.add(9, (piece, 1), vec![3; 1000]).is_none()));
        assert!(pieces.pieces.is_empty());
    }
}
