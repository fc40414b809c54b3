//! Short variants of the experiments about estimates, from the lab to the evaluation.

use std::path::Path;

use results::estimate::Quantity;
use results::evaluate::{EvaluateRecord, MethodAccuracy};
use results::lab::{LabRecord, Verdict};
use testbed::{undecided, undisturbed};

use crate::common::lab::{read, turn};
use crate::common::{longhaul, text};
use crate::{records, results};

/// Runs the short form of an experiment and checks its directory; skips with a note if too few runs were valid.
fn short(scenario: &str, changes: &[&str], valid_min: usize, check: impl Fn(&Path)) {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        let directory = tempfile::tempdir().unwrap();
        let file = format!("{}/../../scenarios/{scenario}", env!("CARGO_MANIFEST_DIR"));
        let out = directory.path().join("out");
        // The programs of the experiments find longhaul by its name.
        let built = Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().unwrap();
        let path = format!("{}:{}", built.display(), std::env::var("PATH").unwrap());
        let mut command =
            turn.longhaul(&["lab", "run", &file, "--variant", "short", "--out", &out.display().to_string()]);
        let output = command.args(changes).env("PATH", path).output().unwrap();
        println!("{}{}", text(&output.stdout), text(&output.stderr));
        let is_valid =
            |r: &LabRecord| matches!(r, LabRecord::RunEnd(end) if !matches!(end.verdict, Verdict::Invalid { .. }));
        let valid = read(&out.join("records.jsonl")).into_iter().filter(|r| is_valid(r)).count();
        if valid >= valid_min {
            check(&out);
        } else {
            undecided(&format!("{valid} runs of {scenario} are valid"));
        }
    });
}

fn evaluation(directory: &Path) -> Vec<EvaluateRecord> {
    let output = longhaul().args(["evaluate", "--json"]).arg(directory).output().unwrap();
    let message = text(&output.stdout);
    println!("{message}{}", text(&output.stderr));
    message.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn accuracy(all: &[EvaluateRecord], method: &str, quantity: Quantity) -> MethodAccuracy {
    let of = |r: &EvaluateRecord| match r {
        EvaluateRecord::Accuracy(a) if a.method == method && a.quantity == quantity => Some(a.clone()),
        _ => None,
    };
    all.iter().find_map(of).unwrap()
}

#[test]
fn available_bandwidth_beside_a_poisson_load_is_estimated_within_15_per_cent() {
    // It takes about five seconds; at 100 Mb/s load and probes delay each other on a machine of two CPUs.
    let changes = ["parameters.mbps=50", "duration=13s", "flows.transfer.start=12s"];
    let three = [&changes.map(|c| ["--set", c]).concat()[..], &["--repeat", "3"]].concat();
    short("estimate.toml", &three, 2, |out| {
        let estimate = |run: u32| {
            let results = results(&records(&std::fs::read(out.join(format!("run-{run}/probe.out"))).unwrap()));
            results.first().and_then(|r| r.estimate).filter(|e| e.quantity == Quantity::AvailableBandwidth)
        };
        let mut available: Vec<u64> = (0..3).filter_map(estimate).map(|e| e.rate_bps).collect();
        assert!(available.len() >= 2, "it did not end in time: {available:?}");
        available.sort_unstable();
        println!("{available:?}");
        // The goal of the project; half of 50 Mb/s of IP is used.
        assert!((available[1] as f64 / 25e6 - 1.0).abs() < 0.15, "{available:?}");
    });
}

#[test]
fn an_ensemble_is_measured_and_evaluated() {
    short("paths.toml", &[], 1, |out| {
        let all = evaluation(out);
        let paths = all.iter().filter(|r| matches!(r, EvaluateRecord::Path(_))).count();
        let auto = accuracy(&all, "auto/41kB, capacity", Quantity::Capacity);
        // Two rates and two round-trip times, no cross traffic.
        assert!(paths > 0 && auto.attempted as usize == paths, "{auto:?}");
        let capacity = auto.to_truth.clone().unwrap();
        assert!(capacity.within_15_percent > 0.99, "{capacity:?}");
        // The budget is 41 kB; the value is the median over the paths.
        assert!(auto.bytes <= 41_000, "{auto:?}");
        if paths < 4 {
            return;
        }
        let decisions = all.iter().find_map(|r| match r {
            EvaluateRecord::Decisions(d) if d.method == "auto/41kB" && d.pairs == 6 => Some(d.clone()),
            _ => None,
        });
        // Four of the six pairs are of paths of 3.5 and 54.8 Mb/s, which every method should rank correctly.
        assert!(decisions.unwrap().rates[0].share > 0.66);
    });
}

#[test]
fn an_elastic_load_is_evaluated_beside_an_inelastic_one() {
    short("estimate-grid.toml", &[], 2, |out| {
        let adr = accuracy(&evaluation(out), "short-adr", Quantity::AsymptoticDispersion);
        assert!(adr.answered > 0, "{adr:?}");
    });
}
