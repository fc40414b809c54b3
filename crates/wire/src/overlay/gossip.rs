//! What the pieces of [`Message::Gossip`](super::Message::Gossip) are put together to: what a member has heard of whom, and what members said. Who says
//! something signs it, so that it may come over others: the signature stands in front of the [`Said`], and is made and checked elsewhere.

mod message;
mod said;
#[cfg(test)]
mod tests;

pub use message::{DIGEST_MAX, Known, Message};
pub use said::{Claim, SAID_MAX, SIGNATURE_BYTES, SIGNED_CONTEXT, Said, Subject, UNBOUNDED, What};

/// Takes the first bytes off.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}
