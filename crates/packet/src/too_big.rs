//! ICMP answers to packets that are larger than the path MTU.

use crate::checksum::{pseudo_header, sum};
use crate::flow::transport;

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// Hops that the answer may take; it goes to this host.
const HOPS: u8 = 64;
/// Bytes of an IPv4 and of an IPv6 header without options, and of an ICMP header.
const V4: usize = 20;
const V6: usize = 40;
const HEADER: usize = 8;
/// Maximum bytes of an answer, which every host accepts (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 c).
const IPV4_ANSWER_BYTES_MAX: usize = 576;
const IPV6_ANSWER_BYTES_MAX: usize = 1280;

/// The message that tells the sender of an IP packet that its way carries packets of at most `most` bytes: "fragmentation needed" (RFC 792, RFC 1191)
/// or "packet too big" (RFC 4443 section 3.2), as an IP packet from the destination.
///
/// `None` where none may be sent: to packets that may be fragmented, to fragments but the first, in answer to ICMP errors, to and from many (RFC 1122
/// section 3.2.2, RFC 4443 section 2.4 e).
pub fn too_big(ip: &[u8], most: usize) -> Option<Vec<u8>> {
    match ip.first()? >> 4 {
        4 => too_big_v4(ip, most),
        6 => too_big_v6(ip, most),
        _ => None,
    }
}

fn too_big_v4(ip: &[u8], most: usize) -> Option<Vec<u8>> {
    let (protocol, at, _) = transport(ip)?;
    let flags = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]);
    let (dont_fragment, offset) = (flags & 0x4000 != 0, flags & 0x1fff);
    let is_error = protocol == ICMP && !matches!(*ip.get(at)?, 0 | 8);
    let (source, destination) = (ip.get(12..16)?, ip.get(16..20)?);
    let to_many = |a: &[u8]| a[0] >= 224 || a[0] == 0;
    if !dont_fragment || offset != 0 || is_error || to_many(source) || to_many(destination) {
        return None;
    }
    let quoted = ip.get(..ip.len().min(IPV4_ANSWER_BYTES_MAX - V4 - HEADER))?;
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend(u16::try_from(most).unwrap_or(u16::MAX).to_be_bytes());
    icmp.extend(quoted);
    let check = !(sum(&icmp, 0) as u16);
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    let length = u16::try_from(V4 + icmp.len()).ok()?.to_be_bytes();
    let mut header = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, HOPS, ICMP, 0, 0];
    header.extend(destination);
    header.extend(source);
    let check = !(sum(&header, 0) as u16);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    Some([header, icmp].concat())
}

fn too_big_v6(ip: &[u8], most: usize) -> Option<Vec<u8>> {
    let (source, destination) = (ip.get(8..24)?, ip.get(24..40)?);
    let is_error = ip[6] == ICMP_V6 && *ip.get(V6)? < 128;
    if is_error || source[0] == 0xff || source == [0; 16] || destination[0] == 0xff {
        return None;
    }
    let quoted = ip.get(..ip.len().min(IPV6_ANSWER_BYTES_MAX - V6 - HEADER))?;
    let mut icmp = vec![2, 0, 0, 0];
    icmp.extend(u32::try_from(most).unwrap_or(u32::MAX).to_be_bytes());
    icmp.extend(quoted);
    let length = u16::try_from(icmp.len()).ok()?.to_be_bytes();
    let mut header = vec![0x60, 0, 0, 0, length[0], length[1], ICMP_V6, HOPS];
    header.extend(destination);
    header.extend(source);
    let check = !(sum(&icmp, pseudo_header(&header, ICMP_V6, icmp.len())) as u16);
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    Some([header, icmp].concat())
}
