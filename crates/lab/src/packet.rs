//! Packets as the kernel hands them over: a virtio header, perhaps an Ethernet header, an IP packet that may be a super-packet of
//! many segments. Reads their layout and cuts runs of segments out of them, as the kernel's own segmentation would.
//!
//! Pure. What cannot be understood is carried whole, as one packet.

use std::io::IoSlice;

use kernel::VNET_HEADER;

mod checksum;
mod cut;

pub(crate) use cut::Cut;

/// virtio 1.2 §5.1.6: the checksum is partial, to be completed from `csum_start`.
const NEEDS_CSUM: u8 = 1;
/// Header types of super-packets (`gso_type`), and the flag that the first segment carries CWR.
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Length of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// What the segments of a super-packet are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// How to cut a super-packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gso {
    pub(crate) transport: Transport,
    /// `gso_type` as it came, for runs of several segments.
    kind: u8,
    /// Where the TCP or UDP header begins, from the begin of the frame.
    transport_at: usize,
    /// Payload bytes of each segment but the last.
    size: usize,
}

/// A packet with its virtio header.
#[derive(Debug)]
pub(crate) struct Packet {
    /// Virtio header and frame; only the first `length` bytes are the packet.
    buffer: Box<[u8]>,
    length: usize,
    /// Where the IP header begins in the frame: 0, or behind an Ethernet header.
    ip_at: usize,
    /// Length of all headers of the frame.
    headers: usize,
    gso: Option<Gso>,
}

/// Sizes of the segments: what the link's model needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segments {
    pub(crate) count: u32,
    /// IP bytes of each but the last.
    pub(crate) full: u32,
    /// IP bytes of the last.
    pub(crate) last: u32,
}

impl Packet {
    /// Reads the layout of what a device handed over: `length` bytes of `buffer`. `ethernet`: the frame begins with an
    /// Ethernet header. `None` when it is too short to be a packet.
    pub(crate) fn new(buffer: Box<[u8]>, length: usize, ethernet: bool) -> Option<Self> {
        let ip_at = if ethernet { ETHERNET } else { 0 };
        let raw = buffer.get(..length)?;
        let (vnet, frame) = raw.split_at_checked(VNET_HEADER)?;
        if frame.len() <= ip_at {
            return None;
        }
        let gso = Gso::read(vnet, frame, ip_at);
        let headers = gso.map_or(0, |g| g.headers(frame));
        Some(Self { length, ip_at, headers, gso: gso.filter(|_| headers > 0), buffer })
    }

    /// Gives the buffer back for the next packet.
    pub(crate) fn into_buffer(self) -> Box<[u8]> {
        self.buffer
    }

    fn vnet(&self) -> &[u8] {
        self.buffer.get(..VNET_HEADER).unwrap_or_default()
    }

    /// The frame as it came.
    pub(crate) fn frame(&self) -> &[u8] {
        self.buffer.get(VNET_HEADER..self.length).unwrap_or_default()
    }

    /// Virtio header and frame as they came.
    pub(crate) fn whole(&self) -> IoSlice<'_> {
        IoSlice::new(self.buffer.get(..self.length).unwrap_or_default())
    }

    /// Sizes of the segments.
    pub(crate) fn segments(&self) -> Segments {
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
        let sane = size > 0 && transport_at >= ip_at + 20 && transport_at + 8 <= frame.len();
        sane.then_some(Self { transport, kind, transport_at, size })
    }

    /// Length of all headers; 0 when the packet is shorter than they claim.
    fn headers(&self, frame: &[u8]) -> usize {
        let transport = match self.transport {
            Transport::Udp => 8,
            Transport::Tcp => frame.get(self.transport_at + 12).map_or(0, |b| usize::from(b >> 4) * 4),
        };
        let end = self.transport_at + transport;
        if transport >= 8 && end < frame.len() && end <= cut::MOST_HEADERS { end } else { 0 }
    }
}

#[cfg(test)]
mod tests;
