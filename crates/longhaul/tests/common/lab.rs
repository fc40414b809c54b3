//! A running lab of the built binary, and access to its nodes. One at a time: the test machines have two
//! cores.
#![allow(clippy::unwrap_in_result, clippy::wildcard_enum_match_arm, reason = "helpers of tests are tests too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use results::lab::{LabRecord, LabRunEnd, LinkTotals, Verdict};
use tempfile::TempDir;
use testbed::Namespace;

use super::host::{inode, users};
use super::{longhaul, text};

/// Maximum start time of a lab; usually below 1 s, longer on a host under heavy load.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

static TURN: Mutex<()> = Mutex::new(());

/// Exclusive use of this machine, with a separate registry of labs.
pub(crate) struct Turn {
    state: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// Waits until no other test uses the machine; `None`, with a note, if labs are impossible here.
#[allow(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
pub(crate) fn turn() -> Option<Turn> {
    // A test that failed with the turn in hand left nothing behind.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let turn = Turn { state: tempfile::tempdir().unwrap(), _turn: turn };
    let probe = turn.longhaul(&["lab", "path", "--far", "sleep 60", "--", "true"]).output().unwrap();
    let message = text(&probe.stderr);
    if message.contains("a lab needs") {
        eprintln!("skipped: {message}");
        return None;
    }
    Some(turn)
}

/// The same for tests that enter nodes, which only root can from outside.
#[allow(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
pub(crate) fn turn_of_root() -> Option<Turn> {
    if let Err(e) = kernel::new_namespace() {
        eprintln!("skipped: only root can enter the nodes of a lab: {e}");
        return None;
    }
    turn()
}

impl Turn {
    /// The binary with this registry.
    pub(crate) fn longhaul(&self, arguments: &[&str]) -> Command {
        let mut command = longhaul();
        command.args(arguments).env("LONGHAUL_STATE", self.state.path());
        command
    }

    /// Directory of all state.
    pub(crate) fn state(&self) -> PathBuf {
        self.state.path().to_owned()
    }

    /// Directory of the registry.
    pub(crate) fn registry(&self) -> PathBuf {
        self.state.path().join("labs")
    }

    /// Files in the registry.
    pub(crate) fn entries(&self) -> usize {
        fs::read_dir(self.registry()).map_or(0, Iterator::count)
    }

    /// Path that exists until `Lab::end`.
    pub(crate) fn path(&self, arguments: &[&str]) -> Lab {
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("records.jsonl");
        let mut command = self.longhaul(&["lab", "path", "--quiet", "--far", "exec sleep 1000"]);
        command.args(arguments).arg("--json").arg(&json);
        command.args(["--", "sh", "-c", "echo up; exec cat"]);
        let mut child = spawn(&mut command);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if line != "up\n" {
            let mut message = String::new();
            child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
            panic!("the path did not come up: {message}");
        }
        let (nodes, namespaces) = self.nodes(child.id()).unwrap();
        Lab { child, _out: Some(out), directory, json, nodes, namespaces }
    }

    /// Experiment, from the start of its nodes on.
    pub(crate) fn run(&self, toml: &str, arguments: &[&str]) -> Lab {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("experiment.toml");
        fs::write(&file, toml).unwrap();
        let out = directory.path().join("out");
        let mut command = self.longhaul(&["lab", "run"]);
        command.arg(&file).arg("--out").arg(&out).args(arguments);
        let mut child = spawn(&mut command);
        let begin = Instant::now();
        let (nodes, namespaces) = loop {
            if let Some(nodes) = self.nodes(child.id()) {
                break nodes;
            }
            if child.try_wait().unwrap().is_some() || begin.elapsed() > PATIENCE {
                panic!("the lab did not stand: {}", text(&child.wait_with_output().unwrap().stderr));
            }
            thread::sleep(Duration::from_millis(5));
        };
        Lab { child, _out: None, directory, json: out.join("records.jsonl"), nodes, namespaces }
    }

    /// The nodes of a lab as the registry lists them, by the lab's own descriptors, and the inodes of all its
    /// namespaces.
    fn nodes(&self, lab: u32) -> Option<(BTreeMap<String, Namespace>, BTreeSet<u64>)> {
        let entry = fs::read(self.registry().join(format!("{lab}.json"))).ok()?;
        let entry: serde_json::Value = serde_json::from_slice(&entry).unwrap();
        let mut namespaces = BTreeSet::from([inode(format!("/proc/{}/ns/pid", entry["keeper"]["pid"]))?]);
        let mut nodes = BTreeMap::new();
        for node in entry["nodes"].as_array().unwrap() {
            let network = format!("/proc/{lab}/fd/{}", node["descriptor"]);
            namespaces.insert(inode(&network)?);
            nodes.insert(node["name"].as_str().unwrap().to_owned(), Namespace::of(File::open(&network).ok()?));
        }
        Some((nodes, namespaces))
    }
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Running lab; killed when dropped.
pub(crate) struct Lab {
    pub(crate) child: Child,
    /// Held so that the near command can write.
    _out: Option<BufReader<ChildStdout>>,
    pub(crate) directory: TempDir,
    json: PathBuf,
    nodes: BTreeMap<String, Namespace>,
    namespaces: BTreeSet<u64>,
}

/// Results of a lab.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) message: String,
    pub(crate) records: Vec<LabRecord>,
    pub(crate) end: LabRunEnd,
    pub(crate) directory: TempDir,
}

impl Lab {
    pub(crate) fn node(&self, name: &str) -> &Namespace {
        &self.nodes[name]
    }

    /// Directory of `--out`.
    pub(crate) fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    /// Waits until all its processes have ended and no process holds its namespaces.
    pub(crate) fn await_gone(&self) {
        await_that("processes and namespaces of the lab are gone", || users(&self.namespaces).is_empty());
    }

    /// Number of processes that use its namespaces.
    pub(crate) fn users(&self) -> usize {
        users(&self.namespaces).len()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: i32) {
        kernel::signal_group(&self.child, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child, PATIENCE)
    }

    /// Waits until an experiment's clock runs: until its first interval is recorded.
    pub(crate) fn await_begin(&self) {
        self.await_intervals(1);
    }

    /// Waits until this number of intervals is recorded.
    pub(crate) fn await_intervals(&self, count: usize) {
        let recorded =
            || fs::read_to_string(&self.json).map_or(0, |text| text.matches("\"record\":\"engine\"").count());
        await_that("the run goes on", || recorded() >= count);
    }

    /// Ends a path by the end of its command's input, waits for an experiment; then reads the records.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        let message = drain(self.child.stderr.take());
        let shown = drain(self.child.stdout.take());
        let status = wait(&mut self.child, PATIENCE * 4);
        let message = message.join().unwrap();
        drop(shown.join());
        let records = read(&self.json);
        let end = records.iter().rev().find_map(|r| match r {
            LabRecord::RunEnd(end) => Some(end.clone()),
            _ => None,
        });
        let end = end.unwrap_or_else(|| panic!("no end in the records: {message}"));
        let directory = std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap());
        Ended { status, message, records, end, directory }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(source: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut message = Vec::new();
        if let Some(mut source) = source {
            source.read_to_end(&mut message).unwrap();
        }
        text(&message)
    })
}

/// Waits for a child's end; a child that does not end is a failed test.
pub(crate) fn wait(child: &mut Child, patience: Duration) -> ExitStatus {
    kernel::wait_child(child, patience).unwrap().unwrap_or_else(|| panic!("not done after {patience:?}"))
}

/// The records of a file.
pub(crate) fn read(json: &std::path::Path) -> Vec<LabRecord> {
    let file = File::open(json).unwrap();
    results::read_lab_records(BufReader::new(file)).unwrap().records
}

impl Ended {
    /// Records of one direction.
    pub(crate) fn link(&self, name: &str, from: &str) -> &LinkTotals {
        self.end.links.iter().find(|l| l.link == name && l.from == from).unwrap()
    }

    /// Forward direction of the path.
    pub(crate) fn there(&self) -> &LinkTotals {
        self.link("path", "near")
    }

    pub(crate) fn valid(&self) -> bool {
        self.end.verdict == Verdict::Valid
    }
}

/// Waits until something holds.
pub(crate) fn await_that(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
