//! Level shifts and outliers, after section 5 of He, Dovrolis, Ammar 2005, from memory of the paper.

use super::Value;
use crate::samples::median;

/// Relative difference of the medians before and after from which a change is a level shift (He, Dovrolis, Ammar 2005:
/// 0.3).
const SHIFT: f64 = 0.3;

/// Relative difference from the median from which a value is an outlier (the same: 0.4).
const OUTLIER: f64 = 0.4;

/// Values that must follow before a value is judged, so that an outlier is not taken for a shift nor the reverse (the
/// same: k + 2 <= n).
const FOLLOWING: usize = 2;

/// Place of the first value after a level shift, if there was one.
///
/// All values before it are lower than all from it on, or all are higher; the medians differ by more than [`SHIFT`];
/// two more have followed. Where several places would do, as in a ramp, the one with the largest difference is taken:
/// the paper does not say.
pub(super) fn shift(values: &[Value]) -> Option<usize> {
    let rates: Vec<f64> = values.iter().map(|v| v.rate_bps).collect();
    let before = extremes(rates.iter());
    let mut after = extremes(rates.iter().rev());
    after.reverse();
    // What is lowest and highest before a place, beside the same from that place on.
    let sides = before.iter().zip(after.iter().skip(1)).zip(1..);
    let separate = sides.filter(|((before, after), _)| before.1 < after.0 || before.0 > after.1);
    let difference = |k: usize| {
        let (before, after) = rates.split_at_checked(k)?;
        let difference = relative_difference(median(before.iter().copied())?, median(after.iter().copied())?);
        (difference > SHIFT && after.len() > FOLLOWING).then_some((k, difference))
    };
    separate.filter_map(|(_, k)| difference(k)).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(k, _)| k)
}

/// Place of the value to be judged now, the one that exactly two have followed, if it is an outlier: if it differs from
/// the median of all by more than [`OUTLIER`]. To be asked after [`shift`].
pub(super) fn outlier(values: &[Value]) -> Option<usize> {
    let judged = values.len().checked_sub(FOLLOWING + 1)?;
    let rates: Vec<f64> = values.iter().map(|v| v.rate_bps).collect();
    let difference = relative_difference(*rates.get(judged)?, median(rates.iter().copied())?);
    (difference > OUTLIER).then_some(judged)
}

/// Of the smaller, as the paper's relative error (estimate - truth) / min(estimate, truth). Below 1 b/s nothing
/// differs.
fn relative_difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.min(b).max(1.0)
}

/// The lowest and the highest so far, at each value.
fn extremes<'a>(rates: impl Iterator<Item = &'a f64>) -> Vec<(f64, f64)> {
    let widen = |(low, high): &mut (f64, f64), rate: &f64| {
        (*low, *high) = (low.min(*rate), high.max(*rate));
        Some((*low, *high))
    };
    rates.scan((f64::INFINITY, f64::NEG_INFINITY), widen).collect()
}
