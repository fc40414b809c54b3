use congestion::{Ack, Connection, Htcp, HtcpSettings};

use crate::bottleneck::{Bottleneck, Control, Sender};

/// The kernel's clock is never at zero, which stands for nothing to undo.
const BEGIN_US: u64 = 1_000_000;

/// alpha(D) of the draft, in packets a round trip.
fn alpha(since_s: f64) -> f64 {
    let d = since_s - 1.0;
    if d <= 0.0 { 1.0 } else { 1.0 + 10.0 * d + (d / 2.0).powi(2) }
}

fn plain() -> HtcpSettings {
    HtcpSettings { rtt_scaling: false, adaptive_backoff: false, bandwidth_switch: false, tick_us: 0 }
}

/// A path that never loses, given ACK by ACK; the window after so many seconds beyond a loss at `window` packets.
fn growth(settings: &HtcpSettings, window: u32, rtt_us: u64, seconds: f64) -> (Htcp, Vec<(f64, u32)>) {
    let mut c = Connection { now_us: BEGIN_US, window, threshold: window, srtt_us: rtt_us as u32, ..Connection::new() };
    let mut htcp = Htcp::new(settings, &c);
    htcp.measure(settings, &c, Ack { packets: 1, rtt_us: Some(rtt_us as u32), flight: window });
    c.threshold = htcp.after_loss(settings, &c);
    c.window = c.threshold;
    htcp.congestion(settings, &c);
    htcp.open(settings, &c);
    let mut seen = vec![(0.0, c.window)];
    let end = BEGIN_US + (seconds * 1e6) as u64;
    while c.now_us < end {
        let (begin, in_round) = (c.now_us, c.window);
        for packet in 1..=u64::from(in_round) {
            c.now_us = begin + rtt_us * packet / u64::from(in_round);
            c.delivered += 1;
            htcp.ack(settings, &mut c, Ack { packets: 1, rtt_us: Some(rtt_us as u32), flight: in_round });
        }
        seen.push(((c.now_us - BEGIN_US) as f64 / 1e6, c.window));
    }
    (htcp, seen)
}

#[test]
fn the_window_follows_the_integral_of_alpha() {
    for (settings, rtt_us, scale) in [
        (plain(), 100_000, 1.0),
        (plain(), 187_000, 1.0),
        // 187 ms over 100 ms.
        (HtcpSettings { rtt_scaling: true, ..plain() }, 187_000, 1.87),
        // Not more than twice.
        (HtcpSettings { rtt_scaling: true, ..plain() }, 400_000, 2.0),
    ] {
        let (_, seen) = growth(&settings, 10_000, rtt_us, 12.0);
        for at in [4.0, 8.0, 12.0] {
            let (time, window) = *seen.iter().find(|(t, _)| *t >= at).unwrap();
            let steps = 10_000;
            let step = time / f64::from(steps);
            // beta is 0.5, so 2 (1 - beta) is 1. Scaling does not lower alpha below 1.
            let sum: f64 = (0..steps).map(|n| (alpha((f64::from(n) + 0.5) * step) * scale).max(1.0) * step).sum();
            let promised = sum / (rtt_us as f64 / 1e6);
            let grown = f64::from(window - 5000);
            println!("{rtt_us} us, {time} s: {grown} of {promised}");
            assert!((grown / promised - 1.0).abs() < 0.05, "{rtt_us} us, {time} s: {grown} of {promised}");
        }
    }
}

#[test]
fn figures_of_the_increase() {
    // Exact values of the formula at 2, 5, 10 and 30 s.
    for (seconds, value) in [(2.0, 11.25), (5.0, 45.0), (10.0, 111.25), (30.0, 501.25)] {
        assert!((alpha(seconds) - value).abs() < 1e-9);
        let (mut htcp, _) = growth(&plain(), 10, 100_000, 0.1);
        let now_us = BEGIN_US + (seconds * 1e6) as u64;
        let mut c = Connection { now_us, window: 10, threshold: 5, ..Connection::new() };
        // The increase is computed anew with each packet of window.
        htcp.avoid(&plain(), &mut c, 1000);
        assert!((htcp.alpha() / value - 1.0).abs() < 0.02, "{} of {value}", htcp.alpha());
    }
}

#[test]
fn the_decrease_follows_the_queue() {
    let settings = HtcpSettings { bandwidth_switch: false, ..HtcpSettings::default() };
    let mut c = Connection { window: 1000, threshold: 1000, srtt_us: 60_000, ..Connection::new() };
    let mut htcp = Htcp::new(&settings, &c);
    let ack = Ack { packets: 1, rtt_us: None, flight: 1000 };
    htcp.measure(&settings, &c, ack);
    assert_eq!(htcp.after_loss(&settings, &c), 500, "the first congestion halves");
    for srtt in [70_000, 80_000, 90_000, 100_000] {
        c.srtt_us = srtt;
        htcp.measure(&settings, &c, ack);
    }
    // 60 ms of 100 ms, in 1/128.
    assert_eq!(htcp.after_loss(&settings, &c), 1000 * (60 * 128 / 100) / 128);
    // An empty queue: not more than 0.8.
    let mut short = Htcp::new(&settings, &c);
    c.srtt_us = 60_000;
    short.measure(&settings, &c, ack);
    short.after_loss(&settings, &c);
    assert_eq!(short.after_loss(&settings, &c), 1000 * 102 / 128);
}

#[test]
fn an_undo_brings_back_the_time_since_the_loss() {
    let settings = plain();
    let (mut htcp, seen) = growth(&settings, 400, 50_000, 6.0);
    let window = seen.last().unwrap().1;
    let mut c = Connection { now_us: BEGIN_US + 6_000_000, window, prior_window: window, ..Connection::new() };
    c.threshold = htcp.after_loss(&settings, &c);
    htcp.congestion(&settings, &c);
    c.window = c.threshold;
    assert_eq!(htcp.undo(&c), window);
    c.window = window;
    c.threshold = window;
    // The increase is as large as it was: that of five seconds beyond the first.
    for _ in 0..window {
        htcp.ack(&settings, &mut c, Ack { packets: 1, rtt_us: None, flight: window });
    }
    assert!((f64::from(c.window - window) / alpha(6.0) - 1.0).abs() < 0.05, "{}", c.window - window);
}

/// 1 Gb/s and 187 ms in packets of 1500 bytes: 15 583 packets; a tenth of it, with the same round trip.
#[test]
fn after_one_loss_it_has_a_long_path_again_several_times_faster_than_reno() {
    let pipe = 1558_u32;
    let again = |control: Control| {
        let mut sender = Sender::new(control, 187_000, 0);
        sender.c = Connection { window: pipe, threshold: pipe, ..sender.c };
        let mut path = Bottleneck::new(f64::from(pipe) / 0.187, f64::from(pipe), vec![sender]);
        path.lose = vec![10_000];
        let mut second = 1.0;
        while path.senders[0].losses == 0 {
            second += 0.1;
            path.run(second);
        }
        let lost = second;
        while path.senders[0].c.window < pipe {
            second += 0.1;
            path.run(second);
        }
        second - lost
    };
    let (htcp, reno) = (again(Control::htcp(HtcpSettings::default())), again(Control::Reno));
    println!("H-TCP {htcp} s, Reno {reno} s, ratio {}", reno / htcp);
    assert!(reno / htcp > 4.0, "{htcp} s and {reno} s");
}
