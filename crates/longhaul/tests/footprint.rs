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

#[test]
fn a_stream_uses_at_most_200_kb_of_memory() {
    let serve = Serve::start(&[]);
    let one = peak_resident(&serve, &["-t", "2"]);
    // The pages of the program itself are included; a debug build has more of them.
    assert!(one < 40_000_000, "a test with one stream uses {one} bytes");
    for direction in ["--reverse", "--bidir"] {
        let many = peak_resident(&serve, &["-t", "2", "-P", "128", direction]);
        let streams = if direction == "--bidir" { 255 } else { 127 };
        let each = many.saturating_sub(one) / streams;
        assert!(each < 200_000, "{each} bytes per stream with {direction}");
    }
}
