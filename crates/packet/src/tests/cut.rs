use std::ops::Deref;

use crate::Cut;
use crate::checksum;
use crate::segments::*;
use crate::tests::{SOURCE, TARGET, ipv4, ipv6, payload, tcp};

/// A virtio header as the kernel writes it for a super-packet.
fn vnet(kind: u8, headers: usize, size: u16, transport_at: usize, checksum_at: u16) -> Vec<u8> {
    let mut v = vec![NEEDS_CSUM, kind];
    for field in [headers as u16, size, transport_at as u16, checksum_at] {
        v.extend(field.to_ne_bytes());
    }
    v
}

fn packet(vnet: Vec<u8>, frame: Vec<u8>, ethernet: bool) -> Packet<Box<[u8]>> {
    let raw = [vnet, frame].concat();
    let length = raw.len();
    Packet::new(raw.into(), length, ethernet).unwrap()
}

fn super_tcp4(bytes: usize) -> Packet<Box<[u8]>> {
    let frame = [ipv4(6, 0xffff, 32 + bytes), tcp(0xffff_fff0), payload(bytes)].concat();
    packet(vnet(GSO_TCPV4 | GSO_ECN, 52, 1000, 20, 16), frame, false)
}

/// Virtio header and frame of a cut.
fn laid_out(cut: &Cut<'_>) -> (Vec<u8>, Vec<u8>) {
    let all: Vec<u8> = cut.parts().iter().flat_map(|p| p.deref().to_vec()).collect();
    (all[..VNET_HEADER].to_vec(), all[VNET_HEADER..].to_vec())
}

/// Completes a partial checksum as a network card does: the sum from the transport header on, including the checksum
/// field.
fn completed_sum_is_right(frame: &[u8], ip: usize, pseudo: &[u8], checksum_at: usize) {
    let mut transport = frame[ip..].to_vec();
    let partial = checksum::sum(&transport, 0);
    transport[checksum_at..checksum_at + 2].copy_from_slice(&(!(partial as u16)).to_be_bytes());
    // RFC 9293 §3.1: the sum of pseudo-header and segment, including the checksum, is all ones.
    assert_eq!(checksum::sum(&transport, checksum::sum(pseudo, 0)), 0xffff);
}

#[test]
fn a_super_packet_is_seen_as_its_segments() {
    let p = super_tcp4(2500);
    assert_eq!(p.segments(), Segments { count: 3, full: 1052, last: 552 });
    let exact = super_tcp4(2000);
    assert_eq!(exact.segments(), Segments { count: 2, full: 1052, last: 1052 });
}

#[test]
fn contradictory_headers_form_no_super_packet() {
    let v4 = |start, offset| {
        let mut frame = [ipv4(6, 1, 32 + 2000), tcp(0), payload(2000)].concat();
        frame[start + 12] = offset;
        packet(vnet(GSO_TCPV4, 52, 1000, start, 16), frame, false).segments().count
    };
    assert_eq!(v4(20, 0x80), 2);
    // The TCP header is at another offset, or shorter than 20 bytes.
    assert_eq!((v4(32, 0x50), v4(32, 0x20), v4(20, 0x20), v4(20, 0x40)), (1, 1, 1, 1));
    for (start, count) in [(20, 1), (39, 1), (40, 3)] {
        let frame = [ipv6(6, 32 + 2500), tcp(0), payload(2500)].concat();
        assert_eq!(packet(vnet(GSO_TCPV6, 72, 1000, start, 16), frame, false).segments().count, count, "{start}");
    }
}

#[test]
fn segments_cut_from_tcp_continue_each_other() {
    let p = super_tcp4(2500);
    let data = payload(2500);
    for (first, expected) in [(0_u32, &data[..1000]), (1, &data[1000..2000]), (2, &data[2000..])] {
        let (vnet, frame) = laid_out(&Cut::new(&p, first, 1).unwrap());
        assert_eq!((vnet[1], &vnet[4..6]), (GSO_NONE, &[0, 0][..]), "a single segment is an ordinary packet");
        assert_eq!(&frame[52..], expected);
        assert_eq!(usize::from(u16::from_be_bytes([frame[2], frame[3]])), frame.len());
        let id = u16::from_be_bytes([frame[4], frame[5]]);
        assert_eq!(id, 0xffff_u16.wrapping_add(first as u16), "the numbering of the kernel's segmentation");
        assert_eq!(checksum::sum(&frame[..20], 0), 0xffff, "RFC 791: the header sums to all ones");
        let sequence = u32::from_be_bytes(frame[24..28].try_into().unwrap());
        assert_eq!(sequence, 0xffff_fff0_u32.wrapping_add(first * 1000));
        let flags = frame[33];
        assert_eq!(flags & 0x80 != 0, first == 0, "CWR on the first");
        assert_eq!(flags & 0x09 == 0x09, first == 2, "FIN and PSH on the last");
        assert_eq!(flags & 0x10, 0x10, "ACK on all");
        let pseudo = [&SOURCE[..], &TARGET, &[0, 6], &((frame.len() - 20) as u16).to_be_bytes()].concat();
        completed_sum_is_right(&frame, 20, &pseudo, 16);
    }
}

#[test]
fn a_run_of_segments_is_a_smaller_super_packet() {
    let p = super_tcp4(2500);
    let (vnet, frame) = laid_out(&Cut::new(&p, 1, 2).unwrap());
    assert_eq!(vnet[1], GSO_TCPV4, "CWR is not among them");
    assert_eq!(u16::from_ne_bytes([vnet[4], vnet[5]]), 1000);
    assert_eq!(frame.len(), 52 + 1500);
    assert_eq!(frame[33] & 0x09, 0x09);
    let (vnet, frame) = laid_out(&Cut::new(&p, 0, 2).unwrap());
    assert_eq!(vnet[1], GSO_TCPV4 | GSO_ECN);
    assert_eq!(frame[33] & 0x89, 0x80);
}

#[test]
fn udp_super_packets_are_cut_into_datagrams_over_ipv6_too() {
    let udp = [0x13, 0x8b, 0x13, 0x8b, 0, 0, 0, 0];
    let frame = [ipv6(17, 8 + 1300), udp.to_vec(), payload(1300)].concat();
    let p = packet(vnet(GSO_UDP_L4, 48, 500, 40, 6), frame, false);
    assert_eq!(p.segments(), Segments { count: 3, full: 548, last: 348 });
    for (first, length) in [(0, 500), (1, 500), (2, 300)] {
        let (_, frame) = laid_out(&Cut::new(&p, first, 1).unwrap());
        assert_eq!(u16::from_be_bytes([frame[4], frame[5]]), 8 + length, "IPv6 payload length");
        assert_eq!(u16::from_be_bytes([frame[44], frame[45]]), 8 + length, "UDP length");
        let length = u32::from(8 + length).to_be_bytes();
        let pseudo = [&frame[8..40], &length, &[0, 0, 0, 17]].concat();
        completed_sum_is_right(&frame, 40, &pseudo, 6);
    }
}

#[test]
fn the_ethernet_header_is_kept_and_not_counted() {
    let frame = [vec![2; 12], vec![8, 0], ipv4(6, 1, 32 + 1500), tcp(0), payload(1500)].concat();
    let p = packet(vnet(GSO_TCPV4, 66, 1000, 34, 16), frame, true);
    assert_eq!(p.segments(), Segments { count: 2, full: 1052, last: 552 });
    let (_, frame) = laid_out(&Cut::new(&p, 1, 1).unwrap());
    assert_eq!(frame[..14], [vec![2; 12], vec![8, 0]].concat());
    assert_eq!(frame.len(), 14 + 552);
    assert_eq!(checksum::sum(&frame[14..34], 0), 0xffff);
}

#[test]
fn an_ordinary_packet_is_one_unchanged_segment() {
    let frame = [ipv4(6, 1, 32), tcp(0)].concat();
    let p = packet(vnet(GSO_NONE, 0, 0, 20, 16), frame.clone(), false);
    assert_eq!(p.segments(), Segments { count: 1, full: 52, last: 52 });
    assert!(Cut::new(&p, 0, 1).is_none());
    assert_eq!(p.frame(), frame);
}

#[test]
fn segments_above_the_path_mtu_are_cut_smaller() {
    let mut p = super_tcp4(2500);
    assert!(p.cut_to(652));
    assert_eq!(p.segments(), Segments { count: 5, full: 652, last: 152 });
    let (_, frame) = laid_out(&Cut::new(&p, 4, 1).unwrap());
    assert_eq!(
        (frame.len(), u32::from_be_bytes(frame[24..28].try_into().unwrap())),
        (152, 0xffff_fff0_u32.wrapping_add(2400))
    );
    assert!(!super_tcp4(2500).cut_to(52), "the limit leaves no space for data");
    let single = [ipv4(6, 1, 32 + 1000), tcp(0), payload(1000)].concat();
    let mut p = packet(vnet(GSO_NONE, 0, 0, 20, 16), single.clone(), false);
    assert!(p.cut_to(2000) && p.segments().count == 1);
    assert!(p.cut_to(652));
    assert_eq!(p.segments(), Segments { count: 2, full: 652, last: 452 });
    // A SYN, urgent data and a signature belong to one segment.
    for (at, byte) in [(13, 0x02), (13, 0x30), (20, 19), (20, 29)] {
        let mut other = single.clone();
        other[20 + at] = byte;
        other[20 + 21] = 12;
        assert!(!packet(vnet(GSO_NONE, 0, 0, 20, 16), other, false).cut_to(500), "{at}: {byte}");
    }
    // With a complete checksum the sums of the parts are unknown. Datagrams must not be cut.
    let mut whole = packet(vec![0; VNET_HEADER], single, false);
    let udp = [ipv4(17, 1, 1000), payload(1000)].concat();
    let mut datagram = packet(vnet(GSO_NONE, 0, 0, 20, 6), udp, false);
    assert!(!whole.cut_to(652) && !datagram.cut_to(652));
}

#[test]
fn false_headers_give_one_segment_and_no_panic() {
    let frame = [ipv4(6, 1, 32 + 100), tcp(0), payload(100)].concat();
    for (kind, size, at) in [
        (GSO_TCPV4, 0, 20),
        (GSO_TCPV4, 1000, 0),
        (GSO_TCPV4, 1000, 65_000),
        (GSO_UDP_L4, 10, 145),
        (0x7f, 10, 20),
        (GSO_TCPV6, 10, 150),
    ] {
        let p = packet(vnet(kind, 0, size, at, 16), frame.clone(), false);
        assert_eq!(p.segments().count, 1, "{kind} {size} {at}");
    }
    for length in 0..VNET_HEADER + 1 {
        assert!(Packet::new(vec![0xff; length], length, false).is_none());
    }
    assert!(Packet::new(vec![0xff; 20], 20, true).is_none(), "shorter than an Ethernet header");
    assert!(Packet::new(vec![0; 4], 400, false).is_none(), "longer than its buffer");
}
