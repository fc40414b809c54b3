use proptest::prelude::*;

use super::*;

prop_compose! {
    fn sealed()(
        content in 0..3_u8,
        class in 0..16_u8,
        queue in 0..QUEUES_MAX as u8,
        space: u8,
        receiver: u32,
        sequence: u64,
        sent: u32,
        rate: u8,
    ) -> Sealed {
        let content = match content {
            0 => Content::Packet { partial: false },
            1 => Content::Packet { partial: true },
            _ => Content::Message,
        };
        Sealed { content, class, queue, space, receiver, sequence, sent, rate }
    }
}

fn message() -> impl Strategy<Value = Message> {
    let space = (any::<(u8, u64, u64, u64)>(), any::<(u32, u32, u32)>()).prop_map(
        |((space, sent, received, bytes), (echo, held, queued))| SpaceReport {
            space,
            sent,
            received,
            bytes,
            echo,
            held,
            queued,
        },
    );
    let data = proptest::collection::vec(any::<u8>(), 0..=Message::GOSSIP_DATA);
    prop_oneof![
        proptest::collection::vec(space, 0..=REPORTS_MAX).prop_map(Message::Report),
        Just(Message::Probe),
        (any::<u32>(), any::<u16>(), 1..=u16::MAX, data).prop_map(|(number, piece, pieces, data)| Message::Gossip {
            number,
            piece: piece % pieces,
            pieces,
            data
        }),
        any::<u16>().prop_map(|bytes| Message::SizeAsked { bytes }),
        any::<u16>().prop_map(|bytes| Message::SizeSeen { bytes }),
        any::<u16>().prop_map(|bytes| Message::SizeIs { bytes }),
        Just(Message::Bye),
        proptest::collection::vec(any::<u8>(), 0..=Message::CERTIFICATE_DATA).prop_map(Message::Certificate),
        (any::<u32>(), any::<u16>(), 1..=u16::MAX).prop_map(|(number, index, count)| Message::Train {
            number,
            index: index % count,
            count
        }),
        (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(number, span, bps)| Message::TrainSeen {
            number,
            span,
            bps
        }),
    ]
}

proptest! {
    #[test]
    fn headers_survive_a_round_trip(header in sealed(), body in proptest::collection::vec(any::<u8>(), 0..40)) {
        let frame = [&header.encode()[..], &body].concat();
        prop_assert_eq!(Kind::of(&frame), Some(Kind::Sealed));
        prop_assert_eq!(Sealed::decode(&frame), Some(header));
    }

    #[test]
    fn messages_survive_a_round_trip_and_fit_a_frame(message in message()) {
        let bytes = message.encode();
        prop_assert!(bytes.len() <= MESSAGE_MAX);
        prop_assert_eq!(Message::decode(&bytes), Some(message));
    }

    #[test]
    fn no_input_makes_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0xb0..0xb8_u8) {
        let mut bytes = bytes;
        for first in [None, Some(kind)] {
            if let (Some(first), Some(b)) = (first, bytes.first_mut()) {
                *b = first;
            }
            Message::decode(&bytes);
            if let Some(s) = Sealed::decode(&bytes) {
                prop_assert!(bytes.starts_with(&s.encode()));
            }
            if let Some(e) = Envelope::decode(&bytes) {
                prop_assert!(bytes.starts_with(&e.encode()));
            }
            let _ = (Initiation::decode(&bytes), Response::decode(&bytes), Cookie::decode(&bytes), Macs::of(&bytes));
        }
    }
}

#[test]
fn each_relay_advances_the_hop_of_an_envelope() {
    let mut envelope = Envelope::new(1, &[7, 8, 9], 2).unwrap();
    let mut hops = Vec::new();
    for position in 0..=3 {
        envelope.position = position;
        let read = Envelope::decode(&envelope.encode()).unwrap();
        assert_eq!(read, envelope);
        hops.push((read.hop_from(), read.hop_to()));
    }
    assert_eq!(hops, [(1, 7), (7, 8), (8, 9), (9, 2)]);
}

#[test]
fn invalid_routes_are_rejected() {
    assert_eq!(Envelope::new(1, &[], 2), None, "a direct frame needs no envelope");
    assert_eq!(Envelope::new(1, &[3, 4, 5, 6], 2), None);
    for (relays, origin, destination) in [([3, 3, 0], 1, 2), ([1, 0, 0], 1, 2), ([2, 0, 0], 1, 2), ([3, 0, 0], 1, 1)] {
        let count = relays.iter().take_while(|r| **r != 0).count();
        let looped = Envelope::new(origin, &relays[..count], destination).unwrap();
        assert_eq!(Envelope::decode(&looped.encode()), None, "{relays:?}");
    }
    let good = Envelope::new(1, &[3], 2).unwrap().encode();
    for (at, value) in [(1, 0x00), (1, 0x40), (1, 0x12), (3, 33), (24 + 3, 9)] {
        let mut bad = good;
        bad[at] = value;
        assert_eq!(Envelope::decode(&bad), None, "byte {at} is {value:#x}");
    }
}

/// Bytes in the notation of the specification: two digits each, blanks between fields.
fn bytes(text: &str) -> Vec<u8> {
    let digits = text.split_whitespace().collect::<String>();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn handshake_datagrams_have_the_layout_of_the_specification() {
    let noise = "a0a1a2a3a4a5a6a7 b0b1b2b3b4b5b6b7 c0c1c2c3c4c5c6c7 d0d1d2d3d4d5d6d7 e0e1e2e3e4e5e6e7 \
        f0f1f2f3f4f5f6f7 0a1a2a3a4a5a6a7a";
    let codes = ["00112233445566778899aabbccddeeff", "0f1e2d3c4b5a69788796a5b4c3d2e1f0"];
    // b1 | 0 0 0 | sender u32 | Noise 104 | mac1 16 | mac2 16
    let longer = format!(
        "{noise} 8b9babbbcbdbebfb 0c1c2c3c4c5c6c7c 8d9dadbdcdddedfd 0e1e2e3e4e5e6e7e 8f9fafbfcfdfefff 0123456789abcdef"
    );
    let initiation = bytes(&format!("b1 000000 12345678 {longer} {} {}", codes[0], codes[1]));
    let first = Initiation { sender: 0x1234_5678, noise: bytes(&longer).try_into().unwrap() };
    // b2 | 0 0 0 | sender u32 | receiver u32 | Noise 56 | mac1 16 | mac2 16
    let response = bytes(&format!("b2 000000 9abcdef0 12345678 {noise} {} {}", codes[0], codes[1]));
    let reply = Response { sender: 0x9abc_def0, receiver: 0x1234_5678, noise: bytes(noise).try_into().unwrap() };
    assert_eq!((initiation.len(), response.len()), (144, 100));
    assert_eq!((Kind::of(&initiation), Kind::of(&response)), (Some(Kind::Initiation), Some(Kind::Response)));
    assert_eq!(Initiation::decode(&initiation), Some(first));
    assert_eq!(Response::decode(&response), Some(reply));
    // The wire crate leaves the codes zero; the holder of the keys writes them.
    assert_eq!(first.encode()[..], [&initiation[..144 - 32], &[0; 32]].concat());
    assert_eq!(reply.encode()[..], [&response[..100 - 32], &[0; 32]].concat());
    for datagram in [&initiation, &response] {
        let [mac1, mac2] = codes.map(|code| bytes(code).try_into().unwrap());
        let body = &datagram[..datagram.len() - 32];
        assert_eq!(Macs::of(datagram), Some(Macs { body, first: mac1, second: mac2 }));
        assert_eq!(Macs::with_first(datagram), &datagram[..datagram.len() - 16]);
    }
    // b3 | 0 0 0 | receiver u32 | nonce 12 | sealed cookie 32
    let sealed = "a0a1a2a3a4a5a6a7a8a9aaab b0b1b2b3b4b5b6b7 c0c1c2c3c4c5c6c7 d0d1d2d3d4d5d6d7 e0e1e2e3e4e5e6e7";
    let cookie = bytes(&format!("b3 000000 12345678 {sealed}"));
    let sent = Cookie { receiver: 0x1234_5678, sealed: bytes(sealed).try_into().unwrap() };
    assert_eq!((cookie.len(), Kind::of(&cookie)), (52, Some(Kind::Cookie)));
    assert_eq!((sent.encode().to_vec(), Cookie::decode(&cookie)), (cookie, Some(sent)));
}

#[test]
fn a_sealed_frame_has_the_layout_of_the_specification() {
    // b4 | content 4 bits, class 4 bits | queue u8 | space u8 | receiver u32 | sequence u64 | sent u32 | rate u8 |
    // 0 0 0 | contents | tag 16
    let frame = |second: &str| bytes(&format!("b4 {second} 0b 0d 12345678 0123456789abcdef fedcba98 5a 000000"));
    let all = [
        ("00", Content::Packet { partial: false }, 0),
        ("01", Content::Packet { partial: false }, CLASS_MOUSE),
        ("12", Content::Packet { partial: true }, CLASS_ELEPHANT),
        ("23", Content::Message, 3),
        ("2f", Content::Message, 15),
    ];
    for (second, content, class) in all {
        let header = Sealed {
            content,
            class,
            queue: 11,
            space: 13,
            receiver: 0x1234_5678,
            sequence: 0x0123_4567_89ab_cdef,
            sent: 0xfedc_ba98,
            rate: 90,
        };
        let bytes = frame(second);
        assert_eq!(bytes.len() + TAG_BYTES, 40);
        assert_eq!((header.encode().to_vec(), Sealed::decode(&bytes)), (bytes, Some(header)), "{second}");
    }
    assert_eq!(Kind::of(&frame("00")), Some(Kind::Sealed));
    assert_eq!(["30", "40", "f0"].map(|second| Sealed::decode(&frame(second))), [None; 3], "unknown type of content");
}

#[test]
fn an_envelope_has_the_layout_of_the_specification() {
    // b5 | relays 4 bits, position 4 bits | rate u8 | queue u8 | receiver u32 | sequence u64 | origin u32 |
    // relay u32, three times | destination u32 | sent u32 | frame | tag 16
    let of = |second: &str, relays: &str| {
        let (before, behind) = ("5a 0b 12345678 0123456789abcdef a1b2c3d4", "e1f2a3b4 fedcba98");
        bytes(&format!("b5 {second} {before} {relays} {behind}"))
    };
    let all = [
        ("10", "11121314 00000000 00000000", vec![0x1112_1314], 0),
        ("21", "11121314 21222324 00000000", vec![0x1112_1314, 0x2122_2324], 1),
        ("33", "11121314 21222324 31323334", vec![0x1112_1314, 0x2122_2324, 0x3132_3334], 3),
    ];
    for (second, relays, route, position) in all {
        let envelope = Envelope {
            position,
            rate: 90,
            queue: 11,
            receiver: 0x1234_5678,
            sequence: 0x0123_4567_89ab_cdef,
            sent: 0xfedc_ba98,
            ..Envelope::new(0xa1b2_c3d4, &route, 0xe1f2_a3b4).unwrap()
        };
        let bytes = of(second, relays);
        assert_eq!((bytes.len() + TAG_BYTES, Kind::of(&bytes)), (56, Some(Kind::Envelope)));
        assert_eq!((envelope.encode().to_vec(), Envelope::decode(&bytes)), (bytes, Some(envelope)), "{second}");
        assert_eq!(envelope.route(), route);
    }
}

#[test]
fn messages_have_the_layout_of_the_specification() {
    let space = |space| SpaceReport {
        space,
        sent: 0x0102_0304_0506_0708,
        received: 0x1112_1314_1516_1718,
        bytes: 0x2122_2324_2526_2728,
        echo: 0x3132_3334,
        held: 0x4142_4344,
        queued: 0x5152_5354,
    };
    // space u32 | sent u64 | received u64 | bytes u64 | echo u32 | held u32 | queued u32
    let counts = "0102030405060708 1112131415161718 2122232425262728 31323334 41424344 51525354";
    let all = [
        (Message::Report(vec![space(0), space(9)]), format!("01 00000000 {counts} 00000009 {counts}")),
        (Message::Probe, "02".to_owned()),
        (
            Message::Gossip { number: 0xa1b2_c3d4, piece: 2, pieces: 5, data: vec![7, 8] },
            "03 a1b2c3d4 0002 0005 0708".to_owned(),
        ),
        (Message::SizeAsked { bytes: 1500 }, "04 05dc".to_owned()),
        (Message::SizeSeen { bytes: 1500 }, "05 05dc".to_owned()),
        (Message::Bye, "06".to_owned()),
        (Message::Train { number: 0xa1b2_c3d4, index: 2, count: 5 }, "07 a1b2c3d4 0002 0005".to_owned()),
        (
            Message::TrainSeen { number: 0xa1b2_c3d4, span: 0x0102_0304, bps: 0x1112_1314_1516_1718 },
            "08 a1b2c3d4 01020304 1112131415161718".to_owned(),
        ),
        (Message::Certificate(b"ab".to_vec()), "09 6162".to_owned()),
        (Message::SizeIs { bytes: 1500 }, "0a 05dc".to_owned()),
    ];
    for (message, text) in all {
        assert_eq!((message.encode(), Message::decode(&bytes(&text))), (bytes(&text), Some(message)), "{text}");
    }
}

// No reply of the handshake is longer than its request, which excludes amplification.
const _: () = assert!(RESPONSE_BYTES < INITIATION_BYTES && COOKIE_BYTES < INITIATION_BYTES);
