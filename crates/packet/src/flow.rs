use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TCP: u8 = 6;
const FIN: u8 = 1;
const RST: u8 = 4;

/// Identity of a flow: the five fields of the paper ("Performance of an Adaptive Routing Overlay", section II.B), and
/// the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// TCP or UDP source port; 0 for other protocols and for fragments, of which only the first has ports.
    pub source_port: u16,
    /// TCP or UDP destination port; 0 for other protocols and for fragments.
    pub destination_port: u16,
    /// Protocol above IP; for IPv6 the first next header.
    pub protocol: u8,
    /// Differentiated services code point (RFC 2474), the paper's priority.
    pub dscp: u8,
}

impl Flow {
    /// Flow of the reverse direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        let Self { source, destination, source_port, destination_port, .. } = self;
        Self {
            source: destination,
            destination: source,
            source_port: destination_port,
            destination_port: source_port,
            ..self
        }
    }

    /// Flow of an IP packet. `None` for other packets and truncated headers.
    pub fn of(ip: &[u8]) -> Option<Self> {
        let (protocol, at, fragment) = transport(ip)?;
        let port = |from: usize| ip.get(from..from + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_be_bytes);
        let has_ports = matches!(protocol, 6 | 17) && !fragment;
        let (source_port, destination_port) = if has_ports { (port(at), port(at + 2)) } else { (0, 0) };
        let dscp = crate::traffic_class(ip)? >> 2;
        Some(Self { source: source(ip)?, destination: destination(ip)?, source_port, destination_port, protocol, dscp })
    }
}

/// Whether a TCP segment ends its direction: FIN or RST (RFC 9293, section 3.1). A super-packet has the flags of all
/// its segments.
pub fn is_last(ip: &[u8]) -> bool {
    has_flag(ip, FIN | RST)
}

/// Whether a TCP segment ends its connection in both directions: RST (RFC 9293, section 3.10.7).
pub fn is_reset(ip: &[u8]) -> bool {
    has_flag(ip, RST)
}

fn has_flag(ip: &[u8], wanted: u8) -> bool {
    let Some((TCP, at, false)) = transport(ip) else { return false };
    ip.get(at + 13).is_some_and(|flags| flags & wanted != 0)
}

/// Source address of an IP packet; `None` for other packets.
pub fn source(ip: &[u8]) -> Option<IpAddr> {
    address(ip, 12, 8)
}

/// Destination address of an IP packet; `None` for other packets.
pub fn destination(ip: &[u8]) -> Option<IpAddr> {
    address(ip, 16, 24)
}

fn address(ip: &[u8], at4: usize, at6: usize) -> Option<IpAddr> {
    match ip.first()? >> 4 {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(ip.get(at4..at4 + 4)?).ok()?).into()),
        6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(ip.get(at6..at6 + 16)?).ok()?).into()),
        _ => None,
    }
}

/// Protocol above IP, offset of its header, and whether the packet is a fragment.
pub(crate) fn transport(ip: &[u8]) -> Option<(u8, usize, bool)> {
    match ip.first()? >> 4 {
        4 => {
            let header = usize::from(ip.first()? & 0x0f) * 4;
            let fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff != 0;
            (header >= 20 && header <= ip.len()).then_some((*ip.get(9)?, header, fragment))
        }
        6 => (ip.len() >= 40).then_some((*ip.get(6)?, 40, *ip.get(6)? == 44)),
        _ => None,
    }
}
