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

/// User id of the unprivileged user on every Linux.
const NOBODY_ID: u32 = 65_534;

struct Trace {
    directory: TempDir,
    child: Child,
    _turn: MutexGuard<'static, ()>,
}

/// Serializes the traces, because they load the machine and the tests count the BPF programs in the kernel.
static TURN: Mutex<()> = Mutex::new(());

impl Trace {
    /// Starts a trace and returns once its programs are attached; `None`, with a note, without root.
    fn start(arguments: &[&str]) -> Option<Self> {
        or_skip(kernel::new_namespace())?;
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("trace.jsonl");
        let mut command = longhaul();
        command.arg("trace").args(arguments).arg(format!("--json={}", json.display())).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The tracer writes its first line when all programs are attached.
        while std::fs::read_to_string(&json).unwrap_or_default().lines().next().is_none() {
            kernel::sleep_for(Duration::from_millis(10));
            assert!(child.try_wait().unwrap().is_none(), "the tracer ended");
        }
        Some(Self { directory, child, _turn: turn })
    }

    /// Ends the trace with SIGINT, like Ctrl-C.
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

/// Reads the records of a trace.
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

/// Copies the binary into a directory that any user may access.
fn public_binary() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let binary = directory.path().join("longhaul");
    std::fs::copy(env!("CARGO_BIN_EXE_longhaul"), &binary).unwrap();
    (directory, binary)
}

#[test]
fn a_connection_is_traced_from_start_to_end() {
    let serve = Serve::start(&[]);
    let Some(trace) = Trace::start(&["--port", &serve.port.to_string(), "--interval", "20ms"]) else { return };
    let tested = serve.test(&["-t", "1", "-C", "cubic", "--interval", "100ms", "--json"]);
    assert!(tested.status.success(), "{}", text(&tested.stderr));
    let (flows, samples, end) = trace.end();
    assert_eq!(end.lost_events, 0);
    // Both ends of the control connection and of the data connection are on this host.
    assert_eq!(flows.len(), 4, "{flows:?}");
    let port = format!(":{}", serve.port);
    assert!(flows.iter().all(|f| f.local.ends_with(&port) != f.remote.ends_with(&port)), "{flows:?}");
    // The sender of the data has the most acknowledged bytes.
    let acked_bytes_of =
        |flow: u32| samples.iter().filter(|s| s.flow == flow).map(|s| s.acked_bytes).max().unwrap_or(0);
    let sender = flows.iter().max_by_key(|f| acked_bytes_of(f.flow)).unwrap();
    assert_eq!(sender.congestion_control, "cubic");
    let own: Vec<&TraceSample> = samples.iter().filter(|s| s.flow == sender.flow).collect();
    assert!(own.windows(2).all(|w| w[0].at_s <= w[1].at_s), "samples must be in the order of time");
    assert_eq!(own.iter().filter(|s| s.cause == TraceCause::End).count(), 1);
    // One sample every 20 ms for a second; pauses of the machine reduce the number.
    let acks = own.iter().filter(|s| s.cause == TraceCause::Ack).count();
    assert!((20..=60).contains(&acks), "{acks}");

    let records = read_records(tested.stdout.as_slice()).unwrap();
    let received = records.iter().find_map(|r| match r {
        Record::End(end) => Some(end.directions[0].receiver.bytes),
        _ => None,
    });
    let (received, acked) = (received.unwrap(), acked_bytes_of(sender.flow));
    // All data that the receiver read was acknowledged, and little more was sent.
    assert!(acked >= received && acked < received + received / 10 + 10_000_000, "{acked} of {received}");
}

#[test]
fn every_received_packet_gives_a_sample() {
    let serve = Serve::start(&[]);
    let Some(trace) = Trace::start(&["--port", &serve.port.to_string(), "--every-packet"]) else { return };
    let tested = serve.test(&["--bytes", "20MB", "-C", "reno"]);
    assert!(tested.status.success(), "{}", text(&tested.stderr));
    let (flows, samples, end) = trace.end();
    assert_eq!(end.lost_events, 0);
    assert_eq!(end.samples, samples.len() as u64);
    // The receiving end gets all segments: super-packets of 64 KiB on loopback, some of which the kernel merges for a
    // busy receiver. At the default interval, a transfer of about 20 ms would have one sample.
    let samples_max = flows.iter().map(|f| samples.iter().filter(|s| s.flow == f.flow).count()).max().unwrap();
    assert!(samples_max >= 20_000_000 / 65_536 / 4, "{samples_max}");
}

#[test]
fn samples_have_the_state_of_fast() {
    let serve = Serve::start(&[]);
    let name = format!("fast_{}", std::process::id());
    let Some(trace) = Trace::start(&["-C", &name, "--interval", "10ms"]) else { return };
    let loaded = longhaul().args(["cc", "load", &name]).output().unwrap();
    assert!(loaded.status.success(), "{}", text(&loaded.stderr));
    let tested = serve.test(&["-t", "1", "-C", &name]);
    assert!(longhaul().args(["cc", "unload", &name]).output().unwrap().status.success());
    assert!(tested.status.success(), "{}", text(&tested.stderr));
    let (flows, samples, _) = trace.end();
    assert!(flows.iter().all(|f| f.congestion_control == name), "{flows:?}");
    let mut count = 0;
    for flow in &flows {
        let own = samples.iter().filter(|s| s.flow == flow.flow).filter_map(|s| s.fast.as_ref());
        let states: Vec<_> = own.filter(|f| f.average_rtt_ns > 0).collect();
        assert!(states.iter().all(|f| f.base_rtt_ns <= f.average_rtt_ns), "the mean RTT is at least the base RTT");
        assert!(states.windows(2).all(|w| w[0].base_rtt_ns >= w[1].base_rtt_ns), "the base RTT never increases");
        count += states.len();
    }
    assert!(count > 10, "{count}");
}

#[test]
fn a_missing_privilege_is_named() {
    if or_skip(kernel::new_namespace()).is_none() {
        return;
    }
    let (_directory, binary) = public_binary();
    for arguments in [&["trace", "--source", "bpf", "--time", "1s"][..], &["cc", "load", "fast"]] {
        let refused = std::process::Command::new(&binary)
            .args(arguments)
            .uid(NOBODY_ID)
            .gid(NOBODY_ID)
            .current_dir("/")
            .output()
            .unwrap();
        let message = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && message.contains("CAP_BPF"), "{arguments:?}: {message}");
    }
}

#[test]
fn without_privilege_the_tracer_uses_socket_diagnostics() {
    if or_skip(kernel::new_namespace()).is_none() {
        return;
    }
    let (directory, binary) = public_binary();
    let serve = Serve::start(&[]);
    let out = directory.path().join("trace.jsonl");
    let mut command = std::process::Command::new(&binary);
    command.args(["trace", "--interval", "20ms", "--time", "3s", "--port", &serve.port.to_string()]);
    command
        .arg(format!("--json={}", out.display()))
        .stderr(Stdio::piped())
        .uid(NOBODY_ID)
        .gid(NOBODY_ID)
        .current_dir("/");
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
    assert_eq!(ends, 4, "the trace must have the end of each connection");
    let acked = samples.iter().map(|s| s.acked_bytes).max().unwrap();
    let records = read_records(tested.stdout.as_slice()).unwrap();
    let received = records.iter().find_map(|r| match r {
        Record::End(end) => Some(end.directions[0].receiver.bytes),
        _ => None,
    });
    // The last sample is about 20 ms before the end, or earlier on a busy machine; acknowledged data never exceeds sent
    // data.
    let received = received.unwrap();
    assert!(acked >= received / 2 && acked < received + received / 10 + 10_000_000, "{acked} of {received}");
}

#[test]
fn only_connections_of_the_process_are_traced() {
    let serve = Serve::start(&[]);
    let process = serve.process().to_string();
    for source in ["bpf", "diagnostics"] {
        let Some(trace) = Trace::start(&["--process", &process, "--source", source]) else { return };
        // The test is longer than the interval of 250 ms at which the tracer lists the connections of a process.
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

/// Returns the number of the tracer's programs in the kernel.
fn count_programs() -> usize {
    libbpf_rs::query::ProgInfoIter::default().filter(|p| p.name.to_str() == Some("on_packet")).count()
}

#[test]
fn a_killed_tracer_leaves_nothing_in_the_kernel() {
    let Some(mut trace) = Trace::start(&["--interval", "10s", "--port", "1"]) else { return };
    let before = count_programs();
    assert!(before > 0);
    kernel::signal_group(&trace.child, SIGKILL).unwrap();
    trace.child.wait().unwrap();
    // The kernel frees programs one RCU grace period after their last use.
    for _ in 0..500 {
        if count_programs() < before {
            break;
        }
        kernel::sleep_for(Duration::from_millis(10));
    }
    assert_eq!(count_programs(), before - 1);
}

#[test]
fn lost_events_are_counted_and_reported() {
    let serve = Serve::start(&[]);
    let Some(mut trace) = Trace::start(&["--port", &serve.port.to_string(), "--every-packet"]) else { return };
    // The stopped tracer does not read the ring, which has room for about 95 000 events. One gigabyte in small segments
    // gives 110 000 events, but fewer on a busy machine, which merges packets; so the test sends two gigabytes.
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
    assert_eq!(status.code(), Some(1), "a trace with lost events must have exit status 1");
}
