use proptest::prelude::*;

use crate::tests::{ipv4, ipv6, payload, tcp};
use crate::{Ecn, Flow, checksum, clamp_mss, destination, ecn, is_last, is_reset, mark_congestion, source};

/// A SYN with options and a complete checksum.
fn syn(v6: bool, options: &[u8]) -> Vec<u8> {
    let mut header = tcp(1)[..20].to_vec();
    header[12] = ((20 + options.len()) / 4 * 16) as u8;
    header[13] = 0x02;
    let length = 20 + options.len();
    let mut ip = if v6 { ipv6(6, length) } else { ipv4(6, 1, length) };
    let at = ip.len();
    ip.extend(header);
    ip.extend(options);
    let sum = !(whole_sum(&ip, at) as u16);
    ip[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    ip
}

/// Sum over segment and pseudo-header: all ones if the transport checksum is valid.
fn whole_sum(ip: &[u8], at: usize) -> u32 {
    checksum::sum(&ip[at..], checksum::pseudo_header(ip, 6, ip.len() - at))
}

#[test]
fn the_segment_size_of_a_syn_is_lowered_and_its_checksum_stays_valid() {
    // MSS 1460 alone, after one and after three fillers: at even and odd offsets.
    for options in [&[2, 4, 5, 180][..], &[1, 2, 4, 5, 180, 1, 1, 0], &[1, 1, 1, 2, 4, 5, 180, 0]] {
        for (v6, mss) in [(false, 1316_u16), (true, 1296)] {
            let mut ip = syn(v6, options);
            let at = if v6 { 40 } else { 20 };
            assert!(clamp_mss(&mut ip, 1356, false));
            assert_eq!(whole_sum(&ip, at), 0xffff, "{options:?}");
            let place = at + 20 + options.iter().position(|b| *b == 2).unwrap() + 2;
            assert_eq!(ip[place..place + 2], mss.to_be_bytes());
            assert!(!clamp_mss(&mut ip, 1356, false), "the segment size fits");
        }
    }
}

#[test]
fn a_partial_checksum_does_not_cover_the_options() {
    let mut ip = syn(false, &[2, 4, 5, 180]);
    let before = ip[36..38].to_vec();
    assert!(clamp_mss(&mut ip, 1356, true));
    assert_eq!(ip[36..38], before);
}

#[test]
fn only_a_syn_with_the_option_is_touched() {
    let without = syn(false, &[1, 1, 1, 0]);
    let mut no_syn = syn(false, &[2, 4, 5, 180]);
    no_syn[33] = 0x10;
    let mut fragment = syn(false, &[2, 4, 5, 180]);
    fragment[7] = 1;
    for packet in [without, no_syn, fragment, Vec::new(), vec![0x45; 10]] {
        let mut changed = packet.clone();
        assert!(!clamp_mss(&mut changed, 1356, false));
        assert_eq!(changed, packet);
    }
}

#[test]
fn a_congestion_mark_is_copied_to_an_ecn_capable_packet() {
    for v6 in [false, true] {
        for (bits, may, after) in [
            (0, false, Ecn::NotCapable),
            (1, true, Ecn::Congestion),
            (2, true, Ecn::Congestion),
            (3, true, Ecn::Congestion),
        ] {
            let mut ip = if v6 { ipv6(6, 0) } else { ipv4(6, 1, 0) };
            if v6 {
                ip[1] = bits << 4;
            } else {
                ip[1] = bits;
                let sum = !(checksum::sum(&ip, 0) as u16);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            assert_eq!(mark_congestion(&mut ip), may, "{bits}");
            assert_eq!(ecn(&ip), Some(after));
            assert!(v6 || checksum::sum(&ip, 0) == 0xffff);
        }
    }
}

#[test]
fn a_flow_is_its_addresses_ports_protocol_and_priority() {
    let mut packet = [ipv4(6, 1, 32), tcp(0)].concat();
    packet[1] = 46 << 2 | 2;
    let flow = Flow::of(&packet).unwrap();
    assert_eq!((flow.source_port, flow.destination_port, flow.protocol, flow.dscp), (0x138b, 0x9c40, 6, 46));
    assert_eq!(
        (source(&packet).unwrap(), destination(&packet).unwrap()),
        ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
    );
    packet[6] = 0x20;
    let first = Flow::of(&packet).unwrap();
    assert_eq!((first.source_port, first.destination_port), (0, 0), "fragments of a datagram have one flow");
    let six = Flow::of(&[ipv6(17, 100), payload(100)].concat()).unwrap();
    assert_eq!((six.destination, six.protocol), ("::2".parse().unwrap(), 17));
}

#[test]
fn fin_and_rst_mark_the_last_segment() {
    let with = |flags: u8| {
        let mut segment = tcp(0);
        segment[13] = flags;
        segment
    };
    // ACK; PSH and ACK; SYN; FIN and ACK; RST; RST and ACK.
    for (flags, last) in [(0x10, false), (0x18, false), (0x02, false), (0x11, true), (0x04, true), (0x14, true)] {
        let (four, six) = ([ipv4(6, 1, 32), with(flags)].concat(), [ipv6(6, 32), with(flags)].concat());
        assert_eq!([is_last(&four), is_last(&six)], [last; 2], "{flags:#x}");
        assert_eq!([is_reset(&four), is_reset(&six)], [last && flags != 0x11; 2], "{flags:#x}");
        let mut datagram = four.clone();
        datagram[9] = 17;
        assert!(!is_last(&datagram), "UDP has no flags");
        let mut fragment = four;
        fragment[7] = 1;
        assert!(!is_last(&fragment), "a later fragment has no TCP header");
    }
    assert!(!is_last(&[]) && !is_last(&ipv4(6, 1, 0)[..20]));
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), version: bool) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = if version { 0x45 } else { 0x60 };
        }
        let _ = (Flow::of(&bytes).map(Flow::reversed), ecn(&bytes), is_last(&bytes), is_reset(&bytes));
        let before = bytes.len();
        clamp_mss(&mut bytes, 500, false);
        mark_congestion(&mut bytes);
        prop_assert_eq!(bytes.len(), before);
    }
}
