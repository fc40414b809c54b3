//! Keys and configurations of nodes, and two running nodes.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use results::{Direction, TestPlan};
use testbed::{Lan, Namespace, Served, client_options, plan, run_test, server_options};

use crate::common::{longhaul, text};

/// Runs `longhaul overlay` in a directory.
pub(crate) fn overlay(directory: &Path, arguments: &[&str]) -> Output {
    longhaul().current_dir(directory).arg("overlay").args(arguments).output().unwrap()
}

/// Creates the configuration of a node and returns its peer entry.
pub(crate) fn init(directory: &Path, name: &str, address: &str) -> String {
    init_with(directory, name, &["--address", address])
}

/// Creates the configuration of a node with these options of `init` and returns its peer entry.
pub(crate) fn init_with(directory: &Path, name: &str, options: &[&str]) -> String {
    let file = format!("{name}.toml");
    let made = overlay(directory, &[&["init", "--config", &file, "--secret", "of this test alone"], options].concat());
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    text(&made.stdout)
}

/// Runs `longhaul overlay` in a directory with these lines on standard input.
pub(crate) fn overlay_with(directory: &Path, arguments: &[&str], lines: &str) -> Output {
    let mut command = longhaul();
    command.current_dir(directory).arg("overlay").args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that rejects its arguments does not read standard input.
    match child.stdin.take().unwrap().write_all(lines.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => panic!("{e}"),
        _ => {}
    }
    child.wait_with_output().unwrap()
}

pub(crate) fn join(directory: &Path, name: &str, lines: &str) -> Output {
    overlay_with(directory, &["peer", "add", "--config", &format!("{name}.toml")], lines)
}

/// Inserts lines at the start of a node's configuration, where top-level keys belong.
pub(crate) fn put_before(directory: &Path, name: &str, lines: &str) {
    let file = directory.join(format!("{name}.toml"));
    fs::write(&file, format!("{lines}\n{}", fs::read_to_string(&file).unwrap())).unwrap();
}

/// Starts a node whose configuration is in the directory.
pub(crate) fn up(at: &Namespace, directory: &Path, name: &str) -> Child {
    let mut command = longhaul();
    command.current_dir(directory).args(["overlay", "up", "--config", &format!("{name}.toml")]);
    at.start(&mut command).unwrap()
}

/// Waits until a started node answers on its control socket: a fraction of a second, longer on a machine under load.
pub(crate) fn wait_for_start(directory: &Path, name: &str) {
    let start = Instant::now();
    while overlay(directory, &["status", "--config", &format!("{name}.toml")]).status.code() != Some(0) {
        assert!(start.elapsed() < Duration::from_secs(20), "{name} does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends 3 MB to or from a server at this address and returns the bytes at the receiver.
pub(crate) fn transferred(from: &Namespace, direction: Direction, (at, to): (&Namespace, &str)) -> u64 {
    let to: IpAddr = to.parse().unwrap();
    let served = Served::start(at, server_options(to)).unwrap();
    let plan = TestPlan {
        directions: vec![direction],
        bytes: Some(TRANSFER_BYTES),
        duration_ns: None,
        ..plan(Duration::ZERO)
    };
    let outcome = run_test(from, client_options(to, served.port(), plan), Duration::from_secs(30)).unwrap();
    outcome.direction(direction).receiver.bytes
}

/// Volume of a transfer by [`transferred`], in bytes.
pub(crate) const TRANSFER_BYTES: u64 = 3_000_000;

/// Address of the second of [`Members`] in the overlay.
pub(crate) const EAST: &str = "10.77.0.2";

/// Nodes on the two hosts of a network, killed when dropped.
pub(crate) struct Members {
    running: Vec<Child>,
    pub(crate) directory: tempfile::TempDir,
}

impl Members {
    /// Starts both nodes, the first one with further settings, and waits until each has a route to the other.
    pub(crate) fn start(lan: &Lan, more: &str) -> Self {
        Self::start_with(lan, [more, ""])
    }

    /// Starts both nodes with further settings for each and waits until each has a route to the other.
    pub(crate) fn start_with(lan: &Lan, more: [&str; 2]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let lines = [("west", "10.77.0.1", lan.client_ip()), ("east", EAST, lan.server_ip())].map(
            |(name, address, endpoint)| format!("{}endpoint = \"{endpoint}\"\n", init(directory.path(), name, address)),
        );
        for (name, lines) in [("west", &lines[1]), ("east", &lines[0])] {
            assert_eq!(join(directory.path(), name, lines).status.code(), Some(0));
        }
        for (name, more) in ["west", "east"].into_iter().zip(more) {
            put_before(directory.path(), name, more);
        }
        Self::up(lan, directory)
    }

    /// Starts `west` and `east`, whose configurations are in the directory, and waits until each has a route to the
    /// other.
    pub(crate) fn up(lan: &Lan, directory: tempfile::TempDir) -> Self {
        let running = vec![up(&lan.client, directory.path(), "west"), up(&lan.server, directory.path(), "east")];
        let members = Self::of(running, directory);
        members.wait_for_routes();
        members
    }

    /// Manages nodes that already run.
    pub(crate) fn of(running: Vec<Child>, directory: tempfile::TempDir) -> Self {
        Self { running, directory }
    }

    /// Waits until each node has a route to the other.
    pub(crate) fn wait_for_routes(&self) {
        let start = Instant::now();
        let has_none = |name: &str| {
            status(self.directory.path(), name)["members"][0]["routes"].as_array().is_none_or(Vec::is_empty)
        };
        while has_none("west") || has_none("east") {
            assert!(start.elapsed() < Duration::from_secs(20), "the nodes do not find each other");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Members {
    /// Returns the process ids of the nodes.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.running.iter().map(Child::id).collect()
    }

    /// Kills `west` or `east` without a chance to clean up.
    pub(crate) fn kill(&mut self, name: &str) {
        let child = &mut self.running[usize::from(name == "east")];
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the status of a node.
pub(crate) fn status(directory: &Path, name: &str) -> serde_json::Value {
    let output = overlay(directory, &["status", "--json", "--config", &format!("{name}.toml")]);
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Node that is killed when dropped.
pub(crate) struct Node(pub(crate) Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}
