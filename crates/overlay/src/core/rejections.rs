//! Rejections that were reported lately. The cause of a rejection is in the settings of one of the hosts, and silence
//! does not say in whose.

use std::collections::VecDeque;
use std::time::Duration;

use units::Instant;

/// Minimum interval between two reports of the same rejection.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of different rejections reported in that time: unauthenticated senders can invent them.
const REPORTS_MAX: usize = 16;

/// See the module.
#[derive(Default)]
pub(super) struct Rejections(VecDeque<(Instant, String)>);

impl Rejections {
    /// Whether a rejection is to be reported now.
    pub(super) fn is_new(&mut self, now: Instant, rejection: String) -> bool {
        while self.0.pop_front_if(|(at, _)| now.saturating_since(*at) >= REPORT_INTERVAL).is_some() {}
        let is_new = self.0.len() < REPORTS_MAX && !self.0.iter().any(|(_, reported)| *reported == rejection);
        if is_new {
            self.0.push_back((now, rejection));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_is_reported_once_a_minute_and_unauthenticated_senders_cause_a_bounded_number() {
        let mut rejections = Rejections::default();
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        let reported = (0..120).filter(|s| rejections.is_new(at(*s), "same".to_owned())).count();
        assert_eq!(reported, 2);
        let reported = (0..1000).filter(|n| rejections.is_new(at(200), n.to_string())).count();
        assert_eq!(reported, 16);
    }
}
