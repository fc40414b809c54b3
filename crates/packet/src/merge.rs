use std::io::IoSlice;

use crate::checksum;
use crate::cut::{HEADERS_BYTES_MAX, fix_ip};
use crate::flow::transport;
use crate::segments::{GSO_TCPV4, GSO_TCPV6, NEEDS_CSUM, VNET_HEADER};

/// Maximum segments of a super-packet.
pub const SEGMENTS_MAX: usize = 64;
/// Maximum IP bytes of a super-packet that every kernel accepts.
const PACKET_BYTES_MAX: usize = 65_535;

const PSH_FIN: u8 = 0x09;
const ACK: u8 = 0x10;

/// Buffers of a super-packet for writing: headers, and the payload of each segment.
pub type Parts<'a> = [IoSlice<'a>; SEGMENTS_MAX + 1];

/// Consecutive segments of a TCP connection, merged for one write to a device: the reverse of [`Cut`](crate::Cut).
///
/// A segment joins only if it differs in nothing but sequence number, length, IPv4 identification and the flags PSH and
/// FIN of the last one, as in the kernel's receive offload. Cutting the merged packet thus gives the original segments.
/// Only packets with partial checksums are merged; complete checksums would have to be verified first.
pub struct Merge<'a> {
    headers: [u8; VNET_HEADER + HEADERS_BYTES_MAX],
    /// Length of IP and transport header; 0 for a packet that cannot be merged.
    length: usize,
    transport_at: usize,
    payloads: [&'a [u8]; SEGMENTS_MAX],
    count: usize,
    /// Total payload bytes.
    bytes: usize,
    /// Payload bytes of each segment except the last.
    size: usize,
    /// Sequence number of the next segment; `None` if no segment can follow.
    next_sequence: Option<u32>,
}

impl<'a> Merge<'a> {
    /// Starts with an IP packet. `partial`: its checksum is partial.
    pub fn new(ip: &'a [u8], partial: bool) -> Self {
        let mut merge = Self {
            headers: [0; VNET_HEADER + HEADERS_BYTES_MAX],
            length: 0,
            transport_at: 0,
            payloads: [&[]; SEGMENTS_MAX],
            count: 1,
            bytes: ip.len(),
            size: 0,
            next_sequence: None,
        };
        merge.payloads[0] = ip;
        if partial && let Some((protocol @ (6 | 17), at, false)) = transport(ip) {
            merge.start(ip, protocol, at);
        }
        merge
    }

    fn start(&mut self, ip: &'a [u8], protocol: u8, at: usize) {
        let (least, length, checksum_at) = match protocol {
            6 => (20, ip.get(at + 12).map_or(0, |b| usize::from(b >> 4) * 4), 16_u16),
            _ => (8, 8, 6),
        };
        let end = at + length;
        let Some((own, payload)) = ip.split_at_checked(end).filter(|_| length >= least && end <= HEADERS_BYTES_MAX)
        else {
            return;
        };
        self.headers[VNET_HEADER..VNET_HEADER + end].copy_from_slice(own);
        self.headers[0] = NEEDS_CSUM;
        self.headers[2..4].copy_from_slice(&(end as u16).to_ne_bytes());
        self.headers[6..8].copy_from_slice(&(at as u16).to_ne_bytes());
        self.headers[8..10].copy_from_slice(&checksum_at.to_ne_bytes());
        (self.length, self.transport_at) = (end, at);
        (self.payloads[0], self.bytes, self.size) = (payload, payload.len(), payload.len());
        if protocol == 6 && own[at + 13] == ACK && !payload.is_empty() {
            self.next_sequence = Some(sequence(own, at).wrapping_add(payload.len() as u32));
        }
    }

    /// Adds the packet if it continues the super-packet; `false` otherwise.
    pub fn add(&mut self, ip: &'a [u8], partial: bool) -> bool {
        let Some(next_sequence) = self.next_sequence.filter(|_| partial && self.count < SEGMENTS_MAX) else {
            return false;
        };
        let Some((own, payload)) = ip.split_at_checked(self.length) else { return false };
        let fits = self.length + self.bytes + payload.len() <= PACKET_BYTES_MAX;
        if payload.is_empty() || payload.len() > self.size || !fits || !self.continues(own, next_sequence) {
            return false;
        }
        self.payloads[self.count] = payload;
        self.count += 1;
        self.bytes += payload.len();
        let flags = own[self.transport_at + 13];
        self.headers[VNET_HEADER + self.transport_at + 13] |= flags;
        let more = payload.len() == self.size && flags & PSH_FIN == 0;
        self.next_sequence = more.then(|| next_sequence.wrapping_add(payload.len() as u32));
        true
    }

    /// Whether the headers equal those of the first segment in all fields that must not differ.
    fn continues(&self, own: &[u8], next_sequence: u32) -> bool {
        let (first, at) = (&self.headers[VNET_HEADER..VNET_HEADER + self.length], self.transport_at);
        let same = |from: usize, to: usize| first.get(from..to) == own.get(from..to);
        let ip_same = match first[0] >> 4 {
            // All fields except length, identification and header checksum.
            4 => same(0, 2) && same(6, 10) && same(12, at),
            _ => same(0, 4) && same(6, at),
        };
        // All fields except sequence number, flags and checksum.
        let tcp_same =
            same(at, at + 4) && same(at + 8, at + 13) && same(at + 14, at + 16) && same(at + 18, self.length);
        ip_same && tcp_same && sequence(own, at) == next_sequence && own[at + 13] & !PSH_FIN == ACK
    }

    /// Number of segments.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the merged IP packet.
    pub fn ip_bytes(&self) -> usize {
        self.length + self.bytes
    }

    /// Virtio header and packet to write to a device, as slices in `buffers`.
    pub fn parts<'b>(&'b mut self, buffers: &'b mut Parts<'b>) -> &'b [IoSlice<'b>] {
        if self.count > 1 {
            self.describe();
        }
        let (first, payloads) = buffers.split_at_mut(1);
        first[0] = IoSlice::new(&self.headers[..VNET_HEADER + self.length]);
        for (to, from) in payloads.iter_mut().zip(&self.payloads[..self.count]) {
            *to = IoSlice::new(from);
        }
        &buffers[..=self.count]
    }

    /// Updates the headers to those of a super-packet.
    fn describe(&mut self) {
        let (vnet, headers) = self.headers.split_at_mut(VNET_HEADER);
        let (ip, tcp) = headers[..self.length].split_at_mut(self.transport_at);
        let transport_length = tcp.len() + self.bytes;
        vnet[1] = if ip[0] >> 4 == 4 { GSO_TCPV4 } else { GSO_TCPV6 };
        vnet[4..6].copy_from_slice(&(self.size as u16).to_ne_bytes());
        if fix_ip(ip, transport_length, 0).is_some() {
            let partial = checksum::pseudo_header(ip, 6, transport_length) as u16;
            tcp[16..18].copy_from_slice(&partial.to_be_bytes());
        }
    }
}

fn sequence(own: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([own[at + 4], own[at + 5], own[at + 6], own[at + 7]])
}
