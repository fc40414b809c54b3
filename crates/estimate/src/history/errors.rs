use std::collections::VecDeque;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Predictor, Value, push_bounded};

/// Errors kept of each predictor: a path's noise of long ago says little of today's.
const ERRORS_MAX: usize = 64;

/// Share of values that are outside on each side: an interval of 80 % is what ten errors can tell.
const TAIL: f64 = 0.1;

/// Errors from which on their own order tells the interval: with nine, the next value lies between the smallest and the
/// largest in 8 of 10 cases.
const ENOUGH: usize = 9;

/// Errors from which on their mean and deviation tell it.
const SOME: usize = 3;

/// The factor by which a value may change when the path's own errors are not known: *Choosing Internet Paths* (2002)
/// §2, after Zhang et al. 2001, has rates steady within a factor of three over an hour.
const UNKNOWN_FACTOR: f64 = 3.0;

/// Least error in logarithms, about 1 %: the same value twice does not mean that the third will be, and age widens a
/// factor.
const LEAST: f64 = 0.01;

/// One-step errors of each predictor: logarithms of value over prediction, the latest last.
#[derive(Debug, Clone, Default)]
pub(super) struct Errors {
    of: [VecDeque<f64>; Predictor::ALL.len()],
}

impl Errors {
    /// Lets each predictor answer from `before`, and holds what then came against it.
    pub(super) fn add(&mut self, before: &[Value], came_bps: f64) {
        for (errors, predictor) in self.of.iter_mut().zip(Predictor::ALL) {
            if let Some(said_bps) = predictor.next(before) {
                // Below 1 b/s rates are alike, so that zero has a logarithm.
                push_bounded(errors, came_bps.max(1.0).ln() - said_bps.max(1.0).ln(), ERRORS_MAX);
            }
        }
    }

    /// The predictor with the smallest mean absolute error, which one outlier cannot decide.
    pub(super) fn best(&self) -> Predictor {
        let mean = |errors: &VecDeque<f64>| errors.iter().map(|e| e.abs()).sum::<f64>() / errors.len().max(1) as f64;
        let each = self.of.iter().map(mean).zip(Predictor::ALL);
        let least = each.reduce(|least, other| if other.0 < least.0 { other } else { least });
        least.map_or(Predictor::Last, |(_, predictor)| predictor)
    }

    /// How far below (negative) and above its prediction the next value is in four of five cases, in logarithms.
    pub(super) fn bounds(&self, predictor: Predictor) -> (f64, f64) {
        let errors = Predictor::ALL.iter().position(|p| *p == predictor).and_then(|i| self.of.get(i));
        let mut errors: Vec<f64> = errors.into_iter().flatten().copied().collect();
        errors.sort_unstable_by(f64::total_cmp);
        let bounds = if errors.len() >= ENOUGH { by_order(&errors) } else { by_deviation(&errors) };
        let widest = errors.iter().map(|e| e.abs()).fold(UNKNOWN_FACTOR.ln(), f64::max);
        let (below, above) = bounds.unwrap_or((-widest, widest));
        (below.min(-LEAST), above.max(LEAST))
    }
}

/// If the next error is as likely to take any place among these, this share of them lies between two of the places.
fn by_order(sorted: &[f64]) -> Option<(f64, f64)> {
    let places = sorted.len() + 1;
    let below = (places as f64 * TAIL).floor().max(1.0) as usize;
    Some((*sorted.get(below - 1)?, *sorted.get(places - below - 1)?))
}

/// Interval for one more normal value: mean plus or minus `t s sqrt(1 + 1/n)`.
fn by_deviation(errors: &[f64]) -> Option<(f64, f64)> {
    let n = errors.len() as f64;
    if errors.len() < SOME {
        return None;
    }
    let mean = errors.iter().sum::<f64>() / n;
    let squares: f64 = errors.iter().map(|e| (e - mean).powi(2)).sum();
    let student = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(1.0 - TAIL);
    let half = student * (squares / (n - 1.0)).sqrt() * (1.0 + 1.0 / n).sqrt();
    half.is_finite().then_some((mean - half, mean + half))
}
