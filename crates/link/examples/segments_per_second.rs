//! Benchmark: segments per second that one core carries through a direction. `cargo run --release -p link --example
//! segments_per_second`
//!
//! A sender offers super-packets of 44 segments, or single packets, slightly faster than the link. The benchmark polls
//! the link at its timeouts, as the emulator does.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures, not part of the pure crate"
)]

use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};

use link::{Capacity, Direction, Discipline, Jitter, JitterShape, Loss, Queue, QueueLimit, Settings, Trace, Train};
use units::{Bytes, Instant, Rate};

/// Number of segments per line of output.
const SEGMENTS: u64 = 10_000_000;
/// Wire time of one segment at 10 Gb/s in nanoseconds.
const SEGMENT_NS: u64 = 1230;

fn main() {
    let limit = QueueLimit::Bytes(Bytes::new(24_000_000));
    let plain = Settings {
        capacity: Capacity::Constant(Rate::from_bps(10_000_000_000)),
        delay: Duration::from_millis(20),
        queue: Queue { limit, discipline: Discipline::TailDrop },
        ..Settings::default()
    };
    let lossy = Settings { loss: Loss::Independent(0.001), ..plain.clone() };
    let jitter = |reorders| Jitter { amount: Duration::from_millis(2), shape: JitterShape::Normal, reorders };
    let jittery = Settings { jitter: jitter(false), ..lossy.clone() };
    let reordering = Settings { jitter: jitter(true), ..lossy.clone() };
    let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
    let codel =
        Settings { queue: Queue { limit, discipline: Discipline::CoDel { target, interval } }, ..plain.clone() };
    let ten = Rate::from_bps(10_000_000_000);
    let trace = match Trace::of_constant(ten, Duration::from_secs(1)) {
        Ok(trace) => Settings { capacity: Capacity::Trace(Arc::new(trace)), ..plain.clone() },
        Err(_) => plain.clone(),
    };
    let unlimited = Settings { capacity: Capacity::Unlimited, ..plain.clone() };
    for (name, settings) in [
        ("rate, delay, tail drop", &plain),
        ("unlimited rate, delay", &unlimited),
        ("and loss", &lossy),
        ("and loss, jitter in order", &jittery),
        ("and loss, jitter out of order", &reordering),
        ("CoDel", &codel),
        ("trace", &trace),
    ] {
        for count in [44, 1] {
            let (rate, delivered) = measure(settings, count);
            println!(
                "{name:32} {count:2} a train: {:6.2} M segments/s, {:.1} % delivered",
                rate / 1e6,
                delivered * 100.0
            );
        }
    }
}

/// Segments per second of wall time, and the share of them that arrived.
fn measure(settings: &Settings, count: u32) -> (f64, f64) {
    let packet = Arc::new([0u8; 64]);
    let mut link = Direction::new(Instant::ZERO, 1, settings.clone());
    let (trains, mut arrived) = (SEGMENTS / u64::from(count), 0);
    // 10 % above the rate of the link.
    let gap = SEGMENT_NS * u64::from(count) * 10 / 11;
    let start = WallClock::now();
    for k in 0..trains {
        let now = Instant::from_nanos(k * gap);
        if link.poll_timeout().is_some_and(|t| t <= now) {
            while let Some(d) = link.poll(now) {
                arrived += u64::from(d.count);
            }
        }
        link.offer(now, Train { payload: Arc::clone(&packet), count, full: 1500, last: 1500 });
    }
    let seconds = start.elapsed().as_secs_f64();
    (trains as f64 * f64::from(count) / seconds, arrived as f64 / (trains * u64::from(count)) as f64)
}
