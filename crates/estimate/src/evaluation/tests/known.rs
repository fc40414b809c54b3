//! Comparison with arithmetic, with distributions of a known result, and with the tables of the thesis.

use super::*;

const EXACT: f64 = 1.0;
const DRAWS: Bootstrap = Bootstrap { resamples: 200, seed: 11 };

fn share(paths: &[Measurement<u64>], method: usize, variation: f64) -> f64 {
    decision_rate(paths, method, &Pairs::all(paths), variation).unwrap().share
}

#[test]
fn three_paths_have_the_success_rate_counted_by_hand() {
    // Estimates order them 1 < 2 < 3, truths 10 < 8 < 30: only the first pair is wrong, and correct with a variation of
    // 25 %.
    let paths = [measurement(10.0, 1.0), measurement(8.0, 2.0), measurement(30.0, 3.0)];
    assert_eq!(share(&paths, ONE, EXACT), 1.0 - 1.0 / 3.0);
    assert_eq!(share(&paths, ONE, 1.2), 1.0 - 1.0 / 3.0);
    assert_eq!(share(&paths, ONE, 1.25), 1.0);
    // Two equal estimates: half of one pair.
    let tie = [measurement(10.0, 1.0), measurement(20.0, 1.0)];
    assert_eq!(share(&tie, ONE, EXACT), 0.5);
    assert_eq!(share(&tie, ONE, 2.0), 1.0);
}

#[test]
fn the_tables_imply_the_values_that_the_reference_derives() {
    // Row *random choice* of Table 5.1, columns 4.00 and 2.00.
    assert!((implied_sigma(0.696, 4.0).unwrap() - 1.91).abs() < 0.005);
    assert!((implied_sigma(0.605, 2.0).unwrap() - 1.84).abs() < 0.005);
    for (share, rho) in [(0.949, 0.987), (0.822, 0.848), (0.803, 0.815), (0.644, 0.437), (0.503, 0.009)] {
        assert!((log_correlation(share).unwrap() - rho).abs() < 0.001, "{share}");
    }
    assert_eq!((implied_sigma(0.5, 2.0), implied_sigma(0.7, 1.0), log_correlation(f64::NAN)), (None, None, None));
}

#[test]
fn log_normal_paths_decide_by_the_orthant_probability() {
    let (sigma, rho) = (1.9, 0.815);
    let paths = ensemble(8_000, sigma, &[rho], 1);
    // The standard error at 416 measurements is 0.010 (reference, section 0), so sqrt(416 / 8000) of it here; 4 of
    // them.
    let error = 4.0 * 0.010 * (416.0_f64 / 8_000.0).sqrt();
    assert!((share(&paths, ONE, EXACT) - (1.0 - rho.acos() / std::f64::consts::PI)).abs() < error);
    let spread = spread(&paths).unwrap();
    // A standard deviation has a standard error of sigma / sqrt(2 n); 4 of them.
    let error = 4.0 * sigma / (2.0 * 8_000.0_f64).sqrt();
    assert!((spread.sigma_ln - sigma).abs() < error, "{spread:?}");
    for variation in [1.4, 2.0, 4.0] {
        let toss = random_choice(&paths, &Pairs::all(&paths), variation).unwrap();
        // From pairs here, which vary less than twice as much as the deviation itself.
        assert!((implied_sigma(toss, variation).unwrap() - sigma).abs() < 2.0 * error, "{variation}: {toss}");
    }
}

#[test]
fn the_interval_is_as_wide_as_416_measurements_make_it() {
    // Reference, section 0, simulated at n = 416: 0.010 at a share of 0.80, 0.003 at 0.95 and 0.016 at 0.64. Those are
    // rounded to a thousandth, and one ensemble's own spread differs by some tenths from the mean of many.
    let paths = ensemble(416, 1.9, &[0.815, 0.988, 0.437], 2);
    for (method, expected) in [(0, 0.010), (1, 0.003), (2, 0.016)] {
        let got = decision_interval(&paths, method, &Pairs::all(&paths), EXACT, DRAWS).unwrap();
        assert!((got.standard_error - expected).abs() < 0.3 * expected + 0.0005, "{method}: {got:?}");
        // Normal: 1.96 standard errors to each side, with the uncertainty of two percentiles of 200 draws (0.27
        // standard errors); 3 of that.
        let width = (got.high - got.low) / got.standard_error;
        assert!((width - 3.92).abs() < 0.8 && got.low < got.value && got.value < got.high, "{got:?}");
    }
}

#[test]
fn intervals_contain_the_true_share_at_their_nominal_rate() {
    let rho: f64 = 0.848;
    let truth = 1.0 - rho.acos() / std::f64::consts::PI;
    let ensembles = 120;
    let held = (0..ensembles).filter(|seed| {
        let paths = ensemble(60, 1.9, &[rho], 1000 + seed);
        let draws = Bootstrap { resamples: 120, seed: *seed };
        let got = decision_interval(&paths, ONE, &Pairs::all(&paths), EXACT, draws).unwrap();
        got.low <= truth && truth <= got.high
    });
    let share = held.count() as f64 / ensembles as f64;
    // 95 % nominal; 120 ensembles have a standard error of 2 %, and percentiles of 60 measurements are a few per cent
    // too narrow. Drawing pairs instead gives a third of the width (1770 pairs at 0.82: 0.009, not 0.026), hence one
    // half.
    assert!((0.88..=0.99).contains(&share), "{share}");
}

#[test]
fn a_difference_is_paired() {
    // The second method is wrong mostly where the first is.
    let mut paths = ensemble(416, 1.9, &[0.8, 0.0], 3);
    for (i, m) in (0..).zip(&mut paths) {
        m.estimates[TWO] = m.estimates[ONE].map(|e| e * (0.1 * normal(4, i)).exp());
    }
    let all = Pairs::all(&paths);
    let one = decision_interval(&paths, ONE, &all, EXACT, DRAWS).unwrap();
    let two = decision_interval(&paths, TWO, &all, EXACT, DRAWS).unwrap();
    let both = difference(&paths, ONE, TWO, &all, EXACT, DRAWS).unwrap();
    assert!((both.value - (one.value - two.value)).abs() < 1e-12);
    // Unpaired, the errors would add in squares.
    assert!(both.standard_error < 0.5 * one.standard_error.hypot(two.standard_error), "{both:?} {one:?}");
    let itself = difference(&paths, ONE, ONE, &all, EXACT, DRAWS).unwrap();
    assert_eq!((itself.value, itself.low, itself.high, itself.standard_error), (0.0, 0.0, 0.0, 0.0));
    assert_eq!(difference(&paths, ONE, TWO, &all, EXACT, DRAWS), Some(both), "the seed decides");
}

#[test]
fn undecided_pairs_count_as_random_choices() {
    let mut paths: Vec<_> = (1..=10).map(|i| measurement(f64::from(i), f64::from(i))).collect();
    paths.iter_mut().skip(2).for_each(|m| m.estimates[ONE] = None);
    let d = decision_rate(&paths, ONE, &Pairs::all(&paths), EXACT).unwrap();
    // 1 of 45 pairs decided, and correctly; the other 44 by a coin.
    assert_eq!((d.pairs, d.undecided, d.share), (1, 44, 1.0));
    assert!((d.share_with_guesses - 23.0 / 45.0).abs() < 1e-12);
}

#[test]
fn ratios_measure_the_error_of_estimates() {
    let of = |ratio: f64| measurement(10.0, 10.0 * ratio);
    let paths: Vec<_> = [0.05, 0.5, 0.8, 1.0, 1.0, 1.2, 1.25, 2.0, 9.0, 50.0].map(of).into();
    let ratios = Ratios::new(&paths, ONE);
    assert_eq!((ratios.len(), ratios.quantile(0.5), ratios.quantile(0.0)), (10, Some(1.0), Some(0.05)));
    assert_eq!((ratios.quantile(0.9), ratios.quantile(1.0), ratios.quantile(1.1)), (Some(9.0), Some(50.0), None));
    assert_eq!(ratios.share_within(0.2), Some(0.4));
    assert_eq!((ratios.share_within_factor(2.0), ratios.share_within_factor(10.0)), (Some(0.7), Some(0.8)));
    assert_eq!(ratios.share_not_below(), Some(0.7));
    assert_eq!(ratios.points().nth(3), Some((1.0, 0.5)), "two of the same are one point");
    assert_eq!(ratios.inverted().quantile(1.0), Some(20.0));
}

#[test]
fn ratios_of_nothing_and_to_nothing() {
    let odd = [(0.0, 0.0), (f64::INFINITY, f64::INFINITY), (1.0, -1.0), (f64::NAN, 1.0), (-1.0, 1.0)];
    let mut paths: Vec<_> = odd.map(|(t, e)| measurement(t, e)).into();
    assert!(Ratios::new(&paths, ONE).is_empty() && Ratios::new(&paths, 7).quantile(0.5).is_none());
    paths.push(measurement(0.0, 5.0));
    paths.push(measurement(5.0, 0.0));
    let ratios = Ratios::new(&paths, ONE);
    assert_eq!((ratios.quantile(0.0), ratios.quantile(1.0)), (Some(0.0), Some(f64::INFINITY)));
    assert_eq!((ratios.share_within_factor(1e300), ratios.share_within(0.2)), (Some(0.0), Some(0.0)));
}

#[test]
fn undefined_results_are_none() {
    let one = [measurement(1.0, 1.0)];
    let two = [measurement(1.0, 1.0), measurement(f64::NAN, 2.0)];
    for paths in [&[] as &[_], &one, &two] {
        let all = Pairs::all(paths);
        assert_eq!(decision_rate(paths, ONE, &all, EXACT), None);
        assert_eq!((random_choice(paths, &all, EXACT), same_choice(paths, ONE, ONE, &all)), (None, None));
        assert_eq!(decision_interval(paths, ONE, &all, EXACT, DRAWS), None);
        assert_eq!(spread(paths), None);
    }
    let paths = ensemble(10, 1.0, &[0.5], 5);
    let all = Pairs::all(&paths);
    for variation in [0.99, f64::NAN, f64::INFINITY, -1.0] {
        assert_eq!(decision_rate(&paths, ONE, &all, variation), None);
        assert_eq!(agreement(&paths, ONE, ONE, &all, variation), None);
    }
    assert_eq!(decision_interval(&paths, ONE, &all, EXACT, Bootstrap { resamples: 0, seed: 0 }), None);
    // Pairs of another list: indices out of range are left out.
    assert_eq!(decision_rate(&paths[..1], ONE, &all, EXACT), None);
}
