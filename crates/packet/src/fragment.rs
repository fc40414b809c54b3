use crate::checksum::sum;

/// Maximum IPv4 header: fifteen 32-bit words (RFC 791, section 3.1).
const IPV4_HEADER_BYTES_MAX: usize = 60;
/// Unit of fragment offsets in bytes.
const OFFSET_UNIT_BYTES: usize = 8;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
/// Mask of the offset in the flags and offset field, in units.
const OFFSET_MASK: u16 = 0x1fff;
/// Option types: flag of an option that is copied to all fragments, no operation, end of options.
const COPIED_FLAG: u8 = 0x80;
const NO_OPERATION: u8 = 1;
const END_OF_OPTIONS: u8 = 0;

/// Iterator over the fragments of a packet, in order.
#[derive(Debug)]
pub struct Fragments<'a> {
    /// Header of the packet.
    header: &'a [u8],
    rest: &'a [u8],
    /// Payload bytes of each fragment except the last.
    payload_bytes: usize,
    /// Flags and offset field of the next fragment.
    field: u16,
    /// Whether the packet itself is a fragment that is not the last.
    more_fragments: bool,
    is_first: bool,
}

/// One fragment: its header, and a part of the packet's payload.
#[derive(Debug, Clone, Copy)]
pub struct Fragment<'a> {
    header: [u8; IPV4_HEADER_BYTES_MAX],
    length: usize,
    payload: &'a [u8],
}

impl<'a> Fragments<'a> {
    /// Fragments an IPv4 packet with a complete checksum (RFC 791, section 3.2), so that no fragment exceeds `max`
    /// bytes. `None` if the packet must not be fragmented, is not IPv4 or is damaged, or if `max` does not fit its
    /// header and eight bytes.
    pub fn new(ip: &'a [u8], max: usize) -> Option<Self> {
        if ip.first()? >> 4 != 4 {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
        let (header, rest) = ip.get(..length)?.split_at_checked(usize::from(ip.first()? & 0xf) * 4)?;
        let field = u16::from_be_bytes([*header.get(6)?, *header.get(7)?]);
        let payload_bytes = max.checked_sub(header.len())? / OFFSET_UNIT_BYTES * OFFSET_UNIT_BYTES;
        let end = usize::from(field & OFFSET_MASK) + rest.len().div_ceil(OFFSET_UNIT_BYTES);
        if header.len() < 20 || field & DONT_FRAGMENT != 0 || payload_bytes == 0 || end > usize::from(OFFSET_MASK) + 1 {
            return None;
        }
        let more_fragments = field & MORE_FRAGMENTS != 0;
        Some(Self { header, rest, payload_bytes, field: field & OFFSET_MASK, more_fragments, is_first: true })
    }
}

impl<'a> Iterator for Fragments<'a> {
    type Item = Fragment<'a>;

    fn next(&mut self) -> Option<Fragment<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (payload, rest) = self.rest.split_at(self.payload_bytes.min(self.rest.len()));
        let mut header = [0; IPV4_HEADER_BYTES_MAX];
        let own = header.get_mut(..self.header.len())?;
        own.copy_from_slice(self.header);
        if !std::mem::take(&mut self.is_first) {
            drop_options(own.get_mut(20..)?);
        }
        let more = if rest.is_empty() && !self.more_fragments { 0 } else { MORE_FRAGMENTS };
        let length = (own.len() + payload.len()) as u16;
        own[2..4].copy_from_slice(&length.to_be_bytes());
        own[6..8].copy_from_slice(&(self.field | more).to_be_bytes());
        own[10..12].fill(0);
        let check = !(sum(own, 0) as u16);
        own[10..12].copy_from_slice(&check.to_be_bytes());
        self.rest = rest;
        // The last fragment may have any length, because no fragment follows it.
        self.field += (payload.len() / OFFSET_UNIT_BYTES) as u16;
        Some(Fragment { header, length: self.header.len(), payload })
    }
}

impl<'a> Fragment<'a> {
    /// Header and payload of the fragment.
    pub fn parts(&self) -> [&[u8]; 2] {
        [self.header.get(..self.length).unwrap_or_default(), self.payload]
    }
}

/// Blanks the options that belong to the first fragment only. Options after a damaged one stay, as in Linux.
fn drop_options(mut options: &mut [u8]) {
    while let Some(kind) = options.first().copied().filter(|kind| *kind != END_OF_OPTIONS) {
        let length = if kind == NO_OPERATION { 1 } else { options.get(1).map_or(0, |l| usize::from(*l)) };
        if length == 0 || (length < 2 && kind != NO_OPERATION) {
            return;
        }
        let Some((option, rest)) = options.split_at_mut_checked(length) else { return };
        if kind & COPIED_FLAG == 0 {
            option.fill(NO_OPERATION);
        }
        options = rest;
    }
}
