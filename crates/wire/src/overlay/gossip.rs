//! Gossip messages, reassembled from the pieces of [`Message::Gossip`](super::Message::Gossip): digests of the known
//! records, and signed records. The originator signs a record, so that other nodes may forward it. The signature
//! precedes the [`Said`]; another crate creates and verifies it.

mod message;
mod said;
#[cfg(test)]
mod tests;

pub use message::{DIGEST_MAX, Known, Message};
pub use said::{Claim, SAID_MAX, SIGNATURE_BYTES, SIGNED_CONTEXT, Said, Subject, UNBOUNDED, What};

/// Takes `N` bytes from the front.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}
