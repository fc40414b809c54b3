use super::fenwick::Fenwick;
use super::{Measurement, Pairs};

/// Measurements of one group in the order of an estimate, and in that of the truth.
#[derive(Debug, Clone)]
struct Ranking {
    /// Rows by ascending estimate.
    rows: Vec<Row>,
    /// Truths in ascending order.
    truths: Vec<f64>,
    /// For each of `truths`, its index in `rows`.
    places: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    measurement: usize,
    estimate: f64,
    truth: f64,
    /// Index of the truth in `truths`.
    rank: usize,
}

/// A set of pairs, ready for evaluation at any allowed variation.
#[derive(Debug, Clone)]
pub(super) struct Rankings {
    parts: Vec<(i128, Ranking)>,
}

/// A set of pairs at one allowed variation.
///
/// Counts take a weight for each measurement (how often a resample drew it); a pair weighs the product, and a
/// measurement makes no pair with its own copies. A pair is *far* if the faster path's truth exceeds the slower one's
/// times the variation: only in such a pair can a choice be wrong.
#[derive(Debug, Clone)]
pub(super) struct RankingAtVariation<'a> {
    parts: Vec<(i128, &'a Ranking, Vec<usize>)>,
}

impl Rankings {
    /// Creates a ranking without the measurements that lack a truth or an estimate.
    pub(super) fn new<E>(
        measurements: &[Measurement<E>],
        pairs: &Pairs,
        estimate: impl Fn(&Measurement<E>) -> Option<f64>,
    ) -> Self {
        let row = |&measurement: &usize| {
            let m = measurements.get(measurement)?;
            Some(Row { measurement, estimate: estimate(m)?, truth: m.truth()?, rank: 0 })
        };
        let parts = pairs.parts.iter();
        let parts = parts.map(|part| (part.sign, Ranking::new(part.members.iter().filter_map(row).collect())));
        Self { parts: parts.collect() }
    }

    /// `None` for a variation below 1 or NaN.
    pub(super) fn at(&self, variation: f64) -> Option<RankingAtVariation<'_>> {
        let sound = variation.is_finite() && variation >= 1.0;
        let parts = self.parts.iter().map(|(sign, ranking)| (*sign, ranking, ranking.cuts(variation)));
        sound.then(|| RankingAtVariation { parts: parts.collect() })
    }
}

impl RankingAtVariation<'_> {
    /// Number of pairs.
    pub(super) fn pairs(&self, weight: &impl Fn(usize) -> u64) -> i128 {
        self.sum(|ranking, _| ranking.pairs(weight))
    }

    /// Number of far pairs.
    pub(super) fn far(&self, weight: &impl Fn(usize) -> u64) -> i128 {
        self.sum(|ranking, cuts| ranking.far(cuts, weight))
    }

    /// Twice the number of wrong choices: a choice between equal estimates is half wrong.
    pub(super) fn wrong_halves(&self, weight: &impl Fn(usize) -> u64) -> i128 {
        self.sum(|ranking, cuts| ranking.wrong_halves(cuts, weight))
    }

    /// Share of correct choices; `None` without a pair.
    pub(super) fn share(&self, weight: &impl Fn(usize) -> u64) -> Option<f64> {
        let pairs = self.pairs(weight);
        (pairs > 0).then(|| 1.0 - self.wrong_halves(weight) as f64 / 2.0 / pairs as f64)
    }

    fn sum(&self, count: impl Fn(&Ranking, &[usize]) -> i128) -> i128 {
        self.parts.iter().map(|(sign, ranking, cuts)| sign * count(ranking, cuts)).sum()
    }
}

impl Ranking {
    fn new(mut rows: Vec<Row>) -> Self {
        rows.sort_unstable_by(|a, b| a.estimate.total_cmp(&b.estimate));
        let mut by_truth: Vec<(f64, usize)> = rows.iter().map(|r| r.truth).zip(0..).collect();
        by_truth.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for (rank, (_, place)) in by_truth.iter().enumerate() {
            if let Some(row) = rows.get_mut(*place) {
                row.rank = rank;
            }
        }
        let (truths, places) = by_truth.into_iter().unzip();
        Self { rows, truths, places }
    }

    /// For each row, the number of truths that do not exceed its own times the variation: those from there on are far
    /// above it.
    fn cuts(&self, variation: f64) -> Vec<usize> {
        let mut cuts = vec![0; self.rows.len()];
        let mut cut = 0;
        for (truth, place) in self.truths.iter().zip(&self.places) {
            let allowed = truth * variation;
            while self.truths.get(cut).is_some_and(|t| *t <= allowed) {
                cut += 1;
            }
            if let Some(c) = cuts.get_mut(*place) {
                *c = cut;
            }
        }
        cuts
    }

    fn pairs(&self, weight: &impl Fn(usize) -> u64) -> i128 {
        let weights = self.rows.iter().map(|r| i128::from(weight(r.measurement)));
        let (sum, squares) = weights.fold((0, 0), |(sum, squares), w| (sum + w, squares + w * w));
        (sum * sum - squares) / 2
    }

    fn far(&self, cuts: &[usize], weight: &impl Fn(usize) -> u64) -> i128 {
        let mut below = Vec::with_capacity(self.rows.len() + 1);
        let mut sum = 0_u64;
        below.push(sum);
        for place in &self.places {
            sum += self.rows.get(*place).map_or(0, |r| weight(r.measurement));
            below.push(sum);
        }
        let above = |cut: usize| sum - below.get(cut).copied().unwrap_or(sum);
        self.rows.iter().zip(cuts).map(|(r, c)| i128::from(weight(r.measurement)) * i128::from(above(*c))).sum()
    }

    fn wrong_halves(&self, cuts: &[usize], weight: &impl Fn(usize) -> u64) -> i128 {
        let mut seen = Fenwick::new(self.rows.len());
        let (mut added, mut wrong, mut cuts) = (0, 0, cuts);
        for equal in self.rows.chunk_by(|a, b| a.estimate == b.estimate) {
            let (own, later) = cuts.split_at_checked(equal.len()).unwrap_or_default();
            cuts = later;
            // The far rows above the chosen row among those seen.
            let missed = |seen: &Fenwick, added: u64| -> i128 {
                let each =
                    |(r, c): (&Row, &usize)| i128::from(weight(r.measurement)) * i128::from(added - seen.below(*c));
                equal.iter().zip(own).map(each).sum()
            };
            let over_smaller = missed(&seen, added);
            for row in equal {
                seen.add(row.rank, weight(row.measurement));
                added += weight(row.measurement);
            }
            // Pairs of different estimates count twice, those of equal ones once; no row is far above itself.
            let over_equal = if equal.len() > 1 { missed(&seen, added) } else { over_smaller };
            wrong += over_smaller + over_equal;
        }
        wrong
    }
}
