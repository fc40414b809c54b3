//! Datagrams over a path: the maximum rate without loss, and the accuracy of their delay.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kernel::{Clocks, recv_batch, udp_socket};
use nix::sys::socket::{setsockopt, sockopt};
use units::{Bytes, Instant};

use crate::figures::{in_pairs, median, quantile};
use crate::path::{By, FAR, NEAR, Path, Toll};
use crate::{Bench, engine};

/// UDP payload in bytes of a packet of 1500 bytes.
const PAYLOAD: usize = 1472;

/// Maximum number of such segments in one super-packet of 65535 bytes.
const SEGMENTS: usize = 44;

const PORT: u16 = 5002;

/// Sending mode.
#[derive(Clone, Copy)]
struct Load {
    /// Rate in packets per second.
    rate: f64,
    seconds: f64,
    /// Packets passed to the kernel in one call: one super-packet (UDP_SEGMENT), or one packet.
    segments: usize,
    /// Whether the sender has real-time priority. Otherwise its own waits for a CPU after reading the clock would count
    /// as errors of the path; at high rates, real-time priority would keep the forwarding thread from the CPU.
    prompt: bool,
}

/// Results of a load.
struct Outcome {
    sent: u64,
    /// Actual rate of the sender in packets per second.
    rate: f64,
    /// Delay of each received packet in microseconds, from before the send call to the kernel's receive timestamp. Of a
    /// super-packet only the first packet counts.
    delays_us: Vec<f64>,
    received: u64,
    cpu: f64,
    toll: Toll,
}

fn run(by: &By, load: Load) -> io::Result<Outcome> {
    let path = Path::new(by, 1500)?;
    let there = SocketAddr::from((FAR, PORT));
    let open = |at: SocketAddr| udp_socket(at, false, Bytes::new(1 << 20), None).map_err(io::Error::other);
    let sink = path.far.run(|| open(there))??;
    setsockopt(&sink, sockopt::RcvBufForce, &(64 << 20))?;
    sink.set_read_timeout(Some(Duration::from_millis(20)))?;
    let source = path.near.run(|| open(SocketAddr::from((NEAR, 0))))??;
    setsockopt(&source, sockopt::SndBufForce, &(8 << 20))?;
    if load.segments > 1 {
        setsockopt(&source, sockopt::UdpGsoSegment, &(PAYLOAD as i32))?;
    }
    source.connect(there)?;
    let done = Arc::new(AtomicBool::new(false));
    let receiver_done = Arc::clone(&done);
    let receiver = thread::spawn(move || receive(&sink, &receiver_done));
    let (start, cpu) = (kernel::now(), path.cpu()?);
    let sender = thread::spawn(move || send(&source, load));
    let joined = |e: &str| io::Error::other(format!("the {e} panicked"));
    let (sent, took) = sender.join().map_err(|_| joined("sender"))??;
    let used = path.cpu()? - cpu;
    let span = kernel::now().saturating_since(start);
    // Packets in flight arrive within the delay and a margin.
    kernel::sleep_for(Duration::from_millis(150));
    done.store(true, Ordering::Relaxed);
    let (received, delays_us) = receiver.join().map_err(|_| joined("receiver"))??;
    Ok(Outcome {
        sent,
        rate: sent as f64 / took,
        delays_us,
        received,
        cpu: used.as_secs_f64() / span.as_secs_f64(),
        toll: path.stop()?,
    })
}

/// Sends the packets that are due since the start and sleeps in between. Returns the number of packets sent and the
/// seconds taken.
fn send(socket: &UdpSocket, load: Load) -> io::Result<(u64, f64)> {
    kernel::tight_timers();
    if load.prompt {
        let _ = kernel::set_fifo(1);
    }
    let mut packet = vec![0; PAYLOAD * load.segments];
    let gap = load.segments as f64 * 1e9 / load.rate;
    let (start, mut number) = (kernel::now(), 0_u64);
    loop {
        let due = start + Duration::from_nanos((number as f64 * gap) as u64);
        if due.saturating_since(start).as_secs_f64() >= load.seconds {
            break;
        }
        let now = kernel::now();
        let early = due.saturating_since(now);
        // A sleep_for lasts at least some microseconds: shorter ones are skipped, and the packets sent later.
        if early > Duration::from_micros(20) {
            kernel::sleep_for(early);
        }
        packet[..8].copy_from_slice(&kernel::now().as_nanos().to_le_bytes());
        socket.send(&packet)?;
        number += 1;
    }
    let took = kernel::now().saturating_since(start).as_secs_f64();
    Ok((number * load.segments as u64, took.max(load.seconds)))
}

fn receive(socket: &UdpSocket, done: &AtomicBool) -> io::Result<(u64, Vec<f64>)> {
    let mut buffer = vec![0; 32 * 2048];
    let (mut clocks, mut count, mut delays) = (Clocks::new(), 0, Vec::new());
    let mut refreshed = kernel::now();
    while !done.load(Ordering::Relaxed) {
        recv_batch(socket, &mut buffer, |datagram| {
            count += 1;
            let stamp = datagram.data.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
            // Only the first segment of a super-packet has a timestamp.
            if stamp > 0 {
                delays.push(signed_us(datagram.arrived(&clocks), Instant::from_nanos(stamp)));
            }
        })
        .map_err(io::Error::other)?;
        let now = kernel::now();
        if now.saturating_since(refreshed) > Duration::from_millis(100) {
            clocks.refresh();
            refreshed = now;
        }
    }
    Ok((count, delays))
}

fn signed_us(later: Instant, earlier: Instant) -> f64 {
    (later.as_nanos() as f64 - earlier.as_nanos() as f64) / 1e3
}

/// The highest rate found without loss.
#[derive(Clone, Copy, Default)]
struct Carried {
    rate: f64,
    cpu: f64,
    late_us: f64,
    /// The reason that a higher rate failed.
    limit: &'static str,
}

/// Tries a rate, and again if it fails: a single disturbance by another process is not evidence of the limit.
fn attempt(by: &By, load: Load) -> io::Result<Carried> {
    let mut carried = Carried::default();
    for _ in 0..2 {
        let outcome = run(by, load)?;
        let limit = if outcome.received < outcome.sent {
            "loss"
        } else if outcome.rate < 0.98 * load.rate {
            "sender"
        } else {
            ""
        };
        carried = Carried { rate: outcome.rate, cpu: outcome.cpu, late_us: outcome.toll.late_us, limit };
        if limit.is_empty() {
            break;
        }
    }
    Ok(carried)
}

/// Finds the highest rate without loss: raises the rate by quarters until one fails, then bisects.
fn search(by: &By, segments: usize, seconds: f64) -> io::Result<Carried> {
    let (mut best, mut failed, mut rate, mut limit) = (Carried::default(), f64::INFINITY, 60_000.0, "");
    while failed / best.rate.max(1.0) > 1.03 && rate > 1000.0 {
        let carried = attempt(by, Load { rate, seconds, segments, prompt: false })?;
        if carried.limit.is_empty() {
            best = carried;
        } else {
            (failed, limit) = (rate, carried.limit);
        }
        rate = if failed.is_infinite() { rate * 1.25 } else { f64::midpoint(best.rate, failed) };
    }
    Ok(Carried { limit, ..best })
}

/// Compares the engine, at 10 ms in each direction, with the copy loop.
pub(crate) fn capacity(bench: &Bench) -> io::Result<()> {
    println!("\n## Packets of 1500 bytes, UDP, highest offered load without a loss\n");
    println!(
        "| sender | engine kpackets/s | copy loop kpackets/s | ratio | engine CPU | copy loop CPU | lateness p99 us | limit of engine; copy loop |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|---|");
    let seconds = bench.seconds.as_secs_f64().min(3.0);
    for (name, segments) in [("a call a packet", 1), ("UDP_SEGMENT, 44 packets a call", SEGMENTS)] {
        let ours = By::Engine(Box::new(engine(Duration::from_millis(10))));
        let runs = in_pairs(bench.pairs, || search(&ours, segments, seconds), || search(&By::Copy, segments, seconds))?;
        let of = |f: &dyn Fn(&(Carried, Carried)) -> f64| median(runs.iter().map(f).collect());
        let limits =
            |f: &dyn Fn(&(Carried, Carried)) -> &'static str| runs.iter().map(f).collect::<Vec<_>>().join(", ");
        println!(
            "| {name} | {:.0} | {:.0} | {:.2} | {:.0} % | {:.0} % | {:.0} | {}; {} |",
            of(&|(a, _)| a.rate) / 1e3,
            of(&|(_, b)| b.rate) / 1e3,
            of(&|(a, b)| a.rate / b.rate),
            of(&|(a, _)| a.cpu) * 100.0,
            of(&|(_, b)| b.cpu) * 100.0,
            of(&|(a, _)| a.late_us),
            limits(&|(a, _)| a.limit),
            limits(&|(_, b)| b.limit),
        );
    }
    Ok(())
}

/// Compares the cost of a packet under the same load.
pub(crate) fn steady(bench: &Bench) -> io::Result<()> {
    println!("\n## CPU of the moving thread at a fixed load of UDP packets of 1500 bytes\n");
    println!(
        "| packets/s | packets a call | engine CPU us a packet | copy loop CPU us a packet | ratio | lost with engine, copy loop |"
    );
    println!("|--:|--:|--:|--:|--:|--:|");
    for (rate, segments) in [(100_000.0, 1), (200_000.0, SEGMENTS)] {
        let load = Load { rate, segments, seconds: bench.seconds.as_secs_f64(), prompt: false };
        let ours = By::Engine(Box::new(engine(Duration::from_millis(10))));
        let runs = in_pairs(bench.pairs, || run(&ours, load), || run(&By::Copy, load))?;
        let of = |f: &dyn Fn(&(Outcome, Outcome)) -> f64| median(runs.iter().map(f).collect());
        let cost = |o: &Outcome| o.cpu * 1e6 / o.rate;
        let lost = |o: &Outcome| o.sent - o.received.min(o.sent);
        println!(
            "| {rate} | {segments} | {:.2} | {:.2} | {:.2} | {}, {} |",
            of(&|(a, _)| cost(a)),
            of(&|(_, b)| cost(b)),
            of(&|(a, b)| cost(a) / cost(b)),
            runs.iter().map(|(a, _)| lost(a)).sum::<u64>(),
            runs.iter().map(|(_, b)| lost(b)).sum::<u64>(),
        );
    }
    Ok(())
}

/// Error of the one-way delay, with and without the delay of the copy loop.
pub(crate) fn delay(bench: &Bench) -> io::Result<()> {
    println!("\n## One-way delay against the configured value, 10 kpackets/s of 1500 bytes\n");
    println!("| configured | error us: p50, p99, max | copy loop us: p50, p99, max | p50 without the copy loop's |");
    println!("|--:|--:|--:|--:|");
    let load = Load { rate: 10_000.0, seconds: bench.seconds.as_secs_f64(), segments: 1, prompt: true };
    for ms in [0, 1, 10, 100] {
        let configured = Duration::from_millis(ms);
        let by = By::Engine(Box::new(engine(configured)));
        let runs = in_pairs(bench.pairs, || run(&by, load), || run(&By::Copy, load))?;
        let of = |q: f64, engine: bool| {
            let one = |(a, b): &(Outcome, Outcome)| {
                let (delays, off) = if engine { (&a.delays_us, ms as f64 * 1e3) } else { (&b.delays_us, 0.0) };
                quantile(delays.iter().map(|d| d - off).collect(), q)
            };
            median(runs.iter().map(one).collect())
        };
        println!(
            "| {ms} ms | {:.1}, {:.1}, {:.0} | {:.1}, {:.1}, {:.0} | {:.1} |",
            of(0.5, true),
            of(0.99, true),
            of(1.0, true),
            of(0.5, false),
            of(0.99, false),
            of(1.0, false),
            of(0.5, true) - of(0.5, false),
        );
    }
    Ok(())
}
