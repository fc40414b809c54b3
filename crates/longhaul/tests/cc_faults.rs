//! `longhaul cc load` and `trace` when killed, or on a kernel without a needed feature: remains and error messages.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests are tests too; notes of skipped ones")]

mod common;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{Serve, longhaul, text};
use results::cc::{CcControl, CcRecord};
use socket2::SockRef;
use testbed::{Ended, kill_at_call, or_skip};

// signal(7)
const SIGKILL: i32 = 9;

/// Directory of the pins of loaded controls.
const PINS_DIRECTORY: &str = "/sys/fs/bpf/longhaul/congestion";

/// Serializes the tests, because they count the BPF programs in the kernel.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the other tests of this file; returns `None`, with a note, without root.
fn turn() -> Option<MutexGuard<'static, ()>> {
    or_skip(kernel::new_namespace())?;
    Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

fn cc(arguments: &[&str]) -> Output {
    longhaul().arg("cc").args(arguments).output().unwrap()
}

fn run_cc(arguments: &[&str]) {
    let output = cc(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
}

fn has(name: &str) -> bool {
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    all.split_whitespace().any(|n| n == name)
}

/// Entry of `cc list` for a name.
fn listed(name: &str) -> Option<CcControl> {
    let records = text(&cc(&["list", "--json"]).stdout);
    let records = records.lines().map(|l| serde_json::from_str::<CcRecord>(l).unwrap());
    records.filter_map(|r| if let CcRecord::Control(c) = r { Some(c) } else { None }).find(|c| c.name == name)
}

/// Ids of FAST's programs in the kernel's list.
fn programs_of_fast() -> BTreeSet<u32> {
    let all = libbpf_rs::query::ProgInfoIter::default();
    all.filter(|p| p.name.as_encoded_bytes().starts_with(b"fast_")).map(|p| p.id).collect()
}

/// Name of a control that is unique to this process; the control is unloaded when dropped.
struct OwnControl(String);

impl OwnControl {
    fn new(test: char) -> Self {
        Self(format!("fast_{}{test}", std::process::id()))
    }
}

impl Drop for OwnControl {
    fn drop(&mut self) {
        let _ = cc(&["unload", &self.0]);
    }
}

/// Connection of this host to itself that sends a little data continuously.
struct Flow {
    stream: TcpStream,
    ended: Arc<AtomicBool>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<u64>,
}

impl Flow {
    fn start(control: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        SockRef::from(&stream).set_tcp_congestion(control.as_bytes()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let receiver = thread::spawn(move || io::copy(&mut far, &mut io::sink()).unwrap());
        let ended = Arc::new(AtomicBool::new(false));
        let (end, mut own) = (Arc::clone(&ended), stream.try_clone().unwrap());
        let sender = thread::spawn(move || {
            let mut sent = 0;
            while !end.load(Ordering::Relaxed) {
                own.write_all(&[0; 10_000]).unwrap();
                sent += 10_000;
                kernel::sleep_for(Duration::from_millis(5));
            }
            sent
        });
        Self { stream, ended, sender, receiver }
    }

    /// Checks that all data has arrived, under the same control.
    fn end(self, control: &str) {
        self.ended.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        let used = SockRef::from(&self.stream).tcp_congestion().unwrap();
        assert_eq!(used.split(|b| *b == 0).next().unwrap(), control.as_bytes());
        self.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(self.receiver.join().unwrap(), sent);
    }
}

/// First system call of the main thread at which the loader is killed. Loading the program and parsing its arguments
/// take more calls than this, so nothing can have changed before it.
const FIRST_CALL: usize = 40;

#[test]
fn remains_of_a_loader_killed_at_any_call_are_listed_and_can_be_cleaned_up() {
    let Some(_turn) = turn() else { return };
    let (used, killed) = (OwnControl::new('u'), OwnControl::new('k'));
    run_cc(&["load", &used.0]);
    let flow = Flow::start(&used.0);
    let others = programs_of_fast();
    let pins = Path::new(PINS_DIRECTORY).join(&killed.0);
    let (mut unpinned, mut unfinished, mut loaded) = (0, 0, 0);
    for call in FIRST_CALL.. {
        let ended = kill_at_call(longhaul().args(["cc", "load", &killed.0]), call).unwrap();
        let known = listed(&killed.0);
        assert_eq!(has(&killed.0), known.as_ref().is_some_and(|c| c.available), "killed at call {call}: {known:?}");
        assert_eq!(pins.exists(), known.is_some(), "killed at call {call}: {known:?}");
        if let Ended::ByItself(status) = ended {
            assert!(status.success() && has(&killed.0), "{status}");
            break;
        }
        match known {
            None => unpinned += 1,
            Some(c) if c.available => {
                loaded += 1;
                let flow = Flow::start(&killed.0);
                run_cc(&["unload", &killed.0]);
                flow.end(&killed.0);
            }
            Some(_) => {
                unfinished += 1;
                // Both `load` and `unload` clean up an unfinished load.
                if unfinished % 2 == 0 {
                    run_cc(&["load", &killed.0]);
                }
                run_cc(&["unload", &killed.0]);
            }
        }
        assert!(!pins.exists() && !has(&killed.0), "killed at call {call}");
    }
    run_cc(&["unload", &killed.0]);
    flow.end(&used.0);
    println!(
        "killed at {unpinned} calls before the first pin, at {unfinished} before the registration, at {loaded} after"
    );
    assert!(unpinned > 10 && unfinished > 2 && loaded > 2, "{unpinned} {unfinished} {loaded}");
    let start = Instant::now();
    // The kernel frees the programs one RCU grace period after the end of the last connection.
    while !programs_of_fast().is_subset(&others) {
        assert!(start.elapsed() < Duration::from_secs(30), "programs of the killed loader remain");
        kernel::sleep_for(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_tracer_does_not_disturb_the_traced_transfer() {
    let Some(_turn) = turn() else { return };
    let serve = Serve::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("trace.jsonl");
    let mut command = longhaul();
    command.args(["trace", "--source", "bpf", "--every-packet", "--port", &serve.port.to_string()]);
    command.arg(format!("--json={}", json.display())).stdout(Stdio::null()).stderr(Stdio::null());
    let mut tracer = command.spawn().unwrap();
    let killer = thread::spawn(move || {
        // The kill happens during the transfer: 100 samples have been recorded.
        let has_samples = || std::fs::read_to_string(&json).is_ok_and(|t| t.matches("\"sample\"").count() > 100);
        let start = Instant::now();
        while !has_samples() && start.elapsed() < Duration::from_secs(30) {
            kernel::sleep_for(Duration::from_millis(5));
        }
        let has_recorded = has_samples();
        kernel::signal_group(&tracer, SIGKILL).unwrap();
        tracer.wait().unwrap();
        has_recorded
    });
    let tested = serve.test(&["-t", "3", "--json"]);
    assert!(killer.join().unwrap(), "the tracer must have recorded the transfer");
    assert!(tested.status.success(), "{}", text(&tested.stderr));
}

/// Runs the binary in a mount namespace that hides the kernel's BTF.
fn without_btf(arguments: &[&str]) -> Output {
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind \"$0\" /sys/kernel/btf && exec \"$@\""]);
    command.arg(empty.path()).arg(env!("CARGO_BIN_EXE_longhaul")).args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn a_kernel_without_btf_is_distinguished_from_a_missing_privilege() {
    let Some(_turn) = turn() else { return };
    let own = OwnControl::new('b');
    for arguments in [&["cc", "load", &own.0][..], &["trace", "--source", "bpf", "--time", "1s"]] {
        let refused = without_btf(arguments);
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(
            message.contains("has no BTF") && message.contains("CONFIG_DEBUG_INFO_BTF"),
            "{arguments:?}: {message}"
        );
        assert!(!message.contains("CAP_BPF"), "{arguments:?}: {message}");
    }
    assert!(!has(&own.0) && listed(&own.0).is_none(), "the failed load must leave nothing");
    // Commands that need no BTF work.
    assert!(without_btf(&["cc", "list"]).status.success());
    let traced = without_btf(&["trace", "--lines", "--time", "100ms"]);
    let message = text(&traced.stderr);
    assert!(traced.status.success() && message.contains("has no BTF") && message.contains("falling back"), "{message}");
}
