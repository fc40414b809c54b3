//! Tests without root at either end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const NOBODY_ID: u32 = 65_534;

#[test]
fn both_ends_run_without_privileges() {
    // The build directory may be inaccessible to other users, so a copy of the binary is used.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let binary = directory.path().join("longhaul");
    std::fs::copy(env!("CARGO_BIN_EXE_longhaul"), &binary).unwrap();
    let unprivileged = |arguments: &[&str]| {
        let mut c = Command::new(&binary);
        c.args(arguments).uid(NOBODY_ID).gid(NOBODY_ID).current_dir("/").stdin(Stdio::null());
        c
    };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let Ok(mut serve) = unprivileged(&["serve", "--bind", "127.0.0.1", "-p", &port]).stderr(Stdio::piped()).spawn()
    else {
        println!("skipped: only root can become another user");
        return;
    };
    let mut line = String::new();
    let mut log = std::io::BufReader::new(serve.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut log, &mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    let test = |more: &[&str]| {
        unprivileged(&[&["test", "127.0.0.1", "-p", &port, "-t", "0.3"], more].concat()).output().unwrap()
    };
    let outputs = [test(&["-C", "reno", "-P", "2", "--bidir"]), test(&["-R"]), test(&["-u", "1M"])];
    serve.kill().unwrap();
    serve.wait().unwrap();
    for out in outputs {
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}
