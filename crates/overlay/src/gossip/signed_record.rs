//! What a member says, signed, and what it says of a link as the rest of the overlay knows it.

use std::time::Duration;

use wire::overlay::gossip::{self, SIGNATURE_BYTES, SIGNED_CONTEXT, SignedRecord};

use crate::core::LinkAdvertisement;
use crate::identity::{Identity, PublicKey};

/// The word with its speaker's signature in front.
pub(super) fn sign(said: &SignedRecord, origin: &Identity) -> Vec<u8> {
    let body = said.encode();
    let signature = origin.sign(&[SIGNED_CONTEXT, &body].concat());
    [&signature[..], &body].concat()
}

/// Whether the owner of the key said these bytes.
pub(super) fn is_signed(bytes: &[u8], by: &PublicKey) -> bool {
    let Some((signature, body)) = bytes.split_first_chunk::<SIGNATURE_BYTES>() else { return false };
    by.verifies(&[SIGNED_CONTEXT, body].concat(), signature)
}

impl From<LinkAdvertisement> for gossip::LinkAdvertisement {
    fn from(advertisement: LinkAdvertisement) -> Self {
        Self {
            rtt_us: u32::try_from(advertisement.rtt_us).unwrap_or(u32::MAX),
            loss: advertisement.loss as f32,
            low: advertisement.low as f32,
            high: advertisement.high as f32,
            frames: advertisement.frames as f32,
            capacity_bps: advertisement.capacity_bps,
            datagram: advertisement.datagram,
            with_traffic: advertisement.with_traffic,
        }
    }
}

/// A claim that was said so long ago.
pub(super) fn aged(advertisement: gossip::LinkAdvertisement, age: Duration) -> LinkAdvertisement {
    LinkAdvertisement {
        rtt_us: advertisement.rtt_us.into(),
        loss: advertisement.loss.into(),
        low: advertisement.low.into(),
        high: advertisement.high.into(),
        frames: advertisement.frames.into(),
        capacity_bps: advertisement.capacity_bps,
        datagram: advertisement.datagram,
        with_traffic: advertisement.with_traffic,
        age,
    }
}
