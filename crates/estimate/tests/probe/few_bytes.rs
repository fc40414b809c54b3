//! Results of trains at two rates in 41 kB, the cost of the cheapest good method of 2002.

use estimate::probe::{Outcome, TwoRates};
use link::Loss;
use units::Rate;

use crate::path::{Cross, Hop, VirtualPath, error};

/// 27 packets of 1500 bytes and half a kilobyte.
const BUDGET: u64 = 41_000;

const SEEDS: u64 = 40;

fn probe(bps: u64, load: u64, loss: f64, seed: u64) -> (Outcome, VirtualPath) {
    let cross = if load == 0 { Cross::Idle } else { Cross::Poisson(Rate::from_bps(bps * load / 100)) };
    let mut hop = Hop::new(bps, cross);
    hop.settings.loss = Loss::Independent(loss);
    let mut path = VirtualPath::new(seed, &[hop]);
    let outcome = path.run_within(&mut TwoRates::new(path.known()).for_budget(BUDGET), BUDGET);
    (outcome, path)
}

/// Sorted errors of the available bandwidth, and the number of intervals that contain the truth.
fn errors(bps: u64, load: u64, loss: f64) -> (Vec<f64>, usize) {
    let truth = bps * (100 - load) / 100;
    let (mut errors, mut held) = (Vec::new(), 0);
    for seed in 0..SEEDS {
        let (outcome, path) = probe(bps, load, loss, seed);
        assert!(path.bytes <= BUDGET);
        errors.extend(outcome.interval.map(|i| error(i.value, truth).abs()));
        held += usize::from(outcome.interval.is_some_and(|i| (i.low..=i.high).contains(&Rate::from_bps(truth))));
    }
    errors.sort_unstable_by(f64::total_cmp);
    (errors, held)
}

#[test]
fn the_available_bandwidth_of_idle_and_half_loaded_paths_is_measured() {
    for bps in [1_000_000, 10_000_000, 50_000_000, 200_000_000] {
        for (load, loss) in [(0, 0.0), (0, 0.01), (25, 0.0), (50, 0.0), (50, 0.01), (75, 0.0)] {
            let (errors, held) = errors(bps, load, loss);
            let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
            println!(
                "{:3} Mb/s, load {load:2} %, loss {loss:4}: error {median:.3}, {p90:.3} at 90 %, {held} of {SEEDS} held",
                bps / 1_000_000
            );
            assert_eq!(errors.len() as u64, SEEDS, "each of them gives a result");
            // The goal of the project: 15 % for half of the results. With three quarters of load, it is as much of the
            // load, three times as much of the rest.
            assert!(median < if load > 50 { 0.45 } else { 0.15 }, "{bps} {load}: {errors:?}");
            // 95 % nominally. The count of 40 has a deviation of 1.4 about 38; four of those below.
            assert!(held >= 32, "{bps} {load}: {held}");
        }
    }
}

#[test]
fn a_slow_path_whose_queue_is_shorter_than_a_train_still_gives_a_result() {
    // 200 ms of 300 kb/s are five packets.
    for (load, largest) in [(0, 0.01), (50, 0.25)] {
        let (errors, _) = errors(300_000, load, 0.01);
        // A quarter of the available bandwidth, if trains lose their ends: only single packets measure the load.
        assert!(errors.len() as u64 == SEEDS && errors[errors.len() / 2] < largest, "{load}: {errors:?}");
    }
}
