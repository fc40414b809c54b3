use crate::checksum::sum;
use crate::tests::{ipv4, payload};
use crate::{Fragments, Packet, fuzzing};

/// A UDP packet with these options, flags and offset, and a payload of `bytes`.
fn packet(options: &[u8], field: u16, bytes: usize) -> Vec<u8> {
    let mut ip = ipv4(17, 77, options.len() + bytes);
    ip[0] = 0x45 + (options.len() / 4) as u8;
    ip[6..8].copy_from_slice(&field.to_be_bytes());
    let check = !(sum(&[&ip[..], options].concat(), 0) as u16);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    [&ip[..], options, &payload(bytes)].concat()
}

fn fragments(ip: &[u8], max: usize) -> Vec<Vec<u8>> {
    Fragments::new(ip, max).unwrap().map(|f| f.parts().concat()).collect()
}

/// Flags and offset.
fn field(ip: &[u8]) -> u16 {
    u16::from_be_bytes([ip[6], ip[7]])
}

#[test]
fn fragments_are_those_of_rfc_791() {
    let whole = packet(&[], 0, 3000);
    let all = fragments(&whole, 1332);
    // 1312 bytes are 164 units; the last fragment has the rest.
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [1332, 1332, 20 + 3000 - 2 * 1312]);
    assert_eq!(all.iter().map(|f| field(f)).collect::<Vec<_>>(), [0x2000, 0x2000 + 164, 328]);
    for f in &all {
        assert_eq!(usize::from(u16::from_be_bytes([f[2], f[3]])), f.len());
        assert_eq!(sum(&f[..20], 0), 0xffff, "the header's checksum");
        assert_eq!(
            (&f[..2], &f[4..6], &f[8..10], &f[12..20]),
            (&whole[..2], &whole[4..6], &whole[8..10], &whole[12..20])
        );
    }
    assert_eq!(all.iter().flat_map(|f| f[20..].to_vec()).collect::<Vec<_>>(), whole[20..]);
    // Fragments end at multiples of the unit, even if more bytes fit.
    assert_eq!(fragments(&whole, 1339).iter().map(Vec::len).collect::<Vec<_>>(), [1332, 1332, 396]);
    // A packet that fits gives one identical fragment.
    assert_eq!(fragments(&packet(&[], 0, 1312), 1332), [packet(&[], 0, 1312)]);
    // Padding after the packet, as in short Ethernet frames, is not part of it.
    assert_eq!(fragments(&[packet(&[], 0, 30), vec![0; 10]].concat(), 1332), [packet(&[], 0, 30)]);
}

#[test]
fn fragments_are_cut_again() {
    let [first, middle, last] = <[Vec<u8>; 3]>::try_from(fragments(&packet(&[], 0, 3000), 1332)).unwrap();
    let cut = |f: &[u8]| fragments(f, 1000).iter().map(|f| field(f)).collect::<Vec<_>>();
    assert_eq!(cut(&first), [0x2000, 0x2000 + 122]);
    assert_eq!(cut(&middle), [0x2000 + 164, 0x2000 + 164 + 122]);
    assert_eq!(cut(&last), [328]);
}

#[test]
fn options_for_the_first_fragment_stay_with_it() {
    // Record route (RFC 791, section 3.1: not copied), no operation, router alert (RFC 2113: copied), end of options.
    let options = [7, 7, 4, 1, 2, 3, 4, 1, 0x94, 4, 0, 0];
    let all = fragments(&packet(&options, 0, 100), 96);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0][20..32], options);
    assert_eq!(all[1][20..32], [1, 1, 1, 1, 1, 1, 1, 1, 0x94, 4, 0, 0]);
    for f in &all {
        assert_eq!((f[0], sum(&f[..32], 0)), (0x48, 0xffff));
    }
    for damaged in [[7, 0, 9, 9], [7, 1, 9, 9], [7, 9, 9, 9], [1, 1, 1, 7]] {
        assert_eq!(fragments(&packet(&damaged, 0, 100), 96)[1][20..24], damaged);
    }
}

#[test]
fn a_fragmented_datagram_has_a_complete_checksum() {
    // RFC 768: the checksum covers pseudo-header, header and data; the device left the sum of the pseudo-header in the
    // field.
    let bytes = 1000;
    let mut ip = packet(&[], 0, 8 + bytes);
    let pseudo = sum(&[&ip[12..20], &[0, 17], &((8 + bytes) as u16).to_be_bytes()].concat(), 0);
    ip[20..28].copy_from_slice(
        &[&[0, 7, 0, 9][..], &((8 + bytes) as u16).to_be_bytes(), &(pseudo as u16).to_be_bytes()].concat(),
    );
    let mut vnet = vec![1, 0, 0, 0, 0, 0];
    vnet.extend([20_u16, 6].map(u16::to_ne_bytes).concat());
    let raw = [vnet, ip].concat();
    let whole = Packet::new(&raw[..], raw.len(), false).unwrap();
    assert!(whole.on_wire(1).is_none());
    let wire = whole.on_wire(0).unwrap();
    assert_eq!(sum(&wire[20..], pseudo), 0xffff);
    let data = fragments(&wire, 500).iter().flat_map(|f| f[20..].to_vec()).collect::<Vec<_>>();
    assert_eq!(data, wire[20..]);
}

#[test]
fn the_datagrams_of_a_super_packet_are_fragmented_separately() {
    // Three datagrams of 500 bytes with a partial checksum (virtio 1.2, section 5.1.6.2: VIRTIO_NET_HDR_GSO_UDP_L4 is
    // 5), and one of 100.
    let mut ip = packet(&[], 0, 8 + 1600);
    ip[20..28].copy_from_slice(&[0, 7, 0, 9, 6, 72, 0, 0]);
    let vnet = [[1, 5].to_vec(), [28_u16, 500, 20, 6].map(u16::to_ne_bytes).concat()].concat();
    let raw = [vnet, ip.clone()].concat();
    let all = Packet::new(&raw[..], raw.len(), false).unwrap();
    let wire = (0..4).map(|n| all.on_wire(n).unwrap()).collect::<Vec<_>>();
    assert!(all.on_wire(4).is_none());
    for (n, datagram) in (0..).zip(&wire) {
        let length = datagram.len() - 20;
        assert_eq!(length, if n < 3 { 508 } else { 108 });
        let pseudo = [&datagram[12..20], &[0, 17], &(length as u16).to_be_bytes()].concat();
        assert_eq!(sum(&datagram[20..], sum(&pseudo, 0)), 0xffff);
        // Distinct identifications prevent the reassembly of fragments of two datagrams.
        assert_eq!(u16::from_be_bytes([datagram[4], datagram[5]]), 77 + n);
    }
    let parts = wire.iter().flat_map(|datagram| fragments(datagram, 300)).collect::<Vec<_>>();
    assert_eq!(parts.len(), 3 * 2 + 1);
    assert_eq!(wire.iter().flat_map(|d| d[28..].to_vec()).collect::<Vec<_>>(), ip[28..]);
}

#[test]
fn packets_that_cannot_be_fragmented_are_refused() {
    let whole = packet(&[], 0, 100);
    assert!(Fragments::new(&packet(&[], 0x4000, 100), 96).is_none(), "the packet has the flag \"do not fragment\"");
    for max in [0, 19, 20, 27] {
        assert!(Fragments::new(&whole, max).is_none(), "the limit does not fit a fragment");
    }
    assert_eq!(Fragments::new(&whole, 28).unwrap().count(), 13);
    for length in 0..whole.len() {
        assert!(Fragments::new(&whole[..length], 96).is_none(), "{length} bytes of it");
    }
    let six = crate::tests::ipv6(17, 100);
    assert!(Fragments::new(&[six, payload(100)].concat(), 96).is_none());
    let mut short = whole.clone();
    short[0] = 0x44;
    assert!(Fragments::new(&short, 96).is_none(), "a header of 16 bytes");
    assert!(Fragments::new(&packet(&[], 0x1fff, 100), 96).is_none(), "it would end beyond 64 KiB");
    assert!(Fragments::new(&packet(&[], 0x1fff, 8), 28).is_some());
    fuzzing::packets(&[&[0, 96][..], &[0; 10], &whole].concat());
}
