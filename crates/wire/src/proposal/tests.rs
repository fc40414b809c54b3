use super::*;
use proptest::prelude::*;

fn complete(text: &[u8]) -> Proposal {
    parse_proposal(text).unwrap().value().unwrap()
}

#[test]
fn proposals_of_the_reference_are_read() {
    assert_eq!(
        complete(b"thrulay/2:t:4194304:65536+"),
        Proposal::ThrulayTcp { window: Bytes::new(4_194_304), block: Bytes::new(65_536) }
    );
    assert_eq!(
        complete(b"thrulay/2:u:5004:1500:8333:600+"),
        Proposal::ThrulayUdp { client_port: 5004, packet_size: Bytes::new(1500), rate_per_1000s: 8333, packets: 600 }
    );
    assert_eq!(complete(HELLO), Proposal::Native { version: NATIVE_VERSION });
    assert_eq!(Proposal::Native { version: NATIVE_VERSION }.encode(), HELLO);
}

#[test]
fn invalid_input_is_rejected_at_the_first_byte_that_shows_it() {
    use ProposalError as E;
    for (text, error) in [
        (&b"x"[..], E::NotThrulay),
        (b"thrulay/3", E::NotThrulay),
        (b"GET / HTTP/1.1", E::NotThrulay),
        (b"thrulay/2:x", E::UnknownType(b'x')),
        (b"thrulay/2:t;", E::NoSeparator),
        (b"thrulay/2:t:-", E::Field(FieldError::Byte { found: b'-', expected: ':' })),
        (b"thrulay/2:t:1:+", E::Field(FieldError::Empty)),
        (b"thrulay/2:u:0:1:1:1+", E::Field(FieldError::Range { field: "port", value: 0 })),
        (b"thrulay/2:u:65536:1:1:1+", E::Field(FieldError::Range { field: "port", value: 65_536 })),
        (b"thrulay/2:L:4294967296+", E::Field(FieldError::Range { field: "version", value: 1 << 32 })),
    ] {
        assert_eq!(parse_proposal(text), Err(error), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn an_endless_number_stops_at_the_maximum_length() {
    let zeros = [b"thrulay/2:t:".as_slice(), &[b'0'; 4096]].concat();
    let too_long = ProposalError::Field(FieldError::TooLong { max: PROPOSAL_BYTES_MAX });
    assert_eq!(parse_proposal(&zeros), Err(too_long));
    assert_eq!(parse_proposal(&zeros[..PROPOSAL_BYTES_MAX]), Err(too_long));
    assert_eq!(parse_proposal(&zeros[..PROPOSAL_BYTES_MAX - 1]), Ok(Progress::Incomplete));
}

fn any_proposal() -> impl Strategy<Value = Proposal> {
    prop_oneof![
        any::<u32>().prop_map(|version| Proposal::Native { version }),
        any::<(u64, u64)>().prop_map(|(w, b)| Proposal::ThrulayTcp { window: Bytes::new(w), block: Bytes::new(b) }),
        (1..=u16::MAX, any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(client_port, size, rate, packets)| {
            Proposal::ThrulayUdp { client_port, packet_size: Bytes::new(size), rate_per_1000s: rate, packets }
        }),
    ]
}

proptest! {
    #[test]
    fn an_encoded_proposal_is_parsed_at_any_split(
        p in any_proposal(),
        tail in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let bytes = p.encode();
        prop_assert!(bytes.len() <= PROPOSAL_BYTES_MAX);
        for n in 0..bytes.len() {
            prop_assert_eq!(parse_proposal(&bytes[..n]), Ok(Progress::Incomplete));
        }
        let longer = [bytes.clone(), tail].concat();
        prop_assert_eq!(parse_proposal(&longer), Ok(Progress::Complete { value: p, consumed: bytes.len() }));
    }
}
