//! Calls of `longhaul estimate` in experiments: accuracy in the simulator, and the pipeline from a lab to the
//! evaluation.

use std::fs;
use std::path::Path;
use std::process::Output;

use results::Direction;
use results::estimate::{EstimateResult, Quantity};
use results::evaluate::{EvaluateRecord, MethodAccuracy};
use results::lab::LabRecord;

use crate::common::lab::{read, turn};
use crate::common::{longhaul, text};
use crate::{records, results, start};

/// Simulates an experiment of the project into `out`.
fn simulate(scenario: &str, out: &Path, changes: &[&str]) {
    let file = format!("{}/../../scenarios/{scenario}", env!("CARGO_MANIFEST_DIR"));
    let output = longhaul().args(["lab", "run", &file, "--simulate", "--out"]).arg(out).args(changes).output().unwrap();
    check(&output);
}

fn check(output: &Output) {
    println!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{:?}", output.status);
}

fn evaluation(directory: &Path, more: &[&str]) -> Vec<EvaluateRecord> {
    let output = longhaul().args(["evaluate", "--json"]).args(more).arg(directory).output().unwrap();
    check(&output);
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn accuracy(all: &[EvaluateRecord], method: &str, quantity: Quantity) -> MethodAccuracy {
    let of = |r: &EvaluateRecord| match r {
        EvaluateRecord::Accuracy(a) if a.method == method && a.quantity == quantity => Some(a.clone()),
        _ => None,
    };
    all.iter().find_map(of).unwrap_or_else(|| panic!("no {method}"))
}

fn estimates(directory: &Path, call: &str) -> Vec<EstimateResult> {
    results(&records(&fs::read(directory.join(call)).unwrap()))
}

#[test]
fn available_bandwidth_beside_a_poisson_load_is_estimated_within_5_per_cent() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let set = ["parameters.mbps=50", "duration=13s", "flows.transfer.start=12s"].map(|c| ["--set", c]).concat();
    simulate("estimate.toml", &out, &[&["--variant", "short", "--repeat", "9"], &set[..]].concat());
    let estimate = |run: u32| {
        let first = estimates(&out, &format!("run-{run}/probe.out")).remove(0).estimate.unwrap();
        assert_eq!(first.quantity, Quantity::AvailableBandwidth);
        first.rate_bps as f64 / 25e6
    };
    let mut shares: Vec<f64> = (0..9).map(estimate).collect();
    shares.sort_by(f64::total_cmp);
    // The goal of the project for the available bandwidth; half of 50 Mb/s of IP is used.
    assert!((shares[4] - 1.0).abs() < 0.05 && shares.iter().all(|s| (s - 1.0).abs() < 0.15), "{shares:?}");
}

#[test]
fn an_ensemble_is_measured_and_evaluated() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    simulate("paths.toml", &out, &["--variant", "short"]);
    let all = evaluation(&out, &[]);
    let paths = all.iter().filter(|r| matches!(r, EvaluateRecord::Path(_))).count();
    let auto = accuracy(&all, "auto/41kB, capacity", Quantity::Capacity);
    // Two rates and two round-trip times, no cross traffic.
    assert_eq!((paths, auto.attempted, auto.answered), (4, 4, 4), "{auto:?}");
    let capacity = auto.to_truth.clone().unwrap();
    assert!((capacity.p50.unwrap() - 1.0).abs() < 0.01 && capacity.within_15_percent > 0.99, "{capacity:?}");
    // The budget is 41 kB; the value is the median over the paths.
    assert!(auto.bytes <= 41_000, "{auto:?}");
    let decisions = all.iter().find_map(|r| match r {
        EvaluateRecord::Decisions(d) if d.method == "auto/41kB" && d.pairs == 6 => Some(d.clone()),
        _ => None,
    });
    // Four of the six pairs are of paths of 3.5 and 54.8 Mb/s, which every method should rank correctly.
    assert!(decisions.unwrap().rates[0].share > 0.66);
}

#[test]
fn an_elastic_load_is_evaluated_beside_an_inelastic_one() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    simulate("estimate-grid.toml", &out, &["--variant", "short"]);
    let adr = accuracy(&evaluation(&out, &[]), "short-adr", Quantity::AsymptoticDispersion);
    assert_eq!((adr.attempted, adr.answered), (4, 4), "{adr:?}");
}

/// The times of the records are those of the run, and the output does not depend on the number of threads.
#[test]
fn all_methods_write_the_same_records_whatever_the_number_of_threads() {
    let directory = tempfile::tempdir().unwrap();
    let outs = ["1", "2"].map(|jobs| {
        let out = directory.path().join(jobs);
        let set = ["--set", "parameters.methods=all", "--set", "parameters.mbps=20", "--set", "parameters.load=0"];
        let more = ["--set", "duration=200s", "--set", "flows.transfer.start=190s", "--repeat", "2", "--jobs", jobs];
        simulate("estimate.toml", &out, &[&set[..], &more[..]].concat());
        out
    });
    for run in ["run-0/probe.out", "run-1/probe.out"] {
        let [one, two] = outs.each_ref().map(|out| fs::read_to_string(out.join(run)).unwrap());
        assert!(one == two, "{run} differs");
        let all = records(one.as_bytes());
        // The call starts at 1 s; the session opens after a few round trips.
        assert!(start(&all).time_utc.starts_with("1970-01-01T00:00:01."), "{:?}", start(&all));
        let results = results(&all);
        assert_eq!(results.len(), 13, "{results:?}");
        for (quantity, bps) in [(Quantity::Capacity, 20e6), (Quantity::AvailableBandwidth, 20e6)] {
            let values = results.iter().flat_map(|r| r.estimate.iter().chain(&r.other_estimates));
            for value in values.filter(|v| v.quantity == quantity && v.bound.is_none()) {
                let share = value.rate_bps as f64 / bps;
                assert!((0.8..1.25).contains(&share), "{run}: {value:?} in {results:?}");
            }
        }
    }
}

/// Two calls, one of them in the reverse direction, beside the transfer that they are compared with.
const LAB: &str = r#"
duration = "8s"
nodes = ["near", "far"]
[links.path]
between = ["near", "far"]
rate = "10Mb/s"
delay = "5ms"
overhead = "ip"
[flows]
transfer = { from = "near", to = "far", start = "6s" }
[estimates]
up = { from = "near", to = "far", budget = "41kB", stop = "5500ms" }
down = { from = "far", to = "near", methods = ["short-adr"], reverse = true, start = "1s", stop = "5500ms" }
"#;

/// Whatever the machine disturbs: the values are not judged.
#[test]
fn a_lab_runs_the_calls_and_the_evaluation_reads_them() {
    let Some(turn) = turn() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (file, out) = (directory.path().join("calls.toml"), directory.path().join("out"));
    fs::write(&file, LAB).unwrap();
    let output = turn.longhaul(&["lab", "run"]).arg(&file).arg("--out").arg(&out).output().unwrap();
    println!("{}{}", text(&output.stdout), text(&output.stderr));
    for (call, direction, method) in [("up", Direction::Up, "auto"), ("down", Direction::Down, "short-adr")] {
        let all = records(&fs::read(out.join(format!("run-0/{call}.out"))).unwrap());
        let start = start(&all);
        assert_eq!((start.direction, start.schema.as_str()), (direction, results::estimate::ESTIMATE_SCHEMA));
        assert_eq!(results(&all).iter().map(|r| r.method.as_str()).collect::<Vec<_>>(), [method]);
    }
    let end = read(&out.join("records.jsonl")).into_iter().find_map(|r| match r {
        LabRecord::RunEnd(end) => Some(end),
        _ => None,
    });
    let programs = end.unwrap().programs;
    let ends: Vec<(&str, bool)> = programs.iter().map(|p| (p.program.as_str(), p.failed)).collect();
    assert_eq!(ends, [("up", false), ("down", false)]);
    let all = evaluation(&out, &["--include-invalid"]);
    assert_eq!(accuracy(&all, "auto/41kB", Quantity::AvailableBandwidth).attempted, 1);
    // Both calls probe the path of the transfer: one from its sender, one from its receiver in reverse.
    assert_eq!(accuracy(&all, "short-adr", Quantity::AsymptoticDispersion).attempted, 1);
}
