//! What a path will give, from what it gave before.
//!
//! The predictors are those of He, Dovrolis, Ammar, *On the predictability of large transfer TCP throughput* (SIGCOMM
//! 2005): moving averages, exponential weighting, Holt-Winters, with level shifts and outliers found as they do. The
//! choice among predictors, the interval and what age does to it are this crate's own.

mod errors;
mod predictors;
mod shifts;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::samples::median;
use errors::Errors;
pub use predictors::Predictor;

/// Values kept since the last level shift: more than any predictor looks back, and enough for steady medians.
const KEPT_MAX: usize = 64;

/// Gaps kept, of which the median is the typical one.
const GAPS_MAX: usize = 32;

/// Rates above this are no rates: a thousand times the fastest interface.
const BPS_MAX: f64 = 1e15;

/// Age in seconds at which a lone value is taken to have become uncertain: *Choosing Internet Paths* (2002) §2, after
/// Zhang et al. 2001, has rates steady within a factor of three over an hour.
const LONE_S: f64 = 3600.0;

/// Least typical gap in seconds: values taken at once say nothing about how fast the path changes.
const GAP_S_MIN: f64 = 1.0;

/// What was measured, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// In seconds since an epoch of the caller's.
    pub at_s: f64,
    /// In b/s.
    pub rate_bps: f64,
}

/// What is to be expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Best single answer, in b/s.
    pub rate_bps: f64,
    /// Lower end of an interval that holds four of five values, in b/s.
    pub low_bps: f64,
    /// Upper end.
    pub high_bps: f64,
    /// Values that it rests on: those since the last level shift, at most 64, without outliers.
    pub samples: usize,
    /// Time since the first value after the last level shift, in seconds; `None`: no shift was seen.
    pub since_shift_s: Option<f64>,
    /// Who predicted.
    pub predictor: Predictor,
}

/// The values of one path, as far as they matter for what comes next: bounded memory, whatever is added.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Since the last level shift, without outliers.
    kept: Vec<Value>,
    gaps: VecDeque<f64>,
    last_s: Option<f64>,
    shift_s: Option<f64>,
    errors: Errors,
}

impl History {
    /// Without a value.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a value; one that is no rate, or older than the last, is left out.
    pub fn add(&mut self, value: Value) {
        let sound = value.at_s.is_finite() && (0.0..=BPS_MAX).contains(&value.rate_bps);
        if !sound || self.last_s.is_some_and(|last| value.at_s < last) {
            return;
        }
        self.errors.add(&self.kept, value.rate_bps);
        if let Some(last) = self.last_s.replace(value.at_s) {
            push_bounded(&mut self.gaps, value.at_s - last, GAPS_MAX);
        }
        self.kept.push(value);
        let shift = shifts::shift(&self.kept);
        self.kept.drain(..shift.unwrap_or(0));
        let outlier = shifts::outlier(&self.kept);
        if let Some(outlier) = outlier {
            self.kept.remove(outlier);
        }
        // An outlier in the first place was the last value of the level before.
        if shift.is_some() || (self.shift_s.is_some() && outlier == Some(0)) {
            self.shift_s = self.kept.first().map(|v| v.at_s);
        }
        let surplus = self.kept.len().saturating_sub(KEPT_MAX);
        self.kept.drain(..surplus);
    }

    /// What is to be expected at this time, in seconds of the same epoch; `None` without a value.
    ///
    /// The predictor is the one whose one-step errors were smallest. The interval is that of its errors, in logarithms,
    /// which fits values that are the typical gap old (the median of those seen; an hour for a lone value). Ours: older
    /// ones widen it by the square root of age over typical gap, as for a random walk. Where the path returns to its
    /// level that is too wide, which is the safer error.
    pub fn predict(&self, now_s: f64) -> Option<Prediction> {
        let predictor = self.errors.best();
        let rate_bps = predictor.next(&self.kept)?;
        // The maximum takes 0 in place of what is no number.
        let since = |at: f64| (now_s - at).max(0.0);
        let age_s = self.last_s.map_or(0.0, since);
        let wider = (age_s / self.typical_gap_s()).max(1.0).sqrt();
        let (below, above) = self.errors.bounds(predictor);
        // A rate of zero has no logarithm: its upper end is counted from 1 b/s, as its errors were.
        let low_bps = rate_bps * (below * wider).exp();
        let high_bps = (rate_bps.max(1.0) * (above * wider).exp()).min(BPS_MAX).max(rate_bps);
        Some(Prediction {
            rate_bps,
            low_bps,
            high_bps,
            samples: self.kept.len(),
            since_shift_s: self.shift_s.map(since),
            predictor,
        })
    }

    fn typical_gap_s(&self) -> f64 {
        median(self.gaps.iter().copied()).unwrap_or(LONE_S).max(GAP_S_MIN)
    }
}

/// What a path is to be expected to give at a time, from values in any order; those later than `now_s` are not known
/// yet.
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

fn push_bounded(queue: &mut VecDeque<f64>, value: f64, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(value);
}
