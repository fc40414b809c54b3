//! longhaul client against longhaul server over the thrulay protocol and IPv6.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use results::{Completion, EndRecord, TestPlan, Transport};

use super::{Served, client_options, plan, server_options};
use crate::ServerOptions;

const HERE: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// A server; `None` on a host without IPv6.
fn server() -> Option<Served> {
    std::net::TcpListener::bind((HERE, 0)).ok()?;
    Some(Served::start(ServerOptions { bind: Some(HERE.into()), ..server_options() }))
}

fn run(server: &Served, plan: TestPlan, interrupted: &dyn Fn() -> usize) -> EndRecord {
    let options = client_options(server.port, plan);
    crate::thrulay::run_test(&options, SocketAddr::new(HERE, server.port), &mut |_| {}, interrupted).unwrap()
}

#[test]
fn every_block_of_a_data_amount_is_echoed() {
    let Some(server) = server() else { return };
    let requested = TestPlan { duration_ns: None, bytes: Some(30_000_000), streams: 3, zero_copy: true, ..plan() };
    let end = run(&server, requested, &|| 0);
    assert_eq!(end.completion, Completion::Complete);
    let a = &end.directions[0].agreement;
    // 152 whole blocks and a shorter one for each stream.
    assert_eq!((a.sent_bytes, a.received_bytes, a.echoed_blocks), (30_000_000, 30_000_000, 459));
}

#[test]
fn every_datagram_is_counted_by_both_ends() {
    let Some(server) = server() else { return };
    let transport = Transport::UdpConstant;
    let requested = TestPlan { transport, block_bytes: 1200, rate_bps: Some(9_600_000), ..plan() };
    let end = run(&server, requested, &|| 0);
    let d = &end.directions[0];
    let udp = d.udp.as_ref().unwrap();
    assert_eq!((udp.sent, udp.received, udp.lost, udp.duplicates), (600, 600, 0, 0));
    assert!(d.agreement.agree, "{:?}", d.agreement);
    // Both ends use one clock: the server reports the true delay.
    let note = end.warnings.iter().find_map(|w| w.split_once("one-way delay of ")).unwrap().1;
    let ms: f64 = note.split_once(" ms").unwrap().0.parse().unwrap();
    assert!((0.0..100.0).contains(&ms), "{note}");
}

#[test]
fn a_stopped_test_reports_the_data_measured_so_far() {
    let Some(server) = server() else { return };
    for (transport, rate_bps) in [(Transport::Tcp, None), (Transport::UdpPoisson, Some(9_600_000))] {
        let start = kernel::now();
        let stop_at = kernel::now() + Duration::from_millis(400);
        let long = TestPlan { transport, rate_bps, block_bytes: 1200, duration_ns: Some(30_000_000_000), ..plan() };
        let end = run(&server, long, &|| usize::from(kernel::now() > stop_at));
        assert_eq!(end.completion, Completion::Interrupted, "{transport:?}");
        assert!(end.directions[0].agreement.received_bytes > 0, "{transport:?}");
        assert!(kernel::now().saturating_since(start) < Duration::from_secs(5), "{transport:?}");
    }
}

#[test]
fn a_server_shutdown_aborts_running_tests() {
    let Some(server) = server() else { return };
    // The client's connection ends with a reset, which must fail the test.
    let stop_at = kernel::now() + Duration::from_millis(300);
    let ending = || {
        if kernel::now() > stop_at {
            server.stop_requests.store(2, Ordering::Relaxed);
        }
        0
    };
    let end = run(&server, TestPlan { duration_ns: Some(30_000_000_000), ..plan() }, &ending);
    assert!(matches!(end.completion, Completion::Failed { .. }), "{:?}", end.completion);
    assert!(end.directions[0].agreement.received_bytes > 0);
}
