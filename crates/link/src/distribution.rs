use core::fmt;

use hdrhistogram::Histogram;

/// Larger values are clamped to this one: 2^50 ns are 13 days, 2^50 bytes are a petabyte.
const VALUE_MAX: u64 = 1 << 50;

/// A mergeable distribution of weighted values. Quantiles have a relative error of at most 10^-3 (HDR histogram with
/// three significant digits), and the largest value is exact.
///
/// A distribution with only zeros occupies little memory, because most links have no queue.
#[derive(Clone, Default, PartialEq)]
pub struct Distribution {
    zeros: u64,
    positive: Option<Histogram<u64>>,
    max: u64,
}

impl Distribution {
    /// Adds `value` with `weight`.
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        self.reach(value);
        if value == 0 {
            self.zeros = self.zeros.saturating_add(weight);
        } else if let Some(h) = self.histogram() {
            // Recording cannot fail below VALUE_MAX, because the histogram resizes itself.
            let _ = h.record_n(value.min(VALUE_MAX), weight);
        }
    }

    /// Raises the maximum to at least `value`, without adding weight.
    pub(crate) const fn reach(&mut self, value: u64) {
        if value > self.max {
            self.max = value;
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.reach(other.max);
        self.zeros = self.zeros.saturating_add(other.zeros);
        if let (Some(theirs), Some(ours)) = (&other.positive, other.positive.as_ref().and_then(|_| self.histogram())) {
            let _ = ours.add(theirs);
        }
    }

    /// Sum of all weights.
    pub fn weight(&self) -> u64 {
        self.zeros.saturating_add(self.positive.as_ref().map_or(0, Histogram::len))
    }

    /// Smallest value such that a share `q` (0..=1) of the weight lies at or below it; `None` without weight.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let total = self.weight();
        let rank = ((total as f64 * q.clamp(0.0, 1.0)).ceil() as u64).clamp(1, total.max(1));
        let mut below = 0u64;
        for (value, weight) in self.buckets() {
            below = below.saturating_add(weight);
            if below >= rank {
                return Some(value);
            }
        }
        None
    }

    /// Largest value; 0 if empty. It may have no weight, such as a queue depth that lasted less than a microsecond.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Weighted mean; `None` without weight.
    pub fn mean(&self) -> Option<f64> {
        let total = self.weight();
        let positive = self.positive.as_ref().map_or(0.0, |h| h.mean() * h.len() as f64);
        (total > 0).then(|| positive / total as f64)
    }

    /// Buckets, as their largest values, and their weights, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let zeros = (self.zeros > 0).then_some((0, self.zeros));
        let positive = self.positive.iter().flat_map(|h| h.iter_recorded());
        zeros.into_iter().chain(positive.map(|v| (v.value_iterated_to().min(self.max), v.count_at_value())))
    }

    fn histogram(&mut self) -> Option<&mut Histogram<u64>> {
        if self.positive.is_none() {
            // The constant arguments are inside the range of the histogram.
            self.positive = Histogram::new(3).ok();
        }
        self.positive.as_mut()
    }
}

impl fmt::Debug for Distribution {
    /// Formats only the buckets in use, which are few of thousands.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets()).finish()
    }
}
