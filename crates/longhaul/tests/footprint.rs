//! Memory of a test as reported by the kernel (getrusage: ru_maxrss).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests too")]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Serve, longhaul};

#[allow(clippy::zombie_processes, reason = "`reap` waits for it, and takes its usage")]
/// Returns the largest resident set of a test over loopback, in bytes.
fn peak_resident(serve: &Serve, arguments: &[&str]) -> u64 {
    let port = serve.port.to_string();
    let child = longhaul()
        .args(["test", "127.0.0.1", "--port", &port, "--json=/dev/null"])
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = std::time::Instant::now();
    loop {
        assert!(started.elapsed() < Duration::from_secs(60), "{arguments:?} does not end");
        if let Some((status, usage)) = kernel::reap(&child).unwrap() {
            assert_eq!(status, 0, "{arguments:?}");
            return usage.peak_resident;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Largest resident set of the server so far, in bytes (proc_pid_status(5): VmHWM).
fn peak_of_server(serve: &Serve) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serve.process())).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Peaks of a test with one stream and of one with 64, and the bytes that each further stream needs at either end.
fn bytes_per_stream(arguments: &[&str]) -> [u64; 2] {
    let peaks = ["1", "64"].map(|streams| {
        let serve = Serve::start(&[]);
        let client = peak_resident(&serve, &[&["-t", "2", "-P", streams], arguments].concat());
        [client, peak_of_server(&serve)]
    });
    let [[client, server], [client_64, server_64]] = peaks;
    // The pages of the program itself are included; a debug build has more of them.
    assert!(client < 40_000_000 && server < 40_000_000, "one stream: client {client}, server {server} bytes");
    [client_64.saturating_sub(client) / 63, server_64.saturating_sub(server) / 63]
}

#[test]
fn a_stream_uses_at_most_120_kb_of_memory() {
    // A sender of a debug build takes 80 kB with 64 streams and 56 kB with 128. Its thread's stack and allocator take
    // 20 kB, histograms of a thousand delays 4 kB each, the records at the end some 10 kB, and a sampled block that
    // waits for its timestamps 88 bytes. The rest of the bound is for a host on which reports are late.
    for arguments in [&[][..], &["--reverse"]] {
        let [client, server] = bytes_per_stream(arguments);
        assert!(
            client < 120_000 && server < 120_000,
            "{arguments:?}: client {client}, server {server} bytes per stream"
        );
    }
    let [client, server] = bytes_per_stream(&["--bidir"]);
    assert!(client < 180_000 && server < 180_000, "both directions: client {client}, server {server} bytes per pair");
}
