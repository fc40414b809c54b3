use super::{ipv4, ipv6, payload, tcp};
use crate::{Checksum, VNET_HEADER, complete_checksum};

/// A virtio header with a partial checksum at `field` after `start`.
fn vnet(start: u16, field: u16) -> [u8; VNET_HEADER] {
    let mut vnet = [0; VNET_HEADER];
    vnet[0] = 1;
    vnet[6..8].copy_from_slice(&start.to_ne_bytes());
    vnet[8..10].copy_from_slice(&field.to_ne_bytes());
    vnet
}

/// One's complement sum of 16-bit words (RFC 1071 section 1): 0xffff for data with a valid checksum.
fn ones(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    bytes.chunks(2).fold(0_u16, |sum, pair| {
        let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        sum + u16::from(carry)
    })
}

/// UDP after destination options (RFC 8200 section 4.6), with the sum of the pseudo-header in its checksum field.
fn udp_behind_options(length: usize) -> (Vec<u8>, Vec<u8>) {
    let udp_bytes = 8 + length;
    let mut ip = ipv6(60, 8 + udp_bytes);
    let pseudo = [&ip[8..40], &(udp_bytes as u32).to_be_bytes(), &[0, 0, 0, 17]].concat();
    ip.extend([17, 0, 1, 4, 0, 0, 0, 0]);
    ip.extend([0x30, 0x39, 0x14, 0x51]);
    ip.extend((udp_bytes as u16).to_be_bytes());
    ip.extend(ones(&[&pseudo]).to_be_bytes());
    ip.extend(payload(length));
    (ip, pseudo)
}

#[test]
fn the_position_of_a_partial_checksum_is_reported_where_it_cannot_be_derived() {
    let udp = [&ipv4(17, 1, 12)[..], &[0; 12]].concat();
    let stream = [&ipv6(6, 32)[..], &tcp(1)].concat();
    assert_eq!(Checksum::of(&[0; VNET_HEADER], &udp), Checksum::Whole);
    assert_eq!(Checksum::of(&vnet(20, 6), &udp), Checksum::Partial);
    assert_eq!(Checksum::of(&vnet(40, 16), &stream), Checksum::Partial);
    let (hidden, _) = udp_behind_options(10);
    assert_eq!(Checksum::of(&vnet(48, 6), &hidden), Checksum::Elsewhere { start: 48, field: 6 });
    // TCP in IPv4 in IPv4.
    let inner = [&ipv4(6, 1, 32)[..], &tcp(1)].concat();
    let outer = [&ipv4(4, 1, inner.len())[..], &inner].concat();
    assert_eq!(Checksum::of(&vnet(40, 16), &outer), Checksum::Elsewhere { start: 40, field: 16 });
}

#[test]
fn a_checksum_after_extension_headers_is_completed() {
    for length in [0, 1, 10, 999, 1000] {
        let (mut ip, pseudo) = udp_behind_options(length);
        complete_checksum(&mut ip, 48, 6);
        assert_eq!(ones(&[&pseudo, &ip[48..]]), 0xffff, "{length}");
        assert_ne!(ip[54..56], [0; 2], "a zero checksum of UDP would mean none");
    }
}

#[test]
fn positions_outside_the_packet_change_nothing() {
    let (ip, _) = udp_behind_options(9);
    for (start, field) in [(48, 17), (48, 16), (65, 0), (66, 0), (usize::MAX, usize::MAX), (0, usize::MAX)] {
        let mut changed = ip.clone();
        complete_checksum(&mut changed, start, field);
        assert_eq!(changed, ip, "{start} {field}");
    }
}
