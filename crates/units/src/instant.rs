use core::ops::{Add, Sub};
use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A point on some host's monotonic clock, in nanoseconds since that clock's arbitrary origin.
///
/// Constructible from a number (unlike [`std::time::Instant`]), so that recorded and simulated time replay.
/// Two instants are comparable only when they were read from the same clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);

    /// The instant `ns` nanoseconds after the clock's origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Signed nanoseconds from `other` to `self`; negative when `self` is earlier. Wraps only beyond 292 years.
    pub const fn nanos_since(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }
}

/// Converts a time span to whole nanoseconds; saturates at 584 years.
pub fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(nanos(d)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(d)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_signed_and_saturate() {
        let (a, b) = (Instant::from_nanos(10), Instant::from_nanos(25));
        assert_eq!(b.nanos_since(a), 15);
        assert_eq!(a.nanos_since(b), -15);
        assert_eq!(a.saturating_since(b), Duration::ZERO);
        assert_eq!(a - Duration::from_secs(1), Instant::ZERO);
    }
}
