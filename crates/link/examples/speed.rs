//! Benchmark: CPU time per packet of one direction, by train length, load and loss. `cargo run --release -p link
//! --example speed [PACKETS]`
//!
//! The link has 2.5 Gb/s, 20 ms and a queue of 5000 packets. A sender offers trains of full-size packets at equal
//! intervals. The benchmark polls the link at each timeout, as a simulator does. Each figure is the minimum of three
//! runs.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program that measures, not part of the crate")]

use std::sync::Arc;
use std::time::Duration;

use link::{Capacity, Direction, Loss, Queue, QueueLimit, Settings, Train};
use units::{Instant, Rate};

/// Number of packets per figure, without an argument.
const PACKETS: u64 = 20_000_000;
/// Wire time of one full-size packet at the rate of the link, in nanoseconds.
const PACKET_NS: f64 = 1538.0 * 8.0 / 2.5;
const LOADS: [f64; 3] = [0.5, 0.98, 1.1];
const RUNS: usize = 3;

fn main() {
    let packets = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(PACKETS);
    println!("segments  loss    ns a packet at load {LOADS:?}");
    for count in [1, 8, 44] {
        for loss in [0.0, 1e-4, 0.01] {
            let figures: Vec<String> =
                LOADS.iter().map(|load| format!("{:6.1}", best(packets, count, loss, *load))).collect();
            println!("{count:8}  {loss:<6}  {}", figures.join(" "));
        }
    }
}

/// Lowest CPU time per packet in nanoseconds.
fn best(packets: u64, count: u32, loss: f64, load: f64) -> f64 {
    let runs = (0..RUNS).map(|_| {
        let before = cpu_ns();
        carry(packets / u64::from(count), count, loss, load);
        cpu_ns().saturating_sub(before)
    });
    runs.min().unwrap_or(0) as f64 / packets as f64
}

fn carry(trains: u64, count: u32, loss: f64, load: f64) {
    let settings = Settings {
        capacity: Capacity::Constant(Rate::from_bps(2_500_000_000)),
        delay: Duration::from_millis(20),
        queue: Queue { limit: QueueLimit::Packets(5000), ..Queue::default() },
        loss: if loss > 0.0 { Loss::Independent(loss) } else { Loss::None },
        ..Settings::default()
    };
    let payload = Arc::new([0u8; 64]);
    let mut link = Direction::new(Instant::ZERO, 1, settings);
    let gap_ns = PACKET_NS * f64::from(count) / load;
    let mut arrived = 0;
    for k in 0..trains {
        let now = Instant::from_nanos((k as f64 * gap_ns) as u64);
        while let Some(at) = link.poll_timeout().filter(|at| *at <= now) {
            while let Some(d) = link.poll(at) {
                arrived += u64::from(d.count);
            }
        }
        link.offer(now, Train { payload: Arc::clone(&payload), count, full: 1500, last: 1500 });
    }
    std::hint::black_box(arrived);
}

/// CPU time of this thread in nanoseconds (Linux, `proc_pid_schedstat(5)`); 0 if the system does not report it.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}
