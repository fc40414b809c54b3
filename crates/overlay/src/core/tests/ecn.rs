//! ECN marks of the outer header (RFC 6040, section 4.2).

use super::*;

/// A packet with a traffic class and a valid checksum.
fn packet(class: u8) -> Vec<u8> {
    let mut packet = ipv4(inner(0), inner(1), 100);
    packet[1] = class;
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The checksum of RFC 1071; zero over a header with a valid checksum.
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|b| u32::from(u16::from_be_bytes([b[0], b[1]]))).sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[test]
fn an_ecn_mark_is_copied_to_the_packet_or_drops_it() {
    const DSCP: u8 = 46 << 2;
    let (not_capable, ect0, ect1, ce) = (0, 2, 1, 3);
    // ECN field of the packet, of the outer header, and of the delivered packet; `None`: it is dropped, because it
    // cannot carry the mark.
    let all = [
        (not_capable, ect0, Some(not_capable)),
        (not_capable, ce, None),
        (ect0, not_capable, Some(ect0)),
        (ect0, ce, Some(ce)),
        (ect1, ce, Some(ce)),
        (ce, not_capable, Some(ce)),
    ];
    for (inside, outside, expected) in all {
        let mut world = World::new(2);
        world.run(SECOND);
        let (_, mut datagram) = world.sealed_packet(0, 1, 0, packet(DSCP | inside)).unwrap();
        let host = &world.hosts[1];
        let arrival = Arrival { received_at: world.now, from: endpoint(0), traffic_class: outside };
        let verdict =
            host.decapsulator.handle_datagram(&host.table, &mut datagram, arrival, &host.counters, &mut |_, _| true);
        let delivered = match verdict {
            Verdict::Packet { begin, end, .. } => Some(datagram[begin..end].to_vec()),
            Verdict::Nothing | Verdict::Forward(_) => None,
        };
        assert_eq!(delivered.as_ref().map(|p| p[1]), expected.map(|ecn| DSCP | ecn), "{inside} in {outside}");
        assert!(delivered.is_none_or(|p| checksum(&p[..20]) == 0), "{inside} in {outside}");
        assert_eq!(host.counters.counts().ecn_ce_dropped, u64::from(expected.is_none()));
    }
}
