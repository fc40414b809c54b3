//! Traffic of the overlay: while anybody sends packets, all members probe their links closely, as each may be on the
//! next route.

use std::time::Duration;

use units::Instant;

/// The overlay is idle after this time without traffic, and after a start: the next flow may follow soon.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// Time for which another member's advertisement of traffic counts; the next one comes within some seconds, even if
/// some are lost.
const ADVERTISEMENT_LIFETIME: Duration = Duration::from_secs(10);
/// So many bytes within a span are no traffic: a terminal session, a ping each second.
const IDLE_BYTES_MAX: u64 = 20_000;
const SPAN: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Activity {
    /// Start of the present span, and bytes of own packets that have arrived in it.
    since: Instant,
    bytes: u64,
    /// Time of the last own traffic.
    own: Option<Instant>,
    /// End of the time for which the overlay is busy.
    busy_until: Instant,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0, own: None, busy_until: now + IDLE_AFTER }
    }

    /// Bytes of own packets have arrived at a peer.
    pub(super) fn note(&mut self, now: Instant, bytes: u64) {
        if now.saturating_since(self.since) >= SPAN {
            (self.since, self.bytes) = (now, 0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > IDLE_BYTES_MAX {
            self.own = Some(now);
            self.busy_until = self.busy_until.max(now + IDLE_AFTER);
        }
    }

    /// Another member advertises traffic, for a minute after the last packets.
    pub(super) fn note_others(&mut self, now: Instant) {
        self.busy_until = self.busy_until.max(now + ADVERTISEMENT_LIFETIME);
    }

    /// Whether this member sends, or did within the last minute.
    pub(super) fn is_own(&self, now: Instant) -> bool {
        self.own.is_some_and(|at| now.saturating_since(at) < IDLE_AFTER)
    }

    /// Whether there has been no traffic for a minute.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        now >= self.busy_until
    }
}
