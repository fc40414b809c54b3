//! Sent bytes equal the received bytes exactly, and agree with the counters of the interface.

use std::{fs, time::Duration};

use results::{Direction, DirectionSummary, TestPlan};
use testbed::{Lan, Outcome, Place, or_skip, plan};

use crate::complete;

fn amount(bytes: u64) -> TestPlan {
    TestPlan { duration_ns: None, bytes: Some(bytes), ..plan(Duration::ZERO) }
}

fn assert_exact(d: &DirectionSummary, bytes: u64) {
    let counts = (d.agreement.sent_bytes, d.agreement.received_bytes, d.sender.bytes, d.receiver.bytes);
    assert_eq!(counts, (bytes, bytes, bytes, bytes), "{:?}", d.agreement);
    assert!(d.agreement.agree, "{:?}", d.agreement);
    let streams: u64 = d.streams.iter().map(|s| s.received_bytes).sum();
    assert_eq!(streams, bytes);
}

/// Number of headers in `bytes` cut into blocks: a last block shorter than a header has none.
fn headers(bytes: u64, block: u64) -> u64 {
    bytes / block + u64::from(bytes % block >= 16)
}

fn round_trips(d: &DirectionSummary) -> u64 {
    d.block_rtt.as_ref().map_or(0, |s| s.count)
}

#[test]
fn any_data_amount_arrives_exactly_with_one_round_trip_per_header() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let block = 65_536;
    for bytes in [1, 15, 16, 17, 65_535, 65_536, 65_537, 65_551, 65_552, 3_000_001] {
        for zero_copy in [false, true] {
            let outcome = complete(&lan, TestPlan { zero_copy, ..amount(bytes) });
            let up = outcome.direction(Direction::Up);
            assert_exact(up, bytes);
            assert_eq!(round_trips(up), headers(bytes, block), "{bytes} bytes, zero copy {zero_copy}");
        }
    }
}

#[test]
fn streams_and_directions_are_each_counted_exactly() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let bytes = 10_000_019;
    for directions in [vec![Direction::Up], vec![Direction::Down], vec![Direction::Up, Direction::Down]] {
        let outcome: Outcome = complete(&lan, TestPlan { streams: 8, directions: directions.clone(), ..amount(bytes) });
        assert_eq!(outcome.end.directions.len(), directions.len());
        for direction in directions {
            let d = outcome.direction(direction);
            assert_exact(d, bytes);
            assert_eq!(d.streams.len(), 8);
            let each = |i| bytes / 8 + u64::from(i < bytes % 8);
            let expected: u64 = (0..8).map(|i| headers(each(i), 65_536)).sum();
            assert_eq!(round_trips(d), expected);
        }
    }
}

#[test]
fn a_timed_test_counts_all_bytes() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let both =
        TestPlan { streams: 8, directions: vec![Direction::Up, Direction::Down], ..plan(Duration::from_secs(1)) };
    let outcome = complete(&lan, both);
    for d in &outcome.end.directions {
        assert!(d.agreement.agree && d.receiver.bytes > 0, "{:?}", d.agreement);
        let written: u64 = d.streams.iter().map(|s| s.sent_bytes.div_ceil(65_536)).sum();
        assert_eq!(round_trips(d), written, "every block has its round trip");
    }
}

#[test]
fn the_interface_counts_the_same_bytes() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    // Without offloading each packet on the virtual cable is a frame with its own headers.
    lan.client.iproute("ip link set dev eth0 gso_max_segs 1").unwrap();
    let bytes = 20_000_003;
    let (before, repeated_before) = (lan.counters(Place::Server).unwrap(), retransmitted_segments(&lan));
    let outcome = complete(&lan, amount(bytes));
    let (after, repeated_after) = (lan.counters(Place::Server).unwrap(), retransmitted_segments(&lan));
    let up = outcome.direction(Direction::Up);
    assert_exact(up, bytes);
    let packets = after.received_packets - before.received_packets;
    // Ethernet 14, IPv4 20, TCP with timestamps 32.
    let payload = after.received_bytes - before.received_bytes - 66 * packets;
    // A busy host drops packets at its receive backlog or answers late; the kernel counts the retransmitted segments.
    let retransmitted = 1448 * (repeated_after - repeated_before);
    println!(
        "{bytes} bytes sent, {payload} on the cable in {packets} packets, at most {retransmitted} bytes retransmitted"
    );
    // Besides the load: the control connection (about 10 kB), options of handshakes, address resolution.
    assert!((bytes..bytes + retransmitted + 100_000).contains(&payload), "{payload} bytes of payload on the cable");
    let efficiency = up.rfc6349.as_ref().map_or(0.0, |r| r.tcp_efficiency_percent) / 100.0;
    let reported = bytes as f64 * (1.0 / efficiency - 1.0);
    assert!(
        reported <= retransmitted as f64 + 1.0,
        "{reported:.0} bytes reported as retransmitted, {retransmitted} by the kernel"
    );
}

/// Segments that the client's TCP has retransmitted, by the kernel's `TcpRetransSegs`.
fn retransmitted_segments(lan: &Lan) -> u64 {
    let snmp = lan.client.run(|| fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
    let mut tcp = snmp.lines().filter(|line| line.starts_with("Tcp:")).map(str::split_whitespace);
    let (names, mut values) = (tcp.next().unwrap(), tcp.next().unwrap());
    let column = names.into_iter().position(|name| name == "RetransSegs").unwrap();
    values.nth(column).unwrap().parse().unwrap()
}
