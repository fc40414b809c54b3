//! Congestion controls beside each other: each has a path of its own of the same kind, all work at the same time, and
//! the sockets are in the hands of the test. What the kernel's own modules do is the measure for the others.

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

/// The two controls of the kernel, and those of longhaul.
pub(crate) const CONTROLS: [&str; 4] = ["reno", "cubic", "fast", "htcp"];
/// Of these, those of the kernel.
pub(crate) const OWN: usize = 2;

// signal(7)
const SIGINT: i32 = 2;

/// 10 Mb/s are 813 packets of 1538 bytes a second; a round trip of 40 ms holds 32 of them. The queue is never full.
const LINK: &str = "rate = \"10Mb/s\", delay = \"20ms\", queue = \"2000 packets\"";

/// A congestion control with a path of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane {
    /// The name of its algorithm.
    pub(crate) control: &'static str,
    /// Settings of its sender, as TOML.
    pub(crate) sysctl: &'static str,
}

/// An experiment without flows at work, with a connection for each lane.
pub(crate) struct Beside {
    connections: Vec<Connection>,
    lab: Lab,
    watch: Watch,
    _loaded: Loaded,
    // The last to go, as others may load what they need then.
    _turn: Turn,
}

impl Beside {
    /// Starts a run of this many seconds; `link` and `more` are further keys of each link and of the experiment.
    /// `None`, with a note, without root.
    pub(crate) fn begin(seconds: u32, lanes: &[Lane], link: &str, more: &str) -> Option<Self> {
        let turn = turn_of_root()?;
        let loaded = Loaded::new();
        let sum = |line: &dyn Fn(usize, &Lane) -> String| -> String {
            lanes.iter().enumerate().map(|(n, lane)| line(n, lane)).collect()
        };
        let nodes = sum(&|n, lane| format!("a{n} = {{ sysctl = {{ {} }} }}\nb{n} = {{}}\n", lane.sysctl));
        let links = sum(&|n, _| format!("l{n} = {{ between = [\"a{n}\", \"b{n}\"], {LINK}{link} }}\n"));
        let toml =
            format!("duration = \"{seconds}s\"\nrecord.interval = \"100ms\"\n[nodes]\n{nodes}[links]\n{links}{more}\n");
        let lab = turn.run(&toml, &[]);
        let port = 20_000 + (std::process::id() % 20_000) as u16;
        let watch = Watch::begin(port);
        lab.await_begin();
        let connections =
            lanes.iter().enumerate().map(|(n, lane)| Connection::open(&lab, n, &name(lane.control), port)).collect();
        Some(Self { connections, lab, watch, _loaded: loaded, _turn: turn })
    }

    /// Runs a function on all connections concurrently and returns the results in the order of the lanes.
    pub(crate) fn each<T: Send>(&self, job: impl Fn(&Connection) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let threads: Vec<_> = self.connections.iter().map(|c| scope.spawn(|| job(c))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    /// Waits for the end; gives what the lab tells, and what the kernel told of the sender of each lane. `None`, with a
    /// note, where the machine could not carry it.
    pub(crate) fn end(self) -> Option<(Ended, Vec<Vec<TraceSample>>)> {
        let lanes = self.connections.len();
        drop(self.connections);
        let ended = self.lab.end();
        let samples = self.watch.end(lanes);
        if ended.valid() {
            return Some((ended, samples));
        }
        testbed::undecided(&format!("{:?}", ended.end.verdict));
        None
    }
}

/// Its name in the kernel.
fn name(control: &str) -> String {
    if matches!(control, "fast" | "htcp") { format!("{control}_i{}", std::process::id()) } else { control.to_owned() }
}

/// The nodes of a lane follow each other, and the first node of all is 10.0.0.1.
fn receiver(lane: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 2 * lane as u8 + 2)
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

/// A connection from one end of a path to the other, where somebody reads all that comes.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    _reader: JoinHandle<()>,
}

impl Connection {
    fn open(lab: &Lab, lane: usize, control: &str, port: u16) -> Self {
        let far = receiver(lane);
        let listener = lab.node(&format!("b{lane}")).run(|| TcpListener::bind((far, port))).unwrap().unwrap();
        let stream = lab.node(&format!("a{lane}")).run(|| TcpStream::connect((far, port))).unwrap().unwrap();
        SockRef::from(&stream).set_tcp_congestion(control.as_bytes()).unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        let reader = thread::spawn(move || drop(io::copy(&mut there, &mut io::sink())));
        Self { stream, _reader: reader }
    }

    pub(crate) fn send(&self, bytes: usize) {
        (&self.stream).write_all(&vec![0; bytes]).unwrap();
    }

    pub(crate) fn state(&self) -> TcpState {
        kernel::tcp_state(&self.stream).unwrap()
    }

    /// Sends, and waits until all has been acknowledged; gives the state then.
    pub(crate) fn deliver(&self, bytes: usize) -> TcpState {
        self.send(bytes);
        let nothing_left = |s: &TcpState| s.unacked_segments == 0 && s.notsent_bytes == 0;
        await_that("all is acknowledged", || nothing_left(&self.state()));
        self.state()
    }
}

/// Congestion window in packets.
pub(crate) fn window(state: &TcpState) -> u64 {
    state.cwnd_bytes / state.mss_bytes
}

/// Slow start threshold in packets; `None` while infinite.
pub(crate) fn threshold(state: &TcpState) -> Option<u64> {
    state.ssthresh_bytes.map(|bytes| bytes / state.mss_bytes)
}

/// The tracer at work, which sees every packet of the connections to a port.
struct Watch {
    child: Child,
    directory: TempDir,
    port: u16,
}

impl Watch {
    fn begin(port: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("trace.jsonl");
        let mut command = longhaul();
        command.args(["trace", "--source", "bpf", "--every-packet", "--port", &port.to_string()]);
        command.arg(format!("--json={}", json.display()));
        let child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        let watch = Self { child, directory, port };
        // The first line is written when its programs are attached.
        await_that("the tracer is at work", || std::fs::read_to_string(&json).is_ok_and(|t| t.contains('\n')));
        watch
    }

    fn end(mut self, lanes: usize) -> Vec<Vec<TraceSample>> {
        kernel::signal_group(&self.child, SIGINT).unwrap();
        assert!(wait(&mut self.child, Duration::from_secs(30)).success(), "no event was lost");
        let file = File::open(self.directory.path().join("trace.jsonl")).unwrap();
        let (mut far, mut samples) = (BTreeMap::new(), BTreeMap::<String, Vec<TraceSample>>::new());
        for record in TraceReader::new(BufReader::new(file)) {
            match record.unwrap() {
                TraceRecord::Flow(flow) => drop(far.insert(flow.flow, flow.remote)),
                TraceRecord::Sample(s) => samples.entry(far[&s.flow].clone()).or_default().push(s),
                TraceRecord::Start(_) | TraceRecord::End(_) => {}
            }
        }
        let of_lane = |n| samples.remove(&format!("{}:{}", receiver(n), self.port)).unwrap();
        (0..lanes).map(of_lane).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
