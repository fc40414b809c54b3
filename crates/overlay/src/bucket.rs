use units::Instant;

/// A bucket that leaks: it bounds what goes in to a rate and a burst.
pub(crate) struct Bucket {
    level: f64,
    at: Instant,
}

/// How fast a bucket leaks, and how much it holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) per_second: f64,
    pub(crate) most: f64,
}

impl Limit {
    /// What leaks in a second may be in it.
    pub(crate) fn one_second_of(per_second: f64) -> Self {
        Self { per_second, most: per_second }
    }
}

impl Bucket {
    /// An empty one.
    pub(crate) fn new(now: Instant) -> Self {
        Self { level: 0.0, at: now }
    }

    /// What still fits.
    pub(crate) fn room(&mut self, now: Instant, limit: Limit) -> f64 {
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.level = (self.level - passed * limit.per_second).max(0.0);
        self.at = now;
        limit.most - self.level
    }

    /// Puts so much in, whether it fits or not.
    pub(crate) fn put(&mut self, amount: f64) {
        self.level += amount;
    }

    /// Puts so much in, if it fits.
    pub(crate) fn takes(&mut self, now: Instant, limit: Limit, amount: f64) -> bool {
        let fits = amount <= self.room(now, limit);
        self.level += if fits { amount } else { 0.0 };
        fits
    }

    /// When something was last put in, or tried.
    pub(crate) fn used_at(&self) -> Instant {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_is_a_burst_and_what_leaks() {
        let limit = Limit { per_second: 100.0, most: 50.0 };
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut bucket = Bucket::new(at(0));
        // 50 at once, and 100 in each of ten seconds.
        let taken = (0..10_000).filter(|ms| bucket.takes(at(*ms), limit, 1.0)).count();
        assert!((1048..=1050).contains(&taken), "{taken}");
        assert!(!bucket.takes(at(9_999), limit, 2.0) && bucket.takes(at(9_999), limit, 0.0));
        assert_eq!(bucket.room(at(20_000), limit), 50.0);
    }
}
