//! Messages of the gossip: what a member has heard of whom, and what it passes on.

use route::Member;
use wire::overlay::Message as Frame;

use super::said::{LONGEST, take};

/// First byte of each; another one is of another version, and means nothing here.
const VERSION: u8 = 3;
/// The digest is to be answered by one.
const ASKS: u8 = 1;
/// Most entries of a digest, 20 bytes each. Where there are more members, each message tells of some.
pub(super) const MOST_KNOWN: usize = 256;
/// Most bytes of a message with several words: no more than fits a frame, as who loses one frame of a message loses all of it.
pub(super) const FRAME_BYTES: usize = Frame::GOSSIP_DATA;
const HEADER: usize = 4;

/// What somebody has heard of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) of: Member,
    /// Number of the last word; 0: none.
    pub(super) newest: u64,
    /// Sum of the numbers of all words: tells whether there are gaps before the last one.
    pub(super) sum: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) asks: bool,
    pub(super) digest: Vec<Known>,
    /// What members said, signed.
    pub(super) words: Vec<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// `None`: it is none.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let [version, flags] = take(&mut rest)?;
        let count = usize::from(u16::from_be_bytes(take(&mut rest)?));
        if version != VERSION || count > MOST_KNOWN {
            return None;
        }
        let mut message = Self { asks: flags & ASKS != 0, ..Self::default() };
        for _ in 0..count {
            message.digest.push(Known {
                of: Member(u32::from_be_bytes(take(&mut rest)?)),
                newest: u64::from_be_bytes(take(&mut rest)?),
                sum: u64::from_be_bytes(take(&mut rest)?),
            });
        }
        while !rest.is_empty() {
            let length = usize::from(u16::from_be_bytes(take(&mut rest)?));
            let (word, after) = rest.split_at_checked(length).filter(|_| length <= LONGEST)?;
            message.words.push(word);
            rest = after;
        }
        Some(message)
    }
}

/// A message with a digest alone.
pub(super) fn digest(asks: bool, known: &[Known]) -> Vec<u8> {
    let known = &known[..known.len().min(MOST_KNOWN)];
    let mut b = header(asks, known.len() as u16);
    for Known { of, newest, sum } in known {
        b.extend(of.0.to_be_bytes());
        b.extend(newest.to_be_bytes());
        b.extend(sum.to_be_bytes());
    }
    b
}

/// Messages with words alone, as few as hold them.
pub(super) fn words<'a>(words: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for word in words {
        let Ok(length) = u16::try_from(word.len()) else { continue };
        let bytes = [&length.to_be_bytes(), word].concat();
        match messages.last_mut().filter(|m| m.len() + bytes.len() <= FRAME_BYTES) {
            Some(message) => message.extend(bytes),
            None => messages.push([header(false, 0), bytes].concat()),
        }
    }
    messages
}

fn header(asks: bool, known: u16) -> Vec<u8> {
    let mut b = Vec::with_capacity(HEADER);
    b.extend([VERSION, u8::from(asks) * ASKS]);
    b.extend(known.to_be_bytes());
    b
}
