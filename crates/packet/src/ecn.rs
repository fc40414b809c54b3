use crate::checksum;

/// Explicit congestion notification field (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ecn {
    /// The transport does not take marks.
    NotCapable,
    /// Capable, ECT(1): L4S (RFC 9331).
    Capable1,
    /// Capable, ECT(0).
    Capable0,
    /// Congestion experienced.
    Congestion,
}

impl Ecn {
    /// From the two low bits of the traffic class.
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::Congestion,
        }
    }
}

/// DSCP and ECN of an IP packet, as one byte; `None` when it is none.
pub fn traffic_class(ip: &[u8]) -> Option<u8> {
    let (first, second) = (*ip.first()?, *ip.get(1)?);
    match first >> 4 {
        4 => Some(second),
        6 => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// The ECN field of an IP packet; `None` when it is none.
pub fn ecn(ip: &[u8]) -> Option<Ecn> {
    traffic_class(ip).map(Ecn::of)
}

/// Takes over a mark that a tunnel's outer header got on the way (RFC 6040 section 4.2). Says whether the packet may be delivered: one
/// that does not take marks and was marked must be dropped, because its sender would not learn of the congestion otherwise.
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
