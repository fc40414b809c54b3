use std::io::IoSlice;

use crate::checksum;
use crate::segments::{GSO_ECN, GSO_NONE, NEEDS_CSUM, Packet, Transport, VNET_HEADER};

/// Maximum header bytes of a super-packet: Ethernet with a VLAN tag, IPv6 with extension headers, TCP with options.
pub(crate) const HEADERS_BYTES_MAX: usize = 256;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// A run of segments of a super-packet with its own headers. Several segments form a smaller super-packet.
///
/// The checksum stays partial: the receiving kernel accepts it as verified, like those of its own packets.
pub struct Cut<'a> {
    headers: [u8; VNET_HEADER + HEADERS_BYTES_MAX],
    length: usize,
    payload: &'a [u8],
}

impl<'a> Cut<'a> {
    /// Cuts `count` segments out of the packet, starting with segment `first`. `None` if the packet is not a
    /// super-packet or has fewer segments.
    pub fn new<B: AsRef<[u8]>>(packet: &'a Packet<B>, first: u32, count: u32) -> Option<Self> {
        let gso = packet.gso?;
        let frame = packet.frame();
        let (own, payload) = frame.split_at_checked(packet.headers)?;
        let offset = first as usize * gso.size;
        let end = (offset + count as usize * gso.size).min(payload.len());
        let payload = payload.get(offset..end)?;
        let is_last = offset + payload.len() == frame.len() - packet.headers;

        let mut headers = [0; VNET_HEADER + HEADERS_BYTES_MAX];
        let length = VNET_HEADER + own.len();
        let (vnet, rest) = headers.split_at_mut(VNET_HEADER);
        vnet.copy_from_slice(packet.vnet());
        let new = rest.get_mut(..own.len())?;
        new.copy_from_slice(own);

        let several = payload.len() > gso.size;
        vnet[0] |= NEEDS_CSUM;
        vnet[1] = match (several, first) {
            (false, _) => GSO_NONE,
            (true, 0) => gso.kind,
            (true, _) => gso.kind & !GSO_ECN,
        };
        vnet[2..4].copy_from_slice(&(own.len() as u16).to_ne_bytes());
        vnet[4..6].copy_from_slice(&(if several { gso.size as u16 } else { 0 }).to_ne_bytes());

        let (ip, transport) = new.split_at_mut_checked(gso.transport_at)?;
        let ip = ip.get_mut(packet.ip_at..)?;
        let transport_length = transport.len() + payload.len();
        fix_ip(ip, transport_length, first)?;
        match gso.transport {
            Transport::Tcp => fix_tcp(transport, offset, first == 0, is_last)?,
            Transport::Udp => fix_udp(transport, transport_length)?,
        }
        let (protocol, at) = match gso.transport {
            Transport::Tcp => (6, 16),
            Transport::Udp => (17, 6),
        };
        let partial = checksum::pseudo_header(ip, protocol, transport_length) as u16;
        transport.get_mut(at..at + 2)?.copy_from_slice(&partial.to_be_bytes());
        Some(Self { headers, length, payload })
    }

    /// Virtio header with packet headers, and payload.
    pub fn parts(&self) -> [IoSlice<'_>; 2] {
        [IoSlice::new(self.headers.get(..self.length).unwrap_or_default()), IoSlice::new(self.payload)]
    }

    /// The frame's headers without the virtio header.
    pub fn headers(&self) -> &[u8] {
        self.headers.get(VNET_HEADER..self.length).unwrap_or_default()
    }

    /// Bytes after the headers.
    pub fn payload(&self) -> &[u8] {
        self.payload
    }
}

/// Sets the length, and for IPv4 the identification (incremented for each segment, as in the kernel) and the header
/// checksum.
pub(crate) fn fix_ip(ip: &mut [u8], transport_length: usize, first: u32) -> Option<()> {
    let header = ip.len();
    match ip.first()? >> 4 {
        4 => {
            ip.get_mut(2..4)?.copy_from_slice(&((header + transport_length) as u16).to_be_bytes());
            let id = u16::from_be_bytes([*ip.get(4)?, *ip.get(5)?]).wrapping_add(first as u16);
            ip.get_mut(4..6)?.copy_from_slice(&id.to_be_bytes());
            ip.get_mut(10..12)?.fill(0);
            let sum = !(checksum::sum(ip, 0) as u16);
            ip.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
        }
        6 => {
            let extensions = header.checked_sub(40)?;
            ip.get_mut(4..6)?.copy_from_slice(&((extensions + transport_length) as u16).to_be_bytes());
        }
        _ => return None,
    }
    Some(())
}

/// Sets sequence number and flags: FIN and PSH belong to the last segment, CWR to the first (RFC 3168 §6.1.2).
fn fix_tcp(tcp: &mut [u8], offset: usize, is_first: bool, is_last: bool) -> Option<()> {
    let field = tcp.get_mut(4..8)?;
    let sequence = u32::from_be_bytes(<[u8; 4]>::try_from(&*field).ok()?).wrapping_add(offset as u32);
    field.copy_from_slice(&sequence.to_be_bytes());
    let flags = tcp.get_mut(13)?;
    if !is_last {
        *flags &= !FIN_PSH;
    }
    if !is_first {
        *flags &= !CWR;
    }
    Some(())
}

/// Sets the length of the datagram, or of the whole super-packet as the kernel does.
fn fix_udp(udp: &mut [u8], transport_length: usize) -> Option<()> {
    udp.get_mut(4..6)?.copy_from_slice(&(transport_length as u16).to_be_bytes());
    Some(())
}
