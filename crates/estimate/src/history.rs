//! Prediction of a path's rate from its earlier values.
//!
//! The predictors are those of He, Dovrolis, Ammar, *On the predictability of large transfer TCP throughput* (SIGCOMM
//! 2005): moving averages, exponential weighting and Holt-Winters, with their detection of level shifts and outliers.
//! The choice among predictors, the interval and the effect of age are this crate's own.

mod errors;
mod predictors;
mod shifts;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::samples::median;
use errors::Errors;
pub use predictors::Predictor;

/// Maximum number of values since the last level shift: more than any predictor uses, and enough for steady medians.
const VALUES_MAX: usize = 64;

/// Maximum number of gaps, of which the median is the typical one.
const GAPS_MAX: usize = 32;

/// Maximum valid rate: a thousand times the fastest interface.
const BPS_MAX: f64 = 1e15;

/// Age in seconds at which a single value counts as uncertain: *Choosing Internet Paths* (2002) §2, after Zhang et al.
/// 2001, has rates steady within a factor of three over an hour.
const SINGLE_VALUE_AGE_S: f64 = 3600.0;

/// Minimum typical gap in seconds: simultaneous values do not show how fast the path changes.
const GAP_S_MIN: f64 = 1.0;

/// A measured value with its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// Time in seconds since an epoch of the caller's choice.
    pub at_s: f64,
    /// Rate in b/s.
    pub rate_bps: f64,
}

/// A prediction of the next value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Best single estimate in b/s.
    pub rate_bps: f64,
    /// Lower end of an interval that contains four of five values, in b/s.
    pub low_bps: f64,
    /// Upper end of that interval in b/s.
    pub high_bps: f64,
    /// Number of values used: those since the last level shift, at most 64, without outliers.
    pub samples: usize,
    /// Time since the first value after the last level shift, in seconds; `None` if no shift was detected.
    pub since_shift_s: Option<f64>,
    /// The predictor used.
    pub predictor: Predictor,
}

/// The values of one path that matter for a prediction, in bounded memory.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Values since the last level shift, without outliers.
    values: Vec<Value>,
    gaps: VecDeque<f64>,
    last_s: Option<f64>,
    shift_s: Option<f64>,
    errors: Errors,
}

impl History {
    /// Creates a history without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value; an invalid rate, or a value older than the last, is ignored.
    pub fn add(&mut self, value: Value) {
        let sound = value.at_s.is_finite() && (0.0..=BPS_MAX).contains(&value.rate_bps);
        if !sound || self.last_s.is_some_and(|last| value.at_s < last) {
            return;
        }
        self.errors.add(&self.values, value.rate_bps);
        if let Some(last) = self.last_s.replace(value.at_s) {
            push_bounded(&mut self.gaps, value.at_s - last, GAPS_MAX);
        }
        self.values.push(value);
        let shift = shifts::shift(&self.values);
        self.values.drain(..shift.unwrap_or(0));
        let outlier = shifts::outlier(&self.values);
        if let Some(outlier) = outlier {
            self.values.remove(outlier);
        }
        // An outlier in the first position was the last value of the previous level.
        if shift.is_some() || (self.shift_s.is_some() && outlier == Some(0)) {
            self.shift_s = self.values.first().map(|v| v.at_s);
        }
        let surplus = self.values.len().saturating_sub(VALUES_MAX);
        self.values.drain(..surplus);
    }

    /// The prediction for this time, in seconds of the same epoch; `None` without a value.
    ///
    /// The predictor is the one with the smallest one-step errors. The interval is that of its errors in logarithms,
    /// which is correct for values of the typical age: the median gap, or an hour for a single value. This crate widens
    /// it for older values by the square root of age over typical gap, as for a random walk. If the path returns to its
    /// level that is too wide, which is the safer error.
    pub fn predict(&self, now_s: f64) -> Option<Prediction> {
        let predictor = self.errors.best();
        let rate_bps = predictor.next(&self.values)?;
        // The maximum replaces NaN by 0.
        let since = |at: f64| (now_s - at).max(0.0);
        let age_s = self.last_s.map_or(0.0, since);
        let wider = (age_s / self.typical_gap_s()).max(1.0).sqrt();
        let (below, above) = self.errors.bounds(predictor);
        // A rate of zero has no logarithm: its upper end is computed from 1 b/s, as its errors were.
        let low_bps = rate_bps * (below * wider).exp();
        let high_bps = (rate_bps.max(1.0) * (above * wider).exp()).min(BPS_MAX).max(rate_bps);
        Some(Prediction {
            rate_bps,
            low_bps,
            high_bps,
            samples: self.values.len(),
            since_shift_s: self.shift_s.map(since),
            predictor,
        })
    }

    fn typical_gap_s(&self) -> f64 {
        median(self.gaps.iter().copied()).unwrap_or(SINGLE_VALUE_AGE_S).max(GAP_S_MIN)
    }
}

/// The prediction for a time, from values in any order; values later than `now_s` are ignored.
///
/// `None` without a value.
pub fn predict(values: &[Value], now_s: f64) -> Option<Prediction> {
    let mut known: Vec<Value> = values.iter().copied().filter(|v| v.at_s <= now_s).collect();
    known.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let mut history = History::new();
    for value in known {
        history.add(value);
    }
    history.predict(now_s)
}

fn push_bounded(queue: &mut VecDeque<f64>, value: f64, length_max: usize) {
    if queue.len() >= length_max {
        queue.pop_front();
    }
    queue.push_back(value);
}
