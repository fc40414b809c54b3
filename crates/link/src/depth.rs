//! How long the queue was how long.

use units::{Instant, nanos};

use crate::Distribution;

/// Weighs each depth of the queue by the time for which it lasted.
#[derive(Debug)]
pub(crate) struct DepthMeter {
    depth: u64,
    since: Instant,
    /// Time that is not in the distribution yet: less than a microsecond. It goes to the next depth, so that no time is
    /// lost.
    rest_ns: u64,
}

impl DepthMeter {
    /// An empty queue from `now` on.
    pub(crate) const fn new(now: Instant) -> Self {
        Self { depth: 0, since: now, rest_ns: 0 }
    }

    /// From `now` on the queue has this depth.
    pub(crate) fn set(&mut self, now: Instant, depth: u64, into: &mut Distribution) {
        self.account(now, into);
        self.depth = depth;
    }

    /// Accounts for the time up to `now`.
    pub(crate) fn account(&mut self, now: Instant, into: &mut Distribution) {
        let ns = self.rest_ns.saturating_add(nanos(now.saturating_since(self.since)));
        into.add(self.depth, ns / 1000);
        self.rest_ns = ns % 1000;
        self.since = self.since.max(now);
    }

    /// The present depth is one that was reached.
    pub(crate) const fn peak(&self, into: &mut Distribution) {
        into.reach(self.depth);
    }
}
