//! Errors of users and disks: a clear message, the right exit status, no files left behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{Serve, longhaul, path, text};

fn assert_rejected(arguments: &[&str], expected: &str) {
    let out = longhaul().args(arguments).output().unwrap();
    let stderr = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(stderr.contains(expected), "{arguments:?}: `{expected}` is not in: {stderr}");
}

#[test]
fn invalid_options_are_rejected_before_anything_is_sent() {
    let host = "192.0.2.1";
    assert_rejected(&["test", host, "-P", "0"], "stream");
    assert_rejected(&["test", host, "-P", "1000"], "128");
    assert_rejected(&["test", host, "-l", "1"], "--block 1 is out of range: a TCP block has 16 to 16777216 bytes");
    assert_rejected(&["test", host, "-t", "0"], "--time");
    assert_rejected(&["test", host, "--dscp", "64"], "64");
    assert_rejected(&["test", host, "-C", "no such thing"], "congestion");
    assert_rejected(&["test", host, "--pacing", "10GB/s"], "bits, not bytes");
    assert_rejected(&["test", host, "-t", "1", "-n", "1"], "cannot be used with");
    assert_rejected(&["test", host, "--json", "--csv"], "standard output");
    assert_rejected(&["test", host, "--key-file", "/nonexistent/key"], "/nonexistent/key");
    assert_rejected(&["test", host, "--report", "/nonexistent/r.html"], "/nonexistent/r.html");
    assert_rejected(&["serve", "--allow", "not-a-network"], "192.0.2.0/24");
    assert_rejected(&["report", "/nonexistent/r.jsonl"], "/nonexistent/r.jsonl");
}

#[test]
fn a_rate_or_time_without_a_unit_is_rejected_with_suggestions() {
    let times = "100 has no unit; write 100ms or 100s";
    let rates = "100 has no unit; write 100Mb/s, 100kb/s or 100b/s";
    for (arguments, option, expected) in [
        (&["model", "--rtt", "100"][..], "--rtt", times),
        (&["model", "--rtt", "1ms", "--timeout", "100"], "--timeout", times),
        (&["model", "--rtt", "1ms", "--rate", "100"], "--rate", rates),
        (&["lab", "path", "--rtt", "100", "--", "true"], "--rtt", times),
        (&["lab", "path", "--jitter", "100", "--", "true"], "--jitter", times),
        (&["lab", "path", "--rate", "100", "--", "true"], "--rate", rates),
        (&["lab", "path", "--lateness", "100", "--", "true"], "--lateness", times),
        (&["tune", "check", "--rtt", "100"], "--rtt", times),
        (&["tune", "check", "--rate", "100"], "--rate", rates),
        (&["shape", "constant", "--rate", "100", "lo"], "--rate", rates),
        (&["shape", "constant", "--rate", "1Mb/s", "--queue", "100", "lo"], "--queue", times),
        (&["shape", "apply", "--for", "100", "no.toml"], "--for", times),
        (&["test", "192.0.2.1", "--pacing", "100"], "--pacing", rates),
        (&["test", "192.0.2.1", "--link-rate", "100"], "--link-rate", rates),
        (&["test", "192.0.2.1", "--grace", "100"], "--grace", times),
        (&["serve", "--max-rate", "100"], "--max-rate", rates),
        (&["serve", "--max-duration", "100"], "--max-duration", times),
        (&["history", "--since", "100"], "--since", times),
        (&["overlay", "ca", "sign", "--key", "k", "--valid", "100"], "--valid", times),
    ] {
        assert_rejected(arguments, option);
        assert_rejected(arguments, expected);
    }
}

#[test]
fn numbers_out_of_range_are_rejected_with_option_and_range() {
    let host = "192.0.2.1";
    for (option, value, expected) in [
        ("--pacing", "0", "1b/s or more"),
        ("--pacing", "100000000000000000Tb/s", "out of range"),
        ("--udp", "0", "1b/s or more"),
        ("--link-rate", "0b/s", "1b/s or more"),
        ("--streams", "129", "1..=128"),
        ("--bytes", "0", "above zero"),
        ("--window", "0", "1 to 2147483647 bytes"),
        ("--window", "2GiB", "1 to 2147483647 bytes"),
        ("--mss", "87", "88..=32767"),
        ("--notsent-lowat", "4GiB", "1 to 4294967295 bytes"),
        ("--interval", "9ms", "10ms or more"),
        ("--interval", "0", "10ms or more"),
        ("--time", "0s", "above zero"),
        ("--block", "17MB", "16 to 16777216 bytes"),
        ("--port", "0", "1..=65535"),
    ] {
        let arguments = ["test", host, option, value];
        assert_rejected(&arguments, option);
        assert_rejected(&arguments, expected);
    }
    for (arguments, option) in [
        (&["estimate", host, "--budget", "0"][..], "--budget"),
        (&["estimate", host, "--time", "0"], "--time"),
        (&["choose", host, "192.0.2.2", "--budget", "0"], "--budget"),
        (&["lab", "path", "--rate", "0", "--", "true"], "--rate"),
        (&["tune", "check", "--rate", "0"], "--rate"),
        (&["tune", "check", "--rtt", "11s"], "--rtt"),
        (&["tune", "verify", host, "-P", "0"], "--streams"),
        (&["serve", "--max-sessions", "0"], "--max-sessions"),
        (&["serve", "--max-sessions-per-address", "0"], "--max-sessions-per-address"),
    ] {
        assert_rejected(arguments, option);
    }
}

#[test]
fn common_mistakes_have_an_answer() {
    for (arguments, expected) in [
        (&["test", "http://192.0.2.1:6310/"][..], "not a URL"),
        (&["estimate", " "], "without spaces"),
        (&["test", "192.0.2.1", "-t", "-5"], "a value cannot be negative"),
        (&["history", "--since", "-1d"], "a value cannot be negative"),
        (&["shape", "constant", "--rate", "0", "lo"], "200b/s or more"),
        (&["serve", "-1"], "--one-off"),
        (&["lab", "path", "longhaul", "test", "far"], "write the command after `--`"),
        (&["lab", "path", "--queue", "0", "--", "true"], "--queue 0 has no unit; write bytes"),
        (&["test", "192.0.2.1", "-f", "m"], "each rate is shown with its unit"),
        (&["test", "192.0.2.1", "--get-server-output"], "records of both ends"),
        (&["test", "192.0.2.1", "-A", "999"], "CPUs, counted from 0"),
        (&["report", "/proc/self", "-o", "/dev/null"], "name a file in it, such as /proc/self/records.jsonl"),
    ] {
        assert_rejected(arguments, expected);
    }
}

#[test]
fn an_unreachable_host_is_named() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    // Nothing listens on this port; it may be given by an option or with the host.
    let with_port = format!("127.0.0.1:{port}");
    for arguments in [
        &["test", "127.0.0.1", "-p", &port][..],
        &["test", &with_port],
        &["estimate", &with_port],
        &["choose", &with_port, &format!("{with_port}@127.0.0.2")],
        &["tune", "verify", &with_port],
    ] {
        assert_rejected(arguments, &format!("connecting to 127.0.0.1:{port}"));
        assert_rejected(arguments, "is `longhaul serve` running there");
    }
    let both = ["choose", &with_port, &format!("{with_port}@127.0.0.2")];
    assert_rejected(&both, &format!("\n  {with_port}: connecting to"));
    assert_rejected(&both, &format!("\n  {with_port}@127.0.0.2: connecting to"));
    assert_rejected(&["test", "[::1]:0"], "port `0` is out of range (1-65535)");
    assert_rejected(&["test", "[far]:5003"], "not an IPv6 address");
    assert_rejected(&["test", "no-such-host.invalid"], "no-such-host.invalid");
    assert_rejected(&["test", "no-such-host.invalid"], "is the name right?");
}

#[test]
fn a_peer_with_another_protocol_is_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let other = std::thread::spawn(move || {
        let (mut s, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut s, b"SSH-2.0-OpenSSH_9.2p1\r\n").unwrap();
    });
    assert_rejected(&["test", "127.0.0.1", "-p", &port], "not a longhaul or thrulay server");
    other.join().unwrap();
}

#[test]
fn files_without_valid_records_are_rejected_with_line_numbers() {
    let directory = tempfile::tempdir().unwrap();
    for (name, content, expected) in [
        ("empty.jsonl", "", "no records"),
        ("garbage.jsonl", "hello\n", "line 1"),
        ("half.jsonl", "\n{\"record\":\"start\"\n", "line 2"),
        ("other.jsonl", "{\"record\":\"flight\"}\n", "no records"),
        ("wrong.jsonl", "{\"record\":\"end\"}\n", "line 1"),
        ("array.json", "[{\"record\":\"start\"}]\n", "it is one JSON array"),
        ("estimate.jsonl", "{\"record\":\"start\",\"schema\":\"longhaul.estimate/2\"}\n", "estimate HOST --report"),
        ("tune.jsonl", "{\"record\":\"start\",\"schema\":\"longhaul.tune/2\"}\n", "`longhaul tune`; it has no page"),
    ] {
        let file = path(directory.path(), name);
        std::fs::write(&file, content).unwrap();
        assert_rejected(&["report", &file, "-o", &path(directory.path(), "out.html")], expected);
        assert!(!directory.path().join("out.html").exists());
    }
}

#[test]
fn wrong_missing_and_short_keys_have_different_errors() {
    let directory = tempfile::tempdir().unwrap();
    let key = |name: &str, content: &str| {
        let file = path(directory.path(), name);
        std::fs::write(&file, content).unwrap();
        set_mode(&file, 0o600);
        file
    };
    let (right, wrong) =
        (key("right", "correct horse battery staple\n"), key("wrong", "incorrect horse battery staple\n"));
    let serve = Serve::start(&["--key-file", &right]);
    let port = serve.port.to_string();
    let test = ["test", "127.0.0.1", "-p", &port, "-t", "0.2", "-C", "reno"];
    assert_rejected(&test, "--key-file");
    assert_rejected(&[&test[..], &["--key-file", &wrong]].concat(), "does not hold the same pre-shared key");
    assert_rejected(&[&test[..], &["--key-file", &key("short", "abc")]].concat(), "16");
    let out = serve.test(&["-t", "0.2", "-C", "reno", "--key-file", &right]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    // A key file that other users may read or write is rejected.
    for mode in [0o644, 0o602] {
        set_mode(&right, mode);
        assert_rejected(&[&test[..], &["--key-file", &right]].concat(), "chmod 600");
        assert_rejected(&["serve", "-B", "127.0.0.1", "--port", "0", "--key-file", &right], "chmod 600");
    }
}

fn set_mode(file: &str, mode: u32) {
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_link_local_address_needs_its_device() {
    let hint = "fe80::1%eth0";
    assert_rejected(&["serve", "-B", "fe80::1", "--port", "0"], hint);
    assert_rejected(&["test", "192.0.2.1", "-B", "fe80::1"], hint);
    assert_rejected(&["estimate", "192.0.2.1", "-B", "fe80::1"], hint);
    assert_rejected(&["choose", "192.0.2.1@fe80::1", "192.0.2.2"], hint);
    assert_rejected(&["test", "fe80::1"], hint);
    assert_rejected(&["test", "[fe80::1]:5004"], hint);
    assert_rejected(&["serve", "-B", "fe80::1%no-such-device", "--port", "0"], "no-such-device");
}

#[test]
fn a_server_reports_the_reason_of_a_rejection() {
    let serve = Serve::start(&["--max-duration", "1s", "--allow", "127.0.0.0/8"]);
    let out = serve.test(&["-t", "5"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("at most 1 s"), "{}", text(&out.stderr));
    let strict = Serve::start(&["--allow", "192.0.2.0/24"]);
    let out = strict.test(&["-t", "1"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("allow list"), "{}", text(&out.stderr));
}

#[test]
fn a_full_device_is_reported_and_the_test_still_ends() {
    let serve = Serve::start(&[]);
    let out = serve.test(&["-t", "0.3", "-i", "0.1", "-C", "reno", "--json=/dev/full"]);
    assert_eq!(out.status.code(), Some(2));
    let stderr = text(&out.stderr);
    assert!(stderr.contains("/dev/full") && stderr.contains("No space left"), "{stderr}");
    assert!(text(&out.stdout).contains("goodput"), "the other outputs are complete");
}

#[test]
fn a_full_disk_leaves_no_partial_report() {
    let directory = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
        .arg(directory.path())
        .status()
        .is_ok_and(|s| s.success());
    if !mounted {
        println!("skipped: mounting a small file system needs root");
        return;
    }
    let serve = Serve::start(&[]);
    let page = path(directory.path(), "r.html");
    let out = serve.test(&["-t", "0.3", "-i", "0.1", "-C", "reno", "--report", &page]);
    let remaining = std::fs::read_dir(directory.path()).unwrap().count();
    let unmounted = Command::new("umount").arg(directory.path()).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(out.status.code(), Some(2));
    let stderr = text(&out.stderr);
    assert!(stderr.contains("r.html") && stderr.contains("No space left"), "{stderr}");
    assert_eq!(remaining, 0, "no partial page remains");
}

#[test]
fn a_closed_pipe_ends_the_test_without_an_error() {
    let serve = Serve::start(&[]);
    let port = serve.port.to_string();
    let start = std::time::Instant::now();
    let out = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "{} test 127.0.0.1 -p {port} -t 30 -i 0.1 -C reno --pacing 10Mb/s --format json | head -n 1",
            env!("CARGO_BIN_EXE_longhaul")
        ))
        .output()
        .unwrap();
    assert!(text(&out.stdout).starts_with("{\"record\":\"start\""), "{}", text(&out.stdout));
    assert!(text(&out.stderr).is_empty(), "{}", text(&out.stderr));
    // The limit is far below the 30 s of the test, and far above the time that its end takes.
    assert!(start.elapsed().as_secs() < 20);
}

#[test]
fn a_closed_pipe_keeps_the_exit_status_of_a_command() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        longhaul().args(arguments).env("LONGHAUL_STATE", directory.path()).stdout(writer).output().unwrap()
    };
    // 10 Gb/s over 500 ms need larger buffers than the defaults of any kernel.
    for (arguments, status) in [
        (&["tune", "check", "--rate", "10Gb/s", "--rtt", "500ms"][..], 1),
        (&["tune", "check", "--rate", "10Gb/s", "--rtt", "500ms", "--json"], 1),
        (&["model", "--rtt", "100ms", "--loss", "1e-4"], 0),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn only_a_regular_file_is_an_experiment_or_a_policy() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = path(directory.path(), "fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for arguments in [&["lab", "run"][..], &["shape", "plan"]] {
        for (file, kind) in [(fifo.as_str(), "a FIFO"), ("/dev/zero", "a device")] {
            let expected = format!("cannot read {file}: it is {kind}, not a regular file");
            assert_rejected(&[arguments, &[file]].concat(), &expected);
        }
    }
}

#[test]
fn escape_sequences_in_a_record_do_not_reach_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let file = path(directory.path(), "a.jsonl");
    let serve = Serve::start(&[]);
    assert!(serve.test(&["-n", "100000", &format!("--json={file}")]).status.success());
    let records = std::fs::read_to_string(&file).unwrap();
    // JSON escapes: set the title of the window, switch to red, and a right-to-left override.
    let hostile = r#""transport":"\u001b]0;PWNED\u0007\u001b[31m\u202ered""#;
    let changed = records.replace(r#""transport":"tcp""#, hostile);
    assert_ne!(changed, records);
    std::fs::write(&file, changed).unwrap();
    let out = longhaul().args(["report", &file, "-o", &path(directory.path(), "a.html")]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let message = text(&out.stderr);
    assert!(message.contains("?]0;PWNED"), "{message}");
    assert!(!message.contains(|c: char| c == '\u{202e}' || (c.is_control() && c != '\n')), "{message:?}");
}
