use estimate::probe::{Method, Outcome, Path, SqueezedPairs, Step, TrainObservation};
use proptest::prelude::*;
use results::estimate::{Caveat, GapHistogram, Similarity};
use units::{Duration, Rate};

use crate::absurd::absurd;
use crate::path::{Cross, Hop, VirtualPath};

const MBPS: u64 = 1_000_000;

fn poisson(mbps: u64) -> Cross {
    Cross::Poisson(Rate::from_bps(mbps * MBPS))
}

/// Pairs over a path whose narrow link has this capacity.
fn squeeze(seed: u64, narrow_mbps: u64, hops: &[Hop]) -> (SqueezedPairs, Outcome, VirtualPath) {
    let mut path = VirtualPath::new(seed, hops);
    let mut method = SqueezedPairs::new(path.known(), Rate::from_bps(narrow_mbps * MBPS));
    let outcome = path.run(&mut method);
    (method, outcome, path)
}

/// Share of the pairs with this received gap, by the bin.
fn share(histogram: &GapHistogram, received_ns: u64) -> f64 {
    let bin = usize::try_from(received_ns / histogram.bin_ns).unwrap();
    histogram.counts[bin] as f64 / histogram.counts.iter().sum::<u64>() as f64
}

#[test]
fn over_an_idle_path_pairs_arrive_as_they_were_sent() {
    // Figure 3-1: one mode, at the sent gap. The rule of §3.5 then counts against common modes.
    for mbps in [1, 100, 500] {
        let (method, outcome, path) = squeeze(1, mbps, &[Hop::new(mbps * MBPS, Cross::Idle)]);
        let (short, long) = method.histograms();
        // Half of 500 bytes and half of 1500 at the capacity: at 100 Mb/s the 20 and 60 us of the thesis.
        assert_eq!((short.sent_gap_ns, long.sent_gap_ns), (2_000_000 / mbps, 6_000_000 / mbps));
        for histogram in [short, long] {
            // Exponential distances place less than one pair in a hundred directly behind the previous one.
            assert!(share(histogram, histogram.sent_gap_ns) > 0.99, "{histogram:?}");
        }
        assert_eq!(method.label(), Some(Similarity::TightUnlikeNarrow));
        assert!(outcome.interval.is_none() && outcome.caveats.is_empty(), "{outcome:?}");
        assert_eq!((path.packets, path.bytes), (2_000, 80_000));
    }
}

#[test]
fn pairs_wait_for_the_mean_time_of_the_thesis() {
    // 10 x 600 us between pairs at 10 Mb/s; 4000 of them are known to 1/sqrt(4000) = 1.6 %, of which three.
    let mut path = VirtualPath::new(1, &[Hop::new(10 * MBPS, Cross::Idle)]);
    let before = path.elapsed();
    let mut method = SqueezedPairs::faithful(path.known(), Rate::from_bps(10 * MBPS));
    path.run(&mut method);
    assert_eq!(path.bytes, 320_000, "4000 pairs of 40 bytes");
    // 40 trains; each takes three one-way delays of 10 ms in addition, and up to a millisecond of the model's step.
    let spent = (path.elapsed() - before).as_secs_f64() - 40.0 * 0.0305;
    let expected = 4000.0 * (6e-3 + 0.4e-3);
    assert!((spent / expected - 1.0).abs() < 0.05, "{spent} s, not {expected} s");
}

#[test]
fn a_loaded_narrow_link_is_tight_like_narrow() {
    // Figure 3-2: modes at back to back and at the time of a packet, few pairs at the sent gap, both histograms alike.
    for (seed, mbps) in [(1, 10), (2, 100), (3, 100), (4, 500)] {
        let (method, outcome, _) = squeeze(seed, mbps, &[Hop::new(mbps * MBPS, poisson(mbps * 8 / 10))]);
        assert_eq!(method.label(), Some(Similarity::TightLikeNarrow), "{mbps}: {}", method.score());
        assert!(method.score() > 0 && outcome.caveats.is_empty(), "{outcome:?}");
        let result = method.result();
        assert_eq!(serde_json::to_value(&result).unwrap()["label"], "tight_like_narrow");
        // Two probes in a row, and two with a packet of 1500 bytes between.
        let (row, between) = (40 * 8000 / mbps, 1540 * 8000 / mbps);
        for (histogram, in_row) in [(&result.short, 0.5), (&result.long, 0.3)] {
            // The link is busy for 80 % of the pairs, and no packet arrives in between in exp(-0.8/6) = 88 % of the
            // short gaps and exp(-0.8/2) = 67 % of the long ones, while the backlog lasts.
            assert!(share(histogram, row) > in_row, "{histogram:?}");
            assert!(share(histogram, between) > 0.05, "{histogram:?}");
            // Idle for both packets of at most a fifth; 0.03 are three standard errors of 500 pairs.
            assert!(share(histogram, histogram.sent_gap_ns) < 0.23, "{histogram:?}");
        }
    }
}

#[test]
fn a_fast_tight_link_is_unlike_the_narrow_one() {
    // Figure 3-3: modes spread around each sent gap, a packet of the fast link apart; none of the narrow link.
    let (narrow, tight) = (Hop::new(10 * MBPS, Cross::Idle), |mbps| Hop::new(100 * MBPS, poisson(mbps)));
    let paths = [[narrow.clone(), tight(95)], [narrow.clone(), tight(50)], [tight(95), narrow]];
    for (i, hops) in paths.iter().enumerate() {
        for seed in 1..=3 {
            let (method, _, _) = squeeze(seed, 10, hops);
            assert_eq!(method.label(), Some(Similarity::TightUnlikeNarrow), "{i}: {}", method.score());
            // On average the gaps of pairs are unchanged: an increase of one is a decrease of the next (symmetric
            // spread).
            let (short, long) = method.histograms();
            for histogram in [short, long] {
                let pairs = histogram.counts.iter().sum::<u64>() as f64;
                let middle = |(bin, count): (usize, &u64)| (bin as f64 + 0.5) * *count as f64;
                let sum: f64 = histogram.counts.iter().enumerate().map(middle).sum();
                let mean_ns = sum / pairs * histogram.bin_ns as f64;
                // Spread by sqrt(n) packets of 120 us (n = 5 arrive in 600 us) over 500 pairs is 12 us; three of it,
                // and half a bin of 19 us.
                let off = mean_ns - histogram.sent_gap_ns as f64;
                assert!(off.abs() < 46_000.0, "{i}: {off} ns off {}", histogram.sent_gap_ns);
            }
            // A packet of 1500 bytes of the narrow link, 1.2 ms, between the packets of a short pair is not seen.
            assert!(share(short, 1_540 * 800) < 0.01);
        }
    }
}

#[test]
fn batches_give_no_class() {
    let mut path = VirtualPath::new(1, &[Hop::new(100 * MBPS, poisson(80))]);
    path.batch = Duration::from_millis(1);
    let mut method = SqueezedPairs::new(path.known(), Rate::from_bps(100 * MBPS));
    let outcome = path.run(&mut method);
    assert_eq!(method.label(), None);
    assert!(outcome.caveats.contains(&Caveat::Batching), "{outcome:?}");
}

#[test]
fn a_sender_that_cannot_keep_the_gaps_gives_no_class() {
    let mut path = VirtualPath::new(1, &[Hop::new(1000 * MBPS, poisson(800))]);
    // Requested gaps are 2 and 6 us.
    path.gap_min = Duration::from_micros(20);
    let mut method = SqueezedPairs::new(path.known(), Rate::from_bps(1000 * MBPS));
    let outcome = path.run(&mut method);
    assert_eq!(method.label(), None);
    assert!(outcome.caveats.contains(&Caveat::SenderTooSlow), "{outcome:?}");
}

#[test]
fn no_answer_and_no_capacity_are_no_class() {
    let mut dead = Hop::new(10 * MBPS, Cross::Idle);
    dead.settings.up = false;
    let (method, outcome, _) = squeeze(1, 10, &[dead]);
    assert_eq!((method.label(), method.score()), (None, 0));
    assert!(outcome.caveats.is_superset(&[Caveat::Loss, Caveat::TooFewSamples].into()), "{outcome:?}");
    let (method, outcome, path) = squeeze(1, 0, &[Hop::new(10 * MBPS, Cross::Idle)]);
    assert_eq!((method.label(), path.packets), (None, 0));
    assert!(outcome.caveats.contains(&Caveat::TooFewSamples), "{outcome:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_ends_with_any_observations(seed: u64, bps: u64, shift in 0..64_u32, steady: bool, faithful: bool) {
        let path = Path { round_trip: Duration::ZERO, mtu: 0, gap_min: Duration::MAX, seed };
        let capacity = Rate::from_bps(bps >> shift);
        let mut method =
            if faithful { SqueezedPairs::faithful(path, capacity) } else { SqueezedPairs::new(path, capacity) };
        method.observe(&TrainObservation::default());
        let mut trains = 0_u64;
        let outcome = loop {
            match method.next() {
                Step::Done(outcome) => break outcome,
                Step::Send { train, .. } => {
                    trains += 1;
                    method.observe(&absurd(&train, seed.wrapping_add(if steady { 0 } else { trains })));
                }
            }
            // Two pairs a train at least.
            prop_assert!(trains <= if faithful { 2000 } else { 500 }, "{}", trains);
        };
        prop_assert!(method.result().short.counts.len() == 250);
        prop_assert_eq!(method.next(), Step::Done(outcome));
    }
}
