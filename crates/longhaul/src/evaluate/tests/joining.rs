//! Joining of records into a measured path.

use results::estimate::Quantity;
use results::evaluate::{JoinedEstimate, MeasuredPath};
use results::lab::KeyValue;
use scenario::Scenario;

use super::super::join::{Caller, Joined, Transfer, join};
use super::super::probes::{self, Call};
use super::super::truth::Path;
use super::{Run, chain, run, usage, used};

const VALID: &str = r#"{"state":"valid"}"#;
const INVALID: &str = r#"{"state":"invalid","reasons":["late"]}"#;

fn start(time: &str, host: &str, direction: &str, budget: &str) -> String {
    format!(
        r#"{{"record":"start","schema":"longhaul.estimate/2","version":"0","time_utc":"{time}","host":"{host}","address":"a",
            "direction":"{direction}","round_trip_ns":1,"mtu_bytes":1500{budget}}}"#
    )
    .replace('\n', "")
        + "\n"
}

fn estimate(method: &str, quantity: &str, layer: &str, value: Option<u64>, rest: &str) -> String {
    let rate = |q: &str, bps: u64| format!(r#"{{"quantity":"{q}","rate_bps":{bps},"low_bps":1,"high_bps":2}}"#);
    let value = value.map_or_else(String::new, |bps| format!(r#","estimate":{}"#, rate(quantity, bps)));
    format!(
        r#"{{"record":"estimate","method":"{method}","faithful":false,"quantity":"{quantity}","layer":"{layer}","packets":100,"bytes":125000,"elapsed_ns":1000000000{value}{rest}}}"#
    ) + "\n"
}

const PREDICTION: &str = r#"{"record":"prediction","congestion_control":"reno","goodput_bps":1,"low_bps":1,"high_bps":1,"bound":"link"}
{"record":"prediction","congestion_control":"cubic","goodput_bps":4000000,"low_bps":1,"high_bps":1,"bound":"link"}
"#;

/// A link of 10 Mb/s.
fn scenario() -> Scenario {
    chain("delay = \"5ms\"", "rate = \"10Mb/s\", overhead = \"ip\"", "")
}

fn joined(scenario: &Scenario, run: &Run, output: &str, include_invalid: bool) -> Joined {
    let flow = &scenario.flows[0];
    let transfer = Transfer { scenario, flow, path: Path::of(scenario, flow.from, flow.to).unwrap() };
    let calls: Vec<Call> = probes::of(output.as_bytes()).unwrap();
    join("directory", run, &transfer, &[(Caller::from(&scenario.programs[0]), calls)], include_invalid)
}

fn path(joined: Joined) -> (MeasuredPath, bool) {
    let Joined::Path(path, overlaps) = joined else { panic!("{joined:?}") };
    (*path, overlaps)
}

fn estimate_of(path: &MeasuredPath, method: &str) -> JoinedEstimate {
    path.estimates.iter().find(|e| e.method == method).unwrap_or_else(|| panic!("{path:?}")).clone()
}

#[test]
fn methods_follow_each_other_from_the_first_record_on() {
    // Cross traffic is 2 Mb/s in the third second and 5 Mb/s in the fourth; a method sends 1 Mb in each.
    let all = usage([used("path", "router", [2.0, 3.0], 0.3), used("path", "router", [3.0, 4.0], 0.6)]);
    // Time zero is at 00:00:01.
    let output = start("1970-01-01T00:00:03Z", "receiver", "up", "")
        + &estimate("one", "available_bandwidth", "ip", Some(9_000_000), "")
        + &estimate("two", "available_bandwidth", "ip", None, "")
        + &estimate("bound", "available_bandwidth", "ip", Some(9_000_000), r#","caveats":["upper_bound"]"#);
    let (path, overlaps) = path(joined(&scenario(), &run(VALID, Some(6_000_000), all), &output, false));
    let (one, two) = (estimate_of(&path, "one"), estimate_of(&path, "two"));
    assert_eq!((one.truth_bps, one.estimate_bps), (Some(8_000_000), Some(9_000_000)));
    assert_eq!((two.truth_bps, two.estimate_bps, two.payload_bps), (Some(5_000_000), None, None));
    assert_eq!(estimate_of(&path, "bound").estimate_bps, None, "a bound is not a value");
    assert_eq!((one.bytes, one.elapsed_ns, one.quantity), (125_000, 1_000_000_000, Quantity::AvailableBandwidth));
    assert_eq!((path.transfer_bps, path.round_trip_ns, overlaps), (6_000_000, 10_000_000, false));
    assert_eq!((path.sender.as_str(), path.receiver.as_str()), ("sender", "receiver"));
}

#[test]
fn each_quantity_is_compared_with_its_reference_in_its_layer() {
    let also = r#","other_estimates":[{"quantity":"capacity","rate_bps":9500000,"low_bps":1,"high_bps":2}]"#;
    let output = start("1970-01-01T00:00:03Z", "receiver", "up", r#","budget_bytes":41000"#)
        + &estimate("auto", "available_bandwidth", "ip", Some(7_500_000), also)
        + PREDICTION
        + &start("1970-01-01T00:00:05Z", "receiver", "up", "")
        + &estimate("short-tcp", "bulk_transfer_capacity", "payload", Some(3_000_000), "")
        + &estimate("loss", "bulk_transfer_capacity", "ip", Some(1_500_000), "")
        + &estimate("adr", "asymptotic_dispersion", "ip", Some(9_000_000), "");
    let all = usage([used("path", "router", [0.0, 10.0], 0.25)]);
    let (path, _) = path(joined(&scenario(), &run(VALID, Some(6_000_000), all), &output, false));
    let capacity = estimate_of(&path, "auto/41kB, capacity");
    assert_eq!((capacity.estimate_bps, capacity.truth_bps), (Some(9_500_000), Some(10_000_000)));
    // 1448 of 1500 bytes are payload.
    assert_eq!(estimate_of(&path, "auto/41kB").payload_bps, Some(7_500_000 * 1448 / 1500));
    let goodput = estimate_of(&path, "auto/41kB -> goodput");
    assert_eq!((goodput.estimate_bps, goodput.truth_bps), (Some(4_000_000), Some(6_000_000)));
    assert_eq!(goodput.bytes, 125_000, "the cost of its call alone");
    assert_eq!(estimate_of(&path, "short-tcp").estimate_bps, Some(3_000_000));
    assert_eq!(estimate_of(&path, "loss").estimate_bps, Some(1_500_000 * 1448 / 1500), "compared with a goodput");
    assert_eq!(estimate_of(&path, "adr").truth_bps, None, "depends on how fast the train was sent");
}

#[test]
fn only_probes_on_the_path_of_the_transfer_count() {
    let result = estimate("adr", "asymptotic_dispersion", "ip", Some(1), "");
    for (host, direction, counts) in
        [("receiver", "up", true), ("10.0.0.3", "up", true), ("router", "up", false), ("receiver", "down", false)]
    {
        let output = start("1970-01-01T00:00:03Z", host, direction, "") + &result;
        let joined = joined(&scenario(), &run(VALID, Some(1), usage([])), &output, false);
        assert_eq!(matches!(joined, Joined::Path(..)), counts, "{host} {direction}: {joined:?}");
    }
}

#[test]
fn a_run_without_evaluation_has_a_reason() {
    let output = start("1970-01-01T00:00:03Z", "receiver", "up", "")
        + &estimate("adr", "asymptotic_dispersion", "ip", Some(1), "");
    let of = |run: &Run, output: &str, include: bool| joined(&scenario(), run, output, include);
    let invalid = run(INVALID, Some(1), usage([]));
    assert!(matches!(of(&invalid, &output, false), Joined::Invalid));
    assert!(matches!(of(&invalid, &output, true), Joined::Path(..)));
    assert!(matches!(of(&run(VALID, None, usage([])), &output, false), Joined::WithoutTransfer));
    assert!(matches!(of(&run(VALID, Some(1), usage([])), "", false), Joined::WithoutEstimates));
    let cut = Run { end: None, ..run(VALID, Some(1), usage([])) };
    assert!(matches!(of(&cut, &output, false), Joined::Unfinished));
}

#[test]
fn a_method_that_overlaps_the_transfer_is_detected() {
    let result = estimate("adr", "asymptotic_dispersion", "ip", Some(1), "");
    // The transfer starts at 20 s, a method of 1 s at 18.9 or 19.1 s.
    for (time, late) in [("1970-01-01T00:00:19.9Z", false), ("1970-01-01T00:00:20.1Z", true)] {
        let output = start(time, "receiver", "up", "") + &result;
        assert_eq!(path(joined(&scenario(), &run(VALID, Some(1), usage([])), &output, false)).1, late, "{time}");
    }
}

#[test]
fn sites_are_distinguished_by_swept_parameters() {
    let value = |key: &str, value: &str| KeyValue { key: key.to_owned(), value: value.to_owned() };
    let mut run = run(VALID, Some(1), usage([]));
    run.start.values =
        vec![value("parameters.sender_kbps", "432"), value("parameters.receiver_loss", "0.001"), value("seed", "7")];
    let output = start("1970-01-01T00:00:03Z", "receiver", "up", "")
        + &estimate("adr", "asymptotic_dispersion", "ip", Some(1), "");
    let (path, _) = path(joined(&scenario(), &run, &output, false));
    assert_eq!((path.sender.as_str(), path.receiver.as_str()), ("sender 432", "receiver 0.001"));
}

#[test]
fn an_incomplete_last_line_is_ignored() {
    let whole = start("1970-01-01T00:00:03Z", "receiver", "up", "")
        + &estimate("adr", "asymptotic_dispersion", "ip", Some(1), "");
    let calls = probes::of(format!("{whole}{{\"record\":\"est").as_bytes()).unwrap();
    assert_eq!((calls.len(), calls[0].results.len()), (1, 1));
    let middle = probes::of(format!("{{\"record\":\"est\n{whole}").as_bytes()).unwrap_err();
    assert!(middle.to_string().starts_with("line 1"), "{middle}");
}
