//! One CUBIC flow over a path: its goodput, and the cost of forwarding it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use link::Settings;
use socket2::{Domain, Socket, Type};
use units::Rate;

use crate::figures::{in_pairs, median};
use crate::path::{By, FAR, Path, Toll};
use crate::{Bench, engine};

const PORT: u16 = 5001;

/// The part of a flow that is measured.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: Duration,
    pub(crate) length: Duration,
}

/// Results of a flow within the window.
pub(crate) struct Got {
    /// Goodput in bit/s: bytes read by the application.
    pub(crate) bps: f64,
    /// CPU utilisation of the forwarding thread, as a share of one CPU.
    pub(crate) cpu: f64,
    pub(crate) toll: Toll,
}

impl Got {
    /// Utilisation of the link within the window, by the model; below 1, TCP or the hosts left it idle.
    fn used(&self, window: Window) -> f64 {
        let inside = |at: Duration| at >= window.from && at < window.from + window.length;
        let used: Vec<f64> = self.toll.used.iter().filter(|(at, _)| inside(*at)).map(|(_, share)| *share).collect();
        used.iter().sum::<f64>() / used.len() as f64
    }
}

/// A flow at the maximum rate of TCP.
struct Flow {
    connection: TcpStream,
    received: Arc<AtomicU64>,
    threads: [JoinHandle<()>; 2],
}

impl Flow {
    fn start(path: &Path) -> io::Result<Self> {
        let there = SocketAddr::from((FAR, PORT));
        let listener = path.far.run(|| TcpListener::bind(there))??;
        let connection: TcpStream = path.near.run(|| -> io::Result<TcpStream> {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_tcp_congestion(b"cubic")?;
            socket.connect(&there.into())?;
            Ok(socket.into())
        })??;
        let (mut source, (mut sink, _)) = (connection.try_clone()?, listener.accept()?);
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let sender = thread::spawn(move || {
            let block = vec![0; 128 << 10];
            while source.write_all(&block).is_ok() {}
        });
        let receiver = thread::spawn(move || {
            let mut buffer = vec![0; 256 << 10];
            while let Ok(n @ 1..) = sink.read(&mut buffer) {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
            let _ = sink.shutdown(Shutdown::Both);
        });
        Ok(Self { connection, received, threads: [sender, receiver] })
    }

    fn stop(self, path: Path) -> io::Result<Toll> {
        // The receiver's end is dropped with the path: on a long path it would still be reading data in flight.
        self.connection.shutdown(Shutdown::Both)?;
        for thread in self.threads {
            thread.join().map_err(|_| io::Error::other("a thread of the flow panicked"))?;
        }
        path.stop()
    }
}

/// Runs a flow and measures it within the window.
pub(crate) fn measure(by: &By, mtu: u32, window: Window) -> io::Result<Got> {
    let path = Path::new(by, mtu)?;
    let flow = Flow::start(&path)?;
    kernel::sleep_for(window.from);
    let (start, before, cpu) = (kernel::now(), flow.received.load(Ordering::Relaxed), path.cpu()?);
    kernel::sleep_for(window.length);
    let (end, after, used) = (kernel::now(), flow.received.load(Ordering::Relaxed), path.cpu()?);
    let seconds = end.saturating_since(start).as_secs_f64();
    let toll = flow.stop(path)?;
    Ok(Got { bps: (after - before) as f64 * 8.0 / seconds, cpu: (used - cpu).as_secs_f64() / seconds, toll })
}

/// Compares the engine, with and without delay, with the copy loop.
pub(crate) fn capacity(bench: &Bench) -> io::Result<()> {
    println!("\n## One CUBIC flow as fast as it goes\n");
    println!(
        "| MTU | delay each way | engine Gb/s | copy loop Gb/s | ratio | engine CPU | copy loop CPU | engine CPU s/GB | copy loop CPU s/GB | lateness p99 us | lost |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let window = Window { from: Duration::from_secs(2), length: bench.seconds };
    for mtu in [1500, 9000] {
        for delay_ms in [0, 10] {
            let ours = By::Engine(Box::new(engine(Duration::from_millis(delay_ms))));
            let runs = in_pairs(bench.pairs, || measure(&ours, mtu, window), || measure(&By::Copy, mtu, window))?;
            let of = |f: &dyn Fn(&(Got, Got)) -> f64| median(runs.iter().map(f).collect());
            let per_gb = |g: &Got| g.cpu / (g.bps / 8e9);
            println!(
                "| {mtu} | {delay_ms} ms | {:.2} | {:.2} | {:.2} | {:.0} % | {:.0} % | {:.3} | {:.3} | {:.0} | {} |",
                of(&|(a, _)| a.bps) / 1e9,
                of(&|(_, b)| b.bps) / 1e9,
                of(&|(a, b)| a.bps / b.bps),
                of(&|(a, _)| a.cpu) * 100.0,
                of(&|(_, b)| b.cpu) * 100.0,
                of(&|(a, _)| per_gb(a)),
                of(&|(_, b)| per_gb(b)),
                of(&|(a, _)| a.toll.late_us),
                runs.iter().map(|(a, _)| a.toll.lost).sum::<u64>(),
            );
        }
    }
    Ok(())
}

/// Maximum goodput of TCP with timestamps over Ethernet: headers take 52 bytes of each packet (20 IPv4, 20 TCP and 12
/// of options, RFC 7323 §3.2), and each packet takes 38 more bytes on the wire (IEEE 802.3: preamble, header, checksum,
/// gap).
fn arithmetic(rate: f64, mtu: u32) -> f64 {
    rate * f64::from(mtu - 52) / f64::from(mtu + 38)
}

/// Compares the goodput of a flow that fills the link with the calculated maximum.
pub(crate) fn exactness(bench: &Bench) -> io::Result<()> {
    println!("\n## Goodput of one CUBIC flow against the arithmetic\n");
    println!(
        "| link | MTU | goodput Mb/s | arithmetic Mb/s | error | link used | lateness p99 us | lost by the model, the emulator |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for case in CASES {
        let by = By::Engine(Box::new(case.settings()));
        let window = Window { from: Duration::from_secs(case.from), length: Duration::from_secs(case.length) };
        let runs = (0..bench.pairs).map(|_| measure(&by, case.mtu, window)).collect::<io::Result<Vec<Got>>>()?;
        let expected = arithmetic(case.mbps as f64 * 1e6, case.mtu);
        let bps = median(runs.iter().map(|g| g.bps).collect());
        println!(
            "| {} | {} | {:.3} | {:.3} | {:+.3} % | {:.2} % | {:.0} | {}, {} |",
            case.name,
            case.mtu,
            bps / 1e6,
            expected / 1e6,
            (bps / expected - 1.0) * 100.0,
            median(runs.iter().map(|g| g.used(window) * 100.0).collect()),
            median(runs.iter().map(|g| g.toll.late_us).collect()),
            runs.iter().map(|g| g.toll.dropped).sum::<u64>(),
            runs.iter().map(|g| g.toll.lost).sum::<u64>(),
        );
    }
    Ok(())
}

/// Cases that the lab guarantees for slow and for long paths, and the highest rate at which it is exact.
const CASES: [Case; 3] = [
    Case { name: "100 Mb/s, 20 ms, 1 BDP", mbps: 100, rtt_ms: 20, mtu: 1500, queue: 250_000, from: 5, length: 10 },
    Case { name: "4 Gb/s, 20 ms, 1 BDP", mbps: 4000, rtt_ms: 20, mtu: 1500, queue: 10_000_000, from: 5, length: 10 },
    Case { name: "1 Gb/s, 187 ms, 24 MB", mbps: 1000, rtt_ms: 187, mtu: 9000, queue: 24_000_000, from: 30, length: 15 },
];

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    mbps: u64,
    rtt_ms: u64,
    mtu: u32,
    queue: u64,
    from: u64,
    length: u64,
}

impl Case {
    fn settings(&self) -> Settings {
        Settings {
            capacity: link::Capacity::Constant(Rate::from_bps(self.mbps * 1_000_000)),
            queue: link::Queue {
                limit: link::QueueLimit::Bytes(units::Bytes::new(self.queue)),
                discipline: link::Discipline::TailDrop,
            },
            ..engine(Duration::from_micros(self.rtt_ms * 500))
        }
    }
}
