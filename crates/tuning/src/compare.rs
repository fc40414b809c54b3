use results::lab::Estimate;
use results::tune::Comparison;

/// Goodput of two tests, one after the other, in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Goodput without the changes.
    pub without: u64,
    /// Goodput with the changes.
    pub with: u64,
}

impl Pair {
    /// Goodput with the changes minus goodput without them.
    pub const fn difference(self) -> i64 {
        self.with as i64 - self.without as i64
    }
}

/// Result of comparing the mean of the paired differences with its interval: a difference exists if the interval
/// excludes zero.
pub fn compare(difference: Option<Estimate>) -> Comparison {
    let Some(Estimate { mean, half_width: Some(half), .. }) = difference else { return Comparison::TooFew };
    if mean - half > 0.0 {
        Comparison::Better
    } else if mean + half < 0.0 {
        Comparison::Worse
    } else {
        Comparison::NoDifference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mean: f64, half_width: Option<f64>) -> Comparison {
        compare(Some(Estimate { mean, half_width, runs: 4 }))
    }

    #[test]
    fn only_an_interval_without_zero_is_a_difference() {
        assert_eq!(of(10.0, Some(9.0)), Comparison::Better);
        assert_eq!(of(-10.0, Some(9.0)), Comparison::Worse);
        assert_eq!(of(10.0, Some(10.0)), Comparison::NoDifference);
        assert_eq!(of(0.0, Some(0.0)), Comparison::NoDifference);
        assert_eq!(of(10.0, None), Comparison::TooFew);
        assert_eq!(compare(None), Comparison::TooFew);
    }
}
