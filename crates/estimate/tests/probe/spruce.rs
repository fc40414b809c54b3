use estimate::probe::Spruce;
use proptest::prelude::*;
use results::estimate::{Caveat, Quantity};
use units::{Duration, Rate};

use crate::far_end;
use crate::path::{Cross, Hop, VirtualPath, error, mbps};

#[test]
fn the_capacity_of_an_idle_path_is_available_and_also_reported() {
    for capacity in [10, 100, 200] {
        let mut path = VirtualPath::new(1, &[Hop::new(capacity * 1_000_000, Cross::Idle)]);
        let outcome = path.run(&mut Spruce::new(path.known(), None));
        // The link counts whole nanoseconds: 1500 bytes are 60 000 or more.
        assert!(error(outcome.interval.unwrap().value, capacity * 1_000_000).abs() < 0.001, "{outcome:?}");
        assert_eq!(outcome.also[0].0, Quantity::Capacity);
        assert!(error(outcome.also[0].1.value, capacity * 1_000_000).abs() < 0.001, "{outcome:?}");
        assert!(outcome.caveats.is_empty(), "{outcome:?}");
    }
}

#[test]
fn hosts_that_wake_up_for_a_pair_do_not_raise_the_result() {
    let mut path = VirtualPath::new(1, &[Hop::new(100_000_000, Cross::Idle)]);
    // Three quarters of the gap of a pair.
    path.asleep = Duration::from_micros(90);
    let outcome = path.run(&mut Spruce::new(path.known(), None));
    assert!(error(outcome.interval.unwrap().value, 100_000_000).abs() < 0.001, "{outcome:?}");
    assert!(error(outcome.also[0].1.value, 100_000_000).abs() < 0.001, "{outcome:?}");
}

#[test]
fn random_load_is_met_without_bias_and_with_the_spread_of_a_hundred_pairs() {
    for load in [0.25_f64, 0.5, 0.75] {
        let errors: Vec<f64> = (0..8)
            .map(|seed| {
                let mut path = VirtualPath::new(seed, &[Hop::new(10_000_000, Cross::Poisson(mbps(10.0 * load)))]);
                let started = path.elapsed();
                let outcome = path.run(&mut Spruce::new(path.known(), Some(mbps(10.0))));
                assert_eq!(path.bytes, 300_000 + 100 * 64, "of the reference: 300 kB; and what wakes up the hosts");
                // 100 exponential distances of 100 ms: 10 s, off by a tenth; and ten reports to wait for.
                assert!(
                    (path.elapsed() - started).as_secs_f64() > 6.0 && (path.elapsed() - started).as_secs_f64() < 16.0
                );
                let i = outcome.interval.unwrap();
                // Four standard errors.
                assert!((i.high.as_bps() - i.low.as_bps()) as f64 > 0.1e7 * 2.0 * load.sqrt(), "{i:?}");
                (i.value.as_bps() as f64 - 10e6 * (1.0 - load)) / 10e6
            })
            .collect();
        // `load` packets of cross traffic arrive within a pair on average, by a Poisson process: the error is
        // sqrt(load) of the capacity for a pair, a tenth of that for 100. Three standard errors of the mean of eight,
        // and four of each.
        let one = load.sqrt() / 10.0;
        assert!((errors.iter().sum::<f64>() / 8.0).abs() < 3.0 * one / 8.0_f64.sqrt(), "{load}: {errors:?}");
        assert!(errors.iter().all(|e| e.abs() < 4.0 * one), "{load}: {errors:?}");
    }
}

#[test]
fn faster_links_and_other_loads() {
    for (capacity, cross, bound) in [
        // Four standard errors of 100 pairs under a load of 50 % are 28 %.
        (200.0, Cross::Poisson(mbps(100.0)), 0.28),
        // Every other pair contains a packet of the constant load: half of the capacity for a pair, 5 % for 100.
        (100.0, Cross::Constant(mbps(50.0)), 0.2),
    ] {
        let available = match cross {
            Cross::Idle => capacity,
            Cross::Constant(rate) | Cross::Poisson(rate) | Cross::ParetoOnOff { mean: rate, .. } => {
                capacity - rate.as_bps() as f64 / 1e6
            }
        };
        let mut path = VirtualPath::new(3, &[Hop::new((capacity * 1e6) as u64, cross)]);
        let outcome = path.run(&mut Spruce::new(path.known(), None));
        let value = outcome.interval.unwrap().value.as_bps() as f64 / 1e6;
        assert!((value - available).abs() < bound * capacity, "{cross:?}: {value}");
    }
}

#[test]
fn bursts_of_cross_traffic_make_the_result_uncertain_and_not_wrong() {
    let cross = Cross::ParetoOnOff { mean: mbps(5.0), peak: mbps(20.0) };
    let mut values: Vec<f64> = (0..5)
        .map(|seed| {
            let mut path = VirtualPath::new(seed, &[Hop::new(10_000_000, cross)]);
            let outcome = path.run(&mut Spruce::new(path.known(), Some(mbps(10.0))));
            outcome.interval.unwrap().value.as_bps() as f64 / 1e6
        })
        .collect();
    values.sort_unstable_by(f64::total_cmp);
    // A quarter of the pairs meets twice the capacity: 9 % of 100 pairs, in addition to the variation of the load in
    // ten seconds.
    assert!((values[2] - 5.0).abs() < 1.5, "{values:?}");
}

#[test]
fn a_tight_link_that_is_not_the_narrow_one_is_overestimated() {
    // Narrow 20 Mb/s, idle; behind it 40 Mb/s of which 10 are available. Pairs leave the narrow link 600 us apart, and
    // the tight one serves the first in 300: its queue sometimes drains between them, and the load that arrives then is
    // not seen.
    let hops = [Hop::new(20_000_000, Cross::Idle), Hop::new(40_000_000, Cross::Poisson(mbps(30.0)))];
    let mut path = VirtualPath::new(5, &hops);
    let value = path.run(&mut Spruce::new(path.known(), None)).interval.unwrap().value;
    assert!(value > mbps(10.0) && value <= mbps(20.0), "{value}");
}

#[test]
fn batches_are_reported_and_give_no_value() {
    for (capacity, batch_us) in [(100, 1000), (200, 200), (100, 200)] {
        let load = Cross::Poisson(Rate::from_bps(capacity * 500_000));
        let mut path = VirtualPath::new(1, &[Hop::new(capacity * 1_000_000, load)]);
        path.batch = Duration::from_micros(batch_us);
        let outcome = path.run(&mut Spruce::new(path.known(), Some(Rate::from_bps(capacity * 1_000_000))));
        assert!(outcome.interval.is_none() && outcome.caveats.contains(&Caveat::Batching), "{outcome:?}");
    }
    // At 10 Mb/s a pair is longer than a batch: the resolution is coarser, 1 ms in 1.2 or 10 % of the mean of 100.
    let mut path = VirtualPath::new(1, &[Hop::new(10_000_000, Cross::Idle)]);
    path.batch = Duration::from_millis(1);
    let outcome = path.run(&mut Spruce::new(path.known(), Some(mbps(10.0))));
    assert!(error(outcome.interval.unwrap().value, 10_000_000).abs() < 0.1, "{outcome:?}");
}

#[test]
fn a_sender_that_cannot_send_the_pairs_gives_a_caveat() {
    let mut path = VirtualPath::new(1, &[Hop::new(1_000_000_000, Cross::Idle)]);
    path.gap_min = Duration::from_micros(120);
    let outcome = path.run(&mut Spruce::new(path.known(), Some(mbps(1000.0))));
    assert!(outcome.interval.is_none() && outcome.caveats.contains(&Caveat::SenderTooSlow), "{outcome:?}");
}

#[test]
fn a_load_that_changes_during_the_run_is_unsteady() {
    // The link becomes loaded between two trains: another path takes over.
    let (mut idle, mut loaded) = (
        VirtualPath::new(1, &[Hop::new(10_000_000, Cross::Idle)]),
        VirtualPath::new(1, &[Hop::new(10_000_000, Cross::Poisson(mbps(7.0)))]),
    );
    let mut method = Spruce::new(idle.known(), Some(mbps(10.0)));
    let outcome =
        far_end::answer(&mut method, |number, train| if number < 5 { &mut idle } else { &mut loaded }.send(train));
    assert!(outcome.caveats.contains(&Caveat::Unsteady), "{outcome:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_ends_with_any_observations(outcomes in far_end::outcomes(), given in proptest::option::of(any::<u64>())) {
        let path = VirtualPath::new(1, &[Hop::new(10_000_000, Cross::Idle)]).known();
        // Three bursts, ten trains of pairs.
        let mut method = Spruce::new(path, given.map(Rate::from_bps));
        prop_assert!(far_end::trains(&mut method, &outcomes, 13) <= 13);
    }
}
