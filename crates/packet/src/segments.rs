use std::io::IoSlice;

use crate::cut::{Cut, HEADERS_BYTES_MAX};
use crate::flow::transport as transport_of;
use crate::options;
use crate::partial::complete;

/// Bytes of the virtio header before each packet (struct virtio_net_hdr, virtio 1.2 §5.1.6, without `num_buffers`).
pub const VNET_HEADER: usize = 10;

/// Flag: the checksum is partial and covers the packet from `csum_start` (virtio 1.2 §5.1.6).
pub(crate) const NEEDS_CSUM: u8 = 1;
/// Types of super-packets (`gso_type`), and the flag for CWR in the first segment.
pub(crate) const GSO_NONE: u8 = 0;
pub(crate) const GSO_TCPV4: u8 = 1;
pub(crate) const GSO_TCPV6: u8 = 4;
pub(crate) const GSO_UDP_L4: u8 = 5;
pub(crate) const GSO_ECN: u8 = 0x80;

const SYN: u8 = 0x02;
const URG: u8 = 0x20;

/// Length of an Ethernet header.
pub const ETHERNET: usize = 14;

/// Type of a super-packet's segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Segments of a byte stream; they may be cut anywhere.
    Tcp,
    /// Datagrams; their boundaries are kept.
    Udp,
}

/// Parameters for cutting a super-packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gso {
    pub(crate) transport: Transport,
    /// Original `gso_type`, for runs of several segments.
    pub(crate) kind: u8,
    /// Offset of the TCP or UDP header from the start of the frame.
    pub(crate) transport_at: usize,
    /// Payload bytes of each segment except the last.
    pub(crate) size: usize,
}

/// A packet with its virtio header, in an owned or borrowed buffer.
#[derive(Debug)]
pub struct Packet<B> {
    /// Virtio header and frame; only the first `length` bytes are the packet.
    buffer: B,
    length: usize,
    /// Offset of the IP header in the frame: 0, or the length of the Ethernet header.
    pub(crate) ip_at: usize,
    /// Length of all headers of the frame.
    pub(crate) headers: usize,
    pub(crate) gso: Option<Gso>,
}

/// Sizes of the segments, for the model of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// Number of segments.
    pub count: u32,
    /// IP bytes of each segment except the last.
    pub full: u32,
    /// IP bytes of the last segment.
    pub last: u32,
}

impl Segments {
    /// IP bytes of the longest segment.
    pub fn longest(&self) -> u32 {
        self.full.max(self.last)
    }
}

impl<B: AsRef<[u8]>> Packet<B> {
    /// Parses the layout of `length` bytes from a device in `buffer`. `ethernet`: the frame starts with an Ethernet
    /// header. `None` if the data is too short for a packet.
    pub fn new(buffer: B, length: usize, ethernet: bool) -> Option<Self> {
        let ip_at = if ethernet { ETHERNET } else { 0 };
        let raw = buffer.as_ref().get(..length)?;
        let (vnet, frame) = raw.split_at_checked(VNET_HEADER)?;
        if frame.len() <= ip_at {
            return None;
        }
        let gso = Gso::read(vnet, frame, ip_at);
        let headers = gso.map_or(0, |g| g.headers(frame));
        Some(Self { length, ip_at, headers, gso: gso.filter(|_| headers > 0), buffer })
    }

    /// Reduces the segment size so that no segment exceeds `max` bytes of IP. `false` if the packet is longer and
    /// cannot be cut: a datagram, or a packet with a complete checksum.
    pub fn cut_to(&mut self, max: usize) -> bool {
        if self.segments().longest() as usize <= max {
            return true;
        }
        let gso = self.gso.or_else(|| Gso::of_single(self.vnet(), self.frame(), self.ip_at));
        let Some(gso) = gso.filter(|g| g.transport == Transport::Tcp) else { return false };
        let headers = gso.headers(self.frame());
        let size = max.saturating_sub(headers - self.ip_at.min(headers));
        if headers == 0 || size == 0 {
            return false;
        }
        self.headers = headers;
        self.gso = Some(Gso { size: size.min(gso.size), ..gso });
        true
    }

    /// Copies a segment as it would be transmitted, with a complete checksum. `None` if the packet has fewer segments.
    pub fn on_wire(&self, segment: u32) -> Option<Vec<u8>> {
        if segment >= self.segments().count {
            return None;
        }
        let [head, payload] = match self.gso {
            Some(_) => Cut::new(self, segment, 1)?.parts().map(|part| part.to_vec()),
            None => [self.whole().to_vec(), Vec::new()],
        };
        let (vnet, frame) = head.split_at_checked(VNET_HEADER)?;
        let mut frame = [frame, &payload].concat();
        complete(vnet, &mut frame);
        Some(frame)
    }

    /// Returns the buffer for reuse.
    pub fn into_buffer(self) -> B {
        self.buffer
    }

    pub(crate) fn vnet(&self) -> &[u8] {
        self.buffer.as_ref().get(..VNET_HEADER).unwrap_or_default()
    }

    /// The original frame.
    pub fn frame(&self) -> &[u8] {
        self.buffer.as_ref().get(VNET_HEADER..self.length).unwrap_or_default()
    }

    /// Original virtio header and frame.
    pub fn whole(&self) -> IoSlice<'_> {
        IoSlice::new(self.buffer.as_ref().get(..self.length).unwrap_or_default())
    }

    /// Sizes of the segments.
    pub fn segments(&self) -> Segments {
        let ip = |frame: usize| u32::try_from(frame - self.ip_at).unwrap_or(u32::MAX);
        let frame = self.length - VNET_HEADER;
        let Some(gso) = self.gso else {
            return Segments { count: 1, full: ip(frame), last: ip(frame) };
        };
        let payload = frame - self.headers;
        let count = payload.div_ceil(gso.size).max(1);
        let last = payload - (count - 1) * gso.size;
        Segments {
            count: u32::try_from(count).unwrap_or(u32::MAX),
            full: ip(self.headers + gso.size),
            last: ip(self.headers + last),
        }
    }
}

/// Whether the segment may be cut. A SYN starts a connection, an urgent pointer counts from the start of its segment,
/// and a signature covers the whole segment (RFC 2385, RFC 5925).
fn may_be_cut(tcp: &[u8]) -> bool {
    let is_signed = |kind| matches!(kind, options::MD5_SIGNATURE | options::TCP_AO);
    let flags = tcp.get(13).copied().unwrap_or(0);
    flags & (SYN | URG) == 0 && !options::of(tcp).any(|(kind, _)| is_signed(kind))
}

/// Whether the checksum is partial: its field holds the sum of the pseudo-header, and the sending device completes it.
pub(crate) fn needs_checksum(vnet: &[u8]) -> bool {
    vnet.first().is_some_and(|flags| flags & NEEDS_CSUM != 0)
}

impl Gso {
    fn read(vnet: &[u8], frame: &[u8], ip_at: usize) -> Option<Self> {
        let field = |at: usize| Some(u16::from_ne_bytes([*vnet.get(at)?, *vnet.get(at + 1)?]));
        let kind = *vnet.get(1)?;
        let size = usize::from(field(4)?);
        let transport_at = usize::from(field(6)?);
        let transport = match kind & !GSO_ECN {
            GSO_TCPV4 | GSO_TCPV6 => Transport::Tcp,
            GSO_UDP_L4 => Transport::Udp,
            _ => return None,
        };
        // The kernel finds the transport header after extension headers; for IPv4 the header length gives the offset.
        let ip = frame.get(ip_at..)?;
        let is_consistent = match transport_of(ip).map(|(_, at, _)| ip_at + at) {
            Some(at) if ip.first()? >> 4 == 4 => transport_at == at,
            Some(at) => transport_at >= at,
            // With a VLAN tag the offset is larger.
            None => transport_at >= ip_at + 20,
        };
        (size > 0 && is_consistent && transport_at + 8 <= frame.len()).then_some(Self {
            transport,
            kind,
            transport_at,
            size,
        })
    }

    /// Parameters for a TCP packet of one segment, which can be cut if its checksum is partial.
    fn of_single(vnet: &[u8], frame: &[u8], ip_at: usize) -> Option<Self> {
        let ip = frame.get(ip_at..)?;
        let (protocol, at, fragment) = transport_of(ip)?;
        let kind = if frame.get(ip_at)? >> 4 == 4 { GSO_TCPV4 } else { GSO_TCPV6 };
        let is_tcp = protocol == 6 && !fragment && needs_checksum(vnet);
        (is_tcp && may_be_cut(ip.get(at..)?)).then_some(Self {
            transport: Transport::Tcp,
            kind,
            transport_at: ip_at + at,
            size: usize::MAX,
        })
    }

    /// Length of all headers; 0 if the packet is shorter.
    fn headers(&self, frame: &[u8]) -> usize {
        let transport = match self.transport {
            Transport::Udp => 8,
            Transport::Tcp => frame.get(self.transport_at + 12).map_or(0, |b| usize::from(b >> 4) * 4),
        };
        let least = if self.transport == Transport::Tcp { 20 } else { 8 };
        let end = self.transport_at + transport;
        if transport >= least && end < frame.len() && end <= HEADERS_BYTES_MAX { end } else { 0 }
    }
}
