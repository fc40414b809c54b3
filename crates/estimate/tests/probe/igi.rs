use estimate::probe::{Igi, Outcome};
use proptest::prelude::*;
use results::estimate::{Caveat, Quantity};
use units::{Duration, Rate};

use crate::far_end;
use crate::path::{Cross, Hop, VirtualPath, error, mbps};

/// PTR, IGI (PTR if IGI is not reported) and the capacity in Mb/s.
fn answers(outcome: &Outcome) -> (f64, f64, f64) {
    let mbps = |rate: Rate| rate.as_bps() as f64 / 1e6;
    let of = |quantity| outcome.also.iter().find(|(q, _)| *q == quantity).map(|(_, i)| mbps(i.value));
    let ptr = mbps(outcome.interval.unwrap().value);
    (ptr, of(Quantity::AvailableBandwidth).unwrap_or(ptr), of(Quantity::Capacity).unwrap())
}

/// Runs the method over one link of this many Mb/s.
fn run(capacity: f64, cross: Cross, seed: u64, make: fn(estimate::probe::Path) -> Igi) -> (Outcome, u64) {
    let mut path = VirtualPath::new(seed, &[Hop::new((capacity * 1e6) as u64, cross)]);
    let outcome = path.run(&mut make(path.known()));
    (outcome, path.bytes)
}

#[test]
fn the_capacity_of_an_idle_path_is_available() {
    for capacity in [10.0, 100.0, 200.0] {
        for make in [Igi::new as fn(_) -> _, Igi::faithful] {
            let (outcome, bytes) = run(capacity, Cross::Idle, 1, make);
            let (ptr, igi, narrow) = answers(&outcome);
            // A gap no wider than that of the capacity is among those tried.
            assert!([ptr, igi, narrow].iter().all(|v| (v / capacity - 1.0).abs() < 0.01), "{outcome:?}");
            assert!(outcome.caveats.is_empty(), "{outcome:?}");
            // Of the reference: 90 kB for each gap of 500-byte packets; at most five of them, of 1500 bytes.
            assert!(bytes <= 5 * 270_000, "{bytes}");
        }
    }
}

#[test]
fn constant_load_is_found_by_both() {
    for capacity in [10.0, 100.0] {
        let (outcome, _) = run(capacity, Cross::Constant(mbps(capacity / 2.0)), 1, Igi::faithful);
        let (ptr, igi, _) = answers(&outcome);
        // Equal within 5 % is at most 5 % of the capacity too fast, and a step of 10 % of half of it too slow.
        assert!([ptr, igi].iter().all(|v| (v / capacity - 0.5).abs() < 0.05), "{outcome:?}");
        let i = outcome.interval.unwrap();
        assert!(i.low <= mbps(capacity / 2.0) && i.high >= mbps(capacity / 2.0), "{i:?}");
    }
}

#[test]
fn random_load_is_found_by_ptr() {
    for (capacity, load) in [(10.0, 0.25), (10.0, 0.5), (10.0, 0.75), (100.0, 0.25), (100.0, 0.5), (200.0, 0.5)] {
        let errors: Vec<f64> = (0..3)
            .map(|seed| {
                let (outcome, bytes) = run(capacity, Cross::Poisson(mbps(capacity * load)), seed, Igi::new);
                // 41 gaps of three trains at most.
                assert!(bytes <= 123 * 90_000, "{bytes}");
                answers(&outcome).0 / capacity - (1.0 - load)
            })
            .collect();
        // Trains of 60 packets of a third of the cross traffic's length vary by about 10 %. One that is widened by
        // chance sends the search on to a slower rate: more often too low than too high, by one or two steps of 10 %.
        let mean = errors.iter().sum::<f64>() / 3.0;
        assert!(mean.abs() < 0.15 && errors.iter().all(|e| e.abs() < 0.25), "{capacity} {load}: {errors:?}");
    }
}

#[test]
fn bursts_of_cross_traffic_are_measured() {
    let cross = Cross::ParetoOnOff { mean: mbps(50.0), peak: mbps(200.0) };
    let mut values: Vec<f64> = (0..5).map(|seed| answers(&run(100.0, cross, seed, Igi::new).0).0).collect();
    values.sort_unstable_by(f64::total_cmp);
    // Bursts of 1.2 ms in trains of 7 to 15 ms: single runs are off by 20 %.
    assert!((values[2] - 50.0).abs() < 20.0, "{values:?}");
}

#[test]
fn a_tight_link_is_found_on_either_side_of_the_narrow_one() {
    let narrow = Hop::new(100_000_000, Cross::Idle);
    let tight = Hop::new(200_000_000, Cross::Poisson(mbps(150.0)));
    for hops in [[narrow.clone(), tight.clone()], [tight, narrow]] {
        let mut path = VirtualPath::new(2, &hops);
        let outcome = path.run(&mut Igi::new(path.known()));
        let value = outcome.interval.unwrap().value;
        // 50 Mb/s. The load of 150 Mb/s makes the trains vary as one of 75 % of 100 Mb/s does.
        assert!(error(value, 50_000_000).abs() < 0.3, "{outcome:?}");
    }
}

#[test]
fn batches_are_reported_and_do_not_affect_ptr() {
    let cross = Cross::Poisson(mbps(50.0));
    for (batch_us, has_value) in [(200, true), (2000, false)] {
        let mut path = VirtualPath::new(1, &[Hop::new(100_000_000, cross)]);
        path.batch = Duration::from_micros(batch_us);
        let outcome = path.run(&mut Igi::new(path.known()));
        assert!(outcome.caveats.contains(&Caveat::Batching), "{outcome:?}");
        assert_eq!(outcome.interval.is_some(), has_value, "fewer than five batches have no rate");
        // Of about 30 batches in a train each end is off by part of one.
        assert!(outcome.interval.is_none_or(|i| error(i.value, 50_000_000).abs() < 0.25), "{outcome:?}");
        assert!(
            outcome.also.iter().all(|(quantity, _)| *quantity == Quantity::Capacity),
            "no gaps for IGI: {outcome:?}"
        );
    }
}

#[test]
fn a_sender_that_is_no_faster_than_the_path_gives_a_lower_bound() {
    let mut path = VirtualPath::new(1, &[Hop::new(1_000_000_000, Cross::Idle)]);
    // 1500 bytes in 120 us: 100 Mb/s.
    path.gap_min = Duration::from_micros(120);
    let outcome = path.run(&mut Igi::new(path.known()));
    assert!(outcome.caveats.contains(&Caveat::LowerBound) && outcome.caveats.contains(&Caveat::SenderTooSlow));
    assert!(error(outcome.interval.unwrap().value, 100_000_000).abs() < 0.01, "{outcome:?}");
}

#[test]
fn a_path_with_next_to_nothing_left_gives_an_upper_bound_or_its_rate() {
    // 2 of 100 Mb/s: 50 gaps of the capacity, beyond the 10 of the form of 2003.
    let (outcome, _) = run(100.0, Cross::Constant(mbps(98.0)), 1, Igi::faithful);
    assert!(outcome.caveats.contains(&Caveat::UpperBound), "{outcome:?}");
    // Trains ten times as slow as the capacity: 10 Mb/s in, and less out.
    let i = outcome.interval.unwrap();
    assert!(i.low == Rate::ZERO && i.value < mbps(10.1) && i.value > mbps(2.0), "{i:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_ends_with_any_observations(outcomes in far_end::outcomes(), faithful: bool) {
        let path = VirtualPath::new(1, &[Hop::new(10_000_000, Cross::Idle)]).known();
        let mut method = if faithful { Igi::faithful(path) } else { Igi::new(path) };
        // Sent at once and 40 gaps, three trains each.
        prop_assert!(far_end::trains(&mut method, &outcomes, 123) <= 123);
    }
}
