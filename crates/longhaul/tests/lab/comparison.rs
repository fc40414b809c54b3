//! Congestion controls compared with each other: each has its own path with equal properties, all run at the same time,
//! and the test controls the sockets. The kernel's own modules are the reference.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Child;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use results::trace::{TraceRecord, TraceSample};
use results::{TcpState, TraceReader};
use socket2::SockRef;
use tempfile::TempDir;

use crate::common::lab::{Ended, Lab, Turn, await_that, turn_of_root, wait};
use crate::common::{longhaul, text};

/// The two controls of the kernel, then those of longhaul.
pub(crate) const CONTROLS: [&str; 4] = ["reno", "cubic", "fast", "htcp"];
/// Number of the kernel's controls in [`CONTROLS`].
pub(crate) const KERNEL_CONTROLS: usize = 2;

// signal(7)
const SIGINT: i32 = 2;

/// Properties of each link. 10 Mb/s are 813 packets of 1538 bytes per second, or 32 packets in a round trip of 40 ms.
/// The queue is never full.
const LINK: &str = "rate = \"10Mb/s\", delay = \"20ms\", queue = \"2000 packets\"";

/// Congestion control with its own path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ControlledPath {
    /// Name of the algorithm.
    pub(crate) control: &'static str,
    /// Sysctls of the sender, as TOML.
    pub(crate) sysctl: &'static str,
}

/// Running experiment without flows, with one connection per controlled path.
pub(crate) struct Comparison {
    connections: Vec<Connection>,
    lab: Lab,
    tracer: Tracer,
    _loaded: Loaded,
    // Dropped last: the next test may load controls as soon as the turn is free.
    _turn: Turn,
}

impl Comparison {
    /// Starts a run; `link` and `more` are further keys of each link and of the experiment. Returns `None`, with a
    /// note, without root.
    pub(crate) fn start(seconds: u32, paths: &[ControlledPath], link: &str, more: &str) -> Option<Self> {
        let turn = turn_of_root()?;
        let loaded = Loaded::new();
        let concat = |line: &dyn Fn(usize, &ControlledPath) -> String| -> String {
            paths.iter().enumerate().map(|(n, path)| line(n, path)).collect()
        };
        let nodes = concat(&|n, path| format!("a{n} = {{ sysctl = {{ {} }} }}\nb{n} = {{}}\n", path.sysctl));
        let links = concat(&|n, _| format!("l{n} = {{ between = [\"a{n}\", \"b{n}\"], {LINK}{link} }}\n"));
        let toml =
            format!("duration = \"{seconds}s\"\nrecord.interval = \"100ms\"\n[nodes]\n{nodes}[links]\n{links}{more}\n");
        let lab = turn.run(&toml, &[]);
        let port = 20_000 + (std::process::id() % 20_000) as u16;
        let tracer = Tracer::start(port);
        lab.await_start();
        let connections =
            paths.iter().enumerate().map(|(n, path)| Connection::open(&lab, n, &name(path.control), port)).collect();
        Some(Self { connections, lab, tracer, _loaded: loaded, _turn: turn })
    }

    /// Runs a function on all connections concurrently and returns the results in the order of the paths.
    pub(crate) fn each<T: Send>(&self, job: impl Fn(&Connection) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let threads: Vec<_> = self.connections.iter().map(|c| scope.spawn(|| job(c))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    /// Waits for the end; returns the results of the lab, and the trace of the sender on each path. Returns `None`,
    /// with a note, if the emulation was not valid.
    pub(crate) fn end(self) -> Option<(Ended, Vec<Vec<TraceSample>>)> {
        let paths = self.connections.len();
        drop(self.connections);
        let ended = self.lab.end();
        let samples = self.tracer.end(paths);
        if ended.valid() {
            return Some((ended, samples));
        }
        testbed::undecided(&format!("{:?}", ended.end.verdict));
        None
    }
}

/// Returns the name of a control in the kernel.
fn name(control: &str) -> String {
    if matches!(control, "fast" | "htcp") { format!("{control}_i{}", std::process::id()) } else { control.to_owned() }
}

/// Returns the address of the receiver of a path. The first node is 10.0.0.1, and a path's sender and receiver have
/// consecutive addresses.
fn receiver(path: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 2 * path as u8 + 2)
}

/// Controls of longhaul, loaded under unique names.
struct Loaded;

impl Loaded {
    fn new() -> Self {
        let loaded = longhaul().args(["cc", "load", &name("fast"), &name("htcp")]).output().unwrap();
        assert!(loaded.status.success(), "{}", text(&loaded.stderr));
        Self
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let _ = longhaul().args(["cc", "unload", &name("fast"), &name("htcp")]).output();
    }
}

/// Connection from one end of a path to the other, with a thread that reads all data.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    _reader: JoinHandle<()>,
}

impl Connection {
    fn open(lab: &Lab, path: usize, control: &str, port: u16) -> Self {
        let far = receiver(path);
        let listener = lab.node(&format!("b{path}")).run(|| TcpListener::bind((far, port))).unwrap().unwrap();
        let stream = lab.node(&format!("a{path}")).run(|| TcpStream::connect((far, port))).unwrap().unwrap();
        SockRef::from(&stream).set_tcp_congestion(control.as_bytes()).unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut far_stream, _) = listener.accept().unwrap();
        let reader = thread::spawn(move || drop(io::copy(&mut far_stream, &mut io::sink())));
        Self { stream, _reader: reader }
    }

    pub(crate) fn send(&self, bytes: usize) {
        (&self.stream).write_all(&vec![0; bytes]).unwrap();
    }

    pub(crate) fn state(&self) -> TcpState {
        kernel::tcp_state(&self.stream).unwrap()
    }

    /// Sends data, waits until all is acknowledged, and returns the final state.
    pub(crate) fn deliver(&self, bytes: usize) -> TcpState {
        self.send(bytes);
        let nothing_left = |s: &TcpState| s.unacked_segments == 0 && s.notsent_bytes == 0;
        await_that("all is acknowledged", || nothing_left(&self.state()));
        self.state()
    }
}

/// Returns the congestion window in packets.
pub(crate) fn window(state: &TcpState) -> u64 {
    state.cwnd_bytes / state.mss_bytes
}

/// Returns the slow start threshold in packets; `None` while infinite.
pub(crate) fn threshold(state: &TcpState) -> Option<u64> {
    state.ssthresh_bytes.map(|bytes| bytes / state.mss_bytes)
}

/// Running tracer of every packet of the connections to a port.
struct Tracer {
    child: Child,
    directory: TempDir,
    port: u16,
}

impl Tracer {
    fn start(port: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("trace.jsonl");
        let mut command = longhaul();
        command.args(["trace", "--source", "bpf", "--every-packet", "--port", &port.to_string()]);
        command.arg(format!("--json={}", json.display()));
        let child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        let tracer = Self { child, directory, port };
        // The tracer writes its first line when its BPF programs are attached.
        await_that("the tracer is attached", || std::fs::read_to_string(&json).is_ok_and(|t| t.contains('\n')));
        tracer
    }

    fn end(mut self, paths: usize) -> Vec<Vec<TraceSample>> {
        kernel::signal_group(&self.child, SIGINT).unwrap();
        assert!(wait(&mut self.child, Duration::from_secs(30)).success(), "the tracer has lost events");
        let file = File::open(self.directory.path().join("trace.jsonl")).unwrap();
        let (mut far, mut samples) = (BTreeMap::new(), BTreeMap::<String, Vec<TraceSample>>::new());
        for record in TraceReader::new(BufReader::new(file)) {
            match record.unwrap() {
                TraceRecord::Flow(flow) => drop(far.insert(flow.flow, flow.remote)),
                TraceRecord::Sample(s) => samples.entry(far[&s.flow].clone()).or_default().push(s),
                TraceRecord::Start(_) | TraceRecord::End(_) => {}
            }
        }
        let of_path = |n| samples.remove(&format!("{}:{}", receiver(n), self.port)).unwrap();
        (0..paths).map(of_path).collect()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
