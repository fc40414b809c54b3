//! Tables computed from measured paths.

use estimate::evaluation::Bootstrap;
use results::estimate::{Quantity, Similarity};
use results::evaluate::{JoinedEstimate, MeasuredPath, MethodDecisions, PairSet};

use super::super::tables::Tables;

const BOOTSTRAP: Bootstrap = Bootstrap { resamples: 200, seed: 1 };

/// Path with the throughput of its transfer and the estimates of the methods `right` and `wrong`, in Mb/s.
fn path(ends: [&str; 2], transfer: u64, right: Option<u64>, wrong: u64) -> MeasuredPath {
    let estimate = |method: &str, mbps: Option<u64>| JoinedEstimate {
        method: method.to_owned(),
        quantity: Quantity::BulkTransferCapacity,
        estimate_bps: mbps.map(|m| m * 1_000_000),
        payload_bps: mbps.map(|m| m * 1_000_000),
        truth_bps: Some(transfer * 1_000_000),
        bytes: transfer,
        elapsed_ns: 10 * transfer,
    };
    MeasuredPath {
        directory: "f".to_owned(),
        run: 0,
        values: Vec::new(),
        sender: ends[0].to_owned(),
        receiver: ends[1].to_owned(),
        transfer_bps: transfer * 1_000_000,
        round_trip_ns: 0,
        similarity: None,
        estimates: vec![estimate("right", right), estimate("wrong", Some(wrong))],
    }
}

/// Paths of 10, 20 and 40 Mb/s; the first two share their sender.
fn paths() -> Vec<MeasuredPath> {
    vec![path(["a", "x"], 10, Some(10), 40), path(["a", "y"], 20, Some(20), 20), path(["b", "z"], 40, Some(40), 10)]
}

fn row<'a>(all: &'a [MethodDecisions], method: &str, set: PairSet) -> &'a MethodDecisions {
    all.iter().find(|d| d.method == method && d.pair_set == set).unwrap()
}

fn share(all: &[MethodDecisions], method: &str, set: PairSet, variation: f64) -> f64 {
    row(all, method, set).rates.iter().find(|r| r.variation == variation).unwrap().share
}

fn near(value: f64, expected: f64) {
    // Rounding of fractions.
    assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
}

#[test]
fn choices_are_counted_at_each_allowed_variation() {
    let paths = paths();
    let all = Tables::new("e", &paths).decisions(BOOTSTRAP);
    for variation in [1.0, 2.0, 4.0] {
        near(share(&all, "right", PairSet::All, variation), 1.0);
    }
    // The reversed order is correct only if the other path is within the variation: within 2 for two of three pairs.
    near(share(&all, "wrong", PairSet::All, 1.0), 0.0);
    near(share(&all, "wrong", PairSet::All, 2.0), 2.0 / 3.0);
    near(share(&all, "wrong", PairSet::All, 4.0), 1.0);
    near(share(&all, "random choice", PairSet::All, 1.0), 0.5);
    near(share(&all, "random choice", PairSet::All, 2.0), 2.5 / 3.0);
    let common = row(&all, "wrong", PairSet::CommonEndpoint);
    assert_eq!((common.pairs, common.undecided), (1, 0));
    near(share(&all, "wrong", PairSet::CommonEndpoint, 1.8), 0.0);
    let interval = &row(&all, "right", PairSet::All).rates[0];
    assert_eq!((interval.low, interval.high), (Some(1.0), Some(1.0)), "right in every resample");
    assert_eq!(row(&all, "random choice", PairSet::All).rates[0].low, None);
}

#[test]
fn paths_with_the_same_ends_give_one_table() {
    let same: Vec<MeasuredPath> = [10, 20, 40].map(|t| path(["a", "x"], t, Some(t), t)).to_vec();
    let all = Tables::new("e", &same).decisions(BOOTSTRAP);
    assert!(all.iter().all(|d| d.pair_set == PairSet::All) && all.len() == 3, "{all:?}");
}

#[test]
fn accuracy_is_a_distribution_of_ratios() {
    let mut paths = paths();
    paths[2].estimates[0].estimate_bps = None;
    paths[2].estimates[0].payload_bps = None;
    let all = Tables::new("e", &paths).accuracy();
    let [right, wrong] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((right.attempted, right.answered), (3, 2));
    let ratios = wrong.to_truth.as_ref().unwrap();
    assert_eq!((ratios.count, ratios.p10, ratios.p50, ratios.p90), (3, Some(0.25), Some(1.0), Some(4.0)));
    near(ratios.within_15_percent, 1.0 / 3.0);
    near(ratios.within_factor_2, 1.0 / 3.0);
    assert_eq!(right.to_transfer.as_ref().unwrap().p90, Some(1.0));
    assert_eq!((wrong.bytes, wrong.elapsed_ns), (20, 200));
}

#[test]
fn a_truth_of_zero_gives_no_ratio() {
    let mut paths = paths();
    paths.iter_mut().for_each(|p| p.estimates[1].truth_bps = Some(0));
    let all = Tables::new("e", &paths).accuracy();
    let ratios = all[1].to_truth.as_ref().unwrap();
    assert_eq!((ratios.count, ratios.p50, ratios.within_factor_2), (3, None, 0.0));
}

#[test]
fn agreement_is_of_each_two_and_of_each_with_the_transfer() {
    let paths = paths();
    let all = Tables::new("e", &paths).agreement();
    let of = |one: &str, two: &str| all.iter().find(|a| a.method == one && a.other == two).unwrap().share;
    near(of("right", "wrong"), 0.0);
    near(of("right", "transfer"), 1.0);
    near(of("wrong", "transfer"), 0.0);
    assert_eq!(all.len(), 3);
}

#[test]
fn the_spread_is_that_of_the_logarithms() {
    let paths = paths();
    let (centre, sigma) = Tables::new("e", &paths).spread().unwrap();
    // 10 and 40 differ from 20 by a factor of 2.
    assert!(centre.abs_diff(20_000_000) <= 1);
    near(sigma, std::f64::consts::LN_2);
}

#[test]
fn pairs_are_also_evaluated_by_the_classes_of_their_paths() {
    let mut paths = paths();
    paths.push(path(["c", "w"], 80, Some(80), 5));
    let (like, unlike) = (Some(Similarity::TightLikeNarrow), Some(Similarity::TightUnlikeNarrow));
    for (path, class) in paths.iter_mut().zip([like, like, unlike, None]) {
        path.similarity = class;
    }
    let all = Tables::new("e", &paths).decisions(BOOTSTRAP);
    assert_eq!(row(&all, "right", PairSet::All).pairs, 6);
    assert_eq!(row(&all, "right", PairSet::BothTightLikeNarrow).pairs, 1);
    // A path without a class is in no pair.
    assert_eq!(row(&all, "right", PairSet::OneOfEach).pairs, 2);
    near(share(&all, "wrong", PairSet::OneOfEach, 2.0), 0.5);
    assert!(all.iter().all(|d| d.pair_set != PairSet::BothTightUnlikeNarrow), "one path is no pair");
    near(share(&all, "random choice", PairSet::BothTightLikeNarrow, 1.0), 0.5);
}
