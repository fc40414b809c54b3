//! Cost limits of probing, and reasons for its end.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use results::estimate::{Caveat, Quantity};
use tempfile::NamedTempFile;
use testbed::{Lan, Namespace, Place, Served, or_skip, server_options};

use crate::common::{Serve, longhaul, text};
use crate::{estimate, records, results, start};

// signal(7)
const SIGINT: i32 = 2;
const SIGSTOP: i32 = 19;

#[test]
fn a_budget_limits_all_methods_together_and_is_reported() {
    let server = Serve::start(&[]);
    let methods = ["-m", "short-adr", "-m", "adr", "-m", "two-rates", "-m", "pathload"];
    let output = estimate(server.port, &[&["--budget", "200kB", "--json"], &methods[..]].concat());
    let all = records(&output.stdout);
    assert_eq!(start(&all).budget_bytes, Some(200_000));
    let results = results(&all);
    assert_eq!(
        results.iter().map(|r| r.method.as_str()).collect::<Vec<_>>(),
        ["short-adr", "adr", "two-rates", "pathload"]
    );
    // 2 trains of 15 packets, 2 of 30, of 1428 bytes each.
    assert_eq!((results[0].bytes, results[1].bytes), (2 * 15 * 1428, 2 * 30 * 1428));
    assert!(results.iter().map(|r| r.bytes).sum::<u64>() <= 200_000, "{results:?}");
    // Pathload's first stream needs more than the remaining budget.
    assert!(results[3].caveats.contains(&Caveat::BudgetSpent), "{:?}", results[3]);
}

#[test]
fn transfers_also_cost_no_more_than_the_budget() {
    let server = Serve::start(&[]);
    let output = estimate(server.port, &["-m", "short-tcp", "-m", "tcp", "--budget", "200kB", "--json"]);
    let results = results(&records(&output.stdout));
    // 128 KiB of payload fit, with headers 136 kB; a transfer of ten seconds on this path does not fit the rest.
    assert!(results[0].estimate.is_some() && results[0].caveats.is_empty(), "{results:?}");
    assert!((131_072..137_000).contains(&results[0].bytes), "{results:?}");
    assert_eq!(results[1].caveats, [Caveat::BudgetSpent], "{results:?}");
    assert!(results[1].bytes > 50_000 && results.iter().map(|r| r.bytes).sum::<u64>() <= 200_000, "{results:?}");
}

#[test]
fn a_rate_that_leaves_no_time_for_a_train_ends_the_method_before_it() {
    // 15 packets of 1428 bytes take 171 s.
    let server = Serve::start(&["--max-rate", "1kb/s"]);
    for direction in [&["--json"][..], &["--json", "--reverse"]] {
        let start = Instant::now();
        let output = estimate(server.port, &[direction, &["-m", "short-adr", "--time", "20s"]].concat());
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        let results = results(&records(&output.stdout));
        assert!(results[0].bytes == 0 && results[0].caveats.contains(&Caveat::TimeSpent), "{results:?}");
    }
}

#[test]
fn a_server_without_consent_is_not_probed() {
    let server = Serve::start(&["--max-probe-bytes", "0"]);
    let output = estimate(server.port, &[]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("not allowed") && message.contains("answers no probes"), "{message}");
}

#[test]
fn the_servers_limits_hold_for_both_directions() {
    let server = Serve::start(&["--max-probe-bytes", "50kB", "--max-rate", "8Mb/s"]);
    for direction in [&["--json"][..], &["--json", "--reverse"]] {
        let output = estimate(server.port, &[direction, &["-m", "short-adr", "-m", "adr"]].concat());
        let all = records(&output.stdout);
        let notes = start(&all).notes.join("\n");
        assert!(notes.contains("50.00 kB") && notes.contains("8.000 Mb/s"), "{notes}");
        let results = results(&all);
        // 42.8 kB fit into 50 kB, the next train does not.
        assert!(results[0].estimate.is_some() && results[1].bytes == 0, "{results:?}");
        assert!(results[1].caveats.contains(&Caveat::BudgetSpent));
        // At 8 Mb/s a packet of 1428 bytes leaves every 1.428 ms, so two trains of 15 take 40 ms at least.
        assert!(results[0].elapsed_ns >= 2 * 14 * 1_428_000, "{:?}", results[0]);
    }
}

#[test]
fn a_far_end_that_dies_ends_the_method_with_the_results_so_far() {
    let server = Serve::start(&[]);
    let (mut child, json) = probing(&Namespace::here(), "127.0.0.1", server.port);
    drop(server);
    let start = Instant::now();
    child.wait().unwrap();
    // The probes of `loss` take ten seconds; the wait after them is less than a second.
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let results = results(&records(&std::fs::read(json.path()).unwrap()));
    assert!(results[0].estimate.is_some());
    assert!(results[1].estimate.is_none() && results[1].caveats.contains(&Caveat::NoAnswer), "{results:?}");
}

#[test]
fn a_stalled_far_end_ends_the_method() {
    let server = Serve::start(&[]);
    let (child, json) = probing(&Namespace::here(), "127.0.0.1", server.port);
    server.signal(SIGSTOP);
    assert_ended_by_silence(child, &json);
}

#[test]
fn an_interface_that_goes_down_ends_the_method_with_the_results_so_far() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let server = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    let (child, json) = probing(&lan.client, &lan.server_ip().to_string(), server.port());
    lan.unplug(Place::Client).unwrap();
    assert_ended_by_silence(child, &json);
}

/// The probes of `loss` take 10 s; the client aborts after another 10 s without a reply.
fn assert_ended_by_silence(mut child: Child, json: &NamedTempFile) {
    let start = Instant::now();
    child.wait().unwrap();
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    let results = results(&records(&std::fs::read(json.path()).unwrap()));
    assert!(results[0].estimate.is_some());
    assert!(results[1].caveats.contains(&Caveat::NoAnswer) && results[1].error.is_some(), "{results:?}");
}

/// A client that has its first result and now sends the probes of `loss`, for ten seconds.
fn probing(at: &Namespace, host: &str, port: u16) -> (Child, NamedTempFile) {
    let json = NamedTempFile::new().unwrap();
    let argument = format!("--json={}", json.path().display());
    let mut command = longhaul();
    command.args(["estimate", host, "--port", &port.to_string(), "-m", "short-adr", "-m", "loss", &argument]);
    let mut child = at.run(|| command.stdout(Stdio::null()).spawn()).unwrap().unwrap();
    while !std::fs::read_to_string(json.path()).unwrap().contains("short-adr") {
        kernel::sleep_for(Duration::from_millis(20));
        assert!(child.try_wait().unwrap().is_none(), "it ended");
    }
    (child, json)
}

#[test]
fn a_stopped_client_prints_the_results_so_far() {
    let server = Serve::start(&[]);
    let (mut child, json) = probing(&Namespace::here(), "127.0.0.1", server.port);
    kernel::signal_group(&child, SIGINT).unwrap();
    let status = child.wait().unwrap();
    let results = results(&records(&std::fs::read(json.path()).unwrap()));
    let found = results[0].estimate.as_ref().unwrap();
    assert_eq!(found.quantity, Quantity::AsymptoticDispersion);
    // A sender that is slower than loopback finds a bound, which is not a value.
    assert_eq!(status.code(), Some(i32::from(found.bound.is_some())));
}

#[test]
fn invalid_arguments_are_refused_with_a_reason() {
    let server = Serve::start(&[]);
    for (arguments, parts) in [
        (&["-m", "psychic"][..], "psychic"),
        (&["--budget", "many"], "many"),
        (&["--mtu", "20"], "128"),
        (&["--all", "-m", "adr"], "cannot be used with"),
        (&["--json=/nowhere/at/all"], "/nowhere/at/all"),
        (&["--report=/nowhere/at/all.html"], "/nowhere/at/all.html"),
    ] {
        let output = estimate(server.port, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(parts), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = longhaul().args(["estimate", "127.0.0.1", "--port", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Connection refused"));
}
