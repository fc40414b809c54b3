//! The time of day, by which certificates end. It is read each time: a host without a clock of its own, or whose time daemon comes late, begins with any time and is
//! set right later.

use std::time::Duration;

use units::Instant;

use super::{Core, Event, Output};

/// By more than so much the wall clock is set, not corrected: certificates last for days, and what is less ends or begins none that matters.
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

    fn utc(&self, now: Instant) -> Duration {
        self.utc.saturating_add(now.saturating_since(self.at))
    }

    /// Takes another reading; says by how many seconds it was set since the last one, if it was.
    fn read(&mut self, now: Instant, utc: Duration) -> Option<i64> {
        let expected = self.utc(now);
        *self = Self { at: now, utc };
        let by_s = utc.as_secs() as i64 - expected.as_secs() as i64;
        (by_s.unsigned_abs() > STEP_S).then_some(by_s)
    }
}

impl Core {
    /// The wall clock shows this, since 1970 UTC. Where it was set, those are refused whose certificates are over by it, and those looked at again who were refused.
    pub(crate) fn handle_wall_clock(&mut self, now: Instant, utc: Duration) {
        let Some(by_s) = self.wall.read(now, utc) else { return };
        self.outputs.push_back(Output::Event(Event::ClockSet { by_s }));
        self.certificates_again = true;
        self.forget_told_end(now);
        self.expire_certificates(now);
    }

    /// Seconds since 1970 UTC.
    pub(super) fn utc_s(&self, now: Instant) -> u64 {
        self.wall.utc(now).as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_told_from_a_correction_by_its_size_alone() {
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        let mut clock = WallClock::new(at(100), Duration::from_secs(5000));
        // Time passes, is corrected by a minute, and is set to an hour ago; then nobody sets it.
        for (now, utc, told) in [(110, 5010, None), (120, 5080, None), (130, 1490, Some(-3600)), (140, 1500, None)] {
            assert_eq!(clock.read(at(now), Duration::from_secs(utc)), told, "{now}");
            assert_eq!(clock.utc(at(now + 7)), Duration::from_secs(utc + 7));
        }
        assert_eq!(clock.read(at(141), Duration::from_secs(u64::MAX / 4)).map(|by_s| by_s > 0), Some(true));
    }
}
