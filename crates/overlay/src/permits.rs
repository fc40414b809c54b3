//! Places in the queue of the controlling thread, or of memory: each of those who can fill it has so many, and what nobody has a place for is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many places. Copies share them.
#[derive(Debug, Clone)]
pub(crate) struct QueuePermits {
    taken: Arc<AtomicUsize>,
    most: usize,
}

/// One of them, until it is dropped: kept until what came has been handled.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicUsize>);

impl QueuePermits {
    pub(crate) fn new(most: usize) -> Self {
        Self { taken: Arc::default(), most }
    }

    /// `None`: all are taken.
    pub(crate) fn take(&self) -> Option<Permit> {
        let one_more = |taken| (taken < self.most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Permit(Arc::clone(&self.taken)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Those of one member.
#[derive(Debug, Clone)]
pub(crate) struct PeerPermits {
    /// For what it says: reports ten times a second, pieces of gossip, answers.
    pub(crate) messages: QueuePermits,
    /// For the packets of a train, which come at once.
    pub(crate) packets: QueuePermits,
    /// For the ways that its frames come by: relays have a say in these, and shall not keep what it says itself out.
    pub(crate) paths: QueuePermits,
    /// For windows against replays, 16 KiB each: see [`WINDOWS`].
    pub(crate) windows: QueuePermits,
}

/// Windows of all sessions with a member, most: 8 MiB. Its sixteen queues with fourteen ways each, in one session and in its successor, have 512 of them (with what it passes on
/// and says itself, some more: ways that are not in use make room); a usual member, of two queues and two ways, some 20.
pub(crate) const WINDOWS: usize = 512;

impl Default for PeerPermits {
    fn default() -> Self {
        let windows = QueuePermits::new(WINDOWS);
        Self { messages: QueuePermits::new(64), packets: QueuePermits::new(320), paths: QueuePermits::new(16), windows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_has_been_dropped() {
        let permits = QueuePermits::new(2);
        let copy = permits.clone();
        let (first, second) = (permits.take(), copy.take());
        assert!(first.is_some() && second.is_some() && permits.take().is_none());
        drop(first);
        assert!(permits.take().is_some());
    }
}
