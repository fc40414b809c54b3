use super::*;
use crate::finished::{EndSide, SideStream};
use crate::plan::tests::tcp_plan;
use results::{CpuUse, DelayHistogram, End, EndTotals, Limit, LimitVerdict, Role};
use std::collections::BTreeMap;

fn host() -> HostReport {
    HostReport {
        hostname: "dtn1".into(),
        sysctls: BTreeMap::from([("net.ipv4.tcp_rmem".into(), "4096\t131072\t6291456".into())]),
        ..HostReport::default()
    }
}

fn interval() -> IntervalRecord {
    let json = serde_json::json!({
        "test_id": "t", "end": End::Server, "direction": Direction::Up, "role": Role::Receiver, "index": 0,
        "start_s": 0.0, "end_s": 1.0, "bytes": u64::MAX, "throughput_bps": 8, "cpu": CpuUse::default(), "streams": [],
        "limit": LimitVerdict { limit: Limit::Pacing, share: 0.5, evidence: "e".into() },
    });
    serde_json::from_value(json).unwrap()
}

fn finished() -> Finished {
    let mut delays = DelayHistogram::new();
    delays.record_nanos(1_000_000);
    let stream = SideStream { stream: 1, bytes: 2, blocks: 3, block_rtt: delays.summary(), ..SideStream::default() };
    let side = EndSide {
        direction: Direction::Down,
        role: Role::Sender,
        totals: EndTotals { bytes: 7, duration_s: 1.5, ..EndTotals::default() },
        streams: vec![stream],
        timeline: serde_json::json!({"step_ns": 1000, "bytes": [1, 2, 3]}),
        decomposition: None,
        one_way: None,
        one_way_return: None,
        block_rtt: delays.summary(),
        kernel_srtt: delays.summary(),
        loss_episodes: vec![],
        loss_episode_count: 0,
        limits: BTreeMap::from([(Limit::SendBuffer, 0.25)]),
        udp: None,
        udp_sent: Some(5),
    };
    Finished { directions: vec![side], rss_start_bytes: 1, rss_end_bytes: 2, warnings: vec!["clock stepped".into()] }
}

pub(crate) fn all_messages() -> Vec<Message> {
    vec![
        Message::Hello { version: 1, software: "longhaul 0.1.0".into(), nonce: [1; 16], fill: String::new() },
        Message::Challenge { software: "s".into(), nonce: [2; 16], key_required: true, fill: "-".repeat(40) },
        Message::Request { plan: tcp_plan(), proof: None },
        Message::Request { plan: tcp_plan(), proof: Some([4; 32]) },
        Message::Accept {
            session: [5; 8],
            plan: tcp_plan(),
            notes: vec!["shorter".into()],
            host: host(),
            udp_port: 9,
            proof: Some([3; 32]),
        },
        Message::Refuse { code: RefuseCode::AddressNotProven, reason: "no answer\nat all".into() },
        Message::Start { clock: None },
        Message::Start { clock: Some(serde_json::json!({"offset_ns": -5})) },
        Message::Started { at: Instant::from_nanos(u64::MAX) },
        Message::Clock { model: serde_json::json!([1, 2.5]) },
        Message::UdpReady,
        Message::Sent { stream: 3, datagrams: u64::MAX },
        Message::SendTrain { train: 1, departures: vec![ProbeDeparture { after_ns: 2, bytes: 1500 }] },
        Message::TrainDeparted { train: 32_767, sent_ns: vec![Some(u64::MAX), None] },
        Message::TrainSent { train: 0, packets: u16::MAX, settle_ns: 7 },
        Message::TrainArrived { train: 0, received_ns: vec![None; 3], clock_steps: 1 },
        Message::Stop,
        Message::Interval(Box::new(interval())),
        Message::Samples {
            stream: 0,
            samples: vec![
                RemoteSample { block: 1, arrived_ns: None, read_ns: 2 },
                RemoteSample { block: 3, arrived_ns: Some(4), read_ns: 5 },
            ],
        },
        Message::Finished(Box::new(finished())),
        Message::Failed { reason: "disk on fire".into() },
        Message::Bye,
        Message::Join { session: [6; 8], stream: 7, direction: Direction::Up, proof: None },
        Message::Joined {
            buffers: BufferGrant::default(),
            congestion_control: Some("cubic".into()),
            mss_bytes: Some(1448),
        },
    ]
}

#[test]
fn every_message_survives_a_round_trip() {
    for message in all_messages() {
        let json = message.encode().unwrap();
        assert_eq!(Message::decode(&json).unwrap(), message, "{}", String::from_utf8_lossy(&json));
        assert!(message.encode_frame().unwrap().len() == json.len() + 5);
    }
}

#[test]
fn the_json_matches_the_protocol() {
    let text = |m: Message| String::from_utf8(m.encode().unwrap()).unwrap();
    assert_eq!(text(Message::UdpReady), r#"{"type":"udp_ready"}"#);
    assert_eq!(
        text(Message::Hello { version: 1, software: "x".into(), nonce: [0xab; 16], fill: String::new() }),
        r#"{"type":"hello","version":1,"software":"x","nonce":"abababababababababababababababab"}"#
    );
    assert_eq!(
        text(Message::Refuse { code: RefuseCode::TooManyFromAddress, reason: String::new() }),
        r#"{"type":"refuse","code":"too_many_from_address","reason":""}"#
    );
}

#[test]
fn later_versions_may_add_types_fields_and_codes() {
    let decode = |json: &str| Message::decode(json.as_bytes()).unwrap();
    assert_eq!(decode(r#"{"type":"dance","steps":[1,2]}"#), Message::Unknown);
    assert_eq!(decode(r#"{"type":"stop","gently":true}"#), Message::Stop);
    assert_eq!(
        decode(r#"{"type":"refuse","code":"full_moon","reason":"x"}"#),
        Message::Refuse { code: RefuseCode::Other, reason: "x".into() }
    );
    assert!(Message::Unknown.encode().is_err(), "an unknown message has no bytes to send");
}

#[test]
fn malformed_messages_are_errors() {
    let deep = "[".repeat(100_000);
    let deep_value = format!(r#"{{"type":"clock","model":{deep}"#);
    for json in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"type":"hello"}"#,
        r#"{"type":"hello","version":-1,"software":"","nonce":"00"}"#,
        r#"{"type":"hello","version":1,"software":"","nonce":"zz000000000000000000000000000000"}"#,
        r#"{"type":"stop"} x"#,
        r#"{"type":"join","session":"0011","stream":0,"direction":"up"}"#,
        deep_value.as_str(),
    ] {
        assert!(
            matches!(Message::decode(json.as_bytes()), Err(MessageError::Json(_))),
            "{}",
            &json[..json.len().min(80)]
        );
    }
    assert!(Message::decode(b"\xff\xfe").is_err());
}

#[test]
fn control_characters_are_rejected_at_any_depth_and_in_both_directions() {
    for json in [
        r#"{"type":"failed","reason":"\u001b[2J"}"#,
        r#"{"type":"clock","model":[{"a":["\u0007"]}]}"#,
        "{\"type\":\"failed\",\"reason\":\"\u{9b}2J\"}",
    ] {
        assert!(matches!(Message::decode(json.as_bytes()), Err(MessageError::Control)), "{json}");
    }
    let hostile = Message::Failed { reason: "\x1b[2J".into() };
    assert!(matches!(hostile.encode(), Err(MessageError::Control)));
}

#[test]
fn lists_and_texts_have_maximum_lengths() {
    let sample = RemoteSample { block: u32::MAX, arrived_ns: Some(u64::MAX), read_ns: u64::MAX };
    let samples = |n| Message::Samples { stream: u32::MAX, samples: vec![sample; n] };
    assert!(samples(SAMPLES_MAX).encode_frame().is_ok(), "the maximum fits the longest frame");
    let mut plan = tcp_plan();
    plan.directions = vec![Direction::Up; LIST_ENTRIES_MAX + 1];
    let mut many_streams = finished();
    many_streams.directions[0].streams = vec![SideStream::default(); 257];
    let mut long_host = host();
    long_host.sysctls.insert("a".into(), "x".repeat(TEXT_BYTES_MAX + 1));
    for message in [
        samples(SAMPLES_MAX + 1),
        Message::TrainArrived { train: 0, received_ns: vec![None; 4097], clock_steps: 0 },
        Message::SendTrain { train: 0, departures: vec![ProbeDeparture { after_ns: 0, bytes: 0 }; 4097] },
        Message::Failed { reason: "x".repeat(TEXT_BYTES_MAX + 1) },
        Message::Request { plan, proof: None },
        Message::Finished(Box::new(many_streams)),
        Message::Accept { session: [0; 8], plan: tcp_plan(), notes: vec![], host: long_host, udp_port: 0, proof: None },
    ] {
        assert!(matches!(message.encode(), Err(MessageError::Bounds(_))));
        let json = serde_json::to_vec(&message).unwrap();
        assert!(matches!(Message::decode(&json), Err(MessageError::Bounds(_))));
    }
}

#[test]
fn truncated_messages_are_always_rejected() {
    for message in all_messages() {
        let json = message.encode().unwrap();
        for n in 0..json.len() {
            assert!(Message::decode(&json[..n]).is_err());
        }
    }
}
