use super::*;

fn keys(matched: &Match, protocol: u16) -> Vec<Vec<(i32, u32, u32)>> {
    let plain = |keys: Vec<Key>| keys.iter().map(|k| (k.offset, k.mask, k.value)).collect();
    alternatives(matched, protocol).into_iter().map(plain).collect()
}

#[test]
fn keys_use_the_header_offsets_of_addresses_protocol_and_code_point() {
    let matched = Match {
        from: vec!["192.0.2.0/24".parse().unwrap()],
        to: vec!["198.51.100.7/32".parse().unwrap()],
        protocol: Some(17),
        dscp: vec![46],
        ..Match::default()
    };
    let expected = [
        // RFC 791: type of service is the second byte, protocol the tenth.
        (0, 0x00fc_0000, 0x00b8_0000),
        (8, 0x00ff_0000, 0x0011_0000),
        (12, 0xffff_ff00, 0xc000_0200),
        (16, 0xffff_ffff, 0xc633_6407),
    ];
    assert_eq!(keys(&matched, IPV4), [expected.to_vec()]);
    assert!(keys(&matched, IPV6).is_empty(), "no IPv6 packet has this source");
}

#[test]
fn ipv6_networks_span_several_words() {
    let matched = Match {
        from: vec!["2001:db8:1::/48".parse().unwrap()],
        protocol: Some(6),
        dscp: vec![8],
        to_ports: vec![443..=443],
        ..Match::default()
    };
    let expected = [
        // RFC 8200: the traffic class starts at the fifth bit, the next header is the seventh byte.
        (0, 0x0fc0_0000, 0x0200_0000),
        (4, 0x0000_ff00, 0x0000_0600),
        (8, 0xffff_ffff, 0x2001_0db8),
        (12, 0xffff_0000, 0x0001_0000),
        (40, 0x0000_ffff, 0x0000_01bb),
    ];
    assert_eq!(keys(&matched, IPV6), [expected.to_vec()]);
    assert!(keys(&matched, IPV4).is_empty());
}

#[test]
fn ports_of_either_end_are_two_comparisons_for_each_protocol() {
    let matched = Match { ports: vec![5201..=5201], ..Match::default() };
    let found = keys(&matched, IPV4);
    assert_eq!(found.len(), 4, "TCP and UDP, source and destination");
    for (alternative, word) in found.iter().zip([(0xffff_0000, 5201 << 16), (0x0000_ffff, 5201)].iter().cycle()) {
        assert!(alternative.contains(&(0, 0x0f00_0000, 0x0500_0000)), "a header without options");
        // RFC 791: the offset is 13 bits, "more fragments" the bit before.
        assert!(alternative.contains(&(4, 0x0000_3fff, 0)), "no fragment");
        assert!(alternative.contains(&(20, word.0, word.1)), "{alternative:?}");
    }
}

#[test]
fn a_match_without_conditions_matches_everything() {
    assert_eq!(keys(&Match::default(), IPV4), [vec![]]);
    assert_eq!(keys(&Match::default(), IPV6), [vec![]]);
}

#[test]
fn the_prefixes_of_a_range_cover_it_exactly() {
    for range in [0..=65_535, 5000..=5100, 1..=1, 0..=0, 65_535..=65_535, 1024..=65_535, 3..=17] {
        let prefixes = prefixes(&range);
        for port in 0..=u16::MAX {
            let hits = prefixes.iter().filter(|(mask, value)| port & mask == *value).count();
            assert_eq!(hits, usize::from(range.contains(&port)), "port {port} of {range:?}");
        }
        assert!(prefixes.len() <= 30, "the fewest: {}", prefixes.len());
    }
}
