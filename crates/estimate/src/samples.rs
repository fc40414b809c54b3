//! Statistics of floating-point samples, and their conversion to a rate.

use units::Rate;

/// A rate in b/s, rounded. Negative values and NaN give zero, because `as` saturates.
pub(crate) fn rate(bps: f64) -> Rate {
    Rate::from_bps(bps.round() as u64)
}

/// `None` without a value.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0_u64), |(sum, count), v| (sum + v, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// The values without NaN, in ascending order.
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The middle of values in any order, or the mean of the two in the middle; `None` without a value.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(*sorted.get(last / 2)?, *sorted.get(last.div_ceil(2))?))
}

/// The value of a sorted list below which this share of the values lies (nearest rank); `None` without a value.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len().checked_sub(1)? as f64).round() as usize;
    sorted.get(rank).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_rate_is_zero() {
        let rates = [1.5, -1.0, f64::NAN, f64::INFINITY].map(|bps| rate(bps).as_bps());
        assert_eq!(rates, [2, 0, 0, u64::MAX]);
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([9.0, 1.0, f64::NAN, 2.0, 3.0]), Some(2.5));
        assert_eq!((median([]), mean([]), percentile(&[], 0.5)), (None, None, None));
    }

    #[test]
    fn the_nearest_rank_is_one_of_the_values() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!([0.0, 0.3, 0.9, 1.0].map(|share| percentile(&values, share)), [1.0, 2.0, 5.0, 5.0].map(Some));
        assert_eq!(mean(values), Some(3.0));
    }
}
