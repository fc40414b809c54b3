//! The time of day, by which certificates end. It is read with each turn of the control thread: a host without a
//! battery-backed clock starts with any time and is set later.

use std::time::Duration;

use units::Instant;

/// A change by more than this is a step, not a correction; certificates last for days.
const STEP_S: u64 = 60;

/// The last reading of the wall clock.
pub(super) struct WallClock {
    at: Instant,
    /// Since 1970 UTC.
    utc: Duration,
}

impl WallClock {
    pub(super) fn new(at: Instant, utc: Duration) -> Self {
        Self { at, utc }
    }

    /// Time since 1970 UTC.
    pub(super) fn utc(&self, now: Instant) -> Duration {
        self.utc.saturating_add(now.saturating_since(self.at))
    }

    /// Takes another reading; gives the size of a step in seconds.
    pub(super) fn read(&mut self, now: Instant, utc: Duration) -> Option<i64> {
        let expected = self.utc(now);
        *self = Self { at: now, utc };
        let by_s = utc.as_secs() as i64 - expected.as_secs() as i64;
        (by_s.unsigned_abs() > STEP_S).then_some(by_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_differs_from_a_correction_by_its_size() {
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        let mut clock = WallClock::new(at(100), Duration::from_secs(5000));
        // The clock runs, is corrected by a minute, is set back by an hour, and runs.
        for (now, utc, step) in [(110, 5010, None), (120, 5080, None), (130, 1490, Some(-3600)), (140, 1500, None)] {
            assert_eq!(clock.read(at(now), Duration::from_secs(utc)), step, "{now}");
            assert_eq!(clock.utc(at(now + 7)), Duration::from_secs(utc + 7));
        }
        assert_eq!(clock.read(at(141), Duration::from_secs(u64::MAX / 4)).map(|by_s| by_s > 0), Some(true));
    }
}
