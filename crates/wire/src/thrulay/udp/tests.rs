use super::*;
use proptest::prelude::*;

#[test]
fn packet_sizes_include_the_headers_of_ip_and_udp() {
    assert_eq!(IpVersion::V4.udp_payload(Bytes::new(1500)), Some(Bytes::new(1472)));
    assert_eq!(IpVersion::V6.udp_payload(Bytes::new(1500)), Some(Bytes::new(1452)));
    for (ip, smallest, largest) in [(IpVersion::V4, 52, 65_535), (IpVersion::V6, 72, 65_575)] {
        assert_eq!(ip.udp_payload(Bytes::new(smallest)), Some(Bytes::new(24)));
        assert_eq!(ip.udp_payload(Bytes::new(smallest - 1)), None);
        assert!(ip.udp_payload(Bytes::new(largest)).is_some());
        assert_eq!(ip.udp_payload(Bytes::new(largest + 1)), None);
        assert_eq!(ip.udp_payload(Bytes::ZERO), None);
    }
}

#[test]
fn the_rate_is_in_packets_per_thousand_seconds() {
    assert_eq!(rate_per_1000s(Rate::from_bps(12_000_000), Bytes::new(1500)), 1_000_000);
    assert_eq!(rate_per_1000s(Rate::from_bps(1), Bytes::new(1500)), 0);
    assert_eq!(rate_per_1000s(Rate::from_bps(u64::MAX), Bytes::ZERO), u64::MAX);
}

#[test]
fn refusals_and_grants_are_distinguished() {
    for n in 0..3 {
        assert_eq!(parse_udp_response(&UDP_REFUSAL[..n]), Ok(Progress::Incomplete));
    }
    let refused = Progress::Complete { value: UdpAnswer::Refused, consumed: 3 };
    assert_eq!(parse_udp_response(b"u:-"), Ok(refused));
    assert_eq!(parse_udp_response(b"u:- sorry"), Ok(refused));
    for wrong in [&b"u:+"[..], b"5003:1500:1:1+", b"0:1500:1:1:", b"5003:1500:1:1:01234567x", b"u;"] {
        assert!(parse_udp_response(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
    }
    assert!(parse_udp_response(&[b'0'; 4096]).is_err());
}

#[test]
fn end_messages_are_parsed() {
    assert_eq!(encode_end(600), b"+600:");
    assert_eq!(parse_end(b"+600:"), Ok(Progress::Complete { value: 600, consumed: 5 }));
    assert_eq!(parse_end(b"+60"), Ok(Progress::Incomplete));
    assert_eq!(parse_end(b""), Ok(Progress::Incomplete));
    for wrong in [&b"600:"[..], b"+:", b"++1:", b"+-1:", b"+99999999999999999999:"] {
        assert!(parse_end(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
    }
    assert!(parse_end(&[b"+".as_slice(), &[b'0'; 4096]].concat()).is_err());
}

fn any_terms() -> impl Strategy<Value = UdpTerms> {
    (1..=u16::MAX, any::<[u64; 3]>(), any::<[u8; 8]>()).prop_map(|(server_port, [size, rate, packets], nonce)| {
        UdpTerms { server_port, packet_size: Bytes::new(size), rate_per_1000s: rate, packets, nonce }
    })
}

proptest! {
    #[test]
    fn responses_with_any_nonce_are_parsed_at_any_split(
        terms in any_terms(),
        fill in prop_oneof![Just(None), Just(Some(b'+')), Just(Some(0))],
    ) {
        let terms = UdpTerms { nonce: fill.map_or(terms.nonce, |byte| [byte; 8]), ..terms };
        let bytes = terms.encode_response();
        prop_assert!(bytes.len() <= PROPOSAL_BYTES_MAX);
        for n in 0..bytes.len() {
            prop_assert_eq!(parse_udp_response(&bytes[..n]), Ok(Progress::Incomplete));
        }
        let complete = Progress::Complete { value: UdpAnswer::Granted(terms), consumed: bytes.len() };
        prop_assert_eq!(parse_udp_response(&[&bytes[..], b"x"].concat()), Ok(complete));
    }

    #[test]
    fn headers_survive_a_round_trip(nonce: [u8; 8], sequence: u64, time: u64) {
        let header = ThrulayDatagram { nonce, sequence, sent: NtpTime::from_bits(time) };
        let bytes = header.encode();
        prop_assert_eq!(ThrulayDatagram::decode(&[&bytes[..], b"222"].concat()), Some(header));
        prop_assert_eq!(ThrulayDatagram::decode(&bytes[..23]), None);
    }

    #[test]
    fn end_messages_survive_a_round_trip(packets: u64) {
        prop_assert_eq!(parse_end(&encode_end(packets)).unwrap().value(), Some(packets));
    }
}
