//! Errors are reported with a hint, before anything is created.

use std::path::Path;
use std::process::Output;

use crate::common::host::Host;
use crate::common::lab::turn;
use crate::common::{longhaul, text};
use crate::{SMALL, file};

fn run(toml: &str, arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let output = longhaul()
        .args(["lab", "run", &file(directory.path(), toml)])
        .args(arguments)
        .current_dir(directory.path())
        .output()
        .unwrap();
    // Only the experiment file exists: nothing was started.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    output
}

fn assert_rejected(toml: &str, arguments: &[&str], parts: &[&str]) {
    let output = run(toml, arguments);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn a_dry_run_shows_the_plan_and_creates_nothing() {
    let host = Host::now();
    let shown = run(SMALL, &["--dry-run", "--set", "links.cable.backward.loss=0.25"]);
    assert!(shown.status.success());
    let shown = text(&shown.stdout);
    for part in ["left > right: 10 Mb/s, 5 ms", "right > left: 10 Mb/s, 5 ms", "loss 25 %", "program ping in left"] {
        assert!(shown.contains(part), "`{part}` is not in: {shown}");
    }
    assert_eq!(Host::now(), host);
}

#[test]
fn every_scenario_and_its_short_variant_are_valid() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut count = 0;
    let files = |directory: &Path| {
        let entries = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path());
        entries.filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    // The suite runs in the simulator, which needs no short variants.
    let suite = files(&Path::new(directory).join("overlay-suite")).into_iter().map(|file| (file, false));
    let all = files(Path::new(directory)).into_iter().map(|file| (file, true));
    for (entry, has_short) in all.chain(suite) {
        for variant in [Some(&[][..]), has_short.then_some(&["--variant", "short"][..])].into_iter().flatten() {
            let output = longhaul().args(["lab", "run", "--dry-run"]).arg(&entry).args(variant).output().unwrap();
            assert!(output.status.success(), "{}: {}", entry.display(), text(&output.stderr));
        }
        count += 1;
    }
    assert!(count >= 8, "{count}");
}

#[test]
fn errors_of_a_file_name_file_line_and_hint() {
    assert_rejected(
        &format!("{SMALL}[[schedule]]\nlink = \"rope\"\nat = \"0.5s\"\nloss = 0.1\n"),
        &[],
        &["small.toml:12", "there is no link `rope`", "cable"],
    );
    assert_rejected(&SMALL.replace("10Mb/s", "0Mb/s"), &[], &["small.toml:6", "links.cable.rate", "a rate of zero"]);
    assert_rejected(&SMALL.replace("delay", "dealy"), &[], &["small.toml:7", "dealy", "delay"]);
    assert_rejected("nodes = [", &[], &["small.toml:1"]);
}

#[test]
fn invalid_options_are_named() {
    assert_rejected(SMALL, &["--set", "links.cable.colour=red"], &["--set links.cable.colour=red", "colour"]);
    assert_rejected(SMALL, &["--set", "no-equals-sign"], &["no-equals-sign", "KEY=VALUE"]);
    assert_rejected(SMALL, &["--variant", "tiny"], &["tiny"]);
    let output = longhaul().args(["lab", "run", "no-such.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no-such.toml"));
    for wrong in [["--rate", "fast"], ["--rate", "0"], ["--rtt", "-1ms"], ["--loss", "2"], ["--mtu", "20"]] {
        let output = longhaul().args(["lab", "path"]).args(wrong).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn results_of_another_experiment_are_not_overwritten() {
    let Some(turn) = turn() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (small, out) = (file(directory.path(), SMALL), directory.path().join("out"));
    // Timing does not matter in this test.
    let limits = ["--set", "validity.lateness_p99=10s", "--set", "validity.stolen_cpu=1"];
    let out_text = out.display().to_string();
    let run = || turn.longhaul(&[&["lab", "run", &small, "--out", &out_text], &limits[..]].concat()).output().unwrap();
    let first = run();
    assert_eq!(first.status.code(), Some(0), "{}{}", text(&first.stdout), text(&first.stderr));
    let records = std::fs::read(out.join("records.jsonl")).unwrap();
    assert!(out.join("report.html").exists() && out.join("experiment.toml").exists());
    let second = run();
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("results of another experiment"), "{}", text(&second.stderr));
    assert_eq!(std::fs::read(out.join("records.jsonl")).unwrap(), records);
}

#[test]
fn an_exported_trace_of_a_link_can_be_used_for_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let toml = SMALL.replace("1s", "2s").replace("10Mb/s", "12Mb/s")
        + "[[schedule]]\nlink = \"cable\"\nat = \"1s\"\nrate = \"24Mb/s\"\n";
    let small = file(directory.path(), &toml);
    let output = longhaul().args(["lab", "trace", &small, "cable"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    // mahimahi format: one line per delivery opportunity of 1504 bytes, with its time in ms.
    let times: Vec<u64> = shown.lines().filter(|l| !l.starts_with('#')).map(|l| l.parse().unwrap()).collect();
    assert!(times.is_sorted());
    let slow = times.iter().filter(|t| **t <= 1000).count() as f64 * 1504.0 * 8.0;
    let fast = times.iter().filter(|t| **t > 1000).count() as f64 * 1504.0 * 8.0;
    assert!((slow / 12e6 - 1.0).abs() < 0.01 && (fast / 24e6 - 1.0).abs() < 0.01, "{slow} {fast}");
    let trace = link::Trace::parse(&shown).unwrap();
    assert_eq!(trace.opportunities(), times.len());
    // The trace can replace the rate of the link.
    std::fs::write(directory.path().join("cable.trace"), &shown).unwrap();
    let with_trace = SMALL.replace("rate = \"10Mb/s\"", "trace = \"cable.trace\"");
    let plan = longhaul().args(["lab", "run", "--dry-run", &file(directory.path(), &with_trace)]).output().unwrap();
    assert!(plan.status.success(), "{}", text(&plan.stderr));
    let unknown = longhaul().args(["lab", "trace", &small, "rope"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("cable"));
}
