//! Losses by packet index: fast retransmit, lost retransmissions, lost tails, timeouts.

use std::sync::Arc;

use link::{Capacity, Loss, Settings};
use tcp::{Control, State};
use units::{Duration, Instant, Rate};

use crate::pipe::{Pipe, sender_config};

const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(100);

/// 20 Mb/s and 100 ms, with losses of these packets.
fn lossy(lost: &[u64]) -> Settings {
    Settings {
        capacity: Capacity::Constant(Rate::from_bps(20_000_000)),
        delay: RTT / 2,
        loss_list: Arc::from(lost),
        ..Settings::default()
    }
}

/// Transfers 3 MB and returns the pipe and the time of the last acknowledgement.
fn transfer(lost: &[u64], bytes: u64) -> (Pipe, Duration) {
    let mut pipe = Pipe::new(1, lossy(lost), sender_config(), Control::reno());
    pipe.write(bytes);
    let mut done = Duration::ZERO;
    pipe.run(Duration::from_secs(60), |p| {
        if p.sender.unacknowledged() == 0 && done.is_zero() {
            done = p.now.saturating_since(Instant::ZERO);
        }
    });
    assert_eq!(pipe.receiver.received(), bytes);
    (pipe, done)
}

#[test]
fn one_loss_halves_the_window_and_costs_one_retransmission() {
    let mut pipe = Pipe::new(1, lossy(&[100]), sender_config(), Control::reno());
    pipe.write(3_000_000);
    let (mut before, mut threshold, mut recovered) = (0, 0, Duration::ZERO);
    let mut entered = Duration::ZERO;
    pipe.run(Duration::from_secs(10), |p| {
        let info = p.sender.info();
        match info.state {
            State::Recovery => {
                threshold = info.threshold;
                if entered.is_zero() {
                    entered = p.now.saturating_since(Instant::ZERO);
                }
            }
            State::Open if threshold == 0 => before = info.window,
            State::Open if recovered.is_zero() => {
                recovered = p.now.saturating_since(Instant::ZERO) - entered;
                // PRR leaves the window at the threshold (RFC 6937, 3).
                assert!(info.window <= threshold + 1, "{info:?}");
            }
            State::Open | State::Disorder | State::Reduction | State::Loss => {}
        }
    });
    let info = pipe.sender.info();
    assert_eq!((info.retransmissions, info.lost, info.timeouts, info.probes), (1, 1, 0, 0));
    assert!((before / 2).abs_diff(threshold) <= 1, "threshold {threshold} after window {before}");
    // One round trip, with the queue of the lost window.
    assert!((RTT..RTT + 60 * MS).contains(&recovered), "{recovered:?}");
}

#[test]
fn three_losses_in_a_window_are_one_reduction() {
    let (one, _) = transfer(&[100], 3_000_000);
    let (three, _) = transfer(&[100, 103, 110], 3_000_000);
    let info = three.sender.info();
    assert_eq!((info.retransmissions, info.lost, info.timeouts), (3, 3, 0));
    assert_eq!(info.threshold, one.sender.info().threshold);
}

/// RACK finds a lost retransmission without a timeout (RFC 8985, 1).
#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    // The retransmission of packet 20 is the packet after those in flight at its detection.
    let (clean, _) = transfer(&[20], 3_000_000);
    assert_eq!(clean.sender.info().retransmissions, 1);
    let index = (30..80).find(|index| {
        let (pipe, _) = transfer(&[20, *index], 3_000_000);
        let info = pipe.sender.info();
        info.retransmissions == 2 && info.lost == 2 && pipe.lost_a_retransmission()
    });
    let (pipe, _) = transfer(&[20, index.unwrap()], 3_000_000);
    assert_eq!(pipe.sender.info().timeouts, 0);
}

/// The last segment is lost: a probe after two round trips repairs it, and no timeout is needed (RFC 8985, 7).
#[test]
fn a_lost_tail_is_repaired_by_a_probe() {
    let segments = 40;
    let (whole, fast) = transfer(&[], segments * 1448);
    assert_eq!(whole.sender.info().probes, 0);
    let (pipe, slow) = transfer(&[segments - 1], segments * 1448);
    let info = pipe.sender.info();
    assert_eq!((info.timeouts, info.probes, info.retransmissions), (0, 1, 1));
    // The acknowledgement of the segment before it is delayed by 40 ms. With one packet in flight the probe then waits
    // for the retransmission timeout, which the timer wheel rounds up by an eighth.
    assert!(slow - fast < 50 * MS + info.timeout * 9 / 8 + RTT, "{slow:?} instead of {fast:?}, {info:?}");
}

/// All segments of a flight and the first retransmissions are lost: the timeout doubles until one arrives.
#[test]
fn timeouts_back_off_exponentially() {
    // The initial flight of ten, its probe, and three retransmissions.
    let lost: Vec<u64> = (0..14).collect();
    let mut pipe = Pipe::new(1, lossy(&lost), sender_config(), Control::reno());
    pipe.write(100_000);
    let (mut times, mut seen) = (Vec::new(), 0);
    pipe.run(Duration::from_secs(60), |p| {
        if p.sender.info().timeouts > seen {
            seen = p.sender.info().timeouts;
            times.push(p.now.saturating_since(Instant::ZERO));
        }
    });
    assert_eq!(pipe.receiver.received(), 100_000);
    assert_eq!(times.len(), 4, "{times:?}");
    // The kernel's timer wheel is late by up to an eighth.
    for pair in times.windows(3) {
        let ratio = (pair[2] - pair[1]).as_secs_f64() / (pair[1] - pair[0]).as_secs_f64();
        assert!((1.85..2.15).contains(&ratio), "{times:?}");
    }
}

/// A delay that grows beyond the timeout is no loss: timestamps show that the segments were late (RFC 5682, RFC 3522),
/// and window and threshold are restored.
#[test]
fn a_spurious_timeout_is_undone() {
    let settings = Settings { delay: 10 * MS, ..Settings::default() };
    let mut pipe = Pipe::new(1, settings.clone(), sender_config(), Control::reno());
    pipe.write(1 << 30);
    pipe.run(100 * MS, |_| {});
    let before = pipe.sender.info();
    pipe.data.change(pipe.now, Settings { delay: Duration::from_secs(1), ..settings });
    pipe.run(Duration::from_secs(3), |_| {});
    let info = pipe.sender.info();
    assert!(info.timeouts > 0, "{info:?}");
    assert!(info.window >= before.window, "window {} after {}", info.window, before.window);
    assert_eq!(info.threshold, before.threshold);
}

/// Every byte arrives whatever is lost, and the counts stay consistent.
#[test]
fn transfers_complete_at_any_loss() {
    for (seed, loss) in [(1, 0.01), (2, 0.05), (3, 0.15), (4, 0.3)] {
        for control in [Control::reno(), Control::cubic()] {
            let settings = Settings { loss: Loss::Independent(loss), ..lossy(&[]) };
            let mut pipe = Pipe::new(seed, settings, sender_config(), control);
            pipe.write(500_000);
            pipe.run(Duration::from_secs(1200), |_| {});
            let info = pipe.sender.info();
            assert_eq!(pipe.receiver.received(), 500_000, "loss {loss}: {info:?}");
            assert_eq!((pipe.sender.unacknowledged(), info.in_flight), (0, 0));
            assert_eq!(info.delivered, 500_000_u64.div_ceil(1448));
        }
    }
}
