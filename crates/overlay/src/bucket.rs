use units::Instant;

/// Leaky bucket: limits amounts to a rate and a burst.
pub(crate) struct Bucket {
    level: f64,
    at: Instant,
}

/// Rate and burst of a bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Amount that leaks per second.
    pub(crate) per_second: f64,
    /// Capacity of the bucket.
    pub(crate) burst: f64,
}

impl Limit {
    /// A rate with a burst of one second.
    pub(crate) fn one_second_of(per_second: f64) -> Self {
        Self { per_second, burst: per_second }
    }
}

impl Bucket {
    /// Creates an empty bucket.
    pub(crate) fn new(now: Instant) -> Self {
        Self { level: 0.0, at: now }
    }

    /// Amount that fits at present; negative after an excess.
    pub(crate) fn room(&mut self, now: Instant, limit: Limit) -> f64 {
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.level = (self.level - passed * limit.per_second).max(0.0);
        self.at = now;
        limit.burst - self.level
    }

    /// Adds an amount, even if it exceeds the capacity.
    pub(crate) fn put(&mut self, amount: f64) {
        self.level += amount;
    }

    /// Adds an amount if it fits; returns whether it did.
    pub(crate) fn takes(&mut self, now: Instant, limit: Limit, amount: f64) -> bool {
        let fits = amount <= self.room(now, limit);
        self.level += if fits { amount } else { 0.0 };
        fits
    }

    /// Time of the last use.
    pub(crate) fn used_at(&self) -> Instant {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admitted_amount_is_the_burst_plus_the_rate() {
        let limit = Limit { per_second: 100.0, burst: 50.0 };
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut bucket = Bucket::new(at(0));
        // The burst of 50, and 100 per second for ten seconds.
        let taken = (0..10_000).filter(|ms| bucket.takes(at(*ms), limit, 1.0)).count();
        assert!((1048..=1050).contains(&taken), "{taken}");
        assert!(!bucket.takes(at(9_999), limit, 2.0) && bucket.takes(at(9_999), limit, 0.0));
        assert_eq!(bucket.room(at(20_000), limit), 50.0);
    }
}
