//! Entries of measuring commands in the history, and their use by the next one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::unwrap_in_result,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests are tests too"
)]

mod common;

use std::path::Path;
use std::process::Output;

use archive::{Archive, Entry, Filter};
use common::{Serve, longhaul, text};
use results::estimate::{EstimateRecord, Expected, Quantity};
use results::history::HistorySource;
use testbed::{Lan, Served, or_skip, server_options};

fn run(history: &Path, port: u16, arguments: &[&str]) -> Output {
    let port = port.to_string();
    let mut command = longhaul();
    command.env("LONGHAUL_HISTORY", history).args(arguments).args(["--port", &port]);
    let output = command.output().unwrap();
    // Over loopback the sender limits the dispersion, so `estimate` finds a bound, which is not a value.
    let is_bound = ["short-adr", "127.0.0.1"].iter().all(|a| arguments.contains(a)) && output.status.code() == Some(1);
    assert!(output.status.success() || is_bound, "{}", text(&output.stderr));
    output
}

fn expected(json: &[u8]) -> Vec<Expected> {
    let of = |line: &str| match serde_json::from_str(line).unwrap() {
        EstimateRecord::Expected(e) => Some(e),
        _ => None,
    };
    text(json).lines().filter_map(of).collect()
}

fn entries(history: &Path) -> Vec<Entry> {
    Archive::open_existing(history).unwrap().map_or(Vec::new(), |a| a.entries(&Filter::default()).unwrap())
}

#[test]
fn an_estimate_is_stored_and_the_next_one_starts_with_the_expectation() {
    // The link is slower than its sender, because a result that the sender limits is not stored.
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    lan.client.iproute("tc qdisc add dev eth0 root tbf rate 10mbit burst 3000 limit 200000").unwrap();
    let server = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    let (host, directory) = (lan.server_ip().to_string(), tempfile::tempdir().unwrap());
    let history = directory.path().join("history.sqlite");
    let arguments = ["estimate", &host, "-m", "short-adr", "--json"];
    let run = || lan.client.run(|| run(&history, server.port(), &arguments)).unwrap();
    let first = run();
    assert!(expected(&first.stdout).is_empty());
    let stored = entries(&history);
    let [adr] = stored.as_slice() else { panic!("{stored:?}") };
    assert_eq!(
        (adr.method.as_str(), adr.source, adr.host.as_str()),
        ("short-adr", HistorySource::Estimate, host.as_str())
    );
    assert_eq!((adr.quantity, adr.bytes), (Quantity::AsymptoticDispersion, 2 * 15 * 1428));
    // A stored capacity of another method: a single value is its own forecast.
    let capacity = Entry { quantity: Quantity::Capacity, rate_bps: 93_000_000, ..adr.clone() };
    Archive::open(&history).unwrap().add(&[capacity]).unwrap();
    let expectations = expected(&run().stdout);
    assert_eq!(
        (expectations.len(), expectations[0].rate_bps, expectations[0].samples),
        (1, 93_000_000, 1),
        "{expectations:?}"
    );
}

#[test]
fn a_transfer_is_stored_and_used_in_the_next_prediction() {
    let (server, directory) = (Serve::start(&[]), tempfile::tempdir().unwrap());
    let history = directory.path().join("history.sqlite");
    let test = ["test", "127.0.0.1", "-t", "3.2s", "-C", "cubic", "--format", "text"];
    run(&history, server.port, &test);
    let stored = entries(&history);
    let [transfer] = stored.as_slice() else { panic!("{stored:?}") };
    assert_eq!((transfer.method.as_str(), transfer.quantity), ("cubic", Quantity::BulkTransferCapacity));
    let output = run(&history, server.port, &["estimate", "127.0.0.1", "-m", "short-adr", "--json"]);
    let before = expected(&output.stdout);
    assert_eq!((before[0].rate_bps, before[0].congestion_control.as_deref()), (transfer.rate_bps, Some("cubic")));
}

#[test]
fn a_transfer_by_estimate_is_stored_as_a_test() {
    let (server, directory) = (Serve::start(&[]), tempfile::tempdir().unwrap());
    let history = directory.path().join("history.sqlite");
    let tcp = ["estimate", "127.0.0.1", "-m", "tcp", "--time", "3.2s", "--json"];
    let message = text(&run(&history, server.port, &tcp).stdout);
    let estimate = message.lines().find_map(|l| match serde_json::from_str(l).unwrap() {
        EstimateRecord::Estimate(e) => Some(e),
        _ => None,
    });
    let estimate = estimate.unwrap();
    // Without an option, the congestion control is the kernel's default.
    let control = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    assert_eq!(estimate.congestion_control.as_deref(), Some(control.trim()));
    let stored = entries(&history);
    let [transfer] = stored.as_slice() else { panic!("{stored:?}") };
    assert_eq!((transfer.source, transfer.method.as_str()), (HistorySource::Test, control.trim()));
    assert_eq!(transfer.rate_bps, estimate.estimate.unwrap().rate_bps);
}

#[test]
fn limited_short_and_excluded_tests_are_not_stored() {
    let (server, directory) = (Serve::start(&[]), tempfile::tempdir().unwrap());
    let history = directory.path().join("history.sqlite");
    for arguments in [
        // Paced, several streams, a bounded window, too short, without the history.
        &["test", "127.0.0.1", "-t", "3.2s", "--pacing", "10Mb/s"][..],
        &["test", "127.0.0.1", "-t", "3.2s", "-P", "2"],
        &["test", "127.0.0.1", "-t", "3.2s", "-w", "64KiB"],
        &["test", "127.0.0.1", "-t", "0.5s"],
        &["test", "127.0.0.1", "-t", "3.2s", "--no-history"],
        &["estimate", "127.0.0.1", "-m", "short-adr", "--no-history"],
        &["estimate", "127.0.0.1", "-m", "tcp", "--time", "3.2s", "--window", "64KiB"],
        &["estimate", "127.0.0.1", "-m", "tcp", "--time", "0.5s"],
        &["estimate", "127.0.0.1", "-m", "tcp", "--time", "3.2s", "--no-history"],
    ] {
        run(&history, server.port, arguments);
        assert!(entries(&history).is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_unusable_history_does_not_stop_a_measurement() {
    let (server, directory) = (Serve::start(&[]), tempfile::tempdir().unwrap());
    let history = directory.path().join("history.sqlite");
    std::fs::write(&history, "a letter to a friend, not a database").unwrap();
    let output = run(&history, server.port, &["estimate", "127.0.0.1", "-m", "short-adr"]);
    let message = text(&output.stderr);
    assert!(message.contains("history.sqlite") && message.contains("continuing without it"), "{message}");
    assert!(std::fs::read_to_string(&history).unwrap().starts_with("a letter"));
}
