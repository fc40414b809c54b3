//! Permits for a shared queue or for memory. Each source has a limited number, so that one source cannot displace the
//! others; input without a permit is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counting semaphore. Clones share its permits.
#[derive(Debug, Clone)]
pub(crate) struct QueuePermits {
    in_use: Arc<AtomicUsize>,
    max: usize,
}

/// A permit, held until its input has been handled; dropping it returns it.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicUsize>);

impl QueuePermits {
    pub(crate) fn new(max: usize) -> Self {
        Self { in_use: Arc::default(), max }
    }

    /// Acquires a permit; `None`: all are in use.
    pub(crate) fn try_acquire(&self) -> Option<Permit> {
        let increment = |in_use| (in_use < self.max).then_some(in_use + 1);
        self.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment).ok()?;
        Some(Permit(Arc::clone(&self.in_use)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Permits of one peer.
#[derive(Debug, Clone)]
pub(crate) struct PeerPermits {
    /// For messages: ten reports per second, gossip and replies.
    pub(crate) messages: QueuePermits,
    /// For the packets of a train, which arrive back to back.
    pub(crate) packets: QueuePermits,
    /// For changes of the path that frames arrive over. Relays can cause these, so they must not displace the peer's
    /// own messages.
    pub(crate) paths: QueuePermits,
    /// For replay windows of 16 KiB each: see [`WINDOWS_MAX`].
    pub(crate) windows: QueuePermits,
}

/// Maximum number of replay windows of all sessions with a peer: 8 MiB. A peer with 16 queues and 14 paths needs about
/// 512 for a session and its successor, and a few more for forwarded and control frames, for which unused paths leave
/// room. A typical peer with two queues and two paths needs about 20.
pub(crate) const WINDOWS_MAX: usize = 512;

impl Default for PeerPermits {
    fn default() -> Self {
        let windows = QueuePermits::new(WINDOWS_MAX);
        Self { messages: QueuePermits::new(64), packets: QueuePermits::new(320), paths: QueuePermits::new(16), windows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_permit_can_be_acquired_again() {
        let permits = QueuePermits::new(2);
        let copy = permits.clone();
        let (first, second) = (permits.try_acquire(), copy.try_acquire());
        assert!(first.is_some() && second.is_some() && permits.try_acquire().is_none());
        drop(first);
        assert!(permits.try_acquire().is_some());
    }
}
