//! Counting without listing pairs equals counting of listed pairs.

use proptest::prelude::*;

use super::super::decisions::once;
use super::super::ranking::Rankings;
use super::*;

type Paths = [Measurement<u64>];

/// A handful of values, so that ties are common.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (1_u8..6).prop_map(f64::from),
        1 => prop_oneof![Just(0.0), Just(-0.0), Just(f64::INFINITY), Just(f64::NAN), Just(f64::MAX), Just(5e-324)],
        1 => any::<f64>(),
    ]
}

fn paths() -> impl Strategy<Value = Vec<Measurement<u64>>> {
    let one = (0_u64..3, 0_u64..3, value(), prop::collection::vec(prop::option::weighted(0.9, value()), 2));
    let one = one.prop_map(|(from, to, truth_bps, estimates)| Measurement { from, to, truth_bps, estimates });
    prop::collection::vec(one, 0..30)
}

/// Share of a correct choice that the method makes of two paths, by the text of the definition.
fn correct(m: &Measurement<u64>, other: &Measurement<u64>, method: usize, variation: f64) -> Option<f64> {
    let (a, b) = (m.estimate(method)?, other.estimate(method)?);
    let (t, u) = (m.truth()?, other.truth()?);
    let choosing_one = f64::from(t * variation >= u);
    let choosing_other = f64::from(u * variation >= t);
    Some(match a.partial_cmp(&b)? {
        std::cmp::Ordering::Greater => choosing_one,
        std::cmp::Ordering::Less => choosing_other,
        std::cmp::Ordering::Equal => (choosing_one + choosing_other) / 2.0,
    })
}

/// The sum over the listed pairs that count, and their number.
fn listed(
    paths: &Paths,
    counts: impl Fn(&Measurement<u64>, &Measurement<u64>) -> bool,
    each: impl Fn(usize, usize) -> Option<f64>,
) -> (f64, u64) {
    let pairs = (0..paths.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let values = pairs.filter(|&(i, j)| counts(&paths[i], &paths[j])).filter_map(|(i, j)| each(i, j));
    values.fold((0.0, 0), |(sum, n), v| (sum + v, n + 1))
}

type Counts = fn(&Measurement<u64>, &Measurement<u64>) -> bool;

/// Each set of pairs as the library builds it, and as a predicate on a pair.
fn sets(paths: &Paths) -> [(Pairs, Counts); 5] {
    let kind = |m: &Measurement<u64>| m.from == 1;
    [
        (Pairs::all(paths), |_, _| true),
        (Pairs::common_endpoint(paths), |a, b| a.from == b.from || a.to == b.to),
        (Pairs::either(paths, kind), |a, b| a.from == 1 || b.from == 1),
        (Pairs::both(paths, kind), |a, b| a.from == 1 && b.from == 1),
        (Pairs::mixed(paths, kind), |a, b| (a.from == 1) != (b.from == 1)),
    ]
}

fn close(a: Option<f64>, sum: f64, n: u64) -> bool {
    // Sums of halves are exact; one division and one subtraction are not.
    a.map_or(n == 0, |a| (a - sum / n as f64).abs() < 1e-12)
}

/// The choice: 1 the first, -1 the other, 0 either.
fn choice(a: &Measurement<u64>, b: &Measurement<u64>, method: usize) -> Option<f64> {
    let _both = (a.truth()?, b.truth()?);
    let order = a.estimate(method)?.partial_cmp(&b.estimate(method)?)?;
    Some(f64::from(order as i8))
}

proptest! {
    // Each case evaluates five sets of pairs at several variations.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn decisions_are_those_of_all_listed_pairs(paths in paths()) {
        for (pairs, counts) in sets(&paths) {
            for variation in [1.0, 1.2, 4.0] {
                let got = decision_rate(&paths, ONE, &pairs, variation);
                let (sum, n) = listed(&paths, counts, |i, j| correct(&paths[i], &paths[j], ONE, variation));
                prop_assert!(close(got.map(|d| d.share), sum, n), "{got:?} {sum} of {n}");
                prop_assert_eq!(got.map_or(0, |d| d.pairs), n);
                let toss = |i: usize, j: usize| {
                    let (t, u) = (paths[i].truth()?, paths[j].truth()?);
                    Some(f64::midpoint(f64::from(t * variation >= u), f64::from(u * variation >= t)))
                };
                let (tossed, all) = listed(&paths, counts, toss);
                prop_assert!(close(random_choice(&paths, &pairs, variation), tossed, all));
                let guess = |i, j| correct(&paths[i], &paths[j], ONE, variation).or_else(|| toss(i, j));
                let (guessed, _) = listed(&paths, counts, guess);
                if let Some(d) = got {
                    prop_assert!(close(Some(d.share_with_guesses), guessed, all) && d.undecided == all - n, "{:?}", d);
                }
            }
        }
    }

    #[test]
    fn agreement_is_that_of_all_listed_pairs(paths in paths()) {
        for (pairs, counts) in sets(&paths) {
            let same = |i: usize, j: usize| {
                let (one, two) = (choice(&paths[i], &paths[j], ONE)?, choice(&paths[i], &paths[j], TWO)?);
                Some(1.0 - (one - two).abs() / 2.0)
            };
            let (sum, n) = listed(&paths, counts, same);
            prop_assert!(close(same_choice(&paths, ONE, TWO, &pairs), sum, n));
            for variation in [1.0, 1.4] {
                let agree = |i: usize, j: usize| {
                    let one = correct(&paths[i], &paths[j], ONE, variation)?;
                    Some(1.0 - (one - correct(&paths[i], &paths[j], TWO, variation)?).abs())
                };
                let (sum, n) = listed(&paths, counts, agree);
                let got = agreement(&paths, ONE, TWO, &pairs, variation);
                prop_assert!(close(got, sum, n), "{got:?} {sum} of {n}");
            }
        }
    }

    /// A resample is the list with each measurement as often as it was drawn; copies of one measurement make no pair.
    #[test]
    fn weights_are_repetitions(
        paths in paths(),
        weights in prop::collection::vec(0_u64..4, 40),
        variation in 1.0..3.0,
    ) {
        let pairs = Pairs::common_endpoint(&paths);
        let drawn: Vec<usize> = (0..paths.len()).flat_map(|i| vec![i; weights[i] as usize]).collect();
        let copies: Vec<_> = drawn.iter().map(|i| paths[*i].clone()).collect();
        let common = |a: &Measurement<u64>, b: &Measurement<u64>| a.from == b.from || a.to == b.to;
        let each = |i: usize, j: usize| {
            (drawn[i] != drawn[j]).then(|| correct(&copies[i], &copies[j], ONE, variation)).flatten()
        };
        let (sum, n) = listed(&copies, common, each);
        let rankings = Rankings::new(&paths, &pairs, |m| m.estimate(ONE));
        let ranking = rankings.at(variation).unwrap();
        prop_assert!(close(ranking.share(&|i| weights[i]), sum, n));
        prop_assert!(ranking.far(&once) <= ranking.pairs(&once));
    }

    /// With the truth as one of the methods, the agreement is the other's share of correct choices (§5.3).
    #[test]
    fn agreement_with_the_truth_is_correctness(paths in paths(), variation in 1.0..3.0) {
        let with_truth: Vec<_> = paths.into_iter().map(|mut m| { m.estimates[TWO] = Some(m.truth_bps); m }).collect();
        let pairs = Pairs::all(&with_truth);
        let agreed = agreement(&with_truth, ONE, TWO, &pairs, variation);
        prop_assert_eq!(agreed, decision_rate(&with_truth, ONE, &pairs, variation).map(|d| d.share));
    }
}
