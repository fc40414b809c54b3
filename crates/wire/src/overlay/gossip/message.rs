use super::{SAID_MAX, take};

/// First byte of each; another one is of another version, and means nothing here.
const VERSION: u8 = 4;
/// The digest is to be answered by one.
const ASKS: u8 = 1;
/// Most entries of a digest, 20 bytes each. Where there are more members, each message tells of some.
pub const DIGEST_MAX: usize = 256;
const HEADER: usize = 4;

/// What somebody has heard of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The member.
    pub of: u32,
    /// Number of the last word; 0: none.
    pub newest: u64,
    /// Sum of the numbers of all words, modulo 2^64: tells whether there are gaps before the last one.
    pub sum: u64,
}

/// What members tell each other of what members said: `version` u8 | `flags` u8 | entries of the digest u16 | of each `of` u32, `newest` u64, `sum` u64 |
/// words, each with its length u16 in front.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// The digest is to be answered by one.
    pub asks: bool,
    /// What its sender has heard of whom.
    pub digest: Vec<Known>,
    /// What members said, signed.
    pub words: Vec<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Most bytes of a message with several words: no more than fits a frame, as who loses one frame of a message loses all of it.
    pub const FRAME_BYTES: usize = super::super::Message::GOSSIP_DATA;

    /// `None`: it is none, or of another version.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let [version, flags] = take(&mut rest)?;
        let count = usize::from(u16::from_be_bytes(take(&mut rest)?));
        if version != VERSION || count > DIGEST_MAX {
            return None;
        }
        let mut message = Self { asks: flags & ASKS != 0, ..Self::default() };
        for _ in 0..count {
            message.digest.push(Known {
                of: u32::from_be_bytes(take(&mut rest)?),
                newest: u64::from_be_bytes(take(&mut rest)?),
                sum: u64::from_be_bytes(take(&mut rest)?),
            });
        }
        while !rest.is_empty() {
            let length = usize::from(u16::from_be_bytes(take(&mut rest)?));
            let (word, after) = rest.split_at_checked(length).filter(|_| length <= SAID_MAX)?;
            message.words.push(word);
            rest = after;
        }
        Some(message)
    }

    /// A message with a digest alone, cut at [`DIGEST_MAX`] entries.
    pub fn encode_digest(asks: bool, known: &[Known]) -> Vec<u8> {
        let known = known.get(..DIGEST_MAX).unwrap_or(known);
        let mut b = header(asks, known.len() as u16);
        for Known { of, newest, sum } in known {
            b.extend(of.to_be_bytes());
            b.extend(newest.to_be_bytes());
            b.extend(sum.to_be_bytes());
        }
        b
    }

    /// Messages with words alone, as few as hold them.
    pub fn encode_words<'w>(words: impl Iterator<Item = &'w [u8]>) -> Vec<Vec<u8>> {
        let mut messages: Vec<Vec<u8>> = Vec::new();
        for word in words {
            let Ok(length) = u16::try_from(word.len()) else { continue };
            let bytes = [&length.to_be_bytes(), word].concat();
            match messages.last_mut().filter(|m| m.len() + bytes.len() <= Self::FRAME_BYTES) {
                Some(message) => message.extend(bytes),
                None => messages.push([header(false, 0), bytes].concat()),
            }
        }
        messages
    }
}

fn header(asks: bool, known: u16) -> Vec<u8> {
    let mut b = Vec::with_capacity(HEADER);
    b.extend([VERSION, u8::from(asks) * ASKS]);
    b.extend(known.to_be_bytes());
    b
}
