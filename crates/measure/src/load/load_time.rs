//! Separates the bytes that a stream receives during the load from those that drain after it.

use std::time::Duration;

use units::Instant;

/// Duration of a load at its receiver.
///
/// The load lasts for its planned time from the first arrival. The bytes of that time are those sent in the planned
/// time, shifted by the delay of the path. Bytes still in the sender's buffers arrive later and are drain. A load of a
/// given amount of data lasts until its last byte has arrived.
#[derive(Debug)]
pub(crate) struct LoadTime {
    planned: Option<Duration>,
    first: Option<Instant>,
    last: Option<Instant>,
    stopped: Option<Instant>,
    drained: u64,
}

impl LoadTime {
    /// Creates a load that lasts `planned`; `None` if the amount of data decides.
    pub(crate) const fn new(planned: Option<Duration>) -> Self {
        Self { planned, first: None, last: None, stopped: None, drained: 0 }
    }

    /// Counts bytes that arrived at `at`.
    pub(crate) fn count(&mut self, at: Instant, bytes: u64) {
        self.first.get_or_insert(at);
        self.last = Some(self.last.map_or(at, |l| l.max(at)));
        if self.end().is_some_and(|end| at > end) {
            self.drained += bytes;
        }
    }

    /// Records that the user stopped the load; only the first call counts.
    pub(crate) fn stop(&mut self, now: Instant) {
        self.stopped.get_or_insert(now);
    }

    /// Bytes that arrived after the load.
    pub(crate) const fn drained(&self) -> u64 {
        self.drained
    }

    /// End of the load for a stream that ended at `now`; `None` if nothing arrived.
    pub(crate) fn ended(&self, now: Instant) -> Option<Instant> {
        let last = self.last?;
        Some(self.end().map_or(last, |end| end.min(now.max(last))))
    }

    fn end(&self) -> Option<Instant> {
        let planned = self.first.zip(self.planned).map(|(first, planned)| first + planned);
        planned.into_iter().chain(self.stopped).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn arrivals_after_the_planned_time_are_drain() {
        let mut load = LoadTime::new(Some(Duration::from_secs(12)));
        for ms in (100..22_000).step_by(100) {
            load.count(at(ms), 1000);
        }
        // 12 s from the first arrival at 0.1 s: 121 arrivals, then 98 more.
        assert_eq!((load.drained(), load.ended(at(22_000))), (98_000, Some(at(12_100))));
    }

    #[test]
    fn a_tail_without_arrivals_belongs_to_the_load() {
        let mut load = LoadTime::new(Some(Duration::from_secs(10)));
        load.count(at(100), 1000);
        load.count(at(4_000), 1000);
        assert_eq!(load.ended(at(13_000)), Some(at(10_100)));
        assert_eq!(load.ended(at(6_000)), Some(at(6_000)), "the connection failed");
    }

    #[test]
    fn a_load_ends_with_its_last_byte_or_at_a_stop() {
        let mut load = LoadTime::new(None);
        assert_eq!(load.ended(at(5)), None);
        load.count(at(100), 10);
        load.count(at(900), 10);
        assert_eq!((load.drained(), load.ended(at(2_000))), (0, Some(at(900))));
        load.stop(at(950));
        load.stop(at(1_500));
        load.count(at(1_200), 10);
        assert_eq!((load.drained(), load.ended(at(2_000))), (10, Some(at(950))));
    }
}
