//! Netlink attributes (struct nlattr): length and kind, 16 bits each, then the value, padded to four bytes
//! (netlink(7)).

/// Length of struct nlattr.
const HEADER_BYTES: usize = 4;
/// Mask of the kind without its flags (NLA_TYPE_MASK).
const KIND_MASK: u16 = 0x3fff;

/// A decoded attribute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attribute<'a> {
    pub(crate) kind: u16,
    pub(crate) value: &'a [u8],
}

/// Decodes a sequence of attributes; `None` if a length does not fit.
pub(crate) fn read(bytes: &[u8]) -> Option<Vec<Attribute<'_>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while bytes.len().saturating_sub(at) >= HEADER_BYTES {
        let length = usize::from(u16_at(bytes, at)?);
        let kind = u16_at(bytes, at + 2)? & KIND_MASK;
        let value = bytes.get(at + HEADER_BYTES..at + length)?;
        found.push(Attribute { kind, value });
        at += length.next_multiple_of(4);
    }
    // The rest is padding, which is optional at the end of a message.
    (at >= bytes.len()).then_some(found)
}

/// Values of a sequence of attributes, in the order of `expected`; `None` if a kind repeats or is not in `expected`.
pub(crate) fn exactly<const N: usize>(bytes: &[u8], expected: [u16; N]) -> Option<[Option<&[u8]>; N]> {
    let mut values = [None; N];
    for attribute in read(bytes)? {
        let place = expected.iter().position(|k| *k == attribute.kind)?;
        let value = values.get_mut(place)?;
        if value.replace(attribute.value).is_some() {
            return None;
        }
    }
    Some(values)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

/// Decodes a structure that consists of exactly `N` 32-bit words.
pub(crate) fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let mut words = [0; N];
    for (i, word) in words.iter_mut().enumerate() {
        *word = u32_at(bytes, 4 * i)?;
    }
    (bytes.len() == 4 * N).then_some(words)
}

/// Decodes a NUL-terminated string.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}

/// Encoder of a sequence of attributes.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) {
        // The length has 16 bits. A longer value is truncated; the kernel then rejects the object, whose announced
        // length does not match.
        let value = value.get(..usize::from(u16::MAX) - HEADER_BYTES).unwrap_or(value);
        let length = (value.len() + HEADER_BYTES) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    pub(crate) fn put_u32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_ne_bytes());
    }

    pub(crate) fn put_u64(&mut self, kind: u16, value: u64) {
        self.put(kind, &value.to_ne_bytes());
    }

    pub(crate) fn put_words(&mut self, kind: u16, words: &[u32]) {
        self.put(kind, &bytes_of(words));
    }

    pub(crate) fn put_text(&mut self, kind: u16, text: &str) {
        self.put(kind, &[text.as_bytes(), &[0]].concat());
    }

    pub(crate) fn put_row(&mut self, kind: u16, row: Self) {
        self.put(kind, &row.0);
    }

    /// Appends encoded attributes.
    pub(crate) fn append(&mut self, row: &[u8]) {
        self.0.extend_from_slice(row);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Encodes 32-bit words in native byte order, as the kernel's structures do.
pub(crate) fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}
