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
    let mut c = Connection { now_us: BEGIN_US, window, threshold: window, ..Connection::new() };
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
    let c = Connection { window: 1000, threshold: 1000, ..Connection::new() };
    let mut htcp = Htcp::new(&settings, &c);
    let after = |rtt_us| Ack { packets: 1, rtt_us: Some(rtt_us), flight: 1000 };
    htcp.measure(&settings, &c, after(60_000));
    assert_eq!(htcp.after_loss(&settings, &c), 500, "the first congestion halves");
    // The last is no queue: it is more than 20 ms beyond all before.
    for rtt in [70_000, 80_000, 90_000, 100_000, 130_000] {
        htcp.measure(&settings, &c, after(rtt));
    }
    // 60 ms of 100 ms, in 1/128.
    assert_eq!(htcp.after_loss(&settings, &c), 1000 * (60 * 128 / 100) / 128);
    // An empty queue: not more than 0.8.
    let mut short = Htcp::new(&settings, &c);
    short.measure(&settings, &c, after(60_000));
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

/// Packets that arrive out of order are no congestion: the throughput is measured on, and a change of it is seen.
#[test]
fn reordering_does_not_hide_a_change_of_the_throughput() {
    let settings = HtcpSettings::default();
    let decrease = |disorder: bool| {
        let mut c = Connection { now_us: BEGIN_US, window: 100, threshold: 100, ..Connection::new() };
        let mut htcp = Htcp::new(&settings, &c);
        // Four congestions; before the last the throughput is half of what it was.
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

/// RFC 5681: what Reno takes to have so many packets again of which it has lost half, in seconds.
fn reno_s(pipe: u32, round_trip_s: f64) -> f64 {
    f64::from(pipe - pipe / 2) * round_trip_s
}

/// 1 Gb/s and 187 ms in packets of 1500 bytes: 15 583 packets.
#[test]
fn after_one_loss_it_has_a_gigabit_path_again_a_hundred_times_sooner_than_reno() {
    let pipe = 15_583;
    let (_, seen) = growth(&HtcpSettings::default(), pipe, 187_000, 15.0);
    let htcp = seen.iter().find(|(_, window)| *window >= pipe).unwrap().0;
    // Half of the window in round trips of 187 ms with an increase of 1.87 alpha(D): the integral of alpha(D) is 779.2 s, which is
    // 1 + x + 5 x^2 + x^3 / 12 at x = D - 1 s = 11.36.
    assert!((htcp / 12.36 - 1.0).abs() < 0.05, "{htcp} s");
    let ratio = reno_s(pipe, 0.187) / htcp;
    println!("H-TCP {htcp} s, ratio {ratio}");
    assert!((ratio / 117.9 - 1.0).abs() < 0.05, "{ratio}");
}

/// A tenth of that rate, over a queue.
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
    assert!((reno / reno_s(pipe, 0.187) - 1.0).abs() < 0.05, "{reno}");
    // The integral of alpha(D) is 77.9 s at D = 4.71 s: a ratio of 31. The recovery takes a round trip of its own of 4 %, and the queue, which was
    // a tenth full when the packet was lost, lengthens the first of them.
    assert!((reno / htcp / 30.9 - 1.0).abs() < 0.1, "{htcp} s and {reno} s");
}

/// Packets a second of one flow over 10 Mb/s and 50 ms, in packets of 1500 bytes with a queue of as many as the path holds.
fn alone(more: impl FnOnce(&mut Bottleneck), from_s: f64, to_s: f64) -> f64 {
    let sender = Sender::new(Control::htcp(HtcpSettings::default()), 50_000, 0);
    let mut path = Bottleneck::new(833.0, 42.0, vec![sender]);
    more(&mut path);
    path.run(to_s);
    path.senders[0].rate(from_s, to_s)
}

#[test]
fn one_loss_in_a_hundred_slows_it_and_does_not_stop_it() {
    let rate = alone(|path| path.lose = (1..1000).map(|n| n * 100).collect(), 20.0, 60.0);
    println!("{rate} packets a second");
    // Mathis et al. 1997 for Reno, sqrt(3/2) / sqrt(p) packets a round trip: 245 a second. Where the queue is empty the decrease is by 0.8 and the
    // increase 0.4, which makes sqrt(0.4 x 1.8 / (2 x 0.2 p)) = 13.4 of 12.2 packets. Windows this small are cut to whole packets.
    assert!((0.75..1.3).contains(&(rate / 245.0)), "{rate}");
}

#[test]
fn a_longer_route_is_filled_as_well() {
    let rate = alone(|path| path.longer = Some((20_000_000, 30_000)), 40.0, 80.0);
    println!("{rate} packets a second of 833");
    // Over 80 ms the queue is 0.63 of what the path holds: a decrease by a half leaves 0.8 of the rate, and it is less than a half.
    assert!(rate > 0.8 * 833.0, "{rate}");
}
