//! Machine-readable output: records that match the published schemas, all methods in one run.

use results::choose::ChooseRecord;
use results::estimate::{EstimateRecord, PredictionBound};
use schemars::{JsonSchema, schema_for};

use crate::common::lab::turn;
use crate::common::{Serve, assert_valid, longhaul, text};
use crate::{estimate, records, results};

/// The published schema, which must equal that of the code.
fn published<T: JsonSchema>(name: &str) -> jsonschema::Validator {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let text = std::fs::read_to_string(directory.join(format!("longhaul.{name}-2.schema.json"))).unwrap();
    let published: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of_code = serde_json::to_value(schema_for!(T)).unwrap();
    assert_eq!(published, of_code, "run: longhaul generate schema docs/schema");
    jsonschema::validator_for(&published).unwrap()
}

#[test]
fn all_methods_run_in_turn_and_their_records_match_the_schema() {
    let server = Serve::start(&[]);
    let output = estimate(server.port, &["--all", "--time", "2s", "--transfer", "10GB", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_valid(&published::<EstimateRecord>("estimate"), &text(&output.stdout));
    let all = results(&records(&output.stdout));
    let names: Vec<&str> = all.iter().map(|r| r.method.as_str()).collect();
    let first =
        ["short-adr", "adr", "two-rates", "spruce", "igi", "pathchirp", "pathrate", "squeezed-pairs", "pathload"];
    assert_eq!(names, [&first[..], &["loss", "loss-only", "short-tcp", "tcp"]].concat());
    for result in &all {
        // A method that the time limit ends has a caveat; squeezed pairs include ADR, and transfers have a session of
        // their own.
        assert!(result.elapsed_ns < 10_000_000_000, "{result:?}");
        assert!(result.estimate.is_some() || !result.caveats.is_empty(), "{result:?}");
    }
}

#[test]
fn the_records_of_choose_match_their_schema() {
    let server = Serve::start(&[]);
    let (port, schema) = (server.port.to_string(), published::<ChooseRecord>("choose"));
    let hosts = ["choose", "127.0.0.1", "127.0.0.1@127.0.0.2", "--port", &port, "--budget", "100kB", "--json"];
    let output = longhaul().args(hosts).output().unwrap();
    assert!(text(&output.stdout).lines().count() >= 4, "{}", text(&output.stderr));
    assert_valid(&schema, &text(&output.stdout));
}

#[test]
fn a_window_that_bounds_a_transfer_does_so_in_its_prediction() {
    let Some(turn) = turn() else { return };
    let line =
        format!("{} estimate $LONGHAUL_PEER --window 64KiB --transfer 10GB --json", env!("CARGO_BIN_EXE_longhaul"));
    let path = ["lab", "path", "--quiet", "--rate", "20Mb/s", "--rtt", "100ms", "--", &line];
    let output = turn.longhaul(&path).output().unwrap();
    let all = records(&output.stdout);
    let predictions = all.iter().filter_map(|r| match r {
        EstimateRecord::Prediction(p) => Some(p),
        _ => None,
    });
    let cubic = predictions.into_iter().find(|p| p.congestion_control == "cubic").unwrap();
    assert_eq!((cubic.bound, cubic.bytes), (PredictionBound::Window, Some(10_000_000_000)));
    // 65536 bytes per 100 ms plus the delay of the hosts: 5.24 Mb/s, at which 10 GB take 15259 s.
    assert!((5_000_000..=5_242_880).contains(&cubic.goodput_bps), "{cubic:?}");
    let seconds = cubic.completion_ns.unwrap() as f64 / 1e9;
    assert!((seconds * cubic.goodput_bps as f64 / 80e9 - 1.0).abs() < 0.01, "{cubic:?}");
}
