use std::io::IoSlice;
use std::ops::Deref;

use proptest::prelude::*;

use crate::segments::{GSO_NONE, GSO_TCPV4, GSO_TCPV6, VNET_HEADER};
use crate::tests::{ipv4, ipv6, payload, tcp};
use crate::{Cut, Merge, Packet, Parts};

const ACK: u8 = 0x10;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;

fn segment(v6: bool, sequence: u32, flags: u8, bytes: usize) -> Vec<u8> {
    let mut tcp = tcp(sequence);
    tcp[13] = flags;
    let ip = if v6 { ipv6(6, 32 + bytes) } else { ipv4(6, sequence as u16, 32 + bytes) };
    [ip, tcp, payload(bytes)].concat()
}

/// Super-packets that a device would receive for consecutive packets.
fn written(packets: &[(Vec<u8>, bool)]) -> Vec<(usize, Vec<u8>)> {
    let mut out = Vec::new();
    let mut put = |mut merge: Merge<'_>| {
        let (count, bytes) = (merge.count(), merge.ip_bytes());
        let mut buffers: Parts<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        let all: Vec<u8> = merge.parts(&mut buffers).iter().flat_map(|p| p.deref().to_vec()).collect();
        assert_eq!(all.len(), VNET_HEADER + bytes);
        out.push((count, all));
    };
    let mut packets = packets.iter();
    let Some((first, partial)) = packets.next() else { return out };
    let mut merge = Merge::new(first, *partial);
    for (ip, partial) in packets {
        if !merge.add(ip, *partial) {
            put(merge);
            merge = Merge::new(ip, *partial);
        }
    }
    put(merge);
    out
}

fn counts(packets: &[(Vec<u8>, bool)]) -> Vec<usize> {
    written(packets).into_iter().map(|(count, _)| count).collect()
}

#[test]
fn merged_segments_can_be_cut_into_the_original_segments() {
    for v6 in [false, true] {
        let flags = [ACK, ACK, ACK | PSH];
        let all: Vec<_> = (0..3)
            .map(|i| (segment(v6, 7 + 1000 * i, flags[i as usize], if i == 2 { 300 } else { 1000 }), true))
            .collect();
        let written = written(&all);
        let [(3, packet)] = &written[..] else { panic!("one packet of three segments") };
        assert_eq!(packet[1], if v6 { GSO_TCPV6 } else { GSO_TCPV4 });
        let again = Packet::new(packet.as_slice(), packet.len(), false).unwrap();
        assert_eq!(again.segments().count, 3);
        for (i, (segment, _)) in all.iter().enumerate() {
            let cut = Cut::new(&again, i as u32, 1).unwrap();
            let cut = [cut.headers(), cut.payload()].concat();
            let header = if v6 { 40 } else { 20 };
            // The checksums of the test packets are arbitrary; IPv4 identifications increase by one.
            assert_eq!(cut[header..header + 16], segment[header..header + 16], "segment {i}");
            assert_eq!(cut[header + 18..], segment[header + 18..], "segment {i}");
            assert_eq!(cut[..4], segment[..4], "length");
        }
    }
}

#[test]
fn a_packet_that_does_not_continue_starts_a_new_super_packet() {
    let first = (segment(false, 0, ACK, 1000), true);
    let next = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = segment(false, 1000, ACK, 1000);
        change(&mut packet);
        (packet, true)
    };
    assert_eq!(counts(&[first.clone(), next(&|_| ())]), [2]);
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Vec<u8>));
    let changes: [Change<'_>; 9] = [
        ("port", &|p| p[21] ^= 1),
        ("address", &|p| p[15] ^= 1),
        ("gap", &|p| p[27] ^= 1),
        ("acknowledgement", &|p| p[31] ^= 1),
        ("window", &|p| p[35] ^= 1),
        ("timestamp", &|p| p[47] ^= 1),
        ("ECN", &|p| p[1] |= 3),
        ("SYN", &|p| p[33] |= 2),
        ("empty", &|p| p.truncate(52)),
    ];
    for (what, change) in changes {
        assert_eq!(counts(&[first.clone(), next(change)]), [1, 1], "{what}");
    }
    let whole = (next(&|_| ()).0, false);
    assert_eq!(counts(&[first.clone(), whole]), [1, 1], "a complete checksum");
    let longer = (segment(false, 1000, ACK, 1001), true);
    assert_eq!(counts(&[first.clone(), longer]), [1, 1]);
    for flags in [ACK | PSH, ACK | FIN] {
        let after = (segment(false, 2000, ACK, 1000), true);
        assert_eq!(
            counts(&[first.clone(), (segment(false, 1000, flags, 1000), true), after]),
            [2, 1],
            "FIN and PSH end the super-packet"
        );
    }
    let short = (segment(false, 1000, ACK, 10), true);
    assert_eq!(
        counts(&[first, short, (segment(false, 1010, ACK, 1000), true)]),
        [2, 1],
        "a short segment ends the super-packet"
    );
}

#[test]
fn a_super_packet_does_not_exceed_the_limit_of_a_device() {
    let all: Vec<_> = (0..200).map(|i| (segment(false, 1400 * i, ACK, 1400), true)).collect();
    for (count, packet) in written(&all) {
        assert!(count <= 64 && packet.len() <= VNET_HEADER + 65_535, "{count}");
    }
    assert_eq!(counts(&all).iter().sum::<usize>(), 200);
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic_and_none_are_lost(
        packets in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..120), any::<bool>()), 1..8),
        protocol in 0..3_u8,
    ) {
        let packets: Vec<_> = packets
            .into_iter()
            .map(|(mut bytes, partial)| {
                if bytes.len() > 13 {
                    bytes[0] = if protocol == 2 { 0x60 } else { 0x45 };
                    bytes[9] = 6;
                    bytes[6] = if protocol == 2 { 6 } else { 0 };
                    bytes[7] = 0;
                }
                (bytes, partial)
            })
            .collect();
        let whole: usize = packets.iter().map(|(b, _)| b.len()).sum();
        let written = written(&packets);
        prop_assert!(written.iter().all(|(n, p)| *n > 1 || p[1] == GSO_NONE));
        prop_assert!(written.iter().map(|(_, p)| p.len() - VNET_HEADER).sum::<usize>() <= whole);
    }
}
