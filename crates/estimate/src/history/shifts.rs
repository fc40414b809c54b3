//! Level shifts and outliers, after section 5 of He, Dovrolis, Ammar 2005, without access to the paper's text.

use super::Value;
use crate::samples::median;

/// Minimum relative difference of the medians before and after a level shift (He, Dovrolis, Ammar 2005: 0.3).
const SHIFT_DIFFERENCE_MIN: f64 = 0.3;

/// Minimum relative difference of an outlier from the median (the same: 0.4).
const OUTLIER_DIFFERENCE_MIN: f64 = 0.4;

/// Number of values that must follow before a value is evaluated, so that an outlier is not taken for a shift nor the
/// reverse (the same: k + 2 <= n).
const FOLLOWING_VALUES_MIN: usize = 2;

/// Index of the first value after a level shift, if there was one.
///
/// All values before it are lower than all from it on, or all are higher. The medians differ by more than
/// [`SHIFT_DIFFERENCE_MIN`], and two more values have followed. If several indices qualify, as in a ramp, the one with
/// the largest difference is taken; the paper does not specify that.
pub(super) fn shift(values: &[Value]) -> Option<usize> {
    let rates: Vec<f64> = values.iter().map(|v| v.rate_bps).collect();
    let before = extremes(rates.iter());
    let mut after = extremes(rates.iter().rev());
    after.reverse();
    // Minimum and maximum before each position, with those from the position on.
    let sides = before.iter().zip(after.iter().skip(1)).zip(1..);
    let separate = sides.filter(|((before, after), _)| before.1 < after.0 || before.0 > after.1);
    let difference = |k: usize| {
        let (before, after) = rates.split_at_checked(k)?;
        let difference = relative_difference(median(before.iter().copied())?, median(after.iter().copied())?);
        (difference > SHIFT_DIFFERENCE_MIN && after.len() > FOLLOWING_VALUES_MIN).then_some((k, difference))
    };
    separate.filter_map(|(_, k)| difference(k)).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(k, _)| k)
}

/// Position of the value that exactly two values have followed, if it is an outlier: it differs from the median of all
/// by more than [`OUTLIER_DIFFERENCE_MIN`]. Call it after [`shift`].
pub(super) fn outlier(values: &[Value]) -> Option<usize> {
    let judged = values.len().checked_sub(FOLLOWING_VALUES_MIN + 1)?;
    let rates: Vec<f64> = values.iter().map(|v| v.rate_bps).collect();
    let difference = relative_difference(*rates.get(judged)?, median(rates.iter().copied())?);
    (difference > OUTLIER_DIFFERENCE_MIN).then_some(judged)
}

/// Difference relative to the smaller value, as the paper's relative error (estimate - truth) / min(estimate, truth).
/// Below 1 b/s rates are equal.
fn relative_difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.min(b).max(1.0)
}

/// Running minimum and maximum at each value.
fn extremes<'a>(rates: impl Iterator<Item = &'a f64>) -> Vec<(f64, f64)> {
    let widen = |(low, high): &mut (f64, f64), rate: &f64| {
        (*low, *high) = (low.min(*rate), high.max(*rate));
        Some((*low, *high))
    };
    rates.scan((f64::INFINITY, f64::NEG_INFINITY), widen).collect()
}
