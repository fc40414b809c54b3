//! ICMP replies to packets that exceed the path MTU.

use crate::checksum::{pseudo_header, sum};
use crate::flow::transport;

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// Hop limit of the reply, which is addressed to this host.
const HOP_LIMIT: u8 = 64;
/// Header sizes in bytes: IPv4 and IPv6 without options, and ICMP.
const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const ICMP_HEADER_BYTES: usize = 8;
/// Maximum reply size in bytes that every host accepts (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 c).
const IPV4_ANSWER_BYTES_MAX: usize = 576;
const IPV6_ANSWER_BYTES_MAX: usize = 1280;

/// ICMP message that reports a path MTU of `mtu` bytes to the sender of an IP packet: "fragmentation needed" (RFC 792,
/// RFC 1191) or "packet too big" (RFC 4443 section 3.2). The result is an IP packet with the destination as its source.
///
/// `None` if no message may be sent: for packets that may be fragmented, fragments other than the first, ICMP errors,
/// and packets with a multicast or broadcast address (RFC 1122 section 3.2.2, RFC 4443 section 2.4 e).
pub fn too_big(ip: &[u8], mtu: usize) -> Option<Vec<u8>> {
    match ip.first()? >> 4 {
        4 => too_big_v4(ip, mtu),
        6 => too_big_v6(ip, mtu),
        _ => None,
    }
}

fn too_big_v4(ip: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let (protocol, at, _) = transport(ip)?;
    let flags = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]);
    let (dont_fragment, offset) = (flags & 0x4000 != 0, flags & 0x1fff);
    let is_error = protocol == ICMP && !matches!(*ip.get(at)?, 0 | 8);
    let (source, destination) = (ip.get(12..16)?, ip.get(16..20)?);
    let to_many = |a: &[u8]| a[0] >= 224 || a[0] == 0;
    if !dont_fragment || offset != 0 || is_error || to_many(source) || to_many(destination) {
        return None;
    }
    let quoted = ip.get(..ip.len().min(IPV4_ANSWER_BYTES_MAX - IPV4_HEADER_BYTES - ICMP_HEADER_BYTES))?;
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend(u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
    icmp.extend(quoted);
    let check = !(sum(&icmp, 0) as u16);
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    let length = u16::try_from(IPV4_HEADER_BYTES + icmp.len()).ok()?.to_be_bytes();
    let mut header = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, HOP_LIMIT, ICMP, 0, 0];
    header.extend(destination);
    header.extend(source);
    let check = !(sum(&header, 0) as u16);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    Some([header, icmp].concat())
}

fn too_big_v6(ip: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let (source, destination) = (ip.get(8..24)?, ip.get(24..40)?);
    let is_error = ip[6] == ICMP_V6 && *ip.get(IPV6_HEADER_BYTES)? < 128;
    if is_error || source[0] == 0xff || source == [0; 16] || destination[0] == 0xff {
        return None;
    }
    let quoted = ip.get(..ip.len().min(IPV6_ANSWER_BYTES_MAX - IPV6_HEADER_BYTES - ICMP_HEADER_BYTES))?;
    let mut icmp = vec![2, 0, 0, 0];
    icmp.extend(u32::try_from(mtu).unwrap_or(u32::MAX).to_be_bytes());
    icmp.extend(quoted);
    let length = u16::try_from(icmp.len()).ok()?.to_be_bytes();
    let mut header = vec![0x60, 0, 0, 0, length[0], length[1], ICMP_V6, HOP_LIMIT];
    header.extend(destination);
    header.extend(source);
    let check = !(sum(&icmp, pseudo_header(&header, ICMP_V6, icmp.len())) as u16);
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    Some([header, icmp].concat())
}
