use core::time::Duration;

use results::DelayHistogram;

/// Delays between two clocks that were never compared: any sign, any offset.
///
/// An offset of hours must not blur differences of microseconds, so each value is stored as its distance from the first
/// one. Quantiles are good to [`results::RELATIVE_ERROR`] of that distance, which is queueing, not offset.
#[derive(Debug, Clone, Default)]
pub struct SignedDelays {
    first_ns: Option<i64>,
    below: DelayHistogram,
    above: DelayHistogram,
}

impl SignedDelays {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a delay.
    pub fn record(&mut self, delay_ns: i64) {
        let first = *self.first_ns.get_or_insert(delay_ns);
        let distance = Duration::from_nanos(delay_ns.abs_diff(first));
        if delay_ns < first { self.below.record(distance) } else { self.above.record(distance) }
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.below.count() + self.above.count()
    }

    /// The smallest delay that at least the share `q` (0..=1) of the samples does not exceed; `None` without samples.
    pub fn quantile(&self, q: f64) -> Option<i64> {
        let first = self.first_ns?;
        let below = self.below.count();
        // The rank of the sample, from 1; `as` saturates and takes NaN for 0.
        let rank = ((q * self.count() as f64).ceil() as u64).clamp(1, self.count());
        let share = |part: u64, whole: u64| part as f64 / whole as f64;
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        if rank > below {
            let distance = self.above.quantile(share(rank - below, self.above.count()))?;
            return Some(first.saturating_add(signed(distance)));
        }
        // Delays below the first one are in descending order of their distance from it.
        let distance = self.below.quantile(share(below + 1 - rank, below))?;
        Some(first.saturating_sub(signed(distance)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_of_hours_does_not_blur_microseconds() {
        const OFFSET: i64 = -7_200_000_000_000;
        let mut d = SignedDelays::new();
        // The first sample is neither smallest nor largest: 50, then 0..=100 us above the offset.
        for us in [50].into_iter().chain(0..=100) {
            d.record(OFFSET + us * 1000);
        }
        assert_eq!(d.count(), 102);
        for (q, us) in [(0.0, 0), (0.25, 25), (0.5, 50), (0.75, 75), (1.0, 100)] {
            let got = d.quantile(q).unwrap() - OFFSET;
            // A bucket's width at 50 us from the first sample, and one rank.
            assert!((got - us * 1000).abs() <= 1100, "{q}: {got}");
        }
    }

    #[test]
    fn no_sample_has_no_quantile_and_extremes_do_not_overflow() {
        assert_eq!(SignedDelays::new().quantile(0.5), None);
        let mut d = SignedDelays::new();
        d.record(i64::MAX);
        d.record(i64::MIN);
        assert!(d.quantile(0.0).unwrap() < d.quantile(1.0).unwrap());
        assert!(d.quantile(f64::NAN).is_some());
    }
}
