//! What a member says, signed, and what it says of a link as the rest of the overlay knows it.

use std::time::Duration;

use wire::overlay::gossip::{self, SIGNATURE_BYTES, SIGNED_CONTEXT, Said};

use crate::identity::{Identity, PublicKey};
use crate::mesh::Claim;

/// The word with its speaker's signature in front.
pub(super) fn sign(said: &Said, speaker: &Identity) -> Vec<u8> {
    let body = said.encode();
    let signature = speaker.sign(&[SIGNED_CONTEXT, &body].concat());
    [&signature[..], &body].concat()
}

/// Whether the owner of the key said these bytes.
pub(super) fn is_signed(bytes: &[u8], by: &PublicKey) -> bool {
    let Some((signature, body)) = bytes.split_first_chunk::<SIGNATURE_BYTES>() else { return false };
    by.verifies(&[SIGNED_CONTEXT, body].concat(), signature)
}

impl From<Claim> for gossip::Claim {
    fn from(claim: Claim) -> Self {
        Self {
            rtt_us: u32::try_from(claim.rtt_us).unwrap_or(u32::MAX),
            loss: claim.loss as f32,
            low: claim.low as f32,
            high: claim.high as f32,
            frames: claim.frames as f32,
            capacity_bps: claim.capacity_bps,
            datagram: claim.datagram,
            with_traffic: claim.with_traffic,
        }
    }
}

/// A claim that was said so long ago.
pub(super) fn aged(claim: gossip::Claim, age: Duration) -> Claim {
    Claim {
        rtt_us: claim.rtt_us.into(),
        loss: claim.loss.into(),
        low: claim.low.into(),
        high: claim.high.into(),
        frames: claim.frames.into(),
        capacity_bps: claim.capacity_bps,
        datagram: claim.datagram,
        with_traffic: claim.with_traffic,
        age,
    }
}
