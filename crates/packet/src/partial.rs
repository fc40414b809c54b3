use crate::checksum::sum;
use crate::flow::transport;
use crate::segments::needs_checksum;

/// Offset of the checksum in the UDP header. A checksum of 0 is transmitted as all ones (RFC 768).
const UDP_CHECKSUM_OFFSET: usize = 6;

/// State of a packet's transport checksum (virtio 1.2 §5.1.6.1: `csum_start` and `csum_offset`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// The checksum is complete.
    Whole,
    /// The checksum is partial, and is that of the TCP or UDP header after the IP header. Its position follows from the
    /// packet.
    Partial,
    /// The checksum is partial and at another position: after IPv6 extension headers, or in an encapsulated packet. The
    /// position must accompany the packet, or the checksum be completed.
    Elsewhere {
        /// Start of the covered bytes, from the start of the packet; the coverage extends to its end.
        start: usize,
        /// Offset of the checksum from `start`.
        field: usize,
    },
}

impl Checksum {
    /// State of the checksum of an IP packet, according to its virtio header.
    pub fn of(vnet: &[u8], ip: &[u8]) -> Self {
        let Some((start, field)) = place(vnet) else { return Self::Whole };
        match transport(ip) {
            Some((6 | 17, at, false)) if at == start => Self::Partial,
            _ => Self::Elsewhere { start, field },
        }
    }
}

/// Start of the coverage and offset of the checksum, if the virtio header marks it as partial.
fn place(vnet: &[u8]) -> Option<(usize, usize)> {
    let number = |at: usize| Some(usize::from(u16::from_ne_bytes([*vnet.get(at)?, *vnet.get(at + 1)?])));
    number(6).zip(number(8)).filter(|_| needs_checksum(vnet))
}

/// Completes the checksum if the virtio header marks it as partial.
pub(crate) fn complete(vnet: &[u8], ip: &mut [u8]) {
    if let Some((start, field)) = place(vnet) {
        complete_checksum(ip, start, field);
    }
}

/// Completes a partial checksum, which holds the sum of the pseudo-header. A field outside the packet is ignored.
pub fn complete_checksum(ip: &mut [u8], start: usize, field: usize) {
    let Some(covered) = ip.get_mut(start..) else { return };
    let complete = !(sum(covered, 0) as u16);
    let Some(place) = covered.get_mut(field..).and_then(|rest| rest.first_chunk_mut::<2>()) else { return };
    *place = if complete == 0 && field == UDP_CHECKSUM_OFFSET { [0xff; 2] } else { complete.to_be_bytes() };
}
