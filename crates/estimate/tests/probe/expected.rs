//! Trains at two rates over a path with an expected capacity.

use estimate::probe::{Interval, Outcome, TwoRates};
use results::estimate::Quantity;
use units::Rate;

use crate::path::{Cross, Hop, VirtualPath, error, mbps};

const TRUTH: u64 = 100_000_000;

/// A path of 100 Mb/s with this load.
fn path(load: f64, seed: u64) -> VirtualPath {
    let cross = if load > 0.0 { Cross::Poisson(mbps(load)) } else { Cross::Idle };
    VirtualPath::new(seed, &[Hop::new(TRUTH, cross)])
}

/// Probes until the interval is narrow enough; returns bytes and outcome.
fn probe(load: f64, seed: u64, expected: Option<Interval>) -> (u64, Outcome) {
    let mut path = path(load, seed);
    let mut method = TwoRates::new(path.known());
    if let Some(expected) = expected {
        method = method.expecting(expected);
    }
    let outcome = path.run(&mut method);
    (path.bytes, outcome)
}

fn about(rate: f64, half: f64) -> Interval {
    Interval { value: mbps(rate), low: mbps(rate - half), high: mbps(rate + half) }
}

fn median<T: Ord + Copy>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

fn capacity(outcome: &Outcome) -> Rate {
    outcome.also.iter().find(|(q, _)| *q == Quantity::Capacity).unwrap().1.value
}

#[test]
fn a_right_expectation_saves_bytes_and_costs_no_accuracy() {
    // On an idle path half of the bytes measure the capacity, on a loaded one most measure the load; 256 kB are sent at
    // once in the end.
    let at_once = 256_000 / 1500 * 1500;
    for (load, share) in [(0.0, 0.6), (25.0, 1.0)] {
        let bytes = |expected| median((0..75).map(|seed| probe(load, seed, expected).0 - at_once).collect());
        let (without, with) = (bytes(None), bytes(Some(about(100.0, 2.0))));
        println!("load {load}: {without} bytes, with an expectation {with}");
        assert!((with as f64) < without as f64 * share, "{load}: {with} {without}");
        for seed in 0..15 {
            let (_, outcome) = probe(load, seed, Some(about(100.0, 2.0)));
            // The method aims at 5 %; it can end by chance when samples agree, so the limit is twice that.
            let available = error(outcome.interval.unwrap().value, TRUTH - mbps(load).as_bps());
            assert!(
                available.abs() < 0.1 && error(capacity(&outcome), TRUTH).abs() < 0.05,
                "{load} {seed}: {outcome:?}"
            );
        }
    }
}

#[test]
fn a_capacity_that_has_halved_or_doubled_is_measured_as_without_an_expectation() {
    for expected in [50.0, 200.0] {
        for load in [0.0, 25.0] {
            for seed in 0..5 {
                let wrong = probe(load, seed, Some(about(expected, 5.0)));
                assert_eq!(wrong, probe(load, seed, None), "{expected} {load} {seed}");
            }
        }
    }
}

#[test]
fn an_expectation_that_is_a_little_wrong_is_not_mixed_into_the_answer() {
    // 8 % are within the precision of one burst of ten packets.
    let (_, outcome) = probe(0.0, 1, Some(about(92.0, 1.0)));
    assert!(error(capacity(&outcome), TRUTH).abs() < 0.01, "{outcome:?}");
    assert!(error(outcome.interval.unwrap().value, TRUTH).abs() < 0.01, "{outcome:?}");
}
