use super::ranking::{RankingAtVariation, Rankings};
use super::{Measurement, Pairs};

/// Allowed variations of the tables of chapter 5: the maximum ratio of the path that was not chosen to the chosen one.
pub const VARIATIONS: [f64; 8] = [1.0, 1.05, 1.1, 1.2, 1.4, 1.8, 2.0, 4.0];

/// Success rate of a method's choices.
///
/// The method chooses the path with the higher estimate. The choice is correct if the truth of the chosen path, times
/// the allowed variation, is at least that of the other (§5.1). Two equal estimates are a random choice: half correct,
/// unless either choice is. The thesis does not state how it counted them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decisions {
    /// The allowed variation.
    pub variation: f64,
    /// Pairs with an estimate for both paths.
    pub pairs: u64,
    /// Share of those with a correct choice.
    pub share: f64,
    /// Pairs that were left out because the method lacks an estimate of at least one path.
    pub undecided: u64,
    /// Share of correct choices over all pairs if the undecided ones are random choices: the basis for the comparison
    /// of methods that do not answer for every path.
    pub share_with_guesses: f64,
}

/// Success rate of a method at one allowed variation.
///
/// `None` without a pair, or for a variation below 1. `n log n` in the number of measurements.
pub fn decision_rate<E>(
    measurements: &[Measurement<E>],
    method: usize,
    pairs: &Pairs,
    variation: f64,
) -> Option<Decisions> {
    decision_rates(measurements, method, pairs, &[variation]).pop()
}

/// Success rates at several allowed variations: a row of Table 5.1, 5.3, 5.4, 5.5, 5.6 or 5.8.
pub fn decision_rates<E>(
    measurements: &[Measurement<E>],
    method: usize,
    pairs: &Pairs,
    variations: &[f64],
) -> Vec<Decisions> {
    let decided = Rankings::new(measurements, pairs, |m| m.estimate(method));
    // If the method answers for all measurements, both rankings are equal.
    let partial = measurements.iter().any(|m| m.truth().is_some() && m.estimate(method).is_none());
    let every = partial.then(|| truths(measurements, pairs));
    let every = every.as_ref().unwrap_or(&decided);
    let one = |&variation: &f64| decisions(variation, &decided.at(variation)?, &every.at(variation)?);
    variations.iter().filter_map(one).collect()
}

fn decisions(variation: f64, decided: &RankingAtVariation<'_>, every: &RankingAtVariation<'_>) -> Option<Decisions> {
    let share = decided.share(&once)?;
    let (pairs, all) = (decided.pairs(&once), every.pairs(&once));
    let undecided = all - pairs;
    let wrong_guesses = (every.far(&once) - decided.far(&once)) as f64 / 2.0;
    let correct = share * pairs as f64 + undecided as f64 - wrong_guesses;
    Some(Decisions {
        variation,
        pairs: u64::try_from(pairs).ok()?,
        share,
        undecided: u64::try_from(undecided).ok()?,
        share_with_guesses: correct / all as f64,
    })
}

/// Expected share of correct choices of a coin toss: the row *random choice* of the tables.
///
/// It shows the spread of the truths: twice its excess over one half is the share of pairs within the variation. `None`
/// without a pair, or for a variation below 1.
pub fn random_choice<E>(measurements: &[Measurement<E>], pairs: &Pairs, variation: f64) -> Option<f64> {
    let every = truths(measurements, pairs);
    let every = every.at(variation)?;
    let all = every.pairs(&once);
    (all > 0).then(|| 1.0 - every.far(&once) as f64 / 2.0 / all as f64)
}

/// All pairs with a truth, with or without estimates.
fn truths<E>(measurements: &[Measurement<E>], pairs: &Pairs) -> Rankings {
    Rankings::new(measurements, pairs, |_| Some(0.0))
}

/// Each measurement counts once.
pub(super) const fn once(_: usize) -> u64 {
    1
}
