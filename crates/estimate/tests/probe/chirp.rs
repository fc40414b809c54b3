use estimate::probe::{Outcome, Path, PathChirp};
use proptest::prelude::*;
use results::estimate::Caveat;
use units::Duration;

use crate::far_end;
use crate::path::{Cross, Hop, VirtualPath, error, mbps};

/// Runs the method over one link of this many Mb/s.
fn run(capacity: f64, cross: Cross, seed: u64, make: fn(Path) -> PathChirp) -> (Outcome, VirtualPath) {
    let mut path = VirtualPath::new(seed, &[Hop::new((capacity * 1e6) as u64, cross)]);
    let outcome = path.run(&mut make(path.known()));
    (outcome, path)
}

/// Errors as shares of the capacity, one for each seed.
fn errors(capacity: f64, load: f64, cross: Cross, seeds: u64, make: fn(Path) -> PathChirp) -> Vec<f64> {
    let value = |seed| run(capacity, cross, seed, make).0.interval.unwrap().value.as_bps() as f64 / 1e6;
    (0..seeds).map(|seed| value(seed) / capacity - (1.0 - load)).collect()
}

#[test]
fn the_capacity_of_an_idle_path_is_available_to_one_step_of_the_rates() {
    for capacity in [1.0, 10.0, 100.0, 200.0, 1000.0] {
        for (make, step) in [(PathChirp::new as fn(_) -> _, 1.1), (PathChirp::faithful, 1.2)] {
            let (outcome, path) = run(capacity, Cross::Idle, 1, make);
            let i = outcome.interval.unwrap();
            let over = i.value.as_bps() as f64 / (capacity * 1e6);
            // The first rate that exceeds the capacity.
            assert!(over > 0.999 && over < step * 1.001, "{capacity}: {outcome:?}");
            assert!(i.low <= mbps(capacity), "{i:?}");
            // 50 kB of a chirp of up to 200 Mb/s do not fit into the 25 kB of 200 ms at 1 Mb/s.
            assert!(outcome.caveats.iter().all(|t| *t == Caveat::Loss && capacity == 1.0), "{outcome:?}");
            // Eleven chirps and twice three for the range; with steps of 10 % and both ranges at once 79 kB each.
            assert!(path.bytes <= 17 * 79_000, "{}", path.bytes);
        }
    }
}

#[test]
fn the_form_of_2003_sends_200_kilobytes_in_5_seconds() {
    // Half of 100 Mb/s is within the first range: no chirps to adapt it.
    let (_, path) = run(100.0, Cross::Constant(mbps(50.0)), 1, PathChirp::faithful);
    // Of the reference: 18 kB a chirp, 11 of them, at 0.3 Mb/s; the path had run for a second before.
    assert_eq!((path.packets, path.bytes), (11 * 18, 198_000));
    assert!((path.elapsed().as_secs_f64() - 1.0 - 198_000.0 * 8.0 / 0.3e6).abs() < 0.5, "{:?}", path.elapsed());
}

#[test]
fn random_load_gives_the_available_bandwidth() {
    for (capacity, load, seeds) in [(10.0, 0.25, 3), (10.0, 0.5, 3), (10.0, 0.75, 3), (100.0, 0.25, 2), (200.0, 0.5, 1)]
    {
        let random = errors(capacity, load, Cross::Poisson(mbps(capacity * load)), seeds, PathChirp::new);
        // A step is 10 %, and up to six packets of a queue vary at random. Each chirp is off by 20 to 30 % of the
        // capacity, and the mean of eleven by about 8 %: three of those for one result, two for the mean of several.
        assert!(random.iter().all(|e| e.abs() < 0.25), "{capacity} {load}: {random:?}");
        let mean = random.iter().sum::<f64>() / seeds as f64;
        assert!(seeds == 1 || mean.abs() < 0.15, "{capacity} {load}: {random:?}");
    }
}

#[test]
fn constant_load_gives_the_available_bandwidth() {
    let constant = errors(100.0, 0.5, Cross::Constant(mbps(50.0)), 1, PathChirp::new);
    // A step of 10 % and one packet of the cross traffic more or less before the onset.
    assert!(constant[0].abs() < 0.15, "{constant:?}");
}

#[test]
fn the_decrease_factor_of_2003_overestimates_under_random_load() {
    let faithful = errors(100.0, 0.5, Cross::Poisson(mbps(50.0)), 3, PathChirp::faithful);
    let mean = faithful.iter().sum::<f64>() / 3.0;
    // Every gap in the cross traffic takes the delay below two thirds and restarts the excursion later.
    assert!(mean > 0.1 && mean < 0.5, "{faithful:?}");
}

#[test]
fn bursts_of_cross_traffic_give_the_available_bandwidth() {
    let cross = Cross::ParetoOnOff { mean: mbps(50.0), peak: mbps(200.0) };
    let mut bursty = errors(100.0, 0.5, cross, 3, PathChirp::new);
    bursty.sort_unstable_by(f64::total_cmp);
    // Chirps between bursts see an idle link, others a fully loaded one.
    assert!(bursty[1].abs() < 0.25, "{bursty:?}");
}

#[test]
fn a_tight_link_is_found_on_either_side_of_the_narrow_one() {
    let narrow = Hop::new(50_000_000, Cross::Idle);
    let tight = Hop::new(100_000_000, Cross::Poisson(mbps(75.0)));
    for hops in [[narrow.clone(), tight.clone()], [tight, narrow]] {
        let mut path = VirtualPath::new(2, &hops);
        let value = path.run(&mut PathChirp::new(path.known())).interval.unwrap().value;
        // 25 Mb/s, and an eighth of the tight link's capacity of 100.
        assert!(value > mbps(12.5) && value < mbps(37.5), "{value}");
    }
}

#[test]
fn batches_are_reported_and_give_no_value() {
    for batch_us in [200, 1000] {
        let mut path = VirtualPath::new(1, &[Hop::new(100_000_000, Cross::Poisson(mbps(50.0)))]);
        path.batch = Duration::from_micros(batch_us);
        let outcome = path.run(&mut PathChirp::new(path.known()));
        assert!(outcome.interval.is_none() && outcome.caveats.contains(&Caveat::Batching), "{outcome:?}");
    }
    // A clock of 200 us, with no link of 10 Mb/s that delivers two packets within a tick: delays change by a sixth of a
    // packet.
    let mut path = VirtualPath::new(1, &[Hop::new(10_000_000, Cross::Idle)]);
    path.batch = Duration::from_micros(200);
    let outcome = path.run(&mut PathChirp::new(path.known()));
    assert!(error(outcome.interval.unwrap().value, 10_000_000).abs() < 0.3, "{outcome:?}");
}

#[test]
fn a_path_that_is_faster_than_the_sender_gives_a_lower_bound() {
    let mut path = VirtualPath::new(1, &[Hop::new(1_000_000_000, Cross::Idle)]);
    // 1500 bytes in 120 us: 100 Mb/s.
    path.gap_min = Duration::from_micros(120);
    let outcome = path.run(&mut PathChirp::new(path.known()));
    assert!(outcome.caveats.contains(&Caveat::LowerBound), "{outcome:?}");
    // The fastest step up to 100 Mb/s, from 5 Mb/s on.
    let value = outcome.interval.unwrap().value;
    assert!(value > mbps(90.0) && value <= mbps(100.1), "{outcome:?}");
}

#[test]
fn a_sender_that_does_not_keep_the_gaps_gives_a_caveat() {
    let mut path = VirtualPath::new(1, &[Hop::new(100_000_000, Cross::Idle)]);
    let known = Path { gap_min: Duration::from_nanos(1200), ..path.known() };
    // The path states a gap of a hundredth of that.
    path.gap_min = Duration::from_micros(240);
    let outcome = path.run(&mut PathChirp::new(known));
    assert!(outcome.caveats.contains(&Caveat::SenderTooSlow), "{outcome:?}");
    // The sender can send 50 Mb/s; the measured gaps count.
    assert!(outcome.caveats.contains(&Caveat::LowerBound), "{outcome:?}");
    assert!(outcome.interval.unwrap().value <= mbps(50.1), "{outcome:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_ends_with_any_observations(outcomes in far_end::outcomes(), faithful: bool) {
        let path = VirtualPath::new(1, &[Hop::new(10_000_000, Cross::Idle)]).known();
        let mut method = if faithful { PathChirp::faithful(path) } else { PathChirp::new(path) };
        prop_assert!(far_end::trains(&mut method, &outcomes, 60) <= 60);
    }
}
