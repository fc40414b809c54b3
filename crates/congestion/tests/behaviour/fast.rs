use congestion::{Ack, Connection, Fast, FastSettings};

use crate::bottleneck::{Bottleneck, Control, Sender, jain};

/// 100 Mb/s in packets of 9000 bytes: 1389 packets per second.
const RATE: f64 = 1389.0;
const BASE_US: u64 = 50_000;

fn with_alpha(alpha: u32) -> FastSettings {
    FastSettings { alpha, ..FastSettings::default() }
}

#[test]
fn a_single_flow_fills_the_path_and_keeps_alpha_packets_queued() {
    for (alpha, base_us) in [(20, 20_000), (100, BASE_US), (50, 200_000)] {
        let sender = Sender::new(Control::fast(with_alpha(alpha)), base_us, 0);
        let mut path = Bottleneck::new(RATE, 1e9, vec![sender]);
        path.run(40.0);
        let (rate, queue) = (path.senders[0].rate(20.0, 40.0), path.mean_queue(20.0, 40.0));
        println!("alpha {alpha}, {base_us} us: {rate} of {RATE}, {queue} queued");
        assert!(rate > 0.98 * RATE, "{rate}");
        // The window rule converges to alpha packets.
        assert!((queue / f64::from(alpha) - 1.0).abs() < 0.15, "{queue} of {alpha}");
        assert_eq!(path.senders[0].losses, 0);
    }
}

#[test]
fn flows_that_measured_the_base_delay_share_equally_and_queue_alpha_each() {
    // All flows start at once on the empty path, so that each measures the true base delay.
    let senders = (0..5).map(|_| Sender::new(Control::fast(with_alpha(20)), BASE_US, 0)).collect();
    let mut path = Bottleneck::new(RATE, 1e9, senders);
    path.run(120.0);
    let rates: Vec<f64> = path.senders.iter().map(|s| s.rate(60.0, 120.0)).collect();
    let queue = path.mean_queue(60.0, 120.0);
    println!("{rates:?}, {queue} queued");
    assert!(jain(&rates) > 0.95, "{rates:?}");
    assert!((queue / 100.0 - 1.0).abs() < 0.15, "{queue} of 100");
}

/// A known weakness of FAST: a late flow includes the others' queue in its base delay, and gets a larger share.
#[test]
fn a_late_flow_overestimates_the_base_delay_and_takes_more() {
    let senders = vec![
        Sender::new(Control::fast(with_alpha(50)), BASE_US, 0),
        Sender::new(Control::fast(with_alpha(50)), BASE_US, 20_000_000),
    ];
    let mut path = Bottleneck::new(RATE, 1e9, senders);
    path.run(100.0);
    let (early, late) = (path.senders[0].rate(60.0, 100.0), path.senders[1].rate(60.0, 100.0));
    let queue = path.mean_queue(60.0, 100.0);
    println!("early {early}, late {late}, {queue} queued");
    // Low, Peterson, Wang, "Understanding Vegas", 2002, section V. The late flow's base delay includes the existing
    // queue of 50 packets, so that it keeps 50 packets beyond those. In equilibrium x1 : x2 = 50 : (50 + 50 x2 / C),
    // and thus x2 = 1.62 x1.
    assert!((1.4..1.9).contains(&(late / early)), "{}", late / early);
    assert!(queue > 115.0, "more than 2 alpha: {queue}");
}

/// A known weakness of FAST: it permanently treats a longer route as queueing delay.
#[test]
fn a_longer_route_counts_as_queueing_delay() {
    let sender = Sender::new(Control::fast(with_alpha(20)), 20_000, 0);
    let mut path = Bottleneck::new(RATE, 1e9, vec![sender]);
    path.longer = Some((20_000_000, 30_000));
    path.run(60.0);
    let (before, after) = (path.senders[0].rate(10.0, 20.0), path.senders[0].rate(40.0, 60.0));
    println!("before {before}, after {after}");
    assert!(before > 0.98 * RATE);
    // alpha = x (RTT - baseRTT) without a queue: 20 packets in 30 ms.
    assert!((after / (20.0 / 0.030) - 1.0).abs() < 0.05, "{after}");
}

#[test]
fn it_recovers_the_full_rate_within_seconds_of_a_loss() {
    let sender = Sender::new(Control::fast(with_alpha(50)), BASE_US, 0);
    let mut path = Bottleneck::new(RATE, 1e9, vec![sender]);
    path.lose = vec![20_000];
    path.run(40.0);
    let rate = path.senders[0].rate(18.0, 40.0);
    assert_eq!(path.senders[0].losses, 1);
    assert!(rate > 0.97 * RATE, "{rate}");
}

#[test]
fn a_loss_rate_of_one_percent_slows_it_but_does_not_stop_it() {
    let sender = Sender::new(Control::fast(with_alpha(50)), BASE_US, 0);
    let mut path = Bottleneck::new(RATE, 1e9, vec![sender]);
    path.lose = (1..2000).map(|n| n * 100).collect();
    path.run(60.0);
    let rate = path.senders[0].rate(20.0, 60.0);
    println!("{rate} of {RATE}");
    // Mathis et al. 1997: Reno reaches sqrt(3/2) / sqrt(p) packets per round trip, here 245 packets per second.
    assert!(rate > 1.22 / 0.01_f64.sqrt() / 0.050, "{rate}");
}

#[test]
fn an_application_limited_window_does_not_grow() {
    let (settings, mut fast, mut c) = (FastSettings::default(), Fast::default(), Connection::new());
    c.window = 50;
    let mut acknowledge = |limited: bool, rtt_us: u32, packets: u32| {
        for _ in 0..packets {
            (c.now_us, c.delivered, c.limited) = (c.now_us + 1000, c.delivered + 1, limited);
            fast.ack(&settings, &mut c, Ack { packets: 1, rtt_us: Some(rtt_us), flight: 20 });
        }
        c.window
    };
    acknowledge(false, 40_000, 1);
    // 20 of 50 packets in flight for five seconds, behind the queue of other traffic.
    let before = acknowledge(false, 45_000, 5000);
    assert!(before <= 50, "{before}");
    // One round trip with a full window; a change increases the window by at most half of alpha.
    let after = acknowledge(true, 45_000, before);
    assert!(after <= before + settings.alpha / 2, "{after} after {before}");
}
