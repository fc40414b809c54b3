//! Records of `longhaul test`, checked against the published schema and the peer's counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod common;

use std::io::Cursor;

use common::{Serve, assert_valid, longhaul, path, text};
use results::{Completion, Direction, Record, Role, read_records};

const SCHEMA: &str = include_str!("../../../docs/schema/longhaul.test-2.schema.json");
const LAB_SCHEMA: &str = include_str!("../../../docs/schema/longhaul.lab-2.schema.json");

fn records(json: &str) -> Vec<Record> {
    read_records(Cursor::new(json)).unwrap()
}

#[test]
fn the_published_schemas_match_the_code() {
    let directory = tempfile::tempdir().unwrap();
    let out = longhaul().args(["generate", "schema"]).arg(directory.path()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    for (name, published) in [("longhaul.test-2.schema.json", SCHEMA), ("longhaul.lab-2.schema.json", LAB_SCHEMA)] {
        let made = std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(made, published, "the records changed: `make man` writes {name}, `make docs` the reference");
    }
}

#[test]
fn every_record_of_a_run_matches_the_schema() {
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let serve = Serve::start(&[]);
    for arguments in [
        &["-t", "0.5", "-i", "0.1", "--bidir", "-P", "2", "-C", "reno", "--json"][..],
        &["-t", "0.5", "-i", "0.1", "--udp", "10Mb/s", "--poisson", "--json"][..],
    ] {
        let out = serve.test(arguments);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let stdout = text(&out.stdout);
        assert!(stdout.lines().count() > 5, "{stdout}");
        assert_valid(&validator, &stdout);
    }
}

#[test]
fn both_ends_report_equal_byte_counts() {
    let serve = Serve::start(&[]);
    let out = serve.test(&["-n", "5000011", "-P", "3", "--bidir", "-C", "reno", "-i", "0.1", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let all = records(&text(&out.stdout));
    let Some(Record::End(end)) = all.last() else { panic!("no end record") };
    assert_eq!(end.completion, Completion::Complete);
    assert_eq!(end.directions.len(), 2);
    for d in &end.directions {
        assert_eq!((d.sender.bytes, d.receiver.bytes), (5_000_011, 5_000_011), "{:?}", d.direction);
        assert!(d.agreement.agree);
        // Three streams: the shares 1666671, 1666670, 1666670 hold 26 blocks of 64 KiB each, the last one short.
        assert_eq!(d.agreement.echoed_blocks, 78);
        assert_eq!(d.block_rtt.as_ref().map(|r| r.count), Some(78), "a delay sample for every block");
    }
}

#[test]
fn standard_output_has_one_format_and_files_the_others() {
    let serve = Serve::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let (json, csv, page) =
        (path(directory.path(), "r.jsonl"), path(directory.path(), "r.csv"), path(directory.path(), "r.html"));
    let out = serve.test(&[
        "-t",
        "1.2",
        "-C",
        "reno",
        "--pacing",
        "50Mb/s",
        "--format",
        "thrulay",
        &format!("--json={json}"),
        &format!("--csv={csv}"),
        "--report",
        &page,
    ]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    // bwctl's test suite expects a row with start 0.xxx and end 1.xxx.
    let row = text(&out.stdout).lines().filter(|l| !l.starts_with('#')).map(str::to_owned).next().unwrap();
    let fields: Vec<f64> = row.split(')').nth(1).unwrap().split_whitespace().map(|f| f.parse().unwrap()).collect();
    assert!(fields[0] < 1.0 && (1.0..2.0).contains(&fields[1]), "{row}");
    assert!((20.0..60.0).contains(&fields[2]), "the stream is paced to 50 Mb/s with headers: {row}");
    let all = records(&std::fs::read_to_string(&json).unwrap());
    let received = all
        .iter()
        .any(|r| matches!(r, Record::Interval(i) if i.role == Role::Receiver && i.direction == Direction::Up));
    assert!(received, "the result must have the records of the server");
    assert!(std::fs::read_to_string(&csv).unwrap().lines().count() > 2);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && !html.contains("src=\"http"), "the page must be self-contained");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3, "no other file remains");
}

#[test]
fn saved_results_of_several_runs_become_one_page() {
    let serve = Serve::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let files = ["a", "b"].map(|n| path(directory.path(), &format!("{n}.jsonl")));
    for f in &files {
        let out = serve.test(&["-t", "0.3", "-i", "0.1", "-C", "reno", "--pacing", "20Mb/s", &format!("--json={f}")]);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let page = path(directory.path(), "both.html");
    let out = longhaul().arg("report").args(&files).args(["-o", &page, "--title", "two <runs>"]).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("two &lt;runs&gt;") && !html.contains("two <runs>"));
}
