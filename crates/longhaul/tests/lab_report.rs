//! `longhaul report` on the records of an emulated experiment.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests too")]

mod common;

use std::path::Path;
use std::process::{Output, Stdio};

use common::{Serve, longhaul, path, text};

const EXPERIMENT: &str = r#"{"record":"experiment","schema":"longhaul.lab/2","version":"0.1.0","name":"two <links>","about":"","start_utc_s":1772366400.0,"seed":1,"repetitions":1,"points":1,"overrides":[],"privilege":"root","engine":"kernel","host":{"hostname":"h","version":"0.1.0","kernel":"6.18","machine":"x86_64","cpus":2,"clock_resolution_ns":1,"sysctls":{},"interface":{}}}"#;
const RUN: &str = r#"{"record":"run","run":0,"point":0,"values":[],"repetition":0,"seed":1,"duration_s":1.0,"start_utc_s":1772366400.0,"links":[],"flows":[],"changes":[]}"#;
const ENGINE: &str = r#"{"record":"engine","run":0,"start_s":0.0,"end_s":1.0,"worker_cpu":[0.5],"scheduling":"SCHED_FIFO","held_bytes":7}"#;
const RUN_END: &str = r#"{"record":"run_end","run":0,"verdict":{"state":"valid"},"interrupted":false,"links":[],"flows":[],"programs":[],"busiest_worker":0.5}"#;
const SUMMARY: &str =
    r#"{"record":"summary","verdict":{"state":"valid"},"runs":1,"valid_runs":1,"interrupted":false,"points":[]}"#;

fn complete_records() -> String {
    format!("\n{EXPERIMENT}\n{RUN}\n{ENGINE}\n{RUN_END}\n{SUMMARY}\n")
}

fn write(directory: &Path, name: &str, content: &str) -> String {
    let file = path(directory, name);
    std::fs::write(&file, content).unwrap();
    file
}

fn report(files: &[&str], page: &str) -> Output {
    longhaul().arg("report").args(files).args(["-o", page]).output().unwrap()
}

#[test]
fn records_of_an_experiment_become_its_page() {
    let directory = tempfile::tempdir().unwrap();
    let page = path(directory.path(), "lab.html");
    let out = report(&[&write(directory.path(), "records.jsonl", &complete_records())], &page);
    assert!(out.status.success() && out.stderr.is_empty(), "{}", text(&out.stderr));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<title>two &lt;links&gt;</title>") && html.contains("banner valid"));
    assert!(html.contains("threads scheduled as SCHED_FIFO"));
}

#[test]
fn standard_input_may_be_an_experiment() {
    let directory = tempfile::tempdir().unwrap();
    let page = path(directory.path(), "lab.html");
    let source = std::fs::File::open(write(directory.path(), "records.jsonl", &complete_records())).unwrap();
    let out =
        longhaul().args(["report", "-", "--title", "mine", "-o", &page]).stdin(Stdio::from(source)).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(std::fs::read_to_string(&page).unwrap().contains("<title>mine</title>"));
}

#[test]
fn an_incomplete_file_gives_a_warning_and_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let page = path(directory.path(), "lab.html");
    let later = r#"{"record":"weather","sun":true}"#;
    let torn = format!("{EXPERIMENT}\n{RUN}\n{later}\n{ENGINE}\n{}", &RUN_END[..60]);
    let out = report(&[&write(directory.path(), "torn.jsonl", &torn)], &page);
    let stderr = text(&out.stderr);
    assert!(out.status.success(), "{stderr}");
    assert!(
        stderr.contains("torn.jsonl: the last line is incomplete") && stderr.contains("1 record of a kind"),
        "{stderr}"
    );
    assert!(std::fs::read_to_string(&page).unwrap().contains("banner unfinished"));
}

#[test]
fn several_experiments_are_compared_in_one_table() {
    let directory = tempfile::tempdir().unwrap();
    let page = path(directory.path(), "lab.html");
    let variant = directory.path().join("half");
    std::fs::create_dir(&variant).unwrap();
    let (first, second) = (
        write(directory.path(), "full.jsonl", &complete_records()),
        write(&variant, "records.jsonl", &complete_records()),
    );
    let out = report(&[&first, &second], &page);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let page = std::fs::read_to_string(&page).unwrap();
    // A file with the lab's default name has the name of its directory.
    assert!(page.contains("<th>full</th>") && page.contains("<th>half</th>") && !page.contains("<th>records</th>"));
}

#[test]
fn files_without_a_common_page_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let page = path(directory.path(), "lab.html");
    let (lab, test) = (write(directory.path(), "lab.jsonl", &complete_records()), path(directory.path(), "test.jsonl"));
    let measured = Serve::start(&[]).test(&["-t", "0.3", "-i", "0.1", "-C", "reno", &format!("--json={test}")]);
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    let cut = write(directory.path(), "cut.jsonl", &format!("{RUN}\n{ENGINE}\n"));
    let refused = |files: &[&str], expected: &str| {
        let out = report(files, &page);
        let stderr = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected), "`{expected}` is not in: {stderr}");
        assert!(!Path::new(&page).exists());
    };
    refused(&[&lab, &test], "lab.jsonl holds an emulated experiment");
    refused(&[&test, &lab], "test.jsonl a test");
    refused(&[&cut], "the beginning of the file is missing");
}
