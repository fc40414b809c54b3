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

/// Server process; killed when dropped.
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

    /// Starts `longhaul serve` on a local address and waits until it listens.
    pub(crate) fn start_on(address: &str, arguments: &[&str]) -> Self {
        // The kernel selects a free port; a collision within the next milliseconds is unlikely.
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
        let collected = Arc::new(Mutex::new(String::new()));
        let lines = Arc::clone(&collected);
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                *lines.lock().unwrap() += &(line + "\n");
            }
        });
        Self { child, port, log: collected }
    }

    /// Returns the server's log as soon as it fulfils `condition`.
    pub(crate) fn log(&self, condition: impl Fn(&str) -> bool) -> String {
        let start_time = Instant::now();
        loop {
            let log = self.log.lock().unwrap().clone();
            if condition(&log) {
                return log;
            }
            assert!(start_time.elapsed() < Duration::from_secs(20), "{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the server's process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: i32) {
        kernel::signal_group(&self.child, signal).unwrap();
    }

    /// Runs `longhaul test` against the server.
    pub(crate) fn test(&self, arguments: &[&str]) -> Output {
        self.test_host("127.0.0.1", arguments)
    }

    /// Runs `longhaul test` against the server, which is given by another name of this host.
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
