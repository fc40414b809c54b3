//! `longhaul evaluate` on a synthetic result directory, checked by arithmetic.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "helpers of tests are tests too")]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use common::{longhaul, path, text};
use results::evaluate::{EvaluateRecord, MethodAccuracy, MethodDecisions, PairSet};
use tempfile::TempDir;

const EXPERIMENT_FILE: &str = r#"
duration = "10s"
nodes = ["sender", "receiver"]
parameters = { sender_mbps = 1 }
links = { path = { between = ["sender", "receiver"], rate = "1Mb/s * $sender_mbps", overhead = "ip" } }
flows = { transfer = { from = "sender", to = "receiver", start = "6s" } }
programs = { probe = { node = "sender", start = "1s", command = "true" }, other = { node = "receiver", command = "true" } }
[[sweep]]
key = "parameters.sender_mbps"
values = [10, 20, 40, 80]
"#;

const EXPERIMENT: &str = r#"{"record":"experiment","schema":"longhaul.lab/2","version":"0.1.0","name":"hand","about":"made <by> hand","start_utc_s":0.0,"seed":1,"repetitions":1,"points":4,"overrides":[],"privilege":"root","engine":"kernel","host":{"hostname":"h","version":"0.1.0","kernel":"6.18","machine":"x86_64","cpus":2,"clock_resolution_ns":1,"sysctls":{},"interface":{}}}"#;

/// Records of one run in which cross traffic uses half of the link and the transfer the other half.
fn run(number: u64, verdict: &str) -> String {
    let mbps = 10 << number;
    let got = mbps * 500_000;
    let none = r#"{"packets":0,"bytes":0}"#;
    let drops = r#"{"queue":0,"codel":0,"loss":0,"listed":0,"outage":0,"mtu":0,"emulator":0}"#;
    let queue = r#"{"p50_bytes":0,"p95_bytes":0,"p99_bytes":0,"max_bytes":0}"#;
    [
        format!(
            r#"{{"record":"run","run":{number},"point":{number},"values":[{{"key":"parameters.sender_mbps","value":"{mbps}"}}],"repetition":0,"seed":1,"duration_s":10.0,"start_utc_s":0.0,"links":[],"flows":[],"changes":[]}}"#
        ),
        format!(
            r#"{{"record":"link","run":{number},"link":"path","from":"sender","to":"receiver","start_s":0.0,"end_s":6.0,"offered":{none},"delivered":{none},"duplicated":0,"reordered":0,"dropped":{drops},"queue":{queue},"utilisation":0.5}}"#
        ),
        format!(
            r#"{{"record":"run_end","run":{number},"verdict":{verdict},"interrupted":false,"start_utc_s":0.0,"links":[],"flows":[{{"flow":"transfer","bytes":1,"throughput_bps":{got}}}],"programs":[],"busiest_worker":0.5}}"#
        ),
    ]
    .join("\n")
        + "\n"
}

/// Output of `longhaul estimate`: one correct method, one that estimates 7 Mb/s for every path, one without a result.
fn probed(number: u64) -> String {
    let right = (10_u64 << number) * 500_000;
    let start = r#"{"record":"start","schema":"longhaul.estimate/2","version":"0","time_utc":"1970-01-01T00:00:02Z","host":"receiver","address":"a","direction":"up","round_trip_ns":1,"mtu_bytes":1500}"#;
    let mut all = format!("{start}\n");
    for (method, bps) in [("two-rates", Some(right)), ("adr", Some(7_000_000)), ("pathload", None)] {
        let value = bps.map_or_else(String::new, |bps| {
            format!(r#","estimate":{{"quantity":"available_bandwidth","rate_bps":{bps},"low_bps":1,"high_bps":2}}"#)
        });
        writeln!(
            all,
            r#"{{"record":"estimate","method":"{method}","faithful":false,"quantity":"available_bandwidth","layer":"ip","packets":0,"bytes":1000,"elapsed_ns":1000000000{value}}}"#
        )
        .unwrap();
    }
    all
}

const VALID: &str = r#"{"state":"valid"}"#;
const INVALID: &str = r#"{"state":"invalid","reasons":["late"]}"#;

/// Result directory with three valid runs and an invalid one.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("experiment.toml"), EXPERIMENT_FILE).unwrap();
    let runs = [VALID, VALID, VALID, INVALID];
    let runs: String = (0..).zip(runs).map(|(n, verdict)| run(n, verdict)).collect();
    fs::write(directory.path().join("records.jsonl"), format!("{EXPERIMENT}\n{runs}")).unwrap();
    for number in 0..4 {
        let of_run = directory.path().join(format!("run-{number}"));
        fs::create_dir(&of_run).unwrap();
        fs::write(of_run.join("probe.out"), probed(number)).unwrap();
        fs::write(of_run.join("other.out"), "output of another program\n").unwrap();
    }
    directory
}

fn evaluate(arguments: &[&str]) -> std::process::Output {
    longhaul().arg("evaluate").args(arguments).output().unwrap()
}

fn records(directories: &[&TempDir], options: &[&str]) -> Vec<EvaluateRecord> {
    let paths: Vec<String> = directories.iter().map(|f| f.path().display().to_string()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let output = evaluate(&[&paths[..], &["--json", "--resamples", "50"], options].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn accuracy(all: &[EvaluateRecord], method: &str) -> MethodAccuracy {
    let found = all.iter().find_map(|r| match r {
        EvaluateRecord::Accuracy(a) if a.method == method => Some(a.clone()),
        _ => None,
    });
    found.unwrap()
}

fn decisions(all: &[EvaluateRecord], method: &str, set: PairSet) -> Option<MethodDecisions> {
    all.iter().find_map(|r| match r {
        EvaluateRecord::Decisions(d) if d.method == method && d.pair_set == set => Some(d.clone()),
        _ => None,
    })
}

fn head(all: &[EvaluateRecord]) -> results::evaluate::Ensemble {
    let found = all.iter().find_map(|r| match r {
        EvaluateRecord::Ensemble(e) => Some(e.clone()),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn estimates_are_compared_with_the_truth_and_choices_are_counted() {
    let directory = directory();
    let all = records(&[&directory], &[]);
    let head = head(&all);
    assert_eq!((head.runs, head.invalid, head.paths), (4, 1, 3));
    // Transfers of 5, 10 and 20 Mb/s.
    assert!(head.centre_bps.unwrap().abs_diff(10_000_000) <= 1);
    assert!((head.sigma_ln.unwrap() - std::f64::consts::LN_2).abs() < 1e-9);
    let right = accuracy(&all, "two-rates");
    assert_eq!((right.attempted, right.answered), (3, 3));
    assert_eq!(right.to_truth.unwrap().p50, Some(1.0));
    // As payload 1448 of 1500 bytes of it.
    let to_transfer = right.to_transfer.unwrap().p50.unwrap();
    assert!((to_transfer - 1448.0 / 1500.0).abs() < 1e-6, "{to_transfer}");
    // 7 Mb/s for 5, 10, 20: over by 40 %, within a factor of 2 twice.
    let constant = accuracy(&all, "adr").to_truth.unwrap();
    assert_eq!((constant.p90, constant.within_15_percent), (Some(1.4), 0.0));
    assert!((constant.within_factor_2 - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(accuracy(&all, "pathload").answered, 0);
    assert_eq!(decisions(&all, "two-rates", PairSet::All).unwrap().rates[0].share, 1.0);
    // Equal estimates give random choices.
    assert_eq!(decisions(&all, "adr", PairSet::All).unwrap().rates[0].share, 0.5);
    assert_eq!(decisions(&all, "pathload", PairSet::All), None);
    // There is one receiver, and the senders differ by their rates: all pairs have the receiver in common.
    assert_eq!(decisions(&all, "two-rates", PairSet::CommonEndpoint), None);
}

#[test]
fn invalid_runs_count_on_request() {
    let directory = directory();
    let head = head(&records(&[&directory], &["--include-invalid"]));
    assert_eq!((head.runs, head.invalid, head.paths), (4, 0, 4));
}

#[test]
fn directories_are_evaluated_separately_or_together() {
    let (one, two) = (directory(), directory());
    let of = |all: &[EvaluateRecord]| {
        let heads = all.iter().filter_map(|r| match r {
            EvaluateRecord::Ensemble(e) => Some(e.paths),
            _ => None,
        });
        heads.collect::<Vec<_>>()
    };
    assert_eq!(of(&records(&[&one, &two], &[])), [3, 3]);
    assert_eq!(of(&records(&[&one, &two], &["--together"])), [6]);
}

#[test]
fn the_tables_and_the_page_show_the_records() {
    let directory = directory();
    let page = path(directory.path(), "page.html");
    let output = evaluate(&[&directory.path().display().to_string(), "--resamples", "50", "--report", &page]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let message = text(&output.stdout);
    for parts in ["3 of 4 runs are evaluated", "sigma of ln 0.69", "1 not valid", "random choice"] {
        assert!(message.contains(parts), "`{parts}` is not in: {message}");
    }
    assert!(message.lines().all(|l| l.chars().count() <= 110), "{message}");
    let html = fs::read_to_string(&page).unwrap();
    for parts in ["made &lt;by&gt; hand", "sigma of ln 0.69", "two-rates", "random choice", "id=\"chart-1\""] {
        assert!(html.contains(parts), "`{parts}` is not in the page");
    }
}

#[test]
fn every_record_matches_the_published_schema() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let published = fs::read_to_string(directory.join("longhaul.evaluate-2.schema.json")).unwrap();
    let published: serde_json::Value = serde_json::from_str(&published).unwrap();
    let of_code = serde_json::to_value(schemars::schema_for!(EvaluateRecord)).unwrap();
    assert_eq!(published, of_code, "run: longhaul generate schema docs/schema");
    let validator = jsonschema::validator_for(&published).unwrap();
    for record in records(&[&self::directory()], &[]) {
        let value = serde_json::to_value(&record).unwrap();
        assert!(validator.is_valid(&value), "{value}");
    }
}

fn refused(directory: &Path, options: &[&str], expected: &str) {
    let output = evaluate(&[&[directory.display().to_string().as_str()], options].concat());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(expected), "`{expected}` is not in: {stderr}");
}

/// The directory with one file changed.
fn with(name: &str, change: impl Fn(String) -> String) -> (TempDir, PathBuf) {
    let directory = directory();
    let file = directory.path().join(name);
    fs::write(&file, change(fs::read_to_string(&file).unwrap())).unwrap();
    let path = directory.path().to_owned();
    (directory, path)
}

#[test]
fn a_directory_without_results_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    refused(empty.path(), &[], "is not a result directory");
    refused(&empty.path().join("missing"), &[], "is not a result directory");
    let whole = directory();
    refused(&whole.path().join("records.jsonl"), &[], "is not a result directory");
    fs::remove_file(whole.path().join("experiment.toml")).unwrap();
    refused(whole.path(), &[], "experiment.toml");
    assert_eq!(evaluate(&[]).status.code(), Some(2));
}

#[test]
fn a_directory_without_estimates_is_reported() {
    let directory = directory();
    (0..4).for_each(|n| fs::write(directory.path().join(format!("run-{n}/probe.out")), "nothing\n").unwrap());
    refused(directory.path(), &[], "without records of `longhaul estimate --json` for the path of the transfer: 3");
    // Neither has a directory whose programs wrote no file.
    (0..4).for_each(|n| fs::remove_file(directory.path().join(format!("run-{n}/probe.out"))).unwrap());
    refused(
        directory.path(),
        &[],
        "has no run to evaluate; runs in total: 4, not valid (--include-invalid includes them): 1",
    );
}

#[test]
fn a_missing_flow_is_named_with_the_existing_ones() {
    let directory = directory();
    refused(directory.path(), &["--transfer", "bulk"], "no TCP flow `bulk` (it has: transfer)");
}

#[test]
fn complete_runs_of_a_truncated_file_count_and_an_invalid_line_is_named() {
    // Truncated within the end record of the last valid run: two runs are complete.
    let cut = |text: String| {
        let end = text.match_indices("\"run_end\"").nth(2).unwrap().0;
        text[..end].to_owned()
    };
    let (torn, path) = with("records.jsonl", cut);
    let output = evaluate(&[&path.display().to_string(), "--json", "--resamples", "50"]);
    assert!(output.status.success() && text(&output.stderr).contains("the last line is incomplete"), "{output:?}");
    let head = head(&records(&[&torn], &[]));
    assert_eq!((head.runs, head.unfinished, head.paths), (3, 1, 2));
    let (_directory, path) = with("records.jsonl", |text| text[..EXPERIMENT.len() / 2].to_owned());
    refused(&path, &[], "line 1: not a longhaul record");
    let (_directory, path) = with("records.jsonl", |text| text.replacen("\"point\":1", "\"point\":", 1));
    refused(&path, &[], "line 5: not a longhaul record");
    let (_directory, path) = with("run-1/probe.out", |text| text.replacen("\"bytes\":1000", "\"bytes\":", 1));
    refused(&path, &[], "probe.out: line 2");
}

#[test]
fn a_changed_experiment_file_is_detected() {
    let (_directory, path) = with("experiment.toml", |text| text.replace("[10, 20, 40, 80]", "[11, 20, 40, 80]"));
    refused(&path, &[], "has changed since the experiment");
}

#[test]
fn paths_that_cannot_be_written_are_named() {
    let directory = directory();
    refused(directory.path(), &["--json=/nonexistent/records.jsonl"], "/nonexistent/records.jsonl");
    refused(directory.path(), &["--report", "/nonexistent/page.html"], "/nonexistent/page.html");
}
