//! Far ends that report impossible or contradictory times, or nothing.

use estimate::probe::{Departure, Method, Outcome, PacketOutcome, Path, Pathload, Step, Train, TrainObservation};
use proptest::prelude::*;
use results::estimate::Caveat;
use units::{Duration, Instant};

use super::loaded;
use crate::path::VirtualPath;

/// Trains before the search, then 25 rates of twelve streams; one fleet can restart with longer streams.
const TRAINS_MAX: usize = 5 + 25 * 12 + 12;

/// Runs the method to its end; returns the number of trains and of bytes.
fn exhaust(method: &mut Pathload, mut pass: impl FnMut(&Train, usize) -> TrainObservation) -> (usize, u64, Outcome) {
    let (mut trains, mut bytes) = (0, 0);
    loop {
        match method.next() {
            Step::Done(outcome) => return (trains, bytes, outcome),
            Step::Send { train, .. } => {
                assert!(trains < TRAINS_MAX, "the method does not end");
                bytes += train.bytes().as_u64();
                let observation = pass(&train, trains);
                trains += 1;
                method.observe(&observation);
            }
        }
    }
}

/// A train whose packets left at their times and arrived increasingly late by this share of them; none arrives in
/// `dead` trains. A train sent at once arrives at 100 Mb/s.
fn sloped(train: &Train, slope: f64, dead: bool) -> TrainObservation {
    let outcome = |(number, d): (u32, &Departure)| {
        let queued = if train.span().is_zero() { Duration::from_micros(120) * number } else { Duration::ZERO };
        let late = d.after.mul_f64(slope) + queued + Duration::from_millis(5);
        let sent = Instant::from_nanos(1_000_000_000) + d.after;
        PacketOutcome { bytes: d.bytes, sent: Some(sent), received: (!dead).then(|| sent + late) }
    };
    TrainObservation { packets: (0..).zip(train.departures()).map(outcome).collect() }
}

#[test]
fn a_far_end_that_falls_silent_ends_the_search() {
    for faithful in [false, true] {
        let path = VirtualPath::new(1, &[loaded(10, 0)]).known();
        let mut method = if faithful { Pathload::faithful(path) } else { Pathload::new(path) };
        let (trains, _, outcome) = exhaust(&mut method, |train, number| sloped(train, 1.0, number > 0));
        // The start, and a stream of each of two rates: the first complete loss ends a fleet.
        assert_eq!(trains, 3);
        assert!(outcome.caveats.contains(&Caveat::NoAnswer), "{outcome:?}");
    }
}

#[test]
fn a_large_budget_does_not_raise_the_limit_of_the_method() {
    // Streams of full packets, as at 10 Gb/s, with alternating trends: a dozen rates and more of 1.8 MB each.
    let path = Path { round_trip: Duration::ZERO, mtu: 1500, gap_min: Duration::from_nanos(1200), seed: 0 };
    for allowed in [u64::MAX, 50_000_000, 20_000_000] {
        let mut method = Pathload::new(path).at_most(allowed);
        let contradict =
            |train: &Train, number: usize| sloped(train, if number.is_multiple_of(2) { 0.5 } else { 0.0 }, false);
        let (_, sent, outcome) = exhaust(&mut method, contradict);
        assert!(sent <= 20_000_000, "{sent} of {allowed}: {outcome:?}");
    }
}

/// Any path, any far end.
fn any_path() -> impl Strategy<Value = Path> {
    let nanos = || prop_oneof![Just(0), Just(1_200), Just(80_000), any::<u64>()].prop_map(Duration::from_nanos);
    let mtu = prop_oneof![Just(0), Just(576), Just(1500), Just(9000), any::<u32>()];
    let path = |(round_trip, mtu, gap_min, seed)| Path { round_trip, mtu, gap_min, seed };
    (nanos(), mtu, nanos(), any::<u64>()).prop_map(path)
}

fn any_outcome() -> impl Strategy<Value = PacketOutcome> {
    let time = || {
        let ns = prop_oneof![4 => 0..100_000_000_u64, 1 => any::<u64>(), 1 => Just(u64::MAX), 1 => Just(7)];
        proptest::option::weighted(0.9, ns.prop_map(Instant::from_nanos))
    };
    (prop_oneof![Just(228), Just(1500), any::<u32>()], time(), time())
        .prop_map(|(bytes, sent, received)| PacketOutcome { bytes, sent, received })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Observations that have nothing to do with the packets sent.
    #[test]
    fn it_ends_with_any_observations(
        path in any_path(),
        faithful in any::<bool>(),
        observations in proptest::collection::vec(proptest::collection::vec(any_outcome(), 0..60), 1..8),
    ) {
        let mut method = if faithful { Pathload::faithful(path) } else { Pathload::new(path) };
        let pass = |_: &Train, number: usize| TrainObservation {
            packets: observations[number % observations.len()].clone(),
        };
        let (_, bytes, outcome) = exhaust(&mut method, pass);
        prop_assert!(bytes <= 40_000_000);
        prop_assert!(outcome.interval.is_none_or(|i| i.low <= i.value && i.value <= i.high), "{:?}", outcome);
        prop_assert_eq!(method.next(), Step::Done(outcome));
    }

    /// Streams that rise and do not rise at random: a search that could oscillate endlessly.
    #[test]
    fn it_ends_when_streams_contradict_each_other(
        faithful in any::<bool>(),
        slopes in proptest::collection::vec(prop_oneof![Just(0.0), Just(0.5), 0.0..0.1], 1..40),
        silent in proptest::collection::vec(proptest::bool::weighted(0.05), 1..40),
    ) {
        let path = Path { round_trip: Duration::ZERO, mtu: 1500, gap_min: Duration::from_nanos(1200), seed: 0 };
        let mut method = if faithful { Pathload::faithful(path) } else { Pathload::new(path) };
        let pass = |train: &Train, number: usize| {
            sloped(train, slopes[number % slopes.len()], silent[number % silent.len()])
        };
        let (_, bytes, outcome) = exhaust(&mut method, pass);
        prop_assert!(bytes <= 40_000_000);
        prop_assert!(outcome.interval.is_none_or(|i| i.low <= i.value && i.value <= i.high), "{:?}", outcome);
    }
}
