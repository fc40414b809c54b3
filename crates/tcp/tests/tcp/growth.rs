//! Slow start, windows and rates without loss.

use link::{Capacity, Queue, QueueLimit, Settings};
use tcp::{Control, SenderConfig};
use units::{Duration, Instant, Rate};

use crate::pipe::{Pipe, sender_config};

const MS: Duration = Duration::from_millis(1);

fn path(rate: u64, rtt: Duration, queue: QueueLimit) -> Settings {
    Settings {
        capacity: Capacity::Constant(Rate::from_bps(rate)),
        delay: rtt / 2,
        queue: Queue { limit: queue, ..Queue::default() },
        ..Settings::default()
    }
}

/// RFC 5681, 3.1 with byte counting: the window doubles with each round trip.
#[test]
fn the_window_doubles_each_round_trip_in_slow_start() {
    let settings = Settings { delay: 50 * MS, ..Settings::default() };
    let mut pipe = Pipe::new(1, settings, sender_config(), Control::reno());
    pipe.write(1 << 30);
    for round in 1..=8_u32 {
        pipe.run(100 * MS * round + MS, |_| {});
        // The acknowledgement of a last odd segment is delayed, once in a round trip.
        let window = f64::from(pipe.sender.info().window);
        let doubled = f64::from(10 << round);
        assert!((window / doubled - 1.0).abs() < 0.01, "{window} packets after {round} round trips");
    }
}

/// The wire carries 1538 bytes for each 1448 of payload.
#[test]
fn a_full_link_carries_the_payload_share_of_its_rate() {
    for control in [Control::reno(), Control::cubic()] {
        let settings = path(100_000_000, 20 * MS, QueueLimit::Unlimited);
        let mut pipe = Pipe::new(1, settings, sender_config(), control);
        pipe.write(1 << 40);
        pipe.run(5 * Duration::from_secs(1), |_| {});
        let from = pipe.receiver.received();
        pipe.run(15 * Duration::from_secs(1), |_| {});
        let rate = (pipe.receiver.received() - from) as f64 * 8.0 / 10.0;
        let expected = 100e6 * 1448.0 / 1538.0;
        assert!((rate / expected - 1.0).abs() < 1e-4, "{rate} b/s, expected {expected}");
    }
}

/// A window of W bytes gives W / RTT.
#[test]
fn the_window_over_the_round_trip_is_the_rate() {
    let window = 100 * 1448;
    let settings = path(1_000_000_000, 40 * MS, QueueLimit::Unlimited);
    let config = SenderConfig { window_max: 100, ..sender_config() };
    let mut pipe = Pipe::new(1, settings, config, Control::cubic());
    pipe.write(1 << 40);
    pipe.run(Duration::from_secs(1), |_| {});
    let from = pipe.receiver.received();
    pipe.run(Duration::from_secs(11), |_| {});
    let rate = (pipe.receiver.received() - from) as f64 / 10.0;
    // The first packet of a window waits for its own transmission: some us of 40 ms.
    let expected = window as f64 / 0.04;
    assert!((rate / expected - 1.0).abs() < 0.01, "{rate} B/s, expected {expected}");
}

#[test]
fn pacing_holds_the_rate() {
    let settings = path(100_000_000, 20 * MS, QueueLimit::Unlimited);
    let config = SenderConfig { pacing: Some(Rate::from_bps(20_000_000)), ..sender_config() };
    let mut pipe = Pipe::new(1, settings, config, Control::cubic());
    pipe.write(1 << 40);
    pipe.run(Duration::from_secs(1), |_| {});
    let from = pipe.receiver.received();
    pipe.run(Duration::from_secs(11), |_| {});
    let rate = (pipe.receiver.received() - from) as f64 * 8.0 / 10.0;
    assert!((rate / 20e6 - 1.0).abs() < 0.005, "{rate} b/s");
}

/// The first 16 acknowledgements are quick. Then that of a single segment is delayed by 40 ms, rounded up to a tick.
#[test]
fn a_lone_segment_is_acknowledged_late() {
    let settings = Settings { delay: 5 * MS, ..Settings::default() };
    let mut pipe = Pipe::new(1, settings, sender_config(), Control::reno());
    let mut waits = Vec::new();
    for block in 1..=40 {
        let sent = pipe.now;
        pipe.write(1000);
        let mut done = Instant::ZERO;
        pipe.run(Duration::from_millis(200 * block), |p| {
            if p.sender.unacknowledged() == 0 && done == Instant::ZERO {
                done = p.now;
            }
        });
        waits.push(done.saturating_since(sent));
    }
    assert_eq!(waits[..16], [10 * MS; 16]);
    assert!(waits[17..].iter().all(|w| (50 * MS..60 * MS).contains(w)), "{waits:?}");
}

/// HyStart ends slow start before the queue of a bottleneck overflows: a train of acknowledgements for half of the
/// round trip is 406 packets beyond the window at its start. Reno loses half of its last window.
#[test]
fn hystart_ends_slow_start_before_a_loss() {
    let run = |control, seconds| {
        let settings = path(100_000_000, 100 * MS, QueueLimit::Packets(800));
        let mut pipe = Pipe::new(1, settings, sender_config(), control);
        pipe.write(1 << 40);
        pipe.run(Duration::from_secs(seconds), |_| {});
        pipe.sender.info()
    };
    let (cubic, reno) = (run(Control::cubic(), 1), run(Control::reno(), 3));
    assert_eq!(cubic.lost, 0, "{cubic:?}");
    assert!(cubic.threshold < 640 + 450, "{cubic:?}");
    assert!(reno.lost > 500, "{reno:?}");
    assert_eq!(reno.timeouts, 0, "{reno:?}");
}
