use crate::checksum::sum;

/// Longest header of IPv4: fifteen 32-bit words (RFC 791, section 3.1).
const IPV4_HEADER_BYTES_MAX: usize = 60;
/// Offsets of fragments count in these.
const UNIT: usize = 8;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
/// Bits of the field that are the offset, in units.
const OFFSET: u16 = 0x1fff;
/// An option that goes into all fragments; one that says nothing; the end of the options.
const COPIED: u8 = 0x80;
const NO_OPERATION: u8 = 1;
const END_OF_OPTIONS: u8 = 0;

/// The fragments of a packet, in their order.
#[derive(Debug)]
pub struct Fragments<'a> {
    /// Header of the packet.
    header: &'a [u8],
    rest: &'a [u8],
    /// Payload bytes of each but the last.
    each: usize,
    /// Flags and offset of the next one.
    field: u16,
    /// Whether the packet itself is a fragment with later fragments.
    more_behind: bool,
    is_first: bool,
}

/// One fragment: a separate header, and a part of the packet.
#[derive(Debug, Clone, Copy)]
pub struct Fragment<'a> {
    header: [u8; IPV4_HEADER_BYTES_MAX],
    length: usize,
    payload: &'a [u8],
}

impl<'a> Fragments<'a> {
    /// Cuts an IPv4 packet whose checksum is whole as a router does (RFC 791, section 3.2), so that no fragment exceeds `most` bytes. `None`: it may
    /// not be fragmented, is no such packet or is damaged, or `most` has no room for its header and eight bytes.
    pub fn new(ip: &'a [u8], most: usize) -> Option<Self> {
        if ip.first()? >> 4 != 4 {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
        let (header, rest) = ip.get(..length)?.split_at_checked(usize::from(ip.first()? & 0xf) * 4)?;
        let field = u16::from_be_bytes([*header.get(6)?, *header.get(7)?]);
        let each = most.checked_sub(header.len())? / UNIT * UNIT;
        let end = usize::from(field & OFFSET) + rest.len().div_ceil(UNIT);
        if header.len() < 20 || field & DONT_FRAGMENT != 0 || each == 0 || end > usize::from(OFFSET) + 1 {
            return None;
        }
        let more_behind = field & MORE_FRAGMENTS != 0;
        Some(Self { header, rest, each, field: field & OFFSET, more_behind, is_first: true })
    }
}

impl<'a> Iterator for Fragments<'a> {
    type Item = Fragment<'a>;

    fn next(&mut self) -> Option<Fragment<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (payload, rest) = self.rest.split_at(self.each.min(self.rest.len()));
        let mut header = [0; IPV4_HEADER_BYTES_MAX];
        let own = header.get_mut(..self.header.len())?;
        own.copy_from_slice(self.header);
        if !std::mem::take(&mut self.is_first) {
            drop_options(own.get_mut(20..)?);
        }
        let more = if rest.is_empty() && !self.more_behind { 0 } else { MORE_FRAGMENTS };
        let length = (own.len() + payload.len()) as u16;
        own[2..4].copy_from_slice(&length.to_be_bytes());
        own[6..8].copy_from_slice(&(self.field | more).to_be_bytes());
        own[10..12].fill(0);
        let check = !(sum(own, 0) as u16);
        own[10..12].copy_from_slice(&check.to_be_bytes());
        self.rest = rest;
        // The last may end where the packet does, off the unit; there is none behind it.
        self.field += (payload.len() / UNIT) as u16;
        Some(Fragment { header, length: self.header.len(), payload })
    }
}

impl<'a> Fragment<'a> {
    /// Its header, and what of the packet is in it.
    pub fn parts(&self) -> [&[u8]; 2] {
        [self.header.get(..self.length).unwrap_or_default(), self.payload]
    }
}

/// Blanks the options that belong to the first fragment alone. Behind what is damaged all stays, as in Linux.
fn drop_options(mut options: &mut [u8]) {
    while let Some(kind) = options.first().copied().filter(|kind| *kind != END_OF_OPTIONS) {
        let length = if kind == NO_OPERATION { 1 } else { options.get(1).map_or(0, |l| usize::from(*l)) };
        if length == 0 || (length < 2 && kind != NO_OPERATION) {
            return;
        }
        let Some((option, rest)) = options.split_at_mut_checked(length) else { return };
        if kind & COPIED == 0 {
            option.fill(NO_OPERATION);
        }
        options = rest;
    }
}
