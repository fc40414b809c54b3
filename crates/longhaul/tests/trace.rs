//! `longhaul trace` beside a test: the test's own view of the same connection, by TCP_INFO, is the witness.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::print_stderr,
    reason = "helpers of tests are tests too; notes of skipped ones"
)]

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use common::{Serve, longhaul, text};
use results::trace::{TraceCause, TraceEnd, TraceFlow, TraceRecord, TraceSample};
use results::{Record, read_records};
use tempfile::TempDir;
use testbed::or_skip;

/// `nobody` on every Linux.
const NOBODY: u32 = 65_534;

struct Trace {
    folder: TempDir,
    child: Child,
}

impl Trace {
    /// Begins to follow; returns once the programs are attached. `None`, with a note, without root.
    fn begin(arguments: &[&str]) -> Option<Self> {
        or_skip(kernel::new_namespace())?;
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("trace.jsonl");
        let mut command = longhaul();
        command.arg("trace").args(arguments).arg(format!("--json={}", json.display())).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        // The first line is written when all are attached.
        while std::fs::read_to_string(&json).unwrap_or_default().lines().next().is_none() {
            kernel::nap(Duration::from_millis(10));
            assert!(kernel::start_ticks(child.id()).unwrap().is_some(), "the tracer ended");
        }
        Some(Self { folder, child })
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> (Vec<TraceFlow>, Vec<TraceSample>, TraceEnd) {
        kernel::signal_group(&self.child, libc_sigint()).unwrap();
        let status = self.child.wait().unwrap();
        let written = std::fs::read_to_string(self.folder.path().join("trace.jsonl")).unwrap();
        let (mut flows, mut samples, mut end) = (Vec::new(), Vec::new(), None);
        for line in written.lines() {
            match serde_json::from_str(line).unwrap() {
                TraceRecord::Start(_) => {}
                TraceRecord::Flow(flow) => flows.push(flow),
                TraceRecord::Sample(sample) => samples.push(sample),
                TraceRecord::End(last) => end = Some(last),
            }
        }
        assert!(status.success(), "{status}");
        (flows, samples, end.unwrap())
    }
}

fn libc_sigint() -> i32 {
    2
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
    // The receiving end of the data connection sees all of its segments: super-packets of 64 KiB on loopback, of which the kernel merges
    // some that wait for a busy receiver. At the usual interval a transfer that lasts some 20 ms would have one.
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
fn without_privilege_it_says_which_it_takes() {
    if or_skip(kernel::new_namespace()).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let binary = folder.path().join("longhaul");
    std::fs::copy(env!("CARGO_BIN_EXE_longhaul"), &binary).unwrap();
    for arguments in [&["trace", "--time", "1s"][..], &["cc", "load", "fast"], &["cc", "unload", "--all"]] {
        let refused = std::process::Command::new(&binary)
            .args(arguments)
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .output()
            .unwrap();
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains("CAP_BPF"), "{arguments:?}: {said}");
    }
}
