//! Tests of the loaded program on constructed frames (BPF_PROG_TEST_RUN). They need root; without it each test reports
//! that it is skipped.

mod frame;

use std::time::{Duration, Instant};

use libbpf_rs::ProgramInput;
use proptest::prelude::*;
use shaping::{Match, SizeLimits, Traffic};
use tc::Handle;
use units::{Bytes, Rate};

use self::frame::{FRAGMENT, Frame, TCP, UDP};
use crate::{BpfError, Classifier, FlowEntry, RULES_MAX, Rule, RunTimeStatistics, Settings, counters, flows};

const DEFAULT: Handle = Handle::new(1, 0xff);
const MICE: Handle = Handle::new(1, 1);
const ELEPHANTS: Handle = Handle::new(1, 2);

fn class(number: u16) -> Handle {
    Handle::new(1, number)
}

/// Settings in which match n, counted from 1, leads to class 1:n.
fn by_order(matches: &[Match]) -> Settings {
    let rules = (1..).zip(matches).map(|(n, matches)| Rule { class: class(n), matches: matches.clone() });
    Settings { rules: rules.collect(), default: DEFAULT, sizes: SizeLimits::default() }
}

/// Settings that classify all IP packets by flow size.
fn by_size(sizes: SizeLimits) -> Settings {
    let rule = |class, size| Rule { class, matches: Match { size: Some(size), ..Match::default() } };
    Settings { rules: vec![rule(MICE, Traffic::Mouse), rule(ELEPHANTS, Traffic::Elephant)], default: DEFAULT, sizes }
}

/// Loads the classifier, or prints why the test is skipped.
fn load(settings: &Settings) -> Option<Classifier> {
    match Classifier::load(settings) {
        Err(BpfError::Privilege { .. }) => {
            println!("skipped: loading BPF programs takes root");
            None
        }
        other => Some(other.unwrap()),
    }
}

fn run(classifier: &Classifier, frame: &Frame) -> Handle {
    classifier.try_frame(&frame.bytes(), 1).unwrap().class
}

fn nets(list: &[&str]) -> Vec<ipnet::IpNet> {
    list.iter().map(|net| net.parse().unwrap()).collect()
}

fn from(address: &str) -> Frame {
    Frame { from: address.parse().unwrap(), ..if address.contains(':') { Frame::v6() } else { Frame::default() } }
}

#[test]
fn networks_match_by_prefix_in_both_families_and_lists_are_alternatives() {
    let settings = by_order(&[
        Match { from: nets(&["192.0.2.0/25", "2001:db8:1::/49"]), ..Match::default() },
        Match { to: nets(&["10.0.0.2/32", "2001:db8::2/128"]), ..Match::default() },
        Match { from: nets(&["0.0.0.0/0"]), ..Match::default() },
        Match { from: nets(&["::/0"]), ..Match::default() },
    ]);
    let Some(classifier) = load(&settings) else { return };
    assert_eq!(run(&classifier, &from("192.0.2.127")), class(1));
    assert_eq!(run(&classifier, &from("192.0.2.128")), class(2));
    assert_eq!(run(&classifier, &from("2001:db8:1:7fff::1")), class(1));
    assert_eq!(run(&classifier, &from("2001:db8:1:8000::1")), class(2));
    let to = |frame: Frame, to: &str| Frame { to: to.parse().unwrap(), ..frame };
    assert_eq!(run(&classifier, &to(Frame::default(), "10.0.0.3")), class(3));
    assert_eq!(run(&classifier, &to(Frame::v6(), "2001:db8::3")), class(4));
    // A mapped address in a packet is an IPv6 address.
    assert_eq!(run(&classifier, &to(from("::ffff:192.0.2.1"), "2001:db8::3")), class(4));
}

#[test]
fn a_pair_of_networks_of_different_families_matches_nothing() {
    let settings = by_order(&[Match { from: nets(&["0.0.0.0/0"]), to: nets(&["::/0"]), ..Match::default() }]);
    let Some(classifier) = load(&settings) else { return };
    assert_eq!(run(&classifier, &Frame::default()), DEFAULT);
    assert_eq!(run(&classifier, &Frame::v6()), DEFAULT);
}

#[test]
fn all_conditions_of_a_match_hold_and_the_first_match_wins() {
    let settings = by_order(&[
        Match {
            protocol: Some(TCP),
            from_ports: vec![1000..=1000],
            to_ports: vec![1..=9, 22..=22],
            ..Match::default()
        },
        Match { protocol: Some(TCP), to_ports: vec![2000..=2000], ..Match::default() },
        Match { protocol: Some(TCP), ..Match::default() },
        Match { protocol: Some(UDP), ports: vec![53..=53, 5000..=5999], ..Match::default() },
    ]);
    let Some(classifier) = load(&settings) else { return };
    for frame in [Frame::default(), Frame::v6()] {
        let with =
            |protocol, from_port, to_port| run(&classifier, &Frame { protocol, from_port, to_port, ..frame.clone() });
        assert_eq!(with(TCP, 1000, 22), class(1));
        assert_eq!(with(TCP, 1000, 9), class(1));
        assert_eq!(with(TCP, 1001, 22), class(3));
        assert_eq!(with(TCP, 1000, 2000), class(2));
        assert_eq!(with(TCP, 1000, 2001), class(3));
        assert_eq!(with(UDP, 53, 40_000), class(4));
        assert_eq!(with(UDP, 40_000, 5999), class(4));
        assert_eq!(with(UDP, 4999, 6000), DEFAULT);
        assert_eq!(with(132, 1000, 22), DEFAULT);
    }
}

#[test]
fn code_points_match_independently_of_the_ecn_bits() {
    let settings =
        by_order(&[Match { dscp: vec![0, 46], ..Match::default() }, Match { dscp: vec![63, 8], ..Match::default() }]);
    let Some(classifier) = load(&settings) else { return };
    for frame in [Frame::default(), Frame::v6()] {
        for (dscp, expected) in [(0, class(1)), (46, class(1)), (8, class(2)), (63, class(2)), (45, DEFAULT)] {
            assert_eq!(run(&classifier, &Frame { dscp, ..frame.clone() }), expected, "code point {dscp}");
        }
    }
}

#[test]
fn a_match_without_conditions_includes_other_protocols_than_ip() {
    let settings = by_order(&[Match { protocol: Some(TCP), ..Match::default() }, Match::default()]);
    let Some(classifier) = load(&settings) else { return };
    let mut arp = vec![2; 12];
    arp.extend([0x08, 0x06]);
    arp.resize(60, 0);
    assert_eq!(classifier.try_frame(&arp, 1).unwrap().class, class(2));
    let Some(classifier) = load(&by_size(SizeLimits::default())) else { return };
    assert_eq!(classifier.try_frame(&arp, 1).unwrap().class, DEFAULT);
}

#[test]
fn options_and_tags_do_not_hide_the_ports() {
    let settings = by_order(&[Match { to_ports: vec![2000..=2000], ..Match::default() }]);
    let Some(classifier) = load(&settings) else { return };
    assert_eq!(run(&classifier, &Frame { options: 10, ..Frame::default() }), class(1));
    for tags in [vec![0x8100], vec![0x88a8, 0x8100]] {
        assert_eq!(run(&classifier, &Frame { tags: tags.clone(), ..Frame::default() }), class(1));
        assert_eq!(run(&classifier, &Frame { tags, ..Frame::v6() }), class(1));
    }
    assert_eq!(run(&classifier, &Frame { tags: vec![0x88a8, 0x8100, 0x8100], ..Frame::default() }), DEFAULT);
}

#[test]
fn all_fragments_of_a_datagram_get_one_class() {
    let settings = by_order(&[
        Match { to_ports: vec![2000..=2000], ..Match::default() },
        Match { protocol: Some(UDP), ..Match::default() },
    ]);
    let Some(classifier) = load(&settings) else { return };
    let v4 = |fragment| Frame { protocol: UDP, fragment, ..Frame::default() };
    let v6 = |fragment: u16| {
        let [high, low] = fragment.to_be_bytes();
        Frame { protocol: UDP, extensions: vec![(FRAGMENT, vec![0, 0, high, low, 1, 2, 3, 4])], ..Frame::v6() }
    };
    // Unfragmented, with "do not fragment", and an atomic fragment (RFC 6946).
    for frame in [v4(0), v4(0x4000), v6(0)] {
        assert_eq!(run(&classifier, &frame), class(1));
    }
    // First, middle and last.
    for frame in [v4(0x2000), v4(0x2010), v4(0x0010), v6(1), v6(0x81), v6(0x80)] {
        assert_eq!(run(&classifier, &frame), class(2));
    }
}

#[test]
fn extension_headers_are_walked_to_the_ports() {
    let settings = by_order(&[
        Match { to_ports: vec![2000..=2000], ..Match::default() },
        Match { protocol: Some(60), ..Match::default() },
    ]);
    let Some(classifier) = load(&settings) else { return };
    let with = |extensions| run(&classifier, &Frame { extensions, length: 300, ..Frame::v6() });
    assert_eq!(with(vec![(0, vec![0; 8]), (43, vec![0; 24]), (60, vec![0; 16])]), class(1));
    assert_eq!(with(vec![(51, vec![0; 24])]), class(1));
    assert_eq!(with(vec![(60, vec![0; 8]); 8]), class(1));
    assert_eq!(with(vec![(60, vec![0; 8]); 9]), class(2));
}

#[test]
fn icmp_has_no_ports() {
    let settings = by_order(&[
        Match { ports: vec![0..=u16::MAX], ..Match::default() },
        Match { protocol: Some(1), ..Match::default() },
        Match { protocol: Some(58), ..Match::default() },
    ]);
    let Some(classifier) = load(&settings) else { return };
    assert_eq!(run(&classifier, &Frame { protocol: 1, ..Frame::default() }), class(2));
    assert_eq!(run(&classifier, &Frame { protocol: 58, ..Frame::v6() }), class(3));
}

#[test]
fn a_flow_becomes_an_elephant_with_the_packet_that_exceeds_the_limit() {
    let Some(classifier) = load(&by_size(SizeLimits { bytes: Some(Bytes::new(10_000)), ..SizeLimits::default() }))
    else {
        return;
    };
    for frame in [Frame { length: 1000, ..Frame::default() }, Frame { length: 1000, ..Frame::v6() }] {
        for packet in 1..=10 {
            assert_eq!(run(&classifier, &frame), MICE, "packet {packet}");
        }
        assert_eq!(run(&classifier, &frame), ELEPHANTS);
        // A different port, protocol or direction makes a different flow.
        for other in [
            Frame { from_port: 1001, ..frame.clone() },
            Frame { protocol: UDP, ..frame.clone() },
            Frame { from: frame.to, to: frame.from, ..frame.clone() },
        ] {
            assert_eq!(run(&classifier, &other), MICE);
        }
    }
}

#[test]
fn an_idle_elephant_becomes_a_mouse_again() {
    let limits = SizeLimits { bytes: Some(Bytes::new(150)), idle: Duration::from_secs(5), ..SizeLimits::default() };
    let Some(classifier) = load(&by_size(limits)) else { return };
    let frame = Frame::default();
    assert_eq!([run(&classifier, &frame), run(&classifier, &frame)], [MICE, ELEPHANTS]);
    classifier.set_clock_ahead(Duration::from_secs(4));
    assert_eq!(run(&classifier, &frame), ELEPHANTS);
    // A gap of 4 s is below the idle time of 5 s, and a gap of 6 s is above.
    classifier.set_clock_ahead(Duration::from_secs(10));
    assert_eq!([run(&classifier, &frame), run(&classifier, &frame)], [MICE, ELEPHANTS]);
}

/// Sends packets of 1000 bytes every `gap` for `seconds`, and returns the time in the program's clock after which the
/// flow was an elephant. The result includes the run time of the test.
fn elephant_after(classifier: &Classifier, start: Duration, gap: Duration, seconds: u64) -> Option<Duration> {
    let started = Instant::now();
    let packets = Duration::from_secs(seconds).as_nanos() / gap.as_nanos();
    let at = (0..packets as u32).map(|n| gap * n).find(|&at| {
        classifier.set_clock_ahead(start + at);
        run(classifier, &Frame { length: 1000, ..Frame::default() }) == ELEPHANTS
    });
    at.map(|at| at + started.elapsed())
}

#[test]
fn a_flow_becomes_an_elephant_after_the_time_above_the_rate() {
    // 1000 bytes every 8 ms give 1 Mb/s.
    let above = Some((Rate::from_bps(1_000_000), Duration::from_secs(4)));
    let limits = SizeLimits { bytes: None, above, ..SizeLimits::default() };
    let Some(classifier) = load(&by_size(limits)) else { return };
    assert_eq!(elephant_after(&classifier, Duration::ZERO, Duration::from_millis(9), 30), None);
    let after = elephant_after(&classifier, Duration::from_secs(100), Duration::from_millis(7), 30).unwrap();
    // One window more would take one second more.
    assert!(after >= Duration::from_secs(4) && after < Duration::from_secs(5), "{after:?}");
}

#[test]
fn time_above_the_rate_must_be_continuous() {
    let above = Some((Rate::from_bps(1_000_000), Duration::from_secs(4)));
    let Some(classifier) = load(&by_size(SizeLimits { bytes: None, above, ..SizeLimits::default() })) else { return };
    for start in (0..30).step_by(6) {
        // 3 s above the rate, then a pause of 3 s, which is shorter than the idle time.
        let start = Duration::from_secs(start);
        assert_eq!(elephant_after(&classifier, start, Duration::from_millis(5), 3), None);
    }
}

/// The kernel's `struct __sk_buff` with only the wire length set.
fn context(wire_length: u32) -> Vec<u8> {
    let mut context = vec![0; 192];
    context[160..164].copy_from_slice(&wire_length.to_ne_bytes());
    context
}

#[test]
fn a_super_packet_counts_with_the_headers_of_all_its_segments() {
    let Some(classifier) = load(&by_size(SizeLimits::default())) else { return };
    let frame = Frame { length: 3000, ..Frame::default() }.bytes();
    let mut context = context(3132);
    let input = ProgramInput { data_in: Some(&frame), context_in: Some(&mut context), ..ProgramInput::default() };
    assert_eq!(classifier.run(input).unwrap().class, MICE);
    assert_eq!(flows(classifier.id()).unwrap()[0].bytes, 3132);
    assert_eq!(counters(classifier.id()).unwrap().rules[0].bytes, 3132);
}

#[test]
fn ten_thousand_flows_are_counted_separately() {
    let limits = SizeLimits { bytes: Some(Bytes::new(250)), flows: 10_000, ..SizeLimits::default() };
    let Some(classifier) = load(&by_size(limits)) else { return };
    let flow = |n: u16| {
        let base = if n.is_multiple_of(2) { Frame::default() } else { Frame::v6() };
        Frame { from_port: n, protocol: if n.is_multiple_of(3) { UDP } else { TCP }, ..base }
    };
    // Every fifth flow sends three packets and the others two, interleaved as on a shared link.
    for round in 0..3 {
        for n in (0..10_000).filter(|n| round < 2 || n % 5 == 0) {
            let expected = if round < 2 { MICE } else { ELEPHANTS };
            assert_eq!(run(&classifier, &flow(n)), expected, "flow {n}, round {round}");
        }
    }
    let counted = counters(classifier.id()).unwrap();
    assert_eq!((counted.mice, counted.elephants, counted.idle), (8000, 2000, 0));
    assert_eq!((counted.rules[0].packets, counted.rules[1].packets), (20_000, 2000));
    assert_eq!(counted.rules[0].bytes, 2_000_000);
    assert_eq!(counted.packets(), 22_000);
    let mut seen = flows(classifier.id()).unwrap();
    seen.sort_by_key(|flow| flow.from_port);
    for (n, found) in (0..10_000).zip(&seen) {
        let frame = flow(n);
        let tuple = |f: &FlowEntry| (f.from, f.to, f.from_port, f.to_port, f.protocol);
        assert_eq!(tuple(found), (frame.from, frame.to, n, 2000, frame.protocol));
        assert_eq!((found.bytes, found.elephant), if n % 5 == 0 { (300, true) } else { (200, false) });
    }
}

#[test]
fn the_flow_map_is_bounded_and_evicts_the_longest_idle_flow() {
    let Some(classifier) = load(&by_size(SizeLimits { flows: 1000, ..SizeLimits::default() })) else { return };
    let entries = counters(classifier.id()).unwrap().flow_entries;
    let total = 60_000_u16;
    for from_port in 0..total {
        assert_eq!(run(&classifier, &Frame { from_port, ..Frame::default() }), MICE);
    }
    let kept = flows(classifier.id()).unwrap();
    assert!(kept.len() <= entries as usize, "{} of {entries}", kept.len());
    // The last thousand flows must all be present.
    let recent = kept.iter().filter(|flow| flow.from_port >= total - 1000).count();
    assert_eq!(recent, 1000);
}

#[test]
fn a_flow_that_no_size_rule_examines_is_not_stored() {
    let mut settings = by_size(SizeLimits::default());
    let first = Match { to_ports: vec![2000..=2000], ..Match::default() };
    settings.rules.insert(0, Rule { class: class(9), matches: first });
    let Some(classifier) = load(&settings) else { return };
    assert_eq!(run(&classifier, &Frame::default()), class(9));
    assert_eq!(flows(classifier.id()).unwrap(), []);
    assert_eq!(run(&classifier, &Frame { to_port: 2001, ..Frame::default() }), MICE);
    assert_eq!(flows(classifier.id()).unwrap().len(), 1);
}

#[test]
fn forwarded_packets_belong_to_no_user_and_no_cgroup() {
    // The kernel reports user 65534 for packets without a socket, such as the frames of a trial run.
    let settings = by_order(&[
        Match { user: Some(65_534), ..Match::default() },
        Match { cgroup: Some("/".to_owned()), user: Some(1), ..Match::default() },
    ]);
    let Some(classifier) = load(&settings) else { return };
    assert_eq!(run(&classifier, &Frame::default()), DEFAULT);
}

#[test]
fn a_cgroup_that_does_not_exist_is_named() {
    for path in ["/no/such/group", "../etc", "/cgroup.procs"] {
        let settings = by_order(&[Match { cgroup: Some(path.to_owned()), ..Match::default() }]);
        let error = Classifier::load(&settings).unwrap_err();
        assert!(matches!(&error, BpfError::Cgroup { path: named, .. } if named == path), "{error}");
    }
}

#[test]
fn the_maximum_number_of_rules_works_and_more_are_refused() {
    let mut last = Match { from: nets(&["192.0.2.0/24"; 64]), ..Match::default() };
    last.to_ports = (1..=64).map(|n| n * 10..=n * 10).collect();
    let settings = by_order(&[last.clone()]);
    assert_eq!(64 * 64, RULES_MAX);
    if let Some(classifier) = load(&settings) {
        assert_eq!(run(&classifier, &Frame { to_port: 640, ..from("192.0.2.9") }), class(1));
        assert_eq!(run(&classifier, &Frame { to_port: 641, ..from("192.0.2.9") }), DEFAULT);
    }
    let error = Classifier::load(&by_order(&[last, Match::default()])).unwrap_err();
    assert!(matches!(error, BpfError::TooManyRules { rules: 4097, max: 4096 }), "{error}");
}

#[test]
fn a_flow_table_above_the_maximum_is_refused() {
    let error = Classifier::load(&by_size(SizeLimits { flows: u32::MAX, ..SizeLimits::default() })).unwrap_err();
    assert!(matches!(error, BpfError::TooManyFlows { flows: u32::MAX, .. }), "{error}");
}

#[test]
fn a_removed_program_is_not_a_classifier() {
    let Some(classifier) = load(&by_order(&[])) else { return };
    let id = classifier.id();
    assert_eq!(counters(id).unwrap().packets(), 0);
    drop(classifier);
    assert!(matches!(counters(id), Err(BpfError::NotOurs { program }) if program == id));
    assert!(matches!(flows(id), Err(BpfError::NotOurs { program }) if program == id));
}

#[test]
fn the_kernel_measures_run_time_while_statistics_are_enabled() {
    let Some(classifier) = load(&by_order(&[])) else { return };
    run(&classifier, &Frame::default());
    let held = RunTimeStatistics::enable().unwrap();
    classifier.try_frame(&Frame::default().bytes(), 500).unwrap();
    drop(held);
    let time = counters(classifier.id()).unwrap().run_time.unwrap();
    assert_eq!(time.runs, 500);
    assert!(time.total_ns > 0);
}

/// Frames that are valid up to a random byte and then arbitrary or truncated, so that they reach all of the parser.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let base = prop_oneof![
        Just(Frame::default()),
        Just(Frame::v6()),
        Just(Frame { tags: vec![0x88a8, 0x8100], ..Frame::default() }),
        Just(Frame { extensions: vec![(0, vec![0; 8]), (FRAGMENT, vec![0; 8])], ..Frame::v6() }),
    ];
    let changes = prop::collection::vec((12_usize..100, any::<u8>()), 0..8);
    (base, changes, 15_usize..100).prop_map(|(frame, changes, length)| {
        let mut bytes = frame.bytes();
        for (at, value) in changes {
            bytes[at] = value;
        }
        bytes.truncate(length);
        bytes
    })
}

#[test]
fn every_frame_gets_a_configured_class() {
    let settings = by_order(&[
        Match { from: nets(&["10.0.0.0/8", "2001:db8::/32"]), to_ports: vec![1..=2000], ..Match::default() },
        Match { dscp: (0..32).collect(), size: Some(Traffic::Mouse), ..Match::default() },
        Match { size: Some(Traffic::Elephant), ..Match::default() },
    ]);
    let Some(classifier) = load(&settings) else { return };
    let arbitrary = prop::collection::vec(any::<u8>(), 15..200);
    proptest!(ProptestConfig::with_cases(4000), |(bytes in prop_oneof![damaged(), arbitrary])| {
        // The kernel rejects an IP frame with a truncated header.
        if let Ok(trial) = classifier.try_frame(&bytes, 1) {
            prop_assert!([DEFAULT, class(1), class(2), class(3)].contains(&trial.class), "{:?}", trial.class);
        } else {
            prop_assert!(bytes.len() < 14 + 40);
        }
    });
}
