//! Our own traffic moves the metrics of the path that it takes.

use route::flows::spread;
use route::{Load, Path, Policy};
use units::{Bytes, Duration, Rate};

use crate::draws::Draws;
use crate::net::{Bridge, Domestic, EAST, NORTH, SOUTH, STEP, at, seconds, via};

const CAPACITY: f64 = 100.0;
const RTT_MS: f64 = 40.0;
/// A standing queue, of which a minimum over some seconds sees nothing else while the path is full.
const QUEUE_MS: f64 = 20.0;

/// Packets a second that an idle path's loss is counted from: nothing is held back because too little is known.
const EXACT: f64 = 100_000.0;

/// Loss at which as many CUBIC flows fill the path together: what they do to themselves.
fn own_loss(flows: f64) -> f64 {
    let each = CAPACITY * 1e6 / flows;
    let rtt = Duration::from_secs_f64((RTT_MS + QUEUE_MS) / 1e3);
    let rate =
        |p: f64| estimate::model::cubic_response(Bytes::new(1360), rtt, p).map_or(f64::MAX, |r| r.as_bps() as f64);
    let (mut low, mut high) = (1e-9_f64, 1.0_f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if rate(middle) > each { low = middle } else { high = middle }
    }
    high
}

/// A bridge that so many greedy flows are on. They lose twice what the formula has, in bursts.
pub(crate) fn bridge(flows: f64) -> Bridge {
    if flows < 1.0 {
        return Bridge { loss: 0.0, rtt_ms: RTT_MS, mbps: CAPACITY, packets: EXACT };
    }
    let loss = (2.0 * own_loss(flows)).min(0.5);
    Bridge { loss, rtt_ms: RTT_MS + QUEUE_MS, mbps: CAPACITY, packets: 8000.0 }
}

/// Ten minutes with so many flows that all take the first path. Whether control is told what they carry is the question.
fn ten_minutes(policy: Policy, flows: u32, is_told: bool, seed: u64) -> Domestic {
    let mut net = Domestic::new(policy.single_path(), seed);
    // The load follows a change by a second: flows have to find their rate.
    let mut on = [0.0_f64; 2];
    while net.now < 600.0 {
        for (i, relay) in [NORTH, SOUTH].into_iter().enumerate() {
            let aim = if net.first() == Some(via(relay)) { f64::from(flows) } else { 0.0 };
            on[i] += (aim - on[i]) * STEP;
            if is_told && aim > 0.0 {
                let carried = Rate::from_bps((0.95e6 * CAPACITY * on[i] / aim) as u64);
                net.control.handle_load(at(net.now), via(relay), Load { flows, carried });
            }
        }
        net.step(on.map(bridge));
    }
    net
}

#[test]
fn a_load_that_moves_the_metric_does_not_make_it_oscillate() {
    for flows in [1, 4, 10, 40, 100] {
        for seed in 0..3 {
            let net = ten_minutes(Policy::default(), flows, true, seed);
            let changes: Vec<String> = net.changes().iter().map(ToString::to_string).collect();
            assert_eq!(changes, Vec::<String>::new(), "{flows} flows, seed {seed}");
        }
    }
}

/// So that the test above means something: the paper's rule goes back and forth in the same network, each time T_ch allows it.
#[test]
fn the_papers_rule_oscillates_in_the_same_network() {
    let changes = ten_minutes(Policy::safire_2008(), 10, true, 1).changes().len();
    assert!(changes > 40, "{changes}");
}

/// The second line of defence: a driver that tells nothing of the load gets fewer changes, and ever fewer.
#[test]
fn who_goes_back_and_forth_does_it_ever_more_slowly() {
    let net = ten_minutes(Policy::default(), 10, false, 1);
    let times: Vec<f64> = net.changes().iter().map(|d| seconds(d.at)).collect();
    let early = times.iter().filter(|t| **t < 120.0).count();
    let late = times.iter().filter(|t| **t >= 300.0).count();
    assert!(early >= 2, "the network oscillates: {times:?}");
    // A change each 20 s at first, and in the second half less than a third as often.
    assert!(late as f64 / 300.0 < early as f64 / 120.0 / 3.0, "{times:?}");
}

/// Flows that come and go are spread over both paths; their load moves the weights, and the weights the load.
#[test]
fn flows_spread_over_two_paths_do_not_swing() {
    let mut net = Domestic::new(Policy::default(), 5);
    let mut draws = Draws::new(99);
    // Path and end of each.
    let mut flows: Vec<(Path, f64)> = Vec::new();
    let mut shares = Vec::new();
    while net.now < 600.0 {
        flows.retain(|(_, end)| *end > net.now);
        // Two flows a second of 10 s: twenty at once.
        if draws.share() < 2.0 * STEP {
            let end = net.now + draws.between(5.0, 15.0);
            if let Some(chosen) = spread(net.control.paths(EAST), draws.word()) {
                flows.push((chosen.path, end));
            }
        }
        let on = [NORTH, SOUTH].map(|relay| flows.iter().filter(|(path, _)| *path == via(relay)).count());
        for (relay, count) in [NORTH, SOUTH].into_iter().zip(on) {
            let carried = if count > 0 { Rate::from_bps(95_000_000) } else { Rate::ZERO };
            net.control.handle_load(at(net.now), via(relay), Load { flows: count as u32, carried });
        }
        net.step(on.map(|count| bridge(count as f64)));
        if net.now > 60.0 && on[0] + on[1] > 0 {
            shares.push(on[0] as f64 / (on[0] + on[1]) as f64);
        }
    }
    let after: Vec<String> =
        net.decided.iter().filter(|d| d.destination == EAST && seconds(d.at) > 30.0).map(ToString::to_string).collect();
    assert_eq!(after, Vec::<String>::new());
    // The flows on one path, of twenty by chance: 0.5 and a deviation of 0.11. Swinging would be 0 and 1 in turn.
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let deviation = (shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / shares.len() as f64).sqrt();
    assert!((mean - 0.5).abs() < 0.1 && deviation < 0.2, "{mean} {deviation}");
}
