//! Attributes of netlink (struct nlattr): length and kind, 16 bits each, then the value, padded to four bytes (netlink(7)).

/// Length of struct nlattr.
const HEADER: usize = 4;
/// Bits of the kind that are no flags (NLA_TYPE_MASK).
const KIND: u16 = 0x3fff;

/// An attribute that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attribute<'a> {
    pub(crate) kind: u16,
    pub(crate) value: &'a [u8],
}

/// Reads a row of attributes; `None` if one does not fit.
pub(crate) fn read(bytes: &[u8]) -> Option<Vec<Attribute<'_>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while bytes.len().saturating_sub(at) >= HEADER {
        let length = usize::from(u16_at(bytes, at)?);
        let kind = u16_at(bytes, at + 2)? & KIND;
        let value = bytes.get(at + HEADER..at + length)?;
        found.push(Attribute { kind, value });
        at += length.next_multiple_of(4);
    }
    // What is left is padding, which a row at the end of a message need not have.
    (at >= bytes.len()).then_some(found)
}

/// The values of a row in which each kind occurs at most once and all are in `expected`; in the order of `expected`.
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

/// The words of a structure that consists of `N` of them, and nothing else.
pub(crate) fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let mut words = [0; N];
    for (i, word) in words.iter_mut().enumerate() {
        *word = u32_at(bytes, 4 * i)?;
    }
    (bytes.len() == 4 * N).then_some(words)
}

/// Text that ends with a NUL.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}

/// A row of attributes in the making.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) {
        // The length has 16 bits. What is longer is cut: the kernel then refuses the object, for it is not what was announced.
        let value = value.get(..usize::from(u16::MAX) - HEADER).unwrap_or(value);
        let length = (value.len() + HEADER) as u16;
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

    /// Appends attributes that are complete already.
    pub(crate) fn append(&mut self, row: &[u8]) {
        self.0.extend_from_slice(row);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Words as the kernel's structures hold them.
pub(crate) fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}
