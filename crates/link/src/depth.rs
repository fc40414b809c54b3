//! Time-weighted distribution of queue depth.

use units::Instant;

use crate::Distribution;
use crate::time::ns_between;

/// Weights each queue depth by its duration.
#[derive(Debug)]
pub(crate) struct DepthMeter {
    depth: u64,
    since: Instant,
    /// Time below one microsecond that is not in the distribution yet. It is added to the next depth, so that no time
    /// is lost.
    rest_ns: u64,
}

impl DepthMeter {
    /// Creates a meter of a queue that is empty from `now` on.
    pub(crate) const fn new(now: Instant) -> Self {
        Self { depth: 0, since: now, rest_ns: 0 }
    }

    /// Sets the depth of the queue from `now` on.
    #[inline]
    pub(crate) fn set(&mut self, now: Instant, depth: u64, into: &mut Distribution) {
        self.account(now, into);
        self.depth = depth;
    }

    /// Accounts for the time up to `now`.
    #[inline]
    pub(crate) fn account(&mut self, now: Instant, into: &mut Distribution) {
        let ns = self.rest_ns.saturating_add(ns_between(self.since, now));
        into.add(self.depth, ns / 1000);
        self.rest_ns = ns % 1000;
        self.since = self.since.max(now);
    }

    /// Records the present depth as reached, even without duration.
    pub(crate) const fn peak(&self, into: &mut Distribution) {
        into.reach(self.depth);
    }
}
