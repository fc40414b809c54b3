use congestion::{Ack, Connection, Htcp, HtcpSettings};

use crate::bottleneck::{Bottleneck, Control, Sender};

/// Start time in microseconds. It is not zero, because a time of zero means that there is nothing to undo.
const START_US: u64 = 1_000_000;

/// alpha(D) of the draft, in packets per round trip.
fn alpha(since_s: f64) -> f64 {
    let d = since_s - 1.0;
    if d <= 0.0 { 1.0 } else { 1.0 + 10.0 * d + (d / 2.0).powi(2) }
}

fn plain() -> HtcpSettings {
    HtcpSettings { rtt_scaling: false, adaptive_backoff: false, bandwidth_switch: false, tick_us: 0 }
}

/// Window over time on a path without loss, simulated per ACK, starting with a loss at `window` packets.
fn growth(settings: &HtcpSettings, window: u32, rtt_us: u64, seconds: f64) -> (Htcp, Vec<(f64, u32)>) {
    let mut c = Connection { now_us: START_US, window, threshold: window, ..Connection::new() };
    let mut htcp = Htcp::new(settings, &c);
    htcp.measure(settings, &c, Ack { packets: 1, rtt_us: Some(rtt_us as u32), flight: window });
    c.threshold = htcp.after_loss(settings, &c);
    c.window = c.threshold;
    htcp.congestion(settings, &c);
    htcp.open(settings, &c);
    let mut seen = vec![(0.0, c.window)];
    let end = START_US + (seconds * 1e6) as u64;
    while c.now_us < end {
        let (round_start_us, in_round) = (c.now_us, c.window);
        for packet in 1..=u64::from(in_round) {
            c.now_us = round_start_us + rtt_us * packet / u64::from(in_round);
            c.delivered += 1;
            htcp.ack(settings, &mut c, Ack { packets: 1, rtt_us: Some(rtt_us as u32), flight: in_round });
        }
        seen.push(((c.now_us - START_US) as f64 / 1e6, c.window));
    }
    (htcp, seen)
}

#[test]
fn the_window_follows_the_integral_of_alpha() {
    for (settings, rtt_us, scale) in [
        (plain(), 100_000, 1.0),
        (plain(), 187_000, 1.0),
        // 187 ms relative to 100 ms.
        (HtcpSettings { rtt_scaling: true, ..plain() }, 187_000, 1.87),
        // The factor is limited to 2.
        (HtcpSettings { rtt_scaling: true, ..plain() }, 400_000, 2.0),
    ] {
        let (_, seen) = growth(&settings, 10_000, rtt_us, 12.0);
        for at in [4.0, 8.0, 12.0] {
            let (time, window) = *seen.iter().find(|(t, _)| *t >= at).unwrap();
            let steps = 10_000;
            let step = time / f64::from(steps);
            // beta is 0.5, so that 2 (1 - beta) is 1. Scaling does not reduce alpha below 1.
            let sum: f64 = (0..steps).map(|n| (alpha((f64::from(n) + 0.5) * step) * scale).max(1.0) * step).sum();
            let promised = sum / (rtt_us as f64 / 1e6);
            let grown = f64::from(window - 5000);
            println!("{rtt_us} us, {time} s: {grown} of {promised}");
            assert!((grown / promised - 1.0).abs() < 0.05, "{rtt_us} us, {time} s: {grown} of {promised}");
        }
    }
}

#[test]
fn the_increase_matches_the_formula() {
    // Exact values of the formula at 2, 5, 10 and 30 s.
    for (seconds, value) in [(2.0, 11.25), (5.0, 45.0), (10.0, 111.25), (30.0, 501.25)] {
        assert!((alpha(seconds) - value).abs() < 1e-9);
        let (mut htcp, _) = growth(&plain(), 10, 100_000, 0.1);
        let now_us = START_US + (seconds * 1e6) as u64;
        let mut c = Connection { now_us, window: 10, threshold: 5, ..Connection::new() };
        // The increase is recomputed with each packet of window.
        htcp.avoid(&plain(), &mut c, 1000);
        assert!((htcp.alpha() / value - 1.0).abs() < 0.02, "{} of {value}", htcp.alpha());
    }
}

#[test]
fn the_decrease_factor_follows_the_queueing_delay() {
    let settings = HtcpSettings { bandwidth_switch: false, ..HtcpSettings::default() };
    let c = Connection { window: 1000, threshold: 1000, ..Connection::new() };
    let mut htcp = Htcp::new(&settings, &c);
    let after = |rtt_us| Ack { packets: 1, rtt_us: Some(rtt_us), flight: 1000 };
    htcp.measure(&settings, &c, after(60_000));
    assert_eq!(htcp.after_loss(&settings, &c), 500, "the first congestion halves");
    // The last sample is more than 20 ms above all earlier ones and does not indicate a queue.
    for rtt in [70_000, 80_000, 90_000, 100_000, 130_000] {
        htcp.measure(&settings, &c, after(rtt));
    }
    // 60 ms of 100 ms, in 1/128.
    assert_eq!(htcp.after_loss(&settings, &c), 1000 * (60 * 128 / 100) / 128);
    // With an empty queue the factor is limited to 0.8.
    let mut short = Htcp::new(&settings, &c);
    short.measure(&settings, &c, after(60_000));
    short.after_loss(&settings, &c);
    assert_eq!(short.after_loss(&settings, &c), 1000 * 102 / 128);
}

#[test]
fn an_undo_restores_the_time_since_the_loss() {
    let settings = plain();
    let (mut htcp, seen) = growth(&settings, 400, 50_000, 6.0);
    let window = seen.last().unwrap().1;
    let mut c = Connection { now_us: START_US + 6_000_000, window, prior_window: window, ..Connection::new() };
    c.threshold = htcp.after_loss(&settings, &c);
    htcp.congestion(&settings, &c);
    c.window = c.threshold;
    assert_eq!(htcp.undo(&c), window);
    c.window = window;
    c.threshold = window;
    // The increase equals that of five seconds after the first loss.
    for _ in 0..window {
        htcp.ack(&settings, &mut c, Ack { packets: 1, rtt_us: None, flight: window });
    }
    assert!((f64::from(c.window - window) / alpha(6.0) - 1.0).abs() < 0.05, "{}", c.window - window);
}

/// Reordering is not congestion: the throughput measurement continues and detects a change.
#[test]
fn reordering_does_not_hide_a_change_of_the_throughput() {
    let settings = HtcpSettings::default();
    let decrease = |disorder: bool| {
        let mut c = Connection { now_us: START_US, window: 100, threshold: 100, ..Connection::new() };
        let mut htcp = Htcp::new(&settings, &c);
        // Four congestion events; the throughput halves before the last.
        for packets in [10, 10, 10, 5] {
            for round in 0..100 {
                c.now_us += 10_000;
                (c.open, c.disorder) = if disorder && round % 5 == 4 { (false, true) } else { (true, false) };
                htcp.measure(&settings, &c, Ack { packets, rtt_us: Some(100_000), flight: 100 });
            }
            htcp.after_loss(&settings, &c);
            htcp.congestion(&settings, &c);
        }
        htcp.beta()
    };
    assert_eq!((decrease(false), decrease(true)), (0.5, 0.5));
}

/// Seconds that Reno takes to regain a window of `pipe` packets after halving it (RFC 5681).
fn reno_s(pipe: u32, round_trip_s: f64) -> f64 {
    f64::from(pipe - pipe / 2) * round_trip_s
}

/// 1 Gb/s and 187 ms in packets of 1500 bytes: 15 583 packets.
#[test]
fn it_recovers_a_gigabit_path_a_hundred_times_faster_than_reno() {
    let pipe = 15_583;
    let (_, seen) = growth(&HtcpSettings::default(), pipe, 187_000, 15.0);
    let htcp = seen.iter().find(|(_, window)| *window >= pipe).unwrap().0;
    // Regaining half of the window in round trips of 187 ms requires an integral of 1.87 alpha(D), so that the integral
    // of alpha(D) is 779.2 s. It equals 1 + x + 5 x^2 + x^3 / 12 at x = D - 1 s = 11.36.
    assert!((htcp / 12.36 - 1.0).abs() < 0.05, "{htcp} s");
    let ratio = reno_s(pipe, 0.187) / htcp;
    println!("H-TCP {htcp} s, ratio {ratio}");
    assert!((ratio / 117.9 - 1.0).abs() < 0.05, "{ratio}");
}

/// A tenth of that rate, with a queue.
#[test]
fn it_recovers_a_long_path_several_times_faster_than_reno() {
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
    assert!((reno / reno_s(pipe, 0.187) - 1.0).abs() < 0.05, "{reno}");
    // The integral of alpha(D) is 77.9 s at D = 4.71 s: a ratio of 31. Recovery takes one additional round trip (4 %).
    // The queue, a tenth full at the loss, lengthens the first round trips.
    assert!((reno / htcp / 30.9 - 1.0).abs() < 0.1, "{htcp} s and {reno} s");
}

/// Packets per second of a single flow over 10 Mb/s and 50 ms, in packets of 1500 bytes, with a queue of one
/// bandwidth-delay product.
fn single_flow_rate(more: impl FnOnce(&mut Bottleneck), from_s: f64, to_s: f64) -> f64 {
    let sender = Sender::new(Control::htcp(HtcpSettings::default()), 50_000, 0);
    let mut path = Bottleneck::new(833.0, 42.0, vec![sender]);
    more(&mut path);
    path.run(to_s);
    path.senders[0].rate(from_s, to_s)
}

#[test]
fn a_loss_rate_of_one_percent_slows_it_but_does_not_stop_it() {
    let rate = single_flow_rate(|path| path.lose = (1..1000).map(|n| n * 100).collect(), 20.0, 60.0);
    println!("{rate} packets a second");
    // Mathis et al. 1997 give sqrt(3/2) / sqrt(p) packets per round trip for Reno: 245 per second. With an empty queue
    // the decrease factor is 0.8 and the increase 0.4, which gives sqrt(0.4 x 1.8 / (2 x 0.2 p)) = 13.4 instead of 12.2
    // packets. Windows this small are rounded down to whole packets.
    assert!((0.75..1.3).contains(&(rate / 245.0)), "{rate}");
}

#[test]
fn a_longer_route_is_filled() {
    let rate = single_flow_rate(|path| path.longer = Some((20_000_000, 30_000)), 40.0, 80.0);
    println!("{rate} packets a second of 833");
    // At 80 ms the queue is 0.63 of the bandwidth-delay product. A decrease by half leaves 0.8 of the rate, and the
    // actual decrease is smaller.
    assert!(rate > 0.8 * 833.0, "{rate}");
}
