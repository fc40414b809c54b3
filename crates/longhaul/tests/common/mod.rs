//! A server and a client of the built binary on loopback.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_in_result, clippy::wildcard_enum_match_arm, reason = "helpers of tests are tests too")]

pub(crate) mod host;
pub(crate) mod lab;
pub(crate) mod udp;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) fn longhaul() -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    // The tests do not use the history of the current user.
    c.env("LONGHAUL_HISTORY", "off")
        .env_remove("LONGHAUL_KEY_FILE")
        .env_remove("LONGHAUL_PORT")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    c
}

/// Checks that each line is a record that matches the schema.
pub(crate) fn assert_valid(schema: &jsonschema::Validator, lines: &str) {
    for line in lines.lines() {
        let record = serde_json::from_str(line).unwrap();
        let faults: Vec<String> = schema.iter_errors(&record).map(|e| e.to_string()).collect();
        assert!(faults.is_empty(), "{faults:?} in {line}");
    }
}

/// A server process; ended when dropped.
pub(crate) struct Serve {
    child: Child,
    pub(crate) port: u16,
    log: Arc<Mutex<String>>,
}

impl Serve {
    /// Starts `longhaul serve` on loopback and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_on("127.0.0.1", arguments)
    }

    /// The same on another local address.
    pub(crate) fn start_on(address: &str, arguments: &[&str]) -> Self {
        // The kernel names a free port; another process would have to take it within milliseconds.
        let port = TcpListener::bind((address, 0)).unwrap().local_addr().unwrap().port();
        let mut child = longhaul()
            .args(["serve", "--bind", address, "--port", &port.to_string()])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        let kept = Arc::new(Mutex::new(String::new()));
        let lines = Arc::clone(&kept);
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                *lines.lock().unwrap() += &(line + "\n");
            }
        });
        Self { child, port, log: kept }
    }

    /// Returns its log as soon as that fulfils `condition`.
    pub(crate) fn log(&self, condition: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let log = self.log.lock().unwrap().clone();
            if condition(&log) {
                return log;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its number.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: i32) {
        kernel::signal_group(&self.child, signal).unwrap();
    }

    /// Runs `longhaul test` against it.
    pub(crate) fn test(&self, arguments: &[&str]) -> Output {
        self.test_host("127.0.0.1", arguments)
    }

    /// The same with another name for this host.
    pub(crate) fn test_host(&self, host: &str, arguments: &[&str]) -> Output {
        longhaul().args(["test", host, "-p", &self.port.to_string()]).args(arguments).output().unwrap()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Output of a program as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Path in a directory as text.
pub(crate) fn path(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}
