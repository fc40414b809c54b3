//! Signatures of gossip records, and the conversion of link advertisements from and to their wire form.

use std::time::Duration;

use wire::overlay::gossip::{self, SIGNATURE_BYTES, SIGNED_CONTEXT, SignedRecord};

use crate::core::LinkAdvertisement;
use crate::identity::{Identity, PublicKey};

/// Encodes a record with the signature of its originator in front.
pub(super) fn sign(record: &SignedRecord, originator: &Identity) -> Vec<u8> {
    let body = record.encode();
    let signature = originator.sign(&[SIGNED_CONTEXT, &body].concat());
    [&signature[..], &body].concat()
}

/// Whether an encoded record has a valid signature of the key's owner.
pub(super) fn is_signed(bytes: &[u8], key: &PublicKey) -> bool {
    let Some((signature, body)) = bytes.split_first_chunk::<SIGNATURE_BYTES>() else { return false };
    key.verifies(&[SIGNED_CONTEXT, body].concat(), signature)
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

/// Converts an advertisement from its wire form. `age`: time since its originator made it.
pub(super) fn with_age(advertisement: gossip::LinkAdvertisement, age: Duration) -> LinkAdvertisement {
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
