//! UDP tests from end to end over loopback, compared with the counts of nftables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "the helpers belong to the tests")]

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use measure::{ClientOptions, Family, MeasureError, Server, ServerOptions, run_test};
use results::{Completion, Direction, EndRecord, Record, Role, TestPlan, Transport, UdpSummary};
use units::Rate;
use wire::UdpControl;

struct Running {
    port: u16,
    stop_requests: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop_requests.store(2, Ordering::Relaxed);
        if let Some(t) = self.thread.take() {
            t.join().unwrap();
        }
    }
}

fn serve(bind: Option<IpAddr>, max_rate: Option<Rate>) -> Running {
    let options = ServerOptions {
        bind: bind.map(Into::into),
        port: 0,
        allow: vec![],
        max_sessions: 4,
        max_sessions_per_address: 4,
        max_memory: units::Bytes::new(4 << 30),
        large_windows: false,
        max_udp_silence: Duration::from_secs(20),
        max_duration: Duration::from_secs(60),
        max_rate,
        max_probe_bytes: units::Bytes::ZERO,
        key: None,
        grace: Duration::from_secs(1),
        one_off: false,
    };
    let server = Server::bind(options).unwrap();
    let port = server.local_addr().unwrap().port();
    let stop_requests = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&stop_requests);
    let thread = std::thread::spawn(move || server.run(&|| flag.load(Ordering::Relaxed)).unwrap());
    Running { port, stop_requests, thread: Some(thread) }
}

fn v4() -> Option<IpAddr> {
    Some(Ipv4Addr::LOCALHOST.into())
}

/// Datagrams of 1000 bytes for 500 ms, one per millisecond.
fn plan(transport: Transport, directions: &[Direction]) -> TestPlan {
    TestPlan {
        transport,
        directions: directions.to_vec(),
        streams: 1,
        duration_ns: Some(500_000_000),
        bytes: None,
        interval_ns: 100_000_000,
        block_bytes: 1000,
        window_bytes: None,
        congestion_control: None,
        rate_bps: Some(8_000_000),
        dscp: None,
        mss_bytes: None,
        notsent_lowat_bytes: None,
        zero_copy: false,
        seed: 7,
    }
}

fn try_test(host: &str, port: u16, plan: TestPlan) -> Result<(Vec<Record>, EndRecord), MeasureError> {
    let options = ClientOptions {
        host: host.to_owned(),
        port,
        family: Family::Any,
        bind: None,
        plan,
        key: None,
        title: None,
        link_rate: None,
        disk: None,
        grace: Duration::from_secs(1),
        start_at: None,
    };
    let mut records = Vec::new();
    let end = run_test(&options, &mut |r| records.push(r.clone()), &|| 0)?;
    Ok((records, end))
}

fn test(host: &str, port: u16, plan: TestPlan) -> (Vec<Record>, EndRecord) {
    let (records, end) = try_test(host, port, plan).unwrap();
    assert_eq!(end.completion, Completion::Complete);
    (records, end)
}

fn udp(end: &EndRecord, direction: Direction) -> &UdpSummary {
    let d = end.directions.iter().find(|d| d.direction == direction).unwrap();
    assert!(d.agreement.agree, "{:?}", d.agreement);
    let udp = d.udp.as_ref().unwrap();
    assert_eq!(udp.sent, udp.received + udp.lost);
    udp
}

#[test]
fn both_directions_at_once_lose_nothing_over_loopback() {
    let server = serve(v4(), None);
    let p = TestPlan { streams: 2, ..plan(Transport::UdpConstant, &[Direction::Up, Direction::Down]) };
    let (records, end) = test("127.0.0.1", server.port, p);
    for direction in [Direction::Up, Direction::Down] {
        let u = udp(&end, direction);
        // The stream never exceeds its rate; a stalled host omits departures and reports that.
        let stalled = end.warnings.iter().any(|w| w.contains("fell behind"));
        assert!(u.sent <= 1000 && (u.sent >= 900 || stalled), "{u:?} {:?}", end.warnings);
        assert_eq!((u.lost, u.duplicates, u.reordered), (0, 0, 0), "{u:?}");
        let d = end.directions.iter().find(|d| d.direction == direction).unwrap();
        assert_eq!(d.receiver.bytes, u.received * 1000);
        assert_eq!(d.sender.bytes, d.receiver.bytes);
        assert!(stalled || d.throughput_bps.abs_diff(16_000_000) < 2_000_000, "{}", d.throughput_bps);
        let one_way = d.one_way.as_ref().unwrap();
        assert_eq!(one_way.count, u.received);
        // Loopback takes microseconds; both ends use one clock, known within the bound.
        assert!(one_way.p50_ns.unsigned_abs() < one_way.bound_ns + 2_000_000, "{one_way:?}");
        let of = |role| intervals(&records, direction, role);
        let received: u64 = of(Role::Receiver).iter().map(|r| r.udp.as_ref().unwrap().received).sum();
        assert!(received.abs_diff(u.received) < 30, "{received} in intervals of {}", u.received);
        assert!(of(Role::Receiver).iter().all(|r| r.one_way.is_some() && r.streams.iter().all(|s| s.udp.is_some())));
        assert!(of(Role::Sender).len() >= 4 && of(Role::Sender).iter().all(|r| r.bytes > 0 && r.udp.is_none()));
    }
}

fn intervals(records: &[Record], direction: Direction, role: Role) -> Vec<results::IntervalRecord> {
    records
        .iter()
        .filter_map(|r| match r {
            Record::Interval(i) if i.direction == direction && i.role == role => Some(i.clone()),
            Record::Interval(_) | Record::Start(_) | Record::End(_) => None,
        })
        .collect()
}

#[test]
fn ipv6_and_mapped_ipv4_reach_a_server_on_all_addresses() {
    let server = serve(None, None);
    for host in ["::1", "127.0.0.1", "127.0.0.3"] {
        let (records, end) = test(host, server.port, plan(Transport::UdpConstant, &[Direction::Down]));
        assert_eq!(udp(&end, Direction::Down).lost, 0, "{host}");
        let Record::Start(start) = &records[0] else { panic!("no start") };
        assert!(start.streams[0].server.contains(host), "{:?}", start.streams);
    }
}

#[test]
fn a_data_amount_arrives_exactly() {
    let server = serve(v4(), None);
    let p = TestPlan {
        duration_ns: None,
        bytes: Some(100_500),
        streams: 2,
        ..plan(Transport::UdpPoisson, &[Direction::Up, Direction::Down])
    };
    let (_, end) = test("127.0.0.1", server.port, p);
    for d in &end.directions {
        assert_eq!((d.sender.bytes, d.receiver.bytes), (100_500, 100_500));
        assert_eq!(udp(&end, d.direction).sent, 102);
    }
}

#[test]
fn a_server_reports_reduced_terms() {
    let server = serve(v4(), Some(Rate::from_bps(2_000_000)));
    let (records, end) = test("127.0.0.1", server.port, plan(Transport::UdpConstant, &[Direction::Up]));
    let Record::Start(start) = &records[0] else { panic!("no start") };
    assert_eq!(start.plan.rate_bps, Some(2_000_000));
    assert!(!start.notes.is_empty());
    assert!((100..=125).contains(&udp(&end, Direction::Up).sent));
}

#[test]
fn a_rate_is_required() {
    let server = serve(v4(), None);
    let p = TestPlan { rate_bps: None, ..plan(Transport::UdpConstant, &[Direction::Up]) };
    assert!(matches!(try_test("127.0.0.1", server.port, p), Err(MeasureError::Plan(_))));
}

#[test]
fn unknown_clients_get_no_answer_during_a_test() {
    let server = serve(v4(), None);
    let port = server.port;
    let stranger = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        for i in 0..300_u32 {
            let token = u64::from(i).to_be_bytes();
            let control = UdpControl::Hello { token }.encode();
            let proof = UdpControl::Proof { token, nonce: [7; 16] }.encode();
            for datagram in [&control[..], &proof[..], b"noise", &[b'2'; 1448]] {
                socket.send(datagram).unwrap();
            }
            assert!(socket.recv(&mut [0; 2000]).is_err(), "an unknown client was answered");
        }
    });
    let (_, end) = test("127.0.0.1", server.port, plan(Transport::UdpConstant, &[Direction::Up, Direction::Down]));
    assert_eq!(udp(&end, Direction::Up).lost + udp(&end, Direction::Down).lost, 0);
    assert!(end.warnings.iter().all(|w| !w.contains("not of this test")), "{:?}", end.warnings);
    stranger.join().unwrap();
}

/// Runs the named test again in a network namespace of its own. Returns whether the current process is that run.
fn in_namespace(name: &str) -> bool {
    if std::env::var_os("LONGHAUL_TEST_NETNS").is_some() {
        run("ip", &["link", "set", "lo", "up"]);
        return true;
    }
    let possible = Command::new("unshare").args(["-n", "nft", "list", "ruleset"]).output();
    if !possible.as_ref().is_ok_and(|o| o.status.success()) {
        println!("skipped: needs root, unshare and nft: {possible:?}");
        return false;
    }
    let me = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .arg("-n")
        .arg(me)
        .args(["--exact", name, "--nocapture"])
        .env("LONGHAUL_TEST_NETNS", "1")
        .status()
        .unwrap();
    assert!(status.success());
    false
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Packets counted by each counter of the ruleset.
fn counted() -> Vec<u64> {
    let rules = run("nft", &["list", "ruleset"]);
    rules.split("counter packets ").skip(1).map(|c| c.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn losses_equal_the_drops_of_nftables() {
    if !in_namespace("losses_equal_the_drops_of_nftables") {
        return;
    }
    let server = serve(v4(), None);
    run("nft", &["add", "table", "inet", "t"]);
    run("nft", &["add", "chain", "inet", "t", "c", "{ type filter hook input priority 0; }"]);
    for (port, every) in [("dport", 10), ("sport", 7)] {
        // Only bulk datagrams match: the address validation's datagrams of 40 bytes pass.
        let rule = format!("udp {port} {} udp length > 100 numgen inc mod {every} 0 counter drop", server.port);
        run("nft", &[&format!("add rule inet t c {rule}")]);
    }
    let (_, end) = test("127.0.0.1", server.port, plan(Transport::UdpPoisson, &[Direction::Up, Direction::Down]));
    for (direction, every, dropped) in [(Direction::Up, 10, counted()[0]), (Direction::Down, 7, counted()[1])] {
        let u = udp(&end, direction);
        assert_eq!(u.lost, dropped, "{u:?}");
        // The rule drops the first of each ten datagrams.
        assert_eq!(u.lost, u.sent.div_ceil(every), "{u:?}");
        assert_eq!(u.loss_runs, [(1, u.lost)].into(), "all losses are single");
    }
}

#[test]
fn a_path_without_udp_is_reported_within_seconds() {
    if !in_namespace("a_path_without_udp_is_reported_within_seconds") {
        return;
    }
    let server = serve(v4(), None);
    run("nft", &["add", "table", "inet", "t"]);
    run("nft", &["add", "chain", "inet", "t", "c", "{ type filter hook input priority 0; }"]);
    run("nft", &["add rule inet t c meta l4proto udp counter drop"]);
    let error = try_test("127.0.0.1", server.port, plan(Transport::UdpConstant, &[Direction::Up])).unwrap_err();
    assert!(matches!(error, MeasureError::UdpBlocked { .. }), "{error}");
    assert!((15..=25).contains(&counted()[0]), "five seconds, every 200 ms on an idle host: {:?}", counted());
}
