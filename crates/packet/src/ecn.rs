use crate::checksum;

/// Explicit congestion notification field (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ecn {
    /// The transport does not support congestion marks.
    NotCapable,
    /// ECT(1), L4S (RFC 9331).
    Capable1,
    /// ECT(0).
    Capable0,
    /// Congestion experienced.
    Congestion,
}

impl Ecn {
    /// Field in the two low bits of a traffic class.
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::Congestion,
        }
    }
}

/// DSCP and ECN of an IP packet as one byte; `None` for other packets.
pub fn traffic_class(ip: &[u8]) -> Option<u8> {
    let (first, second) = (*ip.first()?, *ip.get(1)?);
    match first >> 4 {
        4 => Some(second),
        6 => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// ECN field of an IP packet; `None` for other packets.
pub fn ecn(ip: &[u8]) -> Option<Ecn> {
    traffic_class(ip).map(Ecn::of)
}

/// Copies a congestion mark from a tunnel's outer header (RFC 6040 section 4.2). Returns whether the packet may be
/// delivered. A marked packet of a transport without ECN must be dropped, because its sender would not learn of the
/// congestion otherwise.
pub fn mark_congestion(ip: &mut [u8]) -> bool {
    match ecn(ip) {
        None | Some(Ecn::NotCapable) => false,
        Some(Ecn::Congestion) => true,
        Some(Ecn::Capable0 | Ecn::Capable1) => set_congestion(ip).is_some(),
    }
}

fn set_congestion(ip: &mut [u8]) -> Option<()> {
    match ip.first()? >> 4 {
        4 => {
            *ip.get_mut(1)? |= 3;
            let header = usize::from(ip.first()? & 0x0f) * 4;
            ip.get_mut(10..12)?.fill(0);
            let sum = !(checksum::sum(ip.get(..header)?, 0) as u16);
            ip.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
        }
        _ => *ip.get_mut(1)? |= 0x30,
    }
    Some(())
}
