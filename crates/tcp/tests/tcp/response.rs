//! Response functions: the average window at a loss probability.

use std::sync::Arc;

use link::Settings;
use tcp::{Control, Cubic, CubicSettings};
use units::Duration;

use crate::pipe::{Pipe, sender_config};

const RTT: Duration = Duration::from_millis(100);
/// Losses before the average counts.
const SETTLING: u64 = 30;

/// Average window in packets with one loss in each 1/p packets, as the response functions assume.
fn average_window(control: Control, p: f64, epochs: u64) -> f64 {
    let period = (1.0 / p).round() as u64;
    let list: Vec<u64> = (1..=epochs + SETTLING).map(|n| n * period).collect();
    let settings = Settings { delay: RTT / 2, loss_list: Arc::from(list), ..Settings::default() };
    let mut pipe = Pipe::new(1, settings, sender_config(), control);
    pipe.write(1 << 50);
    // Slow start overshoots, and each loss takes off 30 or 50 %.
    let mut at = Duration::ZERO;
    while pipe.sender.info().lost < SETTLING {
        at += RTT;
        pipe.run(at, |_| {});
    }
    let (from, start) = (pipe.receiver.received(), at);
    while pipe.sender.info().lost < epochs + SETTLING {
        at += RTT;
        pipe.run(at, |_| {});
    }
    let rounds = (at - start).as_secs_f64() / RTT.as_secs_f64();
    (pipe.receiver.received() - from) as f64 / 1448.0 / rounds
}

/// M. Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997: W = sqrt(3/2p).
#[test]
fn reno_follows_mathis() {
    for p in [1e-3, 1e-4, 1e-5] {
        let window = average_window(Control::reno(), p, 30);
        let expected = (1.5_f64 / p).sqrt();
        println!("Reno, p = {p}: {window:.1} packets, expected {expected:.1}");
        assert!((window / expected - 1.0).abs() < 0.15, "p = {p}: {window} packets, expected {expected}");
    }
}

/// At small windows the round trip of each recovery counts: 1/p packets are the sum over the windows W/2 to W, and the
/// recovery sends W/2 more. Linux 6.1 has 10.1 packets at p = 0.01.
#[test]
fn reno_follows_the_exact_sawtooth_at_small_windows() {
    let window = average_window(Control::reno(), 1e-2, 200);
    // 3/8 W^2 + 3/4 W = 100 has the solution W = 15.4, over W/2 + 2 round trips.
    let expected = 100.0 / (15.4 / 2.0 + 2.0);
    assert!((window / expected - 1.0).abs() < 0.05, "{window} packets, expected {expected}");
}

/// RFC 9438, 5.2, table 4: RTT 0.1 s, C = 0.4. The integer arithmetic of Linux reaches the maximum 1.4 s early, and any
/// window that reaches it before the next loss stays: Linux 6.1 has 44 packets instead of 38 at p = 0.001, and 201
/// instead of 187 at p = 0.0001 (in virtual time, the same packets lost).
#[test]
fn cubic_follows_rfc_9438() {
    let table = [(1e-2, 12.0), (1e-3, 44.0), (1e-4, 201.0), (1e-5, 1054.0)];
    for (p, expected) in table {
        let settings = CubicSettings { hystart: false, ..CubicSettings::default() };
        let window = average_window(Control::Cubic(Cubic::new(settings)), p, 20);
        println!("CUBIC, p = {p}: {window:.1} packets, expected {expected}");
        assert!((window / expected - 1.0_f64).abs() < 0.15, "p = {p}: {window} packets, expected {expected}");
    }
}
