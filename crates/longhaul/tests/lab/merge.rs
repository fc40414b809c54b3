//! `lab run --list` and `--shard`, and `lab merge`.

use std::fs;
use std::path::Path;
use std::process::Output;

use results::lab::{LabRecord, LabRun};
use results::points::{POINTS_SCHEMA, SweepPoints};

use crate::common::lab::{read, turn};
use crate::common::{longhaul, text};
use crate::simulate::{SWEEP, records, simulate};
use crate::{SMALL, file};

fn merge(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = longhaul().current_dir(directory).args(["lab", "merge"]).args(arguments).output().unwrap();
    (output.status.code(), text(&output.stderr))
}

fn assert_valid(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Simulates the shards of an experiment into `part-1`, `part-2`, ... and returns these names.
fn shards(directory: &Path, toml: &str, count: u32) -> Vec<String> {
    let part = |n: u32| {
        let (shard, name) = (format!("{n}/{count}"), format!("part-{n}"));
        assert_valid(&simulate(directory, toml, &name, &["--shard", &shard]));
        name
    };
    (1..=count).map(part).collect()
}

#[test]
fn merged_shards_equal_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), SWEEP);
    assert_valid(&simulate(directory.path(), &toml, "whole", &[]));
    // Three shards of eight runs hold different repetitions of the same points.
    let parts = shards(directory.path(), &toml, 3);
    let whole = records(directory.path(), "whole");
    assert!(whole.len() > 100);

    let (code, error) = merge(directory.path(), &[&parts[1], &parts[0], "-o", "two"]);
    // The third shard has the runs 2 and 5: repetition 0 of point 2 and repetition 1 of point 1.
    assert_eq!(code, Some(1), "{error}");
    let missing = "incomplete: 2 of 8 runs are missing: point 1 (repetition 1), point 2 (repetition 0)";
    assert!(error.contains(missing), "{error}");
    let LabRecord::Experiment(head) = &read(&directory.path().join("two/records.jsonl"))[0] else { panic!() };
    assert_eq!((head.points, head.repetitions, head.selected_runs), (4, 2, Some(6)));

    for (parts, out) in
        [(vec![&parts[2], &parts[0], &parts[1]], "merged"), (vec![&"two".to_owned(), &parts[2]], "again")]
    {
        let mut arguments: Vec<&str> = parts.into_iter().map(String::as_str).collect();
        arguments.extend(["-o", out]);
        let (code, error) = merge(directory.path(), &arguments);
        assert_eq!(code, Some(0), "{error}");
        assert!(records(directory.path(), out) == whole, "{out} differs from the whole");
        let file = |of: &str, name: &str| fs::read(directory.path().join(of).join(name)).unwrap();
        assert_eq!(file(out, "experiment.toml"), file("whole", "experiment.toml"));
        assert!(file(out, "report.html").ends_with(b"</html>\n"));
    }
}

#[test]
fn results_of_different_experiments_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), SWEEP);
    let run = |toml: &str, out: &str, more: &[&str]| assert_valid(&simulate(directory.path(), toml, out, more));
    run(&toml, "one", &["--points", "0-1"]);
    run(&toml, "overlap", &["--points", "1-2"]);
    run(&toml, "set", &["--points", "2", "--set", "links.cable.delay=1ms"]);
    run(&toml, "repeated", &["--points", "2", "--repeat", "3"]);
    let other = file(directory.path(), &SWEEP.replace("\"5s\"", "\"4s\""));
    run(&other, "other", &["--points", "2"]);
    let engine = |from: &str, to: &str| {
        fs::create_dir(directory.path().join(to)).unwrap();
        let records = fs::read_to_string(directory.path().join(from).join("records.jsonl")).unwrap();
        let records = records.replacen("\"engine\":\"simulator\"", "\"engine\":\"virtual_kernel\"", 1);
        fs::write(directory.path().join(to).join("records.jsonl"), records).unwrap();
        let copy = |name: &str| directory.path().join(name).join("experiment.toml");
        fs::copy(copy(from), copy(to)).unwrap();
    };
    engine("one", "virtual");
    for (part, expected) in [
        ("overlap", "one and overlap both hold repetition 0 of point 1"),
        ("set", "--set none and links.cable.delay=1ms"),
        ("repeated", "number of repetitions 2 and 3"),
        ("other", "one and other are results of different experiment files"),
        ("virtual", "engine simulator and guest kernel in virtual time"),
        ("absent", "absent/records.jsonl"),
    ] {
        let (code, error) = merge(directory.path(), &["one", part, "-o", "out"]);
        assert!(code == Some(2) && error.contains(expected), "{part}: {code:?} {error}");
        assert!(!directory.path().join("out").exists(), "{part}");
    }
    let (code, error) = merge(directory.path(), &["one", "-o", "overlap"]);
    assert!(code == Some(2) && error.contains("overlap holds the results of another experiment"), "{code:?} {error}");
}

/// A part whose writer was killed: the run without an end is left out and named as missing.
#[test]
fn a_run_without_an_end_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), SWEEP);
    let parts = shards(directory.path(), &toml, 2);
    let path = directory.path().join(&parts[1]).join("records.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    // The second shard has the points 1 and 3 of both repetitions; the last run is run 7.
    let end = whole.rfind("{\"record\":\"run_end\"").unwrap();
    fs::write(&path, &whole[..end + 30]).unwrap();
    let (code, error) = merge(directory.path(), &[&parts[0], &parts[1], "-o", "out"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("part-2: left out 1 run that did not end"), "{error}");
    assert!(error.contains("incomplete: 1 of 8 runs is missing: point 3 (repetition 1)"), "{error}");
}

#[test]
fn real_runs_are_merged_with_their_files() {
    let Some(turn) = turn() else { return };
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), SMALL);
    for shard in ["1/2", "2/2"] {
        let out = format!("part-{}", &shard[..1]);
        let arguments = ["lab", "run", &toml, "--repeat", "2", "--shard", shard, "--out", &out];
        let output = turn.longhaul(&arguments).current_dir(directory.path()).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    }
    let (code, error) = merge(directory.path(), &["part-2", "part-1", "-o", "whole"]);
    assert!(matches!(code, Some(0 | 1)) && !error.contains("incomplete"), "{error}");
    let all = read(&directory.path().join("whole/records.jsonl"));
    let runs: Vec<&LabRun> =
        all.iter().filter_map(|r| if let LabRecord::Run(r) = r { Some(r) } else { None }).collect();
    let seeds: Vec<_> = runs.iter().map(|r| (r.run, r.repetition, r.seed)).collect();
    assert_eq!(seeds, [(0, 0, 1), (1, 1, 2)]);
    for run in ["run-0", "run-1"] {
        let out = fs::read_to_string(directory.path().join("whole").join(run).join("ping.out")).unwrap();
        assert!(out.contains("right"), "{out}");
    }
}

#[test]
fn the_points_of_a_sweep_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), SWEEP);
    let list = |more: &[&str]| {
        let output = longhaul().args(["lab", "run", &toml, "--list"]).args(more).output().unwrap();
        assert_valid(&output);
        text(&output.stdout)
    };
    let text = list(&[]);
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.starts_with("0  2 runs  flows.bulk.congestion_control = reno\n"), "{text}");
    let document: SweepPoints = serde_json::from_str(&list(&["--json", "--shard", "3/3"])).unwrap();
    assert_eq!(document.schema, POINTS_SCHEMA);
    let points: Vec<_> = document.points.iter().map(|p| (p.point, p.repetitions.as_slice(), p.duration_s)).collect();
    assert_eq!(points, [(1, &[1][..], 5.0), (2, &[0], 5.0)]);
    assert_eq!(document.points[0].values[0].value, "cubic");
}
