//! Clusters of values: bin width, modes with their bells, merit (Pathrate 2.4.1).

use crate::samples::{percentile, sorted};

/// Range from the 10th to the 90th percentile below which a bin is wider, in b/s.
const SMALL_RANGE_BPS: f64 = 1e6;

/// Width of a bin as a share of that range, and of a small one (doubled in 2.3.1).
const WIDTH_SHARES: (f64, f64) = (0.125, 0.25);

/// Width of a bin when the range is zero, in b/s.
const EQUAL_VALUES_WIDTH: f64 = 20e6;

/// A bell ends where a window holds this many times the values of the previous one: the foot of the next bell.
const RISE_RATIO_MIN: f64 = 1.1;

/// A bin with more values than those around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mode {
    /// Mean of its values.
    pub(super) centre: f64,
    /// Upper edge of its bin.
    pub(super) high: f64,
    /// Sharpness times population.
    pub(super) merit: f64,
    /// Share of all values that are in its bin.
    pub(super) share: f64,
}

/// Width of a bin for these values. A minimum width, relative to their median, makes the special case of small ranges
/// unnecessary.
pub(super) fn bin_width(values: &[f64], least_share: f64) -> f64 {
    let sorted = sorted(values.iter().copied());
    let at = |share| percentile(&sorted, share).unwrap_or(0.0);
    let range = at(0.9) - at(0.1);
    let width = if least_share > 0.0 {
        range * WIDTH_SHARES.0
    } else if range <= 0.0 {
        EQUAL_VALUES_WIDTH
    } else if range < SMALL_RANGE_BPS {
        range * WIDTH_SHARES.1
    } else {
        range * WIDTH_SHARES.0
    };
    width.max(at(0.5) * least_share)
}

/// Modes of more than `count_min` values, the densest first.
pub(super) fn modes(values: &[f64], width: f64, count_min: usize) -> Vec<Mode> {
    let mut rest = sorted(values.iter().copied());
    let total = rest.len();
    let mut found = Vec::new();
    while let Some((from, to)) = densest(&rest, width).filter(|(from, to)| to - from > count_min) {
        let (left, right) = bell(&rest, (from, to), width);
        let (Some(low), Some(high)) = (rest.get(from), rest.get(to - 1)) else { break };
        let centre = f64::midpoint(*low, *high);
        let kurtosis = rest.get(left..right).map_or(0.0, kurtosis);
        let share = (to - from) as f64 / total as f64;
        found.push(Mode { centre, high: centre + width / 2.0, merit: kurtosis * share, share });
        rest.drain(left..right);
    }
    found
}

/// The window of this width, starting at a value, that holds most values.
fn densest(sorted: &[f64], width: f64) -> Option<(usize, usize)> {
    let window = |(from, low): (usize, &f64)| (from, sorted.partition_point(|v| *v <= low + width));
    let windows = sorted.iter().enumerate().map(window);
    windows.reduce(|best, next| if next.1 - next.0 > best.1 - best.0 { next } else { best })
}

/// The mode with its slopes: neighbouring windows until the number of values rises again.
fn bell(sorted: &[f64], mode: (usize, usize), width: f64) -> (usize, usize) {
    let (mut left, mut right) = mode;
    let (mut low, mut high) = match (sorted.get(left), sorted.get(right.saturating_sub(1))) {
        (Some(low), Some(high)) => (*low, *high),
        _ => return mode,
    };
    let goes_on = |count: usize, before: usize| count > 0 && (count as f64) < RISE_RATIO_MIN * before as f64;
    let mut before = right - left;
    loop {
        low -= width;
        let next = sorted.partition_point(|v| *v < low).min(left);
        if !goes_on(left - next, before) {
            break;
        }
        (before, left) = (left - next, next);
    }
    before = mode.1 - mode.0;
    loop {
        high += width;
        let next = sorted.partition_point(|v| *v <= high).max(right);
        if !goes_on(next - right, before) {
            break;
        }
        (before, right) = (next - right, next);
    }
    (left, right)
}

/// Fourth central moment over the square of the second.
fn kurtosis(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let moment = |power: i32| values.iter().map(|v| (v - mean).powi(power)).sum::<f64>() / n;
    let ratio = moment(4) / moment(2).powi(2);
    // The maximum for n values is n, which equal values with one exception approach.
    if ratio.is_finite() { ratio.min(n) } else { n }
}

/// Mean and standard deviation; without `trim` values at each end if there are more than six times as many (2.4.1: 5 of
/// more than 30).
pub(super) fn trimmed(values: &[f64], trim: usize) -> Option<(f64, f64)> {
    let sorted = sorted(values.iter().copied());
    let within = if sorted.len() > trim * 6 { sorted.get(trim..sorted.len() - trim) } else { None };
    let kept = within.unwrap_or(&sorted);
    let n = kept.len() as f64;
    let mean = kept.iter().sum::<f64>() / n;
    let deviation = (kept.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
    (!kept.is_empty()).then_some((mean, deviation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_crowds_are_two_modes_and_the_sharper_one_has_more_merit() {
        // 40 values within 1 % of 100 Mb/s and 60 spread evenly over 40 to 60 Mb/s.
        let sharp = (0..40).map(|i| 100e6 + f64::from(i - 20) * 5e4);
        let broad = (0..60).map(|i| 40e6 + f64::from(i) * 20e6 / 60.0);
        let values: Vec<f64> = sharp.chain(broad).collect();
        let found = modes(&values, 3e6, 15);
        assert_eq!(found.len(), 1, "the broad crowd has at most 10 values in 3 Mb/s: {found:?}");
        assert!((found[0].centre - 100e6).abs() < 1e6, "{found:?}");
        let found = modes(&values, 3e6, 5);
        assert!(found.iter().any(|m| m.centre < 60e6), "{found:?}");
        let best = found.iter().max_by(|a, b| a.merit.total_cmp(&b.merit)).unwrap();
        assert!((best.centre - 100e6).abs() < 1e6, "{found:?}");
    }

    #[test]
    fn the_width_follows_the_range() {
        let even: Vec<f64> = (0..=100).map(|i| f64::from(i) * 1e6).collect();
        // 80 Mb/s between the percentiles.
        assert_eq!(bin_width(&even, 0.0), 10e6);
        let slow: Vec<f64> = (0..=100).map(|i| f64::from(i) * 1e4).collect();
        assert_eq!(bin_width(&slow, 0.0), 0.2e6);
        assert_eq!(bin_width(&[5e6; 40], 0.0), 20e6);
        assert_eq!(bin_width(&[5e6; 40], 0.02), 0.1e6, "today a share of the value itself");
        assert_eq!(bin_width(&[], 0.02), 0.0);
    }

    #[test]
    fn equal_values_are_one_mode_of_the_greatest_merit() {
        assert_eq!(modes(&[7.0; 20], 1.0, 15), [Mode { centre: 7.0, high: 7.5, merit: 20.0, share: 1.0 }]);
        assert!(modes(&[f64::NAN, f64::INFINITY], 1.0, 0).is_empty());
    }

    #[test]
    fn ends_are_left_out_only_of_many_values() {
        assert_eq!(trimmed(&[1.0, 2.0, 3.0], 5), Some((2.0, (2.0_f64 / 3.0).sqrt())));
        let mut values = vec![10.0; 30];
        values.extend([1e9; 5]);
        values.extend([0.0; 5]);
        assert_eq!(trimmed(&values, 5), Some((10.0, 0.0)));
        assert_eq!(trimmed(&[], 5), None);
    }
}
