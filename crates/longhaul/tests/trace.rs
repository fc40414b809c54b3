//! `longhaul trace` of a test, checked against the test's own TCP_INFO of the same connection.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::print_stderr,
    reason = "helpers of tests are tests too; notes of skipped ones"
)]

mod common;

use std::fs::File;
use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{Serve, longhaul, text};
use results::trace::{TraceCause, TraceEnd, TraceFlow, TraceRecord, TraceSample};
use results::{Record, TraceReader, read_records};
use tempfile::TempDir;
use testbed::or_skip;

/// `nobody` on every Linux.
const NOBODY: u32 = 65_534;

struct Trace {
    directory: TempDir,
    child: Child,
    _turn: MutexGuard<'static, ()>,
}

/// One trace at a time: they load the machine, and the kernel's programs are counted.
static TURN: Mutex<()> = Mutex::new(());

impl Trace {
    /// Starts a trace and returns once the programs are attached. `None`, with a note, without root.
    fn begin(arguments: &[&str]) -> Option<Self> {
        or_skip(kernel::new_namespace())?;
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("trace.jsonl");
        let mut command = longhaul();
        command.arg("trace").args(arguments).arg(format!("--json={}", json.display())).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The first line is written when all are attached.
        while std::fs::read_to_string(&json).unwrap_or_default().lines().next().is_none() {
            kernel::sleep_for(Duration::from_millis(10));
            assert!(child.try_wait().unwrap().is_none(), "the tracer ended");
        }
        Some(Self { directory, child, _turn: turn })
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> (Vec<TraceFlow>, Vec<TraceSample>, TraceEnd) {
        kernel::signal_group(&self.child, SIGINT).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        let (flows, samples, end) = read(&self.directory.path().join("trace.jsonl"));
        (flows, samples, end.unwrap())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Output of a trace.
fn read(path: &Path) -> (Vec<TraceFlow>, Vec<TraceSample>, Option<TraceEnd>) {
    let (mut flows, mut samples, mut end) = (Vec::new(), Vec::new(), None);
    for record in TraceReader::new(BufReader::new(File::open(path).unwrap())) {
        match record.unwrap() {
            TraceRecord::Start(_) => {}
            TraceRecord::Flow(flow) => flows.push(flow),
            TraceRecord::Sample(sample) => samples.push(sample),
            TraceRecord::End(last) => end = Some(last),
        }
    }
    (flows, samples, end)
}

// signal(7)
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// The binary where any user may run it.
fn public_binary() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let binary = directory.path().join("longhaul");
    std::fs::copy(env!("CARGO_BIN_EXE_longhaul"), &binary).unwrap();
    (directory, binary)
}

#[test]
fn a_connection_is_followed_from_its_begin_to_its_end() {
    let serve = Serve::start(&[]);
    let Some(trace) = Trace::begin(&["--port", &serve.port.to_string(), "--interval", "20ms"]) else { return };
    let tested = serve.test(&["-t", "1", "-C", "cubic", "--interval", "100ms", "--json"]);
    assert!(tested.status.success(), "{}", text(&tested.stderr));
    let (flows, samples, end) = trace.end();
    assert_eq!(end.lost_events, 0);
    // Both ends of the control connection and of the data connection are on this host.
    assert_eq!(flows.len(), 4, "{flows:?}");
    let port = format!(":{}", serve.port);
    assert!(flows.iter().all(|f| f.local.ends_with(&port) != f.remote.ends_with(&port)), "{flows:?}");
    // The sender of the data.
    let carried = |flow: u32| samples.iter().filter(|s| s.flow == flow).map(|s| s.acked_bytes).max().unwrap_or(0);
    let sender = flows.iter().max_by_key(|f| carried(f.flow)).unwrap();
    assert_eq!(sender.congestion_control, "cubic");
    let own: Vec<&TraceSample> = samples.iter().filter(|s| s.flow == sender.flow).collect();
    assert!(own.windows(2).all(|w| w[0].at_s <= w[1].at_s), "in the order of time");
    assert_eq!(own.iter().filter(|s| s.cause == TraceCause::End).count(), 1);
    // Once in 20 ms for a second, but for pauses of the machine.
    let acks = own.iter().filter(|s| s.cause == TraceCause::Ack).count();
    assert!((20..=60).contains(&acks), "{acks}");

    let records = read_records(tested.stdout.as_slice()).unwrap();
    let received = records.iter().find_map(|r| match r {
        Record::End(end) => Some(end.directions[0].receiver.bytes),
        _ => None,
    });
    let (received, acked) = (received.unwrap(), carried(sender.flow));
    // What the receiver read was acknowledged, and hardly more was sent.
    assert!(acked >= received && acked < received + received / 10 + 10_000_000, "{acked} of {received}");
}

#[test]
fn every_packet_that_arrives_makes_a_sample() {
    let serve = Serve::start(&[]);
    let Some(trace) = Trace::begin(&["--port", &serve.port.to_string(), "--every-packet"]) else { return };
    let tested = serve.test(&["--bytes", "20MB", "-C", "reno"]);
    assert!(tested.status.success(), "{}", text(&tested.stderr));
    let (flows, samples, end) = trace.end();
    assert_eq!(end.lost_events, 0);
    assert_eq!(end.samples, samples.len() as u64);
    // The receiving end of the data connection sees all of its segments: super-packets of 64 KiB on loopback, of which
    // the kernel merges some that wait for a busy receiver. At the usual interval a transfer that lasts some 20 ms
    // would have one.
    let most = flows.iter().map(|f| samples.iter().filter(|s| s.flow == f.flow).count()).max().unwrap();
    assert!(most >= 20_000_000 / 65_536 / 4, "{most}");
}

#[test]
fn the_state_of_fast_is_beside_that_of_tcp() {
    let serve = Serve::start(&[]);
    let name = format!("fast_{}", std::process::id());
    let Some(trace) = Trace::begin(&["-C", &name, "--interval", "10ms"]) else { return };
    let loaded = longhaul().args(["cc", "load", &name]).output().unwrap();
    assert!(loaded.status.success(), "{}", text(&loaded.stderr));
    let tested = serve.test(&["-t", "1", "-C", &name]);
    assert!(longhaul().args(["cc", "unload", &name]).output().unwrap().status.success());
    assert!(tested.status.success(), "{}", text(&tested.stderr));
    let (flows, samples, _) = trace.end();
    assert!(flows.iter().all(|f| f.congestion_control == name), "{flows:?}");
    let mut seen = 0;
    for flow in &flows {
        let own = samples.iter().filter(|s| s.flow == flow.flow).filter_map(|s| s.fast.as_ref());
        let states: Vec<_> = own.filter(|f| f.average_rtt_ns > 0).collect();
        assert!(states.iter().all(|f| f.base_rtt_ns <= f.average_rtt_ns), "a mean is no less than the smallest");
        assert!(states.windows(2).all(|w| w[0].base_rtt_ns >= w[1].base_rtt_ns), "the smallest never grows");
        seen += states.len();
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn a_missing_privilege_is_named() {
    if or_skip(kernel::new_namespace()).is_none() {
        return;
    }
    let (_folder, binary) = public_binary();
    for arguments in [&["trace", "--source", "bpf", "--time", "1s"][..], &["cc", "load", "fast"]] {
        let refused = std::process::Command::new(&binary)
            .args(arguments)
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .output()
            .unwrap();
        let message = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && message.contains("CAP_BPF"), "{arguments:?}: {message}");
    }
}

#[test]
fn without_privilege_the_kernels_diagnostics_are_asked() {
    if or_skip(kernel::new_namespace()).is_none() {
        return;
    }
    let (directory, binary) = public_binary();
    let serve = Serve::start(&[]);
    let out = directory.path().join("trace.jsonl");
    let mut command = std::process::Command::new(&binary);
    command.args(["trace", "--interval", "20ms", "--time", "3s", "--port", &serve.port.to_string()]);
    command.arg(format!("--json={}", out.display())).stderr(Stdio::piped()).uid(NOBODY).gid(NOBODY).current_dir("/");
    let mut trace = command.spawn().unwrap();
    while !std::fs::read_to_string(&out).unwrap_or_default().contains("diagnostics") {
        kernel::sleep_for(Duration::from_millis(10));
        assert!(trace.try_wait().unwrap().is_none(), "the tracer ended");
    }
    let tested = serve.test(&["-t", "1", "-C", "cubic", "--json"]);
    assert!(tested.status.success(), "{}", text(&tested.stderr));
    let ended = trace.wait_with_output().unwrap();
    let message = text(&ended.stderr);
    assert!(ended.status.success() && message.contains("CAP_BPF") && message.contains("falling back"), "{message}");
    let (flows, samples, _) = read(&out);
    assert_eq!(flows.len(), 4, "both ends of both connections: {flows:?}");
    let ends = samples.iter().filter(|s| s.cause == TraceCause::End).count();
    assert_eq!(ends, 4, "all of them ended");
    let acked = samples.iter().map(|s| s.acked_bytes).max().unwrap();
    let records = read_records(tested.stdout.as_slice()).unwrap();
    let received = records.iter().find_map(|r| match r {
        Record::End(end) => Some(end.directions[0].receiver.bytes),
        _ => None,
    });
    // The last look was some 20 ms before the end, later on a busy machine; no more was acknowledged than was sent.
    let received = received.unwrap();
    assert!(acked >= received / 2 && acked < received + received / 10 + 10_000_000, "{acked} of {received}");
}

#[test]
fn only_connections_of_the_process_are_traced() {
    let serve = Serve::start(&[]);
    let process = serve.process().to_string();
    for source in ["bpf", "diagnostics"] {
        let Some(trace) = Trace::begin(&["--process", &process, "--source", source]) else { return };
        // Longer than it takes to find the connections of a process, which is looked for four times a second.
        let tested = serve.test(&["-t", "1.5"]);
        assert!(tested.status.success(), "{}", text(&tested.stderr));
        let (flows, _, _) = trace.end();
        let port = format!(":{}", serve.port);
        assert!(!flows.is_empty() && flows.iter().all(|f| f.local.ends_with(&port)), "{source}: {flows:?}");
    }
    let refused = longhaul().args(["trace", "--process", "4194305"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("no process has the number 4194305"), "{}", text(&refused.stderr));
}

/// Number of the tracer's programs in the kernel's list.
fn programs() -> usize {
    libbpf_rs::query::ProgInfoIter::default().filter(|p| p.name.to_str() == Some("on_packet")).count()
}

#[test]
fn a_killed_tracer_leaves_nothing_in_the_kernel() {
    let Some(mut trace) = Trace::begin(&["--interval", "10s", "--port", "1"]) else { return };
    let before = programs();
    assert!(before > 0);
    kernel::signal_group(&trace.child, SIGKILL).unwrap();
    trace.child.wait().unwrap();
    // The kernel removes programs a grace period after their last use.
    for _ in 0..500 {
        if programs() < before {
            break;
        }
        kernel::sleep_for(Duration::from_millis(10));
    }
    assert_eq!(programs(), before - 1);
}

#[test]
fn lost_events_are_counted_and_reported() {
    let serve = Serve::start(&[]);
    let Some(mut trace) = Trace::begin(&["--port", &serve.port.to_string(), "--every-packet"]) else { return };
    // The ring is not read and has room for some 95 000 events. A gigabyte in small segments makes 110 000 and
    // more, the fewer the busier the machine is, as packets that wait are merged: so two.
    kernel::signal_group(&trace.child, SIGSTOP).unwrap();
    let tested = serve.test(&["--bytes", "2GB", "--block", "4KiB", "--mss", "536", "-P", "2"]);
    assert!(tested.status.success(), "{}", text(&tested.stderr));
    kernel::signal_group(&trace.child, SIGCONT).unwrap();
    kernel::signal_group(&trace.child, SIGINT).unwrap();
    let status = trace.child.wait().unwrap();
    let (_, samples, end) = read(&trace.directory.path().join("trace.jsonl"));
    let end = end.unwrap();
    assert!(end.lost_events > 0, "{end:?}");
    assert_eq!(end.samples, samples.len() as u64);
    assert_eq!(status.code(), Some(1), "a trace with holes is no success");
}
