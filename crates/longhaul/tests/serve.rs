//! Robustness of the server against clients, especially unknown ones.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests too")]

mod common;

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Output, Stdio};

use common::{Serve, longhaul, path, text};

/// Starts `longhaul test` against a server.
fn client(serve: &Serve, arguments: &[&str]) -> Child {
    let port = serve.port.to_string();
    let mut command = longhaul();
    command.args(["test", "127.0.0.1", "-p", &port, "--format", "text"]).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the peak resident set of a process in bytes (VmHWM of /proc/PID/status, proc(5)).
fn peak_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

fn key_file(directory: &std::path::Path, name: &str, text: &str) -> String {
    let file = path(directory, name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file
}

fn assert_rejected(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn large_blocks_of_many_streams_do_not_exhaust_server_memory() {
    let serve = Serve::start(&[]);
    let attack = ["-R", "-P", "128", "-l", "16MiB", "-t", "1s", "--pacing", "1Mb/s", "--grace", "1s"];
    let attackers = [client(&serve, &attack), client(&serve, &attack)];
    let copyless = [&attack[..], &["-Z"]].concat();
    let other = client(&serve, &["-R", "-t", "1s", "--pacing", "10Mb/s"]).wait_with_output().unwrap();
    assert!(other.status.success(), "{}", text(&other.stderr));
    for attacker in attackers {
        attacker.wait_with_output().unwrap();
    }
    client(&serve, &copyless).wait_with_output().unwrap();
    // The blocks of one attacking test have 2 GiB in total.
    let peak = peak_bytes(serve.process());
    assert!(peak < 1 << 30, "{peak} bytes");
}

#[test]
fn a_test_beyond_the_memory_limit_is_rejected_with_a_hint() {
    let serve = Serve::start(&["--max-memory", "32MiB"]);
    let many = serve.test(&["-P", "128", "-t", "0.2"]);
    let reason = assert_rejected(&many);
    assert!(reason.contains("memory") && reason.contains("fewer streams"), "{reason}");
    let few = serve.test(&["-P", "2", "-t", "0.2"]);
    assert!(few.status.success(), "{}", text(&few.stderr));
}

#[test]
fn one_address_can_have_eight_sessions() {
    let serve = Serve::start(&[]);
    // UDP tests of thrulay hold a session without sending data.
    let sessions: Vec<TcpStream> = (0..8).map(|_| start_idle_session(&serve)).collect();
    let reason = assert_rejected(&serve.test(&["-t", "0.2"]));
    assert!(reason.contains("too many from this address"), "{reason}");
    drop(sessions);
}

/// Starts a UDP test of thrulay and returns its control connection after the server has accepted it.
fn start_idle_session(serve: &Serve) -> TcpStream {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(("127.0.0.1", serve.port)).unwrap();
    let mut greeting = [0; 10];
    stream.read_exact(&mut greeting).unwrap();
    stream.write_all(b"thrulay/2:u:5000:100:1000:3600+").unwrap();
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).unwrap();
    assert_ne!(&answer[..3], b"u:-");
    stream
}

#[test]
fn a_failed_authentication_is_logged_with_its_address_and_reason() {
    let directory = tempfile::tempdir().unwrap();
    let right = key_file(directory.path(), "right", "a key that both ends have, long enough");
    let wrong = key_file(directory.path(), "wrong", "another key, which is wrong here");
    let serve = Serve::start(&["--key-file", &right]);
    // A port scan; its log line must differ from the others.
    drop(TcpStream::connect(("127.0.0.1", serve.port)).unwrap());
    let reason = assert_rejected(&serve.test(&["-t", "0.2", "--key-file", &wrong]));
    assert!(reason.contains("same pre-shared key"), "{reason}");
    let reason = assert_rejected(&serve.test(&["-t", "0.2"]));
    assert!(reason.contains("requires a pre-shared key"), "{reason}");
    let log = serve.log(|log| log.matches("authentication failed").count() >= 2 && log.contains("connection ended"));
    for line in log.lines().filter(|l| l.contains("authentication failed")) {
        assert!(line.contains("WARN") && line.contains("127.0.0.1:") && line.contains("key"), "{line}");
    }
    assert_eq!(log.matches("authentication failed").count(), 2, "{log}");
    let good = serve.test(&["-t", "0.2", "--key-file", &right]);
    assert!(good.status.success(), "{}", text(&good.stderr));
}

#[test]
fn the_log_of_a_flood_of_rejected_connections_is_short() {
    let serve = Serve::start(&["--allow", "192.0.2.0/24"]);
    for _ in 0..500 {
        drop(TcpStream::connect(("127.0.0.1", serve.port)).unwrap());
    }
    let log = serve.log(|log| log.contains("not logged"));
    assert!(log.lines().count() < 50, "{log}");
    let count = log.lines().find(|l| l.contains("not logged")).unwrap();
    assert!(count.contains("480"), "{count}");
}
