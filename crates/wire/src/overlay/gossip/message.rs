use super::{RECORD_BYTES_MAX, take};

/// First byte of each message; a message with another version is ignored.
const VERSION: u8 = 4;
/// Flag: the digest requests a digest in reply.
const REQUESTS_DIGEST: u8 = 1;
/// Maximum entries of a digest, 20 bytes each. With more members, each message covers some of them.
pub const DIGEST_MAX: usize = 256;
const HEADER_BYTES: usize = 4;

/// Digest entry: the records of one originator that the sender of the digest has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestEntry {
    /// The member that originated the records.
    pub originator: u32,
    /// Number of its last known record; 0 for none.
    pub newest: u64,
    /// Sum of the numbers of all known records, modulo 2^64: reveals gaps before the last one.
    pub sum: u64,
}

/// A gossip message: `version` u8 | `flags` u8 | number of digest entries u16 | for each entry `originator` u32,
/// `newest` u64, `sum` u64 | records, each preceded by its length u16.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// The digest requests a digest in reply.
    pub requests_digest: bool,
    /// Records that the sender knows, per originator.
    pub digest: Vec<DigestEntry>,
    /// Signed records.
    pub records: Vec<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Maximum bytes of a message with several records: it fits one frame, as the loss of one frame loses the whole
    /// message.
    pub const FRAME_BYTES: usize = super::super::Message::GOSSIP_DATA;

    /// Decodes a message; `None` when it is malformed or of another version.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let [version, flags] = take(&mut rest)?;
        let count = usize::from(u16::from_be_bytes(take(&mut rest)?));
        if version != VERSION || count > DIGEST_MAX {
            return None;
        }
        let mut message = Self { requests_digest: flags & REQUESTS_DIGEST != 0, ..Self::default() };
        for _ in 0..count {
            message.digest.push(DigestEntry {
                originator: u32::from_be_bytes(take(&mut rest)?),
                newest: u64::from_be_bytes(take(&mut rest)?),
                sum: u64::from_be_bytes(take(&mut rest)?),
            });
        }
        while !rest.is_empty() {
            let length = usize::from(u16::from_be_bytes(take(&mut rest)?));
            let (record, after) = rest.split_at_checked(length).filter(|_| length <= RECORD_BYTES_MAX)?;
            message.records.push(record);
            rest = after;
        }
        Some(message)
    }

    /// Encodes a message with only a digest, truncated to [`DIGEST_MAX`] entries.
    pub fn encode_digest(requests_digest: bool, digest: &[DigestEntry]) -> Vec<u8> {
        let digest = digest.get(..DIGEST_MAX).unwrap_or(digest);
        let mut b = header(requests_digest, digest.len() as u16);
        for DigestEntry { originator, newest, sum } in digest {
            b.extend(originator.to_be_bytes());
            b.extend(newest.to_be_bytes());
            b.extend(sum.to_be_bytes());
        }
        b
    }

    /// Encodes records into as few messages as possible.
    pub fn encode_records<'r>(records: impl Iterator<Item = &'r [u8]>) -> Vec<Vec<u8>> {
        let mut messages: Vec<Vec<u8>> = Vec::new();
        for record in records {
            let Ok(length) = u16::try_from(record.len()) else { continue };
            let bytes = [&length.to_be_bytes(), record].concat();
            match messages.last_mut().filter(|m| m.len() + bytes.len() <= Self::FRAME_BYTES) {
                Some(message) => message.extend(bytes),
                None => messages.push([header(false, 0), bytes].concat()),
            }
        }
        messages
    }
}

fn header(requests_digest: bool, entries: u16) -> Vec<u8> {
    let mut b = Vec::with_capacity(HEADER_BYTES);
    b.extend([VERSION, u8::from(requests_digest) * REQUESTS_DIGEST]);
    b.extend(entries.to_be_bytes());
    b
}
