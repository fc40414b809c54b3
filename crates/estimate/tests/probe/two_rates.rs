use std::time::Duration;

use estimate::probe::{Outcome, TrainObservation, TwoRates};
use link::QueueLimit;
use results::estimate::{Caveat, Quantity};
use units::Rate;

use crate::path::{Cross, Hop, VirtualPath, error};
use crate::receiver::{ThroughReceiver, late_wakes};

const MBPS: u64 = 1_000_000;

fn capacity(outcome: &Outcome) -> Rate {
    outcome.also.iter().find(|(q, _)| *q == Quantity::Capacity).unwrap().1.value
}

#[test]
fn the_whole_capacity_of_an_idle_path_is_available() {
    for bps in [MBPS, 10 * MBPS, 100 * MBPS, 500 * MBPS] {
        let mut path = VirtualPath::new(1, &[Hop::new(bps, Cross::Idle)]);
        let outcome = path.run_within(&mut TwoRates::new(path.known()), 1_000_000);
        let available = outcome.interval.unwrap();
        assert!(error(available.value, bps).abs() < 0.01, "{bps}: {available:?}");
        assert!(error(capacity(&outcome), bps).abs() < 0.01, "{bps}: {outcome:?}");
        // Three bursts of 10 packets, seven trains of 17, and in the end 256 kB at once: 149 packets and 170. If ten
        // packets take a fifth of a millisecond, trains are four times as long, after one of ten and one of twenty.
        let packets = if bps == 500 * MBPS { 30 + 3 * 40 + 6 * 65 } else { 149 };
        assert!(path.bytes <= (packets + 170) * 1500, "{}", path.bytes);
    }
}

#[test]
fn hosts_that_wake_up_for_a_train_do_not_raise_the_capacity() {
    for bps in [100 * MBPS, 500 * MBPS] {
        let mut path = VirtualPath::new(1, &[Hop::new(bps, Cross::Idle)]);
        // Three quarters of a gap at 100 Mb/s, as measured between virtual hosts, or a whole one: of nine gaps that is
        // 9 to 12 %.
        path.asleep = Duration::from_micros(90);
        let outcome = path.run_within(&mut TwoRates::new(path.known()), 1_000_000);
        assert!(error(outcome.interval.unwrap().value, bps).abs() < 0.01, "{bps}: {outcome:?}");
        assert!(error(capacity(&outcome), bps).abs() < 0.01, "{bps}: {outcome:?}");
    }
}

#[test]
fn load_and_capacity_are_distinguished() {
    for bps in [20 * MBPS, 100 * MBPS, 200 * MBPS] {
        for percent in [25, 50, 75] {
            let mut errors = Vec::new();
            for seed in 0..5 {
                let load = Cross::Poisson(Rate::from_bps(bps * percent / 100));
                let mut path = VirtualPath::new(seed, &[Hop::new(bps, load)]);
                let outcome = path.run_within(&mut TwoRates::new(path.known()), 4_000_000);
                let available = outcome.interval.unwrap();
                errors.push(error(available.value, bps * (100 - percent) / 100));
                // Load between the packets of the burst: at 10 Gb/s of the sender 1.2 us for each, 2 % of a packet.
                assert!(error(capacity(&outcome), bps).abs() < 0.1, "{bps} {percent}: {outcome:?}");
            }
            errors.sort_unstable_by(f64::total_cmp);
            println!("{bps} {percent} %: {errors:?}");
            // The goal of the project: 15 %, here for the median of five; none may be off by twice that.
            assert!(errors[2].abs() < 0.15 && errors.iter().all(|e| e.abs() < 0.3), "{bps} {percent} %: {errors:?}");
        }
    }
}

#[test]
fn the_tight_link_need_not_be_the_narrow_one() {
    // 50 Mb/s idle, then 100 Mb/s with 80 Mb/s of load: 20 Mb/s are available.
    let busy = Hop::new(100 * MBPS, Cross::Poisson(Rate::from_bps(80 * MBPS)));
    let mut path = VirtualPath::new(3, &[Hop::new(50 * MBPS, Cross::Idle), busy]);
    let available = path.run_within(&mut TwoRates::new(path.known()), 4_000_000).interval.unwrap();
    println!("{available:?}");
    // The formula models one link only: it takes the delay of the second for load of the first. It must show that much
    // less than the narrow link is available.
    assert!(available.value < Rate::from_bps(40 * MBPS), "{available:?}");
}

#[test]
fn the_budget_is_never_exceeded_and_a_small_one_still_gives_a_result() {
    for budget in [0, 1000, 20_000, 21_000, 41_000, 100_000] {
        let load = Cross::Poisson(Rate::from_bps(50 * MBPS));
        let mut path = VirtualPath::new(2, &[Hop::new(100 * MBPS, load)]);
        let outcome = path.run_within(&mut TwoRates::new(path.known()).for_budget(budget), budget);
        assert!(path.bytes <= budget, "{} of {budget}", path.bytes);
        // 100 kB do not measure half of 100 Mb/s to 5 %.
        assert!(outcome.caveats.contains(&Caveat::BudgetSpent), "{outcome:?}");
        // A burst of 15 kB and 80 small packets of 64 bytes.
        assert_eq!(outcome.interval.is_some(), budget >= 20_120, "{budget}: {outcome:?}");
        assert_eq!(outcome.caveats.contains(&Caveat::TooFewSamples), outcome.interval.is_none(), "{outcome:?}");
    }
}

#[test]
fn batches_of_the_receiver_are_detected_and_tolerated() {
    let mut path = VirtualPath::new(1, &[Hop::new(100 * MBPS, Cross::Idle)]);
    // Five packets of 120 us arrive together.
    path.batch = Duration::from_micros(600);
    let outcome = path.run_within(&mut TwoRates::new(path.known()), 400_000);
    assert!(outcome.caveats.contains(&Caveat::Batching), "{outcome:?}");
    assert!(error(capacity(&outcome), 100 * MBPS).abs() < 0.1, "{outcome:?}");
}

#[test]
fn a_receiver_that_stalls_once_does_not_change_the_capacity() {
    let mut trains = 0;
    let stalled = |observation: &mut TrainObservation| {
        trains += 1;
        if trains == 1 {
            // All packets that arrive during the stall have the time of its end, plus the work for each.
            let last = observation.packets.iter().filter_map(|p| p.received).max().unwrap();
            for (i, p) in (0_u32..).zip(&mut observation.packets) {
                p.received = Some(last + Duration::from_micros(2) * i);
            }
        }
    };
    let mut path = VirtualPath::new(1, &[Hop::new(100 * MBPS, Cross::Idle)]);
    let method = TwoRates::new(path.known());
    let outcome = path.run_within(&mut ThroughReceiver(method, stalled), 4_000_000);
    assert!(error(capacity(&outcome), 100 * MBPS).abs() < 0.01, "{outcome:?}");
}

#[test]
fn occasional_late_wakes_do_not_raise_the_capacity_of_a_fast_link() {
    for (bps, seed) in [200 * MBPS, 500 * MBPS].into_iter().flat_map(|bps| (0..10).map(move |seed| (bps, seed))) {
        let mut path = VirtualPath::new(seed, &[Hop::new(bps, Cross::Idle)]);
        let method = TwoRates::new(path.known());
        // At 500 Mb/s that is four packets.
        let late_wakes = late_wakes(Duration::from_micros(100), seed);
        let outcome = path.run_within(&mut ThroughReceiver(method, late_wakes), 4_000_000);
        // The goal of the project for an idle path.
        assert!(error(capacity(&outcome), bps).abs() < 0.05, "{bps} {seed}: {outcome:?}");
    }
}

#[test]
fn losses_are_reported() {
    let mut dead = Hop::new(10 * MBPS, Cross::Idle);
    dead.settings.up = false;
    let mut path = VirtualPath::new(1, &[dead]);
    let outcome = path.run_within(&mut TwoRates::new(path.known()), 1_000_000);
    assert!(outcome.interval.is_none() && outcome.caveats.contains(&Caveat::Loss));
}

#[test]
fn a_queue_shorter_than_a_burst_is_reported() {
    // Five packets of 1.2 ms; a burst of ten loses the rest.
    let mut hop = Hop::new(10 * MBPS, Cross::Idle);
    hop.settings.queue.limit = QueueLimit::Packets(5);
    let mut path = VirtualPath::new(1, &[hop]);
    let outcome = path.run_within(&mut TwoRates::new(path.known()), 600_000);
    // The first packet of a burst does not wait, the sixth waits for five.
    let queue = outcome.queue.unwrap().as_secs_f64() * 1e3;
    assert!((queue - 6.0).abs() < 0.1, "{outcome:?}");
    let mut path = VirtualPath::new(1, &[Hop::new(10 * MBPS, Cross::Idle)]);
    assert_eq!(path.run_within(&mut TwoRates::new(path.known()), 600_000).queue, None);
}

#[test]
fn trains_for_a_fast_link_become_no_longer_than_its_queue() {
    for (mbps, packets) in [(200, 5), (200, 12), (500, 16), (500, 40)] {
        let bps = mbps * MBPS;
        let mut errors = Vec::new();
        for seed in 0..5 {
            let mut hop = Hop::new(bps, Cross::Poisson(Rate::from_bps(bps / 2)));
            hop.settings.queue.limit = QueueLimit::Packets(packets);
            let mut path = VirtualPath::new(seed, &[hop]);
            let outcome = path.run_within(&mut TwoRates::new(path.known()), 20_000_000);
            // At 10 Gb/s of the sender, the load takes 2.5 % of a burst's rate at 500 Mb/s.
            assert!(error(capacity(&outcome), bps).abs() < 0.05, "{mbps} {packets} {seed}: {outcome:?}");
            errors.push(error(outcome.interval.unwrap().value, bps / 2));
        }
        errors.sort_unstable_by(f64::total_cmp);
        // The goal of the project for a Poisson load.
        assert!(errors[2].abs() < 0.15, "{mbps} {packets}: {errors:?}");
    }
}

#[test]
fn a_queue_shorter_than_a_train_hides_little_of_the_load() {
    // 12 packets: a train of 16 at 75 % adds 12 to the queue, and the losses of the load by that look like a lower
    // load.
    let mut available = Vec::new();
    for seed in 0..20 {
        let mut hop = Hop::new(10 * MBPS, Cross::Poisson(Rate::from_bps(7_500_000)));
        hop.settings.queue.limit = QueueLimit::Time(Duration::from_millis(15));
        let mut path = VirtualPath::new(seed, &[hop]);
        let outcome = path.run_within(&mut TwoRates::new(path.known()), 600_000);
        assert!(outcome.caveats.contains(&Caveat::Loss), "{outcome:?}");
        available.push(outcome.interval.unwrap().value.as_bps() as f64);
    }
    // A single result is off by a fifth in either direction (the number of packets that 600 kB meet), 20 of them by a
    // twentieth.
    let mean = available.iter().sum::<f64>() / 20.0 / 2.5e6;
    println!("{mean}");
    assert!((mean - 1.0).abs() < 0.15, "{mean} of the available bandwidth");
}
