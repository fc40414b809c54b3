//! Running lab of the built binary, and access to its nodes. Only one lab runs at a time, because the test machines
//! have two cores.
#![allow(clippy::unwrap_in_result, clippy::wildcard_enum_match_arm, reason = "helpers of tests are tests too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use results::lab::{LabRecord, LabRunEnd, LinkStatistics, Verdict};
use tempfile::TempDir;
use testbed::Namespace;

use super::host::{inode, users};
use super::{longhaul, text};

/// Maximum start time of a lab; usually below 1 s, longer on a host under heavy load.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

static TURN: Mutex<()> = Mutex::new(());

/// Exclusive use of this machine, with a separate registry of labs.
pub(crate) struct Turn {
    state: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// Waits until no other test uses the machine; `None`, with a note, if labs are impossible here.
#[allow(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
pub(crate) fn turn() -> Option<Turn> {
    // A failed test leaves no lab running, so a poisoned mutex is usable.
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

/// Like [`turn`], for tests that enter the nodes of a lab, which needs root; `None`, with a note, without root.
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

    /// Starts a path that exists until `Lab::end`.
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

    /// Starts an experiment and returns when its nodes exist.
    pub(crate) fn run(&self, toml: &str, arguments: &[&str]) -> Lab {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("experiment.toml");
        fs::write(&file, toml).unwrap();
        let out = directory.path().join("out");
        let mut command = self.longhaul(&["lab", "run"]);
        command.arg(&file).arg("--out").arg(&out).args(arguments);
        let mut child = spawn(&mut command);
        let start = Instant::now();
        let (nodes, namespaces) = loop {
            if let Some(nodes) = self.nodes(child.id()) {
                break nodes;
            }
            if child.try_wait().unwrap().is_some() || start.elapsed() > TIMEOUT {
                panic!("the lab did not start: {}", text(&child.wait_with_output().unwrap().stderr));
            }
            thread::sleep(Duration::from_millis(5));
        };
        Lab { child, _out: None, directory, json: out.join("records.jsonl"), nodes, namespaces }
    }

    /// Returns the nodes of a lab that the registry lists, opened through the lab's descriptors, and the inodes of all
    /// its namespaces.
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
    /// Keeps the pipe open to which the near command writes.
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

    /// Waits until all processes of the lab have ended and no process holds its namespaces.
    pub(crate) fn await_gone(&self) {
        await_that("processes and namespaces of the lab are gone", || users(&self.namespaces).is_empty());
    }

    /// Returns the number of processes that use the lab's namespaces.
    pub(crate) fn users(&self) -> usize {
        users(&self.namespaces).len()
    }

    /// Sends a signal to the lab's process group.
    pub(crate) fn signal(&self, signal: i32) {
        kernel::signal_group(&self.child, signal).unwrap();
    }

    /// Waits until the lab's process has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child, TIMEOUT)
    }

    /// Waits until the first interval of an experiment is recorded, so that its clock runs.
    pub(crate) fn await_start(&self) {
        self.await_intervals(1);
    }

    /// Waits until this number of intervals is recorded.
    pub(crate) fn await_intervals(&self, count: usize) {
        let recorded =
            || fs::read_to_string(&self.json).map_or(0, |text| text.matches("\"record\":\"engine\"").count());
        await_that("the run continues", || recorded() >= count);
    }

    /// Ends a path by closing its command's input, or waits for the end of an experiment; then reads the records.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        let message = drain(self.child.stderr.take());
        let shown = drain(self.child.stdout.take());
        let status = wait(&mut self.child, TIMEOUT * 4);
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

/// Waits for a child's end and panics after the timeout.
pub(crate) fn wait(child: &mut Child, timeout: Duration) -> ExitStatus {
    kernel::wait_child(child, timeout).unwrap().unwrap_or_else(|| panic!("the child has not ended after {timeout:?}"))
}

/// Reads the records of a file.
pub(crate) fn read(json: &std::path::Path) -> Vec<LabRecord> {
    let file = File::open(json).unwrap();
    results::read_lab_records(BufReader::new(file)).unwrap().records
}

impl Ended {
    /// Returns the totals of one direction of a link.
    pub(crate) fn link(&self, name: &str, from: &str) -> &LinkStatistics {
        self.end.links.iter().find(|l| l.link == name && l.from == from).unwrap()
    }

    /// Returns the totals of the forward direction of the path.
    pub(crate) fn forward(&self) -> &LinkStatistics {
        self.link("path", "near")
    }

    pub(crate) fn valid(&self) -> bool {
        self.end.verdict == Verdict::Valid
    }
}

/// Waits until the condition is true and panics after [`TIMEOUT`].
pub(crate) fn await_that(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "not within {TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
