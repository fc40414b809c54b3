//! Bounds how often a stranger can make the server write a line into its log.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use units::Instant;

/// Length of a period.
const PERIOD: Duration = Duration::from_secs(10);

/// Lines of one kind in a period: enough to see what goes on, some 30 MB a day at most.
const LINES: u32 = 20;

#[derive(Debug, Default)]
struct State {
    begin: Instant,
    written: u32,
    suppressed: u64,
}

/// Lines of one kind, at most [`LINES`] in a [`PERIOD`].
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<State>);

impl LogLimit {
    /// Whether a line may be written now; one that may not is counted.
    pub(crate) fn permits(&self, now: Instant) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= state.begin + PERIOD {
            state.begin = now;
            state.written = 0;
        }
        if state.written < LINES {
            state.written += 1;
            true
        } else {
            state.suppressed += 1;
            false
        }
    }

    /// How many lines were suppressed, once the period in which they were is over; tells each once.
    pub(crate) fn take_suppressed(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.suppressed == 0 || now < state.begin + PERIOD {
            return None;
        }
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_some_lines_and_a_count() {
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
