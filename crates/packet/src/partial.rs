use crate::checksum::sum;
use crate::flow::transport;
use crate::segments::needs_checksum;

/// Bytes of the field in UDP's header; where its sum is 0, all ones are written (RFC 768).
const UDP_FIELD: usize = 6;

/// State of a packet's transport checksum (virtio 1.2 §5.1.6.1: `csum_start` and `csum_offset`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// The checksum is complete.
    Whole,
    /// It is partial, and that of the TCP or UDP header behind the IP header: who gets the packet sees where.
    Partial,
    /// It is partial, and elsewhere: behind extension headers of IPv6, or in a packet within the packet. Who gets the packet must be told, or it completed.
    Elsewhere {
        /// Start of the covered bytes, from the start of the packet; they extend to its end.
        start: usize,
        /// Where it is, from `start`.
        field: usize,
    },
}

impl Checksum {
    /// State of the checksum of a packet that starts with its IP header, according to this virtio header.
    pub fn of(vnet: &[u8], ip: &[u8]) -> Self {
        let Some((start, field)) = place(vnet) else { return Self::Whole };
        match transport(ip) {
            Some((6 | 17, at, false)) if at == start => Self::Partial,
            _ => Self::Elsewhere { start, field },
        }
    }
}

/// Where the checksum of a packet is partial: from where it covers it, and where it is from there.
fn place(vnet: &[u8]) -> Option<(usize, usize)> {
    let number = |at: usize| Some(usize::from(u16::from_ne_bytes([*vnet.get(at)?, *vnet.get(at + 1)?])));
    number(6).zip(number(8)).filter(|_| needs_checksum(vnet))
}

/// Completes the checksum of a packet if the virtio header that came with it marks it as partial.
pub(crate) fn complete(vnet: &[u8], ip: &mut [u8]) {
    if let Some((start, field)) = place(vnet) {
        complete_checksum(ip, start, field);
    }
}

/// Completes the partial checksum of a packet, which holds the sum of the pseudo-header. A field outside the packet
/// is ignored.
pub fn complete_checksum(ip: &mut [u8], start: usize, field: usize) {
    let Some(covered) = ip.get_mut(start..) else { return };
    let complete = !(sum(covered, 0) as u16);
    let Some(place) = covered.get_mut(field..).and_then(|rest| rest.first_chunk_mut::<2>()) else { return };
    *place = if complete == 0 && field == UDP_FIELD { [0xff; 2] } else { complete.to_be_bytes() };
}
