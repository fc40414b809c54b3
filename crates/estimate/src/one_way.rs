use core::time::Duration;

use results::{DelayHistogram, OneWayDelay};

/// One-way delays with the uncertainty of the clocks of each.
///
/// The clocks' error can make a delay negative, and histograms hold only non-negative values. Each value is therefore
/// stored above a floor that the error cannot undercut.
#[derive(Debug, Clone, Default)]
pub struct OneWayHistogram {
    histogram: DelayHistogram,
    /// Chosen at the first sample from its bound; later models are tighter.
    floor_ns: Option<i64>,
    bound: Duration,
    discarded: u64,
}

/// Minimum depth of the floor: the resolution of the histogram there is still a microsecond.
const FLOOR_MIN_NS: i64 = 1_000_000;

/// Maximum negative delay beyond the bound of the clocks, in ns. Kernel stamps are converted between two clocks of a
/// host at each end, whose readings are some microseconds apart on a busy host. A lower value is no delay.
const READING_NS: i64 = 100_000;

impl OneWayHistogram {
    /// Creates an empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a delay of `delay_ns` known to within `bound`. A delay that is negative beyond that is invalid, because
    /// its stamp belongs to another packet. It is left out and counted in [`discarded`](Self::discarded).
    pub fn record(&mut self, delay_ns: i64, bound: Duration) {
        let bound_ns = i64::try_from(bound.as_nanos()).unwrap_or(i64::MAX / 4);
        if delay_ns < -bound_ns.saturating_add(READING_NS) {
            self.discarded += 1;
            return;
        }
        let wanted = -(bound_ns.saturating_mul(2).max(FLOOR_MIN_NS));
        let floor = match self.floor_ns {
            Some(floor) if floor <= delay_ns => floor,
            Some(_) => {
                let above = core::mem::take(self);
                self.floor_ns = Some(wanted);
                self.merge(&above);
                wanted
            }
            None => *self.floor_ns.insert(wanted),
        };
        self.histogram.record_nanos(u64::try_from(delay_ns.saturating_sub(floor)).unwrap_or(u64::MAX));
        self.bound = self.bound.max(bound);
    }

    /// Delays that were left out because they were negative beyond the error of the clocks.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Adds all samples of `other`; the quantiles keep the resolution of the coarser one.
    pub fn merge(&mut self, other: &Self) {
        self.discarded += other.discarded;
        let (Some(ours), Some(theirs)) = (self.floor_ns, other.floor_ns) else {
            if self.floor_ns.is_none() {
                *self = Self { discarded: self.discarded, ..other.clone() };
            }
            return;
        };
        if theirs < ours {
            let mut sum = Self { discarded: 0, ..other.clone() };
            sum.merge(self);
            *self = sum;
            return;
        }
        for (above, count) in other.histogram.buckets() {
            let delay = theirs.saturating_add(i64::try_from(above).unwrap_or(i64::MAX));
            self.histogram.record_many(u64::try_from(delay.saturating_sub(ours)).unwrap_or(u64::MAX), count);
        }
        self.bound = self.bound.max(other.bound);
    }

    /// Removes all samples.
    pub fn clear(&mut self) {
        self.histogram.clear();
        self.floor_ns = None;
        self.bound = Duration::ZERO;
        self.discarded = 0;
    }

    /// Quantiles and the largest bound; `None` without samples.
    pub fn summary(&self) -> Option<OneWayDelay> {
        let (s, floor) = (self.histogram.summary()?, self.floor_ns?);
        let at = |above: u64| floor.saturating_add(i64::try_from(above).unwrap_or(i64::MAX));
        Some(OneWayDelay {
            min_ns: at(s.min_ns),
            p50_ns: at(s.p50_ns),
            p95_ns: at(s.p95_ns),
            p99_ns: at(s.p99_ns),
            max_ns: at(s.max_ns),
            count: s.count,
            discarded: self.discarded,
            bound_ns: u64::try_from(self.bound.as_nanos()).unwrap_or(u64::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_delays_within_the_bound_survive() {
        let mut h = OneWayHistogram::new();
        let bound = Duration::from_millis(5);
        for ns in [-2_000_000, 1_000_000, 4_000_000] {
            h.record(ns, bound);
        }
        let s = h.summary().unwrap();
        // 10^-3 of the distance to the floor, 10 ms below zero.
        assert!((s.min_ns + 2_000_000).abs() <= 8_000, "{s:?}");
        assert!((s.p50_ns - 1_000_000).abs() <= 11_000, "{s:?}");
        assert_eq!((s.count, s.bound_ns), (3, 5_000_000));
    }

    #[test]
    fn merging_keeps_values_across_different_floors() {
        let (mut a, mut b) = (OneWayHistogram::new(), OneWayHistogram::new());
        a.record(10_000_000, Duration::from_millis(1));
        b.record(-30_000_000, Duration::from_millis(90));
        a.merge(&b);
        b.merge(&OneWayHistogram::new());
        let s = a.summary().unwrap();
        assert_eq!(s.count, 2);
        assert_eq!(s.bound_ns, 90_000_000);
        // 10^-3 of the distance to the lower floor, 180 ms below zero.
        assert!((s.max_ns - 10_000_000).abs() <= 190_000, "{s:?}");
        assert!((s.min_ns + 30_000_000).abs() <= 150_000, "{s:?}");
    }

    #[test]
    fn a_delay_that_the_clocks_cannot_explain_is_left_out_and_counted() {
        let mut h = OneWayHistogram::new();
        let bound = Duration::from_micros(100);
        for ns in [-2_300_000, -250_000, -150_000, 10_000, 40_000] {
            h.record(ns, bound);
        }
        assert_eq!(h.discarded(), 2);
        let s = h.summary().unwrap();
        assert_eq!((s.count, s.discarded), (3, 2));
        assert!((s.min_ns + 150_000).abs() <= 2_000, "{s:?}");
        let mut both = OneWayHistogram::new();
        both.merge(&h);
        both.merge(&h);
        assert_eq!((both.discarded(), both.summary().unwrap().count), (4, 6));
    }

    #[test]
    fn a_bound_that_widens_later_hides_nothing() {
        let mut h = OneWayHistogram::new();
        h.record(5_000_000, Duration::from_micros(100));
        h.record(-8_000_000, Duration::from_millis(9));
        let s = h.summary().unwrap();
        assert_eq!((s.count, s.discarded), (2, 0));
        assert!((s.min_ns + 8_000_000).abs() <= 20_000 && (s.max_ns - 5_000_000).abs() <= 25_000, "{s:?}");
    }
}
