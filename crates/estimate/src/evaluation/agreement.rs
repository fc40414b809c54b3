use super::decisions::once;
use super::dominance::{self, Point, Third};
use super::fenwick::Fenwick;
use super::pairs::Part;
use super::ranking::Rankings;
use super::{Measurement, Pairs};

/// Share of the pairs that both methods decide on which they choose the same path, whichever is faster.
///
/// Two methods that are both undecided (equal estimates) agree; if only one is undecided they agree by half. `None`
/// without a pair. `n log n`.
pub fn same_choice<E>(measurements: &[Measurement<E>], method: usize, other: usize, pairs: &Pairs) -> Option<f64> {
    let (mut halves, mut all) = (0, 0);
    for part in &pairs.parts {
        let rows = rows(measurements, part, method, other);
        halves += part.sign * i128::from(concordant_halves(&rows));
        all += part.sign * choose_two(rows.len());
    }
    (all > 0).then(|| halves as f64 / 2.0 / all as f64)
}

/// Share of pairs on which two methods are both correct, or both incorrect, with this allowed variation: Table 5.7, for
/// which the thesis allows 1.05 (§5.3).
///
/// If the truths are within the variation every choice is correct, so that all methods agree. With the truth itself as
/// one of the methods the result is the other's share of correct choices, as in the table's last row. Equal estimates
/// count as in [`same_choice`]. `None` without a pair, or for a variation below 1. `n log^2 n`.
pub fn agreement<E>(
    measurements: &[Measurement<E>],
    method: usize,
    other: usize,
    pairs: &Pairs,
    variation: f64,
) -> Option<f64> {
    let one = Rankings::new(measurements, pairs, |m| m.both(method, other).map(|both| both.0));
    let two = Rankings::new(measurements, pairs, |m| m.both(method, other).map(|both| both.1));
    let (one, two) = (one.at(variation)?, two.at(variation)?);
    let mut both = 0;
    for part in &pairs.parts {
        let rows = rows(measurements, part, method, other);
        both += part.sign * i128::from(both_wrong_halves(&rows, variation));
    }
    let all = one.pairs(&once);
    // Two methods disagree if exactly one is wrong: wrong + wrong - 2 both wrong.
    let disagree_halves = one.wrong_halves(&once) + two.wrong_halves(&once) - 2 * both;
    (all > 0).then(|| 1.0 - disagree_halves as f64 / 2.0 / all as f64)
}

#[derive(Debug, Clone, Copy)]
struct Both {
    truth: f64,
    one: f64,
    two: f64,
}

fn rows<E>(measurements: &[Measurement<E>], part: &Part, method: usize, other: usize) -> Vec<Both> {
    let row = |&i: &usize| {
        let m = measurements.get(i)?;
        let (one, two) = m.both(method, other)?;
        Some(Both { truth: m.truth()?, one, two })
    };
    part.members.iter().filter_map(row).collect()
}

const fn choose_two(n: usize) -> i128 {
    let n = n as i128;
    n * (n - 1) / 2
}

/// Twice the agreement: over ordered pairs, those with both estimates greater, and those with neither smaller.
fn concordant_halves(rows: &[Both]) -> u64 {
    let ranks = dense_ranks(rows.iter().map(|r| r.two));
    let mut order: Vec<(f64, usize)> = rows.iter().map(|r| r.one).zip(ranks).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut seen = Fenwick::new(rows.len());
    let mut halves = 0;
    for equal in order.chunk_by(|a, b| a.0 == b.0) {
        halves += equal.iter().map(|(_, rank)| seen.below(*rank)).sum::<u64>();
        for (_, rank) in equal {
            seen.add(*rank, 1);
        }
        // Minus one for the row itself.
        halves += equal.iter().map(|(_, rank)| seen.below(rank + 1) - 1).sum::<u64>();
    }
    halves
}

/// Twice the pairs on which both are wrong: the slower path has the greater value of both estimates, or the smaller of
/// neither. Equal estimates thus count as the smaller of the two methods' shares in the error.
fn both_wrong_halves(rows: &[Both], variation: f64) -> u64 {
    let mut truths: Vec<f64> = rows.iter().map(|r| r.truth).collect();
    truths.sort_unstable_by(f64::total_cmp);
    let (one, two) = (dense_ranks(rows.iter().map(|r| r.one)), dense_ranks(rows.iter().map(|r| r.two)));
    let points = |tie: usize| {
        let each = rows.iter().zip(one.iter().zip(&two)).flat_map(|(row, (&first, &second))| {
            let bound = truths.partition_point(|t| *t <= row.truth * variation);
            let rank = truths.partition_point(|t| *t < row.truth);
            // Doubled, so that one more makes an equal one greater.
            let query = Point { first: 2 * first + tie, second: 2 * second + tie, third: Third::From(bound) };
            [query, Point { first: 2 * first, second: 2 * second, third: Third::Rank(rank) }]
        });
        each.collect::<Vec<Point>>()
    };
    dominance::count(points(0), rows.len()) + dominance::count(points(1), rows.len())
}

/// Ranks from 0 on; equal values have equal ranks.
fn dense_ranks(values: impl Iterator<Item = f64>) -> Vec<usize> {
    let values: Vec<f64> = values.collect();
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.dedup();
    values.iter().map(|v| sorted.partition_point(|s| s < v)).collect()
}
