use proptest::prelude::*;

use super::*;

prop_compose! {
    fn sealed()(content in 0..3_u8, class in 0..16_u8, queue in 0..MOST_QUEUES as u8, lane: u8, receiver: u32, sequence: u64, sent: u32, rate: u8) -> Sealed {
        let content = match content {
            0 => Content::Packet { partial: false },
            1 => Content::Packet { partial: true },
            _ => Content::Message,
        };
        Sealed { content, class, queue, lane, receiver, sequence, sent, rate }
    }
}

fn message() -> impl Strategy<Value = Message> {
    let lane = (any::<(u8, u64, u64, u64)>(), any::<(u32, u32, u32)>()).prop_map(
        |((lane, sent, received, bytes), (echo, held, queued))| LaneReport {
            lane,
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
        proptest::collection::vec(lane, 0..=REPORTS_MAX).prop_map(Message::Report),
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
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0xb0..0xb8_u8) {
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
fn an_envelope_is_passed_from_hop_to_hop() {
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
fn routes_that_are_none_are_refused() {
    assert_eq!(Envelope::new(1, &[], 2), None, "a direct frame needs no envelope");
    assert_eq!(Envelope::new(1, &[3, 4, 5, 6], 2), None);
    for (relays, origin, destination) in [([3, 3, 0], 1, 2), ([1, 0, 0], 1, 2), ([2, 0, 0], 1, 2), ([3, 0, 0], 1, 1)] {
        let count = relays.iter().take_while(|r| **r != 0).count();
        let looped = Envelope::new(origin, &relays[..count], destination).unwrap();
        assert_eq!(Envelope::decode(&looped.encode()), None, "{relays:?}");
    }
    let good = Envelope::new(1, &[3], 2).unwrap().encode();
    for (at, value) in [(1, 0x00), (1, 0x40), (1, 0x12), (3, 16), (24 + 3, 9)] {
        let mut bad = good;
        bad[at] = value;
        assert_eq!(Envelope::decode(&bad), None, "byte {at} is {value:#x}");
    }
}

// No answer of a handshake is longer than its question.
const _: () = assert!(RESPONSE_BYTES < INITIATION_BYTES && COOKIE_BYTES < INITIATION_BYTES);
