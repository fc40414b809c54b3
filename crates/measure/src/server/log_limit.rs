//! Limits the rate at which unauthenticated peers make the server write log lines.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use units::Instant;

/// Length of a period.
const PERIOD: Duration = Duration::from_secs(10);

/// Maximum number of lines of one kind in a period: enough to show the event, at most about 30 MB a day.
const LINES_MAX: u32 = 20;

#[derive(Debug, Default)]
struct State {
    start: Instant,
    written: u32,
    suppressed: u64,
}

/// Limit for lines of one kind: [`LINES_MAX`] in a [`PERIOD`].
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<State>);

impl LogLimit {
    /// Returns whether a line may be written now; a suppressed line is counted.
    pub(crate) fn permits(&self, now: Instant) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= state.start + PERIOD {
            state.start = now;
            state.written = 0;
        }
        if state.written < LINES_MAX {
            state.written += 1;
            true
        } else {
            state.suppressed += 1;
            false
        }
    }

    /// Returns the number of suppressed lines after the end of their period, and resets it.
    pub(crate) fn take_suppressed(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.suppressed == 0 || now < state.start + PERIOD {
            return None;
        }
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_causes_a_limited_number_of_lines_and_a_count() {
        let limit = LogLimit::default();
        let at = |ms: u64| Instant::from_nanos((100_000 + ms) * 1_000_000);
        let written = (0..5000).filter(|i| limit.permits(at(*i))).count();
        assert_eq!(written, 20);
        assert_eq!(limit.take_suppressed(at(5000)), None, "the period is not over");
        assert_eq!(limit.take_suppressed(at(10_000)), Some(4980));
        assert_eq!(limit.take_suppressed(at(10_000)), None);
        assert!(limit.permits(at(10_001)));
    }
}
