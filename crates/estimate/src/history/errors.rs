use std::collections::VecDeque;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Predictor, Value, push_bounded};

/// Maximum number of errors per predictor: old noise of a path does not predict its current noise.
const ERRORS_MAX: usize = 64;

/// Share of values outside the interval on each side: ten errors can determine an interval of 80 %.
const TAIL_SHARE: f64 = 0.1;

/// Minimum number of errors whose order gives the interval: with nine, the next value lies between the smallest and the
/// largest in 8 of 10 cases.
const ORDERED_ERRORS_MIN: usize = 9;

/// Minimum number of errors whose mean and deviation give the interval.
const DEVIATION_ERRORS_MIN: usize = 3;

/// Factor of change if the path's own errors are unknown: *Choosing Internet Paths* (2002) §2, after Zhang et al. 2001,
/// has rates steady within a factor of three over an hour.
const UNKNOWN_FACTOR: f64 = 3.0;

/// Minimum error in logarithms, about 1 %: two equal values do not guarantee an equal third, and age widens a factor.
const ERROR_MIN: f64 = 0.01;

/// One-step errors of each predictor: logarithms of value over prediction, the latest last.
#[derive(Debug, Clone, Default)]
pub(super) struct Errors {
    of: [VecDeque<f64>; Predictor::ALL.len()],
}

impl Errors {
    /// Compares the prediction of each predictor from `before` with the actual value.
    pub(super) fn add(&mut self, before: &[Value], actual_bps: f64) {
        for (errors, predictor) in self.of.iter_mut().zip(Predictor::ALL) {
            if let Some(predicted_bps) = predictor.next(before) {
                // Below 1 b/s rates are equal, so that zero has a logarithm.
                push_bounded(errors, actual_bps.max(1.0).ln() - predicted_bps.max(1.0).ln(), ERRORS_MAX);
            }
        }
    }

    /// The predictor with the smallest mean absolute error, which one outlier cannot decide.
    pub(super) fn best(&self) -> Predictor {
        let mean = |errors: &VecDeque<f64>| errors.iter().map(|e| e.abs()).sum::<f64>() / errors.len().max(1) as f64;
        let each = self.of.iter().map(mean).zip(Predictor::ALL);
        let best = each.reduce(|best, other| if other.0 < best.0 { other } else { best });
        best.map_or(Predictor::Last, |(_, predictor)| predictor)
    }

    /// Distance in logarithms by which the next value is below (negative) and above its prediction in four of five
    /// cases.
    pub(super) fn bounds(&self, predictor: Predictor) -> (f64, f64) {
        let errors = Predictor::ALL.iter().position(|p| *p == predictor).and_then(|i| self.of.get(i));
        let mut errors: Vec<f64> = errors.into_iter().flatten().copied().collect();
        errors.sort_unstable_by(f64::total_cmp);
        let bounds = if errors.len() >= ORDERED_ERRORS_MIN { by_order(&errors) } else { by_deviation(&errors) };
        let widest = errors.iter().map(|e| e.abs()).fold(UNKNOWN_FACTOR.ln(), f64::max);
        let (below, above) = bounds.unwrap_or((-widest, widest));
        (below.min(-ERROR_MIN), above.max(ERROR_MIN))
    }
}

/// If the next error takes any rank among these with equal probability, this share of them lies between two ranks.
fn by_order(sorted: &[f64]) -> Option<(f64, f64)> {
    let places = sorted.len() + 1;
    let below = (places as f64 * TAIL_SHARE).floor().max(1.0) as usize;
    Some((*sorted.get(below - 1)?, *sorted.get(places - below - 1)?))
}

/// Interval for one more normal value: mean plus or minus `t s sqrt(1 + 1/n)`.
fn by_deviation(errors: &[f64]) -> Option<(f64, f64)> {
    let n = errors.len() as f64;
    if errors.len() < DEVIATION_ERRORS_MIN {
        return None;
    }
    let mean = errors.iter().sum::<f64>() / n;
    let squares: f64 = errors.iter().map(|e| (e - mean).powi(2)).sum();
    let student = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(1.0 - TAIL_SHARE);
    let half = student * (squares / (n - 1.0)).sqrt() * (1.0 + 1.0 / n).sqrt();
    half.is_finite().then_some((mean - half, mean + half))
}
