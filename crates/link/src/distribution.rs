use core::fmt;

/// Larger values are clamped to this one: 2^50 ns are 13 days, 2^50 bytes are a petabyte.
const VALUE_MAX: u64 = 1 << 50;
/// Each doubling of the value has 2^10 buckets of equal width, so that a width is at most 10^-3 of the value. Values
/// below 2^11 have a bucket each. These are the buckets of an HDR histogram with three significant digits.
const BUCKET_BITS: u32 = 10;

/// A mergeable distribution of weighted values. Quantiles have a relative error of at most 10^-3, and the largest value
/// is exact.
///
/// The memory grows with the logarithm of the largest value, up to 8 KiB for each doubling. A distribution with only
/// zeros has no buckets, because most links have no queue.
#[derive(Clone, Default, PartialEq)]
pub struct Distribution {
    zeros: u64,
    /// Weights of the buckets, from value 0 on.
    weights: Vec<u64>,
    max: u64,
}

impl Distribution {
    /// Adds `value` with `weight`.
    #[inline]
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        self.reach(value);
        if value == 0 {
            self.zeros = self.zeros.saturating_add(weight);
            return;
        }
        let bucket = bucket(value.min(VALUE_MAX));
        match self.weights.get_mut(bucket) {
            Some(sum) => *sum = sum.saturating_add(weight),
            None => self.add_beyond(bucket, weight),
        }
    }

    /// Adds the first weight to a bucket beyond the present ones.
    #[cold]
    #[inline(never)]
    fn add_beyond(&mut self, bucket: usize, weight: u64) {
        self.weights.resize(((bucket >> BUCKET_BITS) + 1) << BUCKET_BITS, 0);
        self.weights[bucket] = weight;
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
        if other.weights.len() > self.weights.len() {
            self.weights.resize(other.weights.len(), 0);
        }
        for (ours, theirs) in self.weights.iter_mut().zip(&other.weights) {
            *ours = ours.saturating_add(*theirs);
        }
    }

    /// Sum of all weights.
    pub fn weight(&self) -> u64 {
        self.weights.iter().fold(self.zeros, |sum, weight| sum.saturating_add(*weight))
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

    /// Weighted mean, in which each value counts as the middle of its bucket; `None` without weight.
    pub fn mean(&self) -> Option<f64> {
        let total = self.weight();
        // Not `sum`, which is -0 without elements.
        let sum = self.positive().fold(0.0, |sum, (bucket, weight)| sum + middle(bucket) as f64 * weight as f64);
        (total > 0).then(|| sum / total as f64)
    }

    /// Buckets, as their largest values, and their weights, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let zeros = (self.zeros > 0).then_some((0, self.zeros));
        zeros.into_iter().chain(self.positive().map(|(bucket, weight)| (largest(bucket).min(self.max), weight)))
    }

    /// Buckets of positive values with weight.
    fn positive(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.weights.iter().copied().enumerate().filter(|(_, weight)| *weight > 0)
    }
}

/// Number of the bucket of a value.
const fn bucket(value: u64) -> usize {
    let doublings = (u64::BITS - 1 - BUCKET_BITS).saturating_sub(value.leading_zeros());
    ((doublings as usize) << BUCKET_BITS) + (value >> doublings) as usize
}

/// Smallest value of a bucket, and the logarithm of its width.
const fn smallest(bucket: usize) -> (u64, u32) {
    let doublings = (bucket >> BUCKET_BITS).saturating_sub(1);
    (((bucket - (doublings << BUCKET_BITS)) as u64) << doublings, doublings as u32)
}

/// Largest value of a bucket.
const fn largest(bucket: usize) -> u64 {
    let (smallest, width_log) = smallest(bucket);
    smallest + (1 << width_log) - 1
}

/// Middle of a bucket, rounded up.
const fn middle(bucket: usize) -> u64 {
    let (smallest, width_log) = smallest(bucket);
    smallest + (1 << width_log) / 2
}

impl fmt::Debug for Distribution {
    /// Formats only the buckets in use, which are few of thousands.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets()).finish()
    }
}
