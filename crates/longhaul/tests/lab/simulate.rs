//! `--simulate`: the packet-level simulator; `lab compare`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use results::lab::{LabEngine, LabRecord, Verdict};

use crate::common::lab::read;
use crate::common::{longhaul, text};
use crate::file;

/// Two points with random loss: every draw shows in the records.
pub(crate) const SWEEP: &str = r#"
duration = "5s"
repeat = 2
nodes = ["left", "right"]
[links.cable]
between = ["left", "right"]
rate = "50Mb/s"
delay = "10ms"
loss = 0.001
[flows.bulk]
from = "left"
to = "right"
[mice.web]
from = "left"
to = "right"
bytes = "20kB"
every = "100ms"
stop = "4s"
[[sweep]]
key = "flows.bulk.congestion_control"
values = ["reno", "cubic", "fast", "htcp"]
"#;

pub(crate) fn simulate(directory: &Path, toml: &str, out: &str, more: &[&str]) -> Output {
    let mut command = longhaul();
    command.current_dir(directory).args(["lab", "run", toml, "--simulate", "--out", out]).args(more);
    command.output().unwrap()
}

fn status(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}

/// Records as written, without the time of day in the first line.
pub(crate) fn records(directory: &Path, out: &str) -> Vec<String> {
    let whole = fs::read_to_string(directory.join(out).join("records.jsonl")).unwrap();
    let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let mut first: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    first["start_utc_s"] = 0.into();
    lines[0] = first.to_string();
    lines
}

#[test]
fn records_do_not_depend_on_the_number_of_threads() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), SWEEP);
    for (out, jobs) in [("one", "1"), ("eight", "8")] {
        let output = simulate(directory.path(), &toml, out, &["--jobs", jobs]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let (one, eight) = (records(directory.path(), "one"), records(directory.path(), "eight"));
    assert!(one == eight, "the records of one and of eight threads differ");

    let all = read(&directory.path().join("one/records.jsonl"));
    let LabRecord::Experiment(experiment) = &all[0] else { panic!("{:?}", all[0]) };
    assert_eq!(experiment.engine, LabEngine::Simulator);
    let ends: Vec<_> = all.iter().filter_map(|r| if let LabRecord::RunEnd(e) = r { Some(e) } else { None }).collect();
    assert_eq!(ends.len(), 8);
    for (number, end) in ends.iter().enumerate() {
        assert_eq!((end.run as usize, &end.verdict), (number, &Verdict::Valid));
        // 50 Mb/s on the wire are 47.1 Mb/s of payload: 1448 of 1538 bytes.
        let goodput = end.flows[0].throughput_bps.unwrap();
        assert!((1_000_000..47_100_000).contains(&goodput), "{goodput}");
        assert!(end.flows[1].completion.is_some(), "{:?}", end.flows[1]);
    }
}

/// A point alone has the records that it has in the whole sweep, so that a sweep can be split among machines.
#[test]
fn points_can_run_apart() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), SWEEP);
    assert_eq!(status(&simulate(directory.path(), &toml, "all", &[])).0, Some(0));
    assert_eq!(status(&simulate(directory.path(), &toml, "part", &["--points", "1-2"])).0, Some(0));
    let of_run = |lines: &[String], run: u32| -> Vec<String> {
        let marks = [format!("\"run\":{run},"), "\"record\":\"summary\"".to_owned()];
        lines.iter().filter(|l| l.contains(&marks[0]) && !l.contains(&marks[1])).cloned().collect()
    };
    let (all, part) = (records(directory.path(), "all"), records(directory.path(), "part"));
    // Four points and two repetitions: points 1 and 2 are the runs 1, 2, 5 and 6.
    for run in [1, 2, 5, 6] {
        let expected = of_run(&all, run);
        assert!(expected.len() > 10 && expected == of_run(&part, run), "run {run}");
    }
    assert!(of_run(&part, 0).is_empty() && of_run(&part, 3).is_empty());
    let (code, error) = status(&simulate(directory.path(), &toml, "none", &["--points", "2,4"]));
    assert!(code == Some(2) && error.contains("no point 4") && error.contains("0 to 3"), "{code:?} {error}");
}

/// Every experiment file of the project runs, or is refused with the line that the simulator cannot follow.
#[test]
fn every_experiment_runs_or_is_refused_with_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let scenarios = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut ran = 0;
    for entry in fs::read_dir(scenarios).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let has_short = fs::read_to_string(&path).unwrap().contains("\nshort = {")
            || fs::read_to_string(&path).unwrap().contains("[variants.short]");
        let variant: &[&str] = if has_short { &["--variant", "short"] } else { &["--repeat", "1"] };
        let output = simulate(directory.path(), &path.display().to_string(), &name, variant);
        match status(&output) {
            (Some(0), _) => ran += 1,
            (Some(2), e) => assert!(e.contains(&format!("{}:", path.display())), "{name}: {e}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(ran >= 10, "{ran} files ran");
}

#[test]
fn a_part_that_the_simulator_does_not_have_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), &SWEEP.replace("\"reno\"", "\"bbr\""));
    let output = simulate(directory.path(), &toml, "out", &[]);
    let (code, error) = status(&output);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("small.toml:10: flows.bulk") && error.contains("bbr"), "{error}");
    assert!(!directory.path().join("out").exists());
}

#[test]
fn a_comparison_tells_results_that_differ() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), SWEEP);
    let runs = [("same", "1ms"), ("again", "1ms"), ("slow", "40ms")];
    for (out, delay) in runs {
        let set = format!("links.cable.delay={delay}");
        assert_eq!(status(&simulate(directory.path(), &toml, out, &["--set", &set])).0, Some(0));
    }
    let compare = |names: &[&str]| {
        let output = longhaul().current_dir(directory.path()).args(["lab", "compare"]).args(names).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, _) = compare(&["same", "again"]);
    assert!(code == Some(0) && out.contains(" 0 differ, ") && out.contains("bulk: goodput"), "{code:?} {out}");
    // Forty times the delay: the minimum round trip is 80 ms instead of 2 ms.
    let (code, out, _) = compare(&["same/records.jsonl", "slow", "--report", "page.html"]);
    assert!(code == Some(1) && out.contains("differs"), "{code:?} {out}");
    assert!(fs::read_to_string(directory.path().join("page.html")).unwrap().contains("</html>"));
    let (code, _, error) = compare(&["same", "missing"]);
    assert!(code == Some(2) && error.contains("missing"), "{code:?} {error}");
}
