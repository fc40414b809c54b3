//! A lab leaves nothing behind and does not change the host's network, however it ends.

use std::process::Command;
use std::time::Instant;

use results::lab::LabRecord;

use crate::common::host::Host;
use crate::common::lab::{TIMEOUT, read, turn, turn_of_root, wait};
use crate::common::text;
use crate::{SMALL, file};

// signal(7)
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

/// Experiment with everything that a lab starts, long enough to be ended in the middle.
const LONG: &str = r#"
duration = "100s"
record.interval = "100ms"
nodes = ["left", "right"]
[links.cable]
between = ["left", "right"]
rate = "5Mb/s"
delay = "5ms"
[flows.bulk]
from = "left"
to = "right"
[mice.web]
from = "left"
to = "right"
bytes = "10kB"
every = "200ms"
[programs.detached]
node = "right"
command = "setsid sh -c 'setsid sleep 1000 & sleep 1000' & exec sleep 1000"
"#;

#[test]
fn a_killed_lab_leaves_an_entry_for_gc_and_nothing_else() {
    let Some(turn) = turn_of_root() else { return };
    let host = Host::now();
    let bystander = turn.path(&["--rtt", "10ms"]);
    let mut lab = turn.run(LONG, &[]);
    lab.await_start();
    assert!(lab.users() > 5, "flow, server, keeper, programs: {}", lab.users());
    let out = lab.out();
    let pid = lab.child.id();
    lab.signal(SIGKILL);
    lab.wait();
    lab.await_gone();
    assert_eq!(Host::now(), host);
    // The records so far can be read.
    assert!(read(&out.join("records.jsonl")).iter().any(|r| matches!(r, LabRecord::Engine(_))));

    let status = text(&turn.longhaul(&["lab", "status"]).output().unwrap().stdout);
    assert!(
        status.contains(&format!("{pid} experiment (ended abnormally; clean up with `longhaul lab gc`)")),
        "{status}"
    );
    let gc = || text(&turn.longhaul(&["lab", "gc"]).output().unwrap().stdout);
    let output = gc();
    assert_eq!(output, format!("removed the entry of experiment (lab {pid}), which no longer runs\n"));
    assert_eq!(turn.entries(), 1, "the running lab keeps its entry");
    assert_eq!(gc(), "nothing to remove\n");
    assert!(bystander.users() > 0);
    bystander.end();
    assert_eq!(Host::now(), host);
}

#[test]
fn an_interrupted_run_ends_in_order_and_keeps_its_results() {
    let Some(turn) = turn_of_root() else { return };
    let host = Host::now();
    let lab = turn.run(LONG, &[]);
    // Long enough for the flow to transfer data.
    lab.await_intervals(15);
    lab.signal(SIGINT);
    let start = Instant::now();
    let ended = lab.end();
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
    assert!(ended.end.interrupted, "{}", ended.message);
    let summary = ended.records.iter().find_map(|r| match r {
        LabRecord::Summary(summary) => Some(summary),
        _ => None,
    });
    assert!(summary.unwrap().interrupted);
    let flow = ended.end.flows.iter().find(|f| f.flow == "bulk").unwrap();
    assert!(flow.bytes > 100_000, "{flow:?}");
    assert!(ended.directory.path().join("out/report.html").exists());
    assert!(ended.status.code().is_some_and(|c| c < 2), "{:?}: {}", ended.status, ended.message);
    assert_eq!(turn.entries(), 0);
    assert_eq!(Host::now(), host);
}

#[test]
fn a_program_that_never_ends_is_ended_by_the_lab() {
    let Some(turn) = turn_of_root() else { return };
    let toml = SMALL.replace("getent hosts right", "trap '' TERM; while true; do sleep 1; done");
    let start = Instant::now();
    let ended = turn.run(&toml, &[]).end();
    assert!(start.elapsed() < TIMEOUT);
    assert!(ended.status.success() || !ended.valid(), "{}", ended.message);
    let program = &ended.end.programs[0];
    assert_eq!((program.status.as_str(), program.failed), ("stopped by the lab", false));
    assert_eq!(turn.entries(), 0);
}

#[test]
fn a_program_that_fails_makes_the_run_invalid() {
    let Some(turn) = turn() else { return };
    let directory = tempfile::tempdir().unwrap();
    let small = file(directory.path(), &SMALL.replace("getent hosts right", "exit 3"));
    let out = directory.path().join("out").display().to_string();
    let output = turn.longhaul(&["lab", "run", &small, "--out", &out]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("program ping in node left ended with status 3"), "{}", text(&output.stdout));
}

#[test]
fn a_run_with_late_packets_is_invalid_and_has_exit_status_1() {
    let Some(turn) = turn() else { return };
    let directory = tempfile::tempdir().unwrap();
    // A refused connection sends one packet in each direction; no machine meets a limit of 1 ns.
    let toml = SMALL
        .replace("getent hosts right", "exec 3<>/dev/tcp/right/9 || true")
        .replace("command = \"exec", "start = \"0.2s\"\ncommand = [\"bash\", \"-c\", \"exec");
    let toml = toml.replace("|| true\"", "|| true\"]");
    let small = file(directory.path(), &toml);
    let out = directory.path().join("out").display().to_string();
    let limit = ["--set", "validity.lateness_p99=1ns"];
    let mut command = turn.longhaul(&[&["lab", "run", &small, "--out", &out, "--attempts", "2"], &limit[..]].concat());
    let output = command.output().unwrap();
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("INVALID") && shown.contains("percentile of packet"), "{shown}");
    let records = read(&directory.path().join("out/records.jsonl"));
    let attempts = records.iter().filter_map(|r| match r {
        LabRecord::Run(run) => Some((run.repetition, run.attempt, run.seed)),
        _ => None,
    });
    let attempts: Vec<_> = attempts.collect();
    assert_eq!(attempts.len(), 2, "both attempts are recorded: {attempts:?}");
    assert_eq!((attempts[0].0, attempts[0].2), (attempts[1].0, attempts[1].2), "the second attempt repeats the run");
    assert!(shown.contains("attempt 2"), "{shown}");
}

#[test]
fn a_lab_without_descriptors_names_the_limit_and_leaves_nothing() {
    let Some(turn) = turn() else { return };
    let host = Host::now();
    let directory = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
    let links = names.windows(2).map(|w| format!("[links.{}-{}]\nbetween = [\"{0}\", \"{1}\"]\n", w[0], w[1]));
    let toml = format!("duration = \"1s\"\nnodes = {names:?}\n{}", links.collect::<String>());
    let large = file(directory.path(), &toml);
    let out = directory.path().join("out").display().to_string();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 40; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_longhaul")]);
    command.args(["lab", "run", &large, "--out", &out]).env("LONGHAUL_STATE", turn.state());
    let mut child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let status = wait(&mut child, TIMEOUT);
    let message = text(&child.wait_with_output().unwrap().stderr);
    assert_eq!(status.code(), Some(2), "{message}");
    assert!(message.contains("ulimit -n"), "{message}");
    assert_eq!(turn.entries(), 0);
    assert_eq!(Host::now(), host);
}
