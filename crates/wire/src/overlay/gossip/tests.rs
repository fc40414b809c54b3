use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn any_record() -> impl Strategy<Value = SignedRecord> {
    let number = || any::<f32>().prop_filter("finite", |x| x.is_finite());
    let capacity = prop_oneof![Just(None), (1..=u64::MAX).prop_map(Some)];
    let datagram = prop_oneof![Just(None), (1..=u16::MAX).prop_map(Some)];
    let advertisement = (any::<u32>(), (number(), number(), number(), number()), capacity, datagram, any::<bool>())
        .prop_map(|(rtt_us, (loss, low, high, frames), capacity_bps, datagram, with_traffic)| LinkAdvertisement {
            rtt_us,
            loss,
            low,
            high,
            frames,
            capacity_bps,
            datagram,
            with_traffic,
        });
    let endpoint = prop_oneof![
        Just(None),
        any::<([u8; 4], u16)>().prop_map(|e| Some(e.into())),
        any::<([u8; 16], u16)>().prop_map(|e| Some(e.into()))
    ];
    let link = (any::<u32>(), proptest::option::of(advertisement), any::<u64>())
        .prop_map(|(from, advertisement, relayed_bps)| RecordBody::Link { from, advertisement, relayed_bps });
    let certificate = (any::<u32>(), endpoint, ".{0,40}").prop_map(|(owner, endpoint, text)| RecordBody::Certificate {
        owner,
        endpoint,
        text,
    });
    let refresh =
        (any::<u32>(), vec(any::<u32>(), 0..9)).prop_map(|(part, distances)| RecordBody::Refresh { part, distances });
    (any::<(u32, u64, u64, u64)>(), prop_oneof![link, certificate, refresh])
        .prop_map(|((originator, start, number, at_ms), body)| SignedRecord { originator, start, number, at_ms, body })
}

fn digest_entry() -> impl Strategy<Value = DigestEntry> {
    any::<(u32, u64, u64)>().prop_map(|(originator, newest, sum)| DigestEntry { originator, newest, sum })
}

proptest! {
    #[test]
    fn records_survive_a_round_trip(record in any_record(), signature: [u8; 32]) {
        let signed = [&signature[..], &signature, &record.encode()].concat();
        prop_assert!(signed.len() <= RECORD_BYTES_MAX);
        prop_assert_eq!(SignedRecord::decode(&signed), Some(record));
        prop_assert_eq!(SignedRecord::decode(&signed[..SIGNATURE_BYTES - 1]), None);
    }

    #[test]
    fn digests_and_lists_of_records_survive_a_round_trip(
        requests_digest: bool,
        digest in vec(digest_entry(), 0..300),
        records in vec(vec(any::<u8>(), 0..400), 0..20),
    ) {
        let bytes = Message::encode_digest(requests_digest, &digest);
        let read = Message::decode(&bytes).unwrap();
        let kept = &digest[..digest.len().min(DIGEST_MAX)];
        prop_assert_eq!((read.requests_digest, &read.digest[..]), (requests_digest, kept));
        let messages = Message::encode_records(records.iter().map(|r| &r[..]));
        prop_assert!(messages.iter().all(|m| m.len() <= Message::FRAME_BYTES));
        let read: Vec<Message<'_>> = messages.iter().map(|m| Message::decode(m).unwrap()).collect();
        prop_assert!(read.iter().flat_map(|m| &m.records).eq(records.iter()));
    }
}

#[test]
fn records_have_the_layout_of_the_specification() {
    let advertisement = LinkAdvertisement {
        rtt_us: 20_000,
        loss: 0.5,
        low: 0.25,
        high: 0.75,
        frames: 400.0,
        capacity_bps: Some(100_000_000),
        datagram: Some(1500),
        with_traffic: true,
    };
    let record = |body| SignedRecord { originator: 1, start: 2, number: 3, at_ms: 4, body };
    let head = "00000001000000000000000200000000000000030000000000000004";
    let link = record(RecordBody::Link { from: 9, advertisement: Some(advertisement), relayed_bps: 2_000_000 });
    let expected =
        format!("{head}01000000090500000000001e848000004e203f0000003e8000003f40000043c800000000000005f5e10005dc");
    assert_eq!(crate::hex::encode(&link.encode()), expected);
    let certificate = record(RecordBody::Certificate {
        owner: 9,
        endpoint: Some("192.0.2.1:5460".parse().unwrap()),
        text: "ab".to_owned(),
    });
    assert_eq!(crate::hex::encode(&certificate.encode()), format!("{head}020000000904c000020115546162"));
    let refresh = record(RecordBody::Refresh { part: 1, distances: vec![7] });
    assert_eq!(crate::hex::encode(&refresh.encode()), format!("{head}030000000100000007"));
}

#[test]
fn an_advertisement_with_a_number_that_is_not_finite_is_rejected() {
    let advertisement = |loss| LinkAdvertisement {
        rtt_us: 1,
        loss,
        low: 0.0,
        high: 1.0,
        frames: 1.0,
        capacity_bps: None,
        datagram: None,
        with_traffic: false,
    };
    let signed = |loss| {
        let body = RecordBody::Link { from: 1, advertisement: Some(advertisement(loss)), relayed_bps: UNBOUNDED };
        [&[0; SIGNATURE_BYTES], &SignedRecord { originator: 1, start: 1, number: 1, at_ms: 1, body }.encode()[..]]
            .concat()
    };
    assert!(SignedRecord::decode(&signed(0.5)).is_some());
    for invalid in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(SignedRecord::decode(&signed(invalid)), None, "{invalid}");
    }
}
