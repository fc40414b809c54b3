//! Gossip messages, reassembled from the pieces of [`Message::Gossip`](super::Message::Gossip): digests of the known
//! records, and signed records. The originator signs a record, so that other members may forward it. The signature
//! precedes the [`SignedRecord`]; another crate creates and verifies it.

mod message;
mod record;
#[cfg(test)]
mod tests;

pub use message::{DIGEST_MAX, DigestEntry, Message};
pub use record::{
    LinkAdvertisement, RECORD_BYTES_MAX, RecordBody, RecordKey, SIGNATURE_BYTES, SIGNED_CONTEXT, SignedRecord,
    UNBOUNDED,
};

/// Takes `N` bytes from the front.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}
