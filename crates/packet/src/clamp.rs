use crate::flow::transport;
use crate::options;

const SYN: u8 = 0x02;

/// Lowers the maximum segment size of a TCP SYN (RFC 9293 section 3.7.1) so that a packet of the reverse direction has
/// at most `mtu` bytes, and updates a complete checksum (RFC 1624). Returns whether the packet was changed.
pub fn clamp_mss(ip: &mut [u8], mtu: usize, partial: bool) -> bool {
    let Some((6, at, false)) = transport(ip) else { return false };
    let max = mtu.saturating_sub(at + 20).min(usize::from(u16::MAX)) as u16;
    let Some(tcp) = ip.get_mut(at..) else { return false };
    if tcp.get(13).is_none_or(|flags| flags & SYN == 0) {
        return false;
    }
    let is_mss = |(kind, at): &(u8, core::ops::Range<usize>)| *kind == options::MSS && at.len() == 4;
    let Some(value) = options::of(tcp).find(is_mss).map(|(_, at)| at.start + 2) else { return false };
    let Some(field) = tcp.get(value..value + 2) else { return false };
    let old = u16::from_be_bytes([field[0], field[1]]);
    if old <= max {
        return false;
    }
    if let Some(field) = tcp.get_mut(value..value + 2) {
        field.copy_from_slice(&max.to_be_bytes());
    }
    // A partial checksum covers only the pseudo-header, and no part of the segment.
    if !partial && let Some(sum) = tcp.get_mut(16..18) {
        let new = replaced(u16::from_be_bytes([sum[0], sum[1]]), old, max, value.is_multiple_of(2));
        sum.copy_from_slice(&new.to_be_bytes());
    }
    true
}

/// RFC 1624 equation 3: HC' = ~(~HC + ~m + m'). The bytes of a field at an odd offset are swapped.
fn replaced(checksum: u16, old: u16, new: u16, even: bool) -> u16 {
    let order = |v: u16| if even { v } else { v.swap_bytes() };
    let mut sum = u32::from(!checksum) + u32::from(!order(old)) + u32::from(order(new));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
