//! `longhaul shape` on devices of namespaces, checked by `tc` and the kernel's counters.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::print_stderr,
    reason = "helpers of tests are tests too; notes of skipped ones"
)]

mod faults;
mod install;
mod kill;
mod size;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use testbed::{Lan, Namespace, or_skip};

/// Host with a device `eth0` to shape, and another host at the far end of its cable.
struct Shaped {
    lan: Lan,
    directory: TempDir,
}

/// Creates the hosts; `None`, with a note, without root.
fn shaped() -> Option<Shaped> {
    let lan = or_skip(Lan::two_hosts())?;
    Some(Shaped { lan, directory: tempfile::tempdir().unwrap() })
}

impl Shaped {
    fn host(&self) -> &Namespace {
        &self.lan.client
    }

    /// Writes a policy file and returns its path.
    fn policy(&self, text: &str) -> PathBuf {
        let path = self.directory.path().join("policy.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns a `longhaul shape` command, to be run on the host.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.arg("shape").args(arguments).env("LONGHAUL_STATE", self.directory.path().join("state"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        self.host().run(|| command.output()).unwrap().unwrap()
    }

    /// Runs a command that must succeed and returns its standard output.
    fn run_successfully(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    fn apply(&self, policy: &Path, more: &[&str]) -> Output {
        let file = policy.display().to_string();
        self.run(&[&["apply", file.as_str()], more].concat())
    }

    /// Returns the output of tc and ip about the host's devices, without counters.
    fn configuration(&self) -> String {
        let show = |line: &str| self.host().iproute(line).unwrap();
        let mut all = show("tc -d qdisc show") + &show("tc class show dev eth0") + &show("tc filter show dev eth0");
        all += &show("tc filter show dev eth0 ingress");
        let links = show("ip -br link");
        all += &links.lines().filter_map(|l| l.split_whitespace().next()).collect::<Vec<_>>().join(" ");
        // The kernel counts references of disciplines and assigns new numbers to filters each time.
        all.lines().map(without_numbers).collect::<Vec<_>>().join("\n")
    }
}

/// Removes numbers that change on every installation: reference counts, assigned ids, packets received before the
/// classes existed.
fn without_numbers(line: &str) -> String {
    let mut tokens = line.split_whitespace();
    let mut stable = Vec::new();
    while let Some(token) = tokens.next() {
        if matches!(token, "refcnt" | "id" | "index" | "direct_packets_stat") {
            tokens.next();
        } else {
            stable.push(token);
        }
    }
    stable.join(" ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
