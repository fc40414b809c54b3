//! Bounds of a sender: unsent bytes in its socket, and the lead of a paced stream over its rate.
//!
//! The kernel keeps neither bound at low rates. It checks TCP_NOTSENT_LOWAT only when it starts a packet buffer, which
//! holds 45 segments, and does not pace the first ten segments of a connection.

use std::time::Duration;

use units::{Bytes, Instant, Rate};
use wire::BLOCK_HEADER_BYTES;

/// Unsent bytes of a paced stream, in time at its rate: more than a sleeping thread loses on a busy host, and too
/// little to affect the delay of a block or the end of the test. The default block of a paced stream has the same
/// length.
pub const PACED_UNSENT: Duration = Duration::from_millis(50);

/// Unsent bytes of an unpaced stream, in time at the delivered rate. The bytes left at the end of the load are sent
/// within this time, and a thread that wakes this late still keeps the path busy.
const UNPACED_UNSENT: Duration = Duration::from_millis(250);

/// Minimum bound of an unpaced stream: one packet buffer of the kernel (GSO_LEGACY_MAX_SIZE), which three streams over
/// 512 kb/s send within 3 s.
const UNPACED_BYTES_MIN: u64 = 64 << 10;

/// Bytes that a sender may write at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// The sender may write this number of bytes, at least one.
    Bytes(u64),
    /// The sender must wait until the kernel has sent half of the unsent bytes and reports the socket as writable.
    Full,
    /// The stream is ahead of its rate and must wait for this time.
    Ahead(Duration),
}

/// Bound on the unsent bytes of one stream.
#[derive(Debug)]
pub(crate) struct Unsent {
    pacing: Option<Rate>,
    bound: u64,
    /// Start of the current window and the bytes acknowledged by then; absent for a fixed bound.
    window: Option<(Instant, u64)>,
}

impl Unsent {
    /// Creates a bound: `requested` by the user, or else derived from the `pacing` rate of the user, or else adapted to
    /// the path. At `start`, `acked` bytes are acknowledged.
    pub(crate) fn new(requested: Option<u64>, pacing: Option<Rate>, start: Instant, acked: u64) -> Self {
        let paced = pacing.map(|r| r.bytes_in(PACED_UNSENT).as_u64().max(BLOCK_HEADER_BYTES as u64));
        let fixed = requested.or(paced);
        Self { pacing, bound: fixed.unwrap_or(UNPACED_BYTES_MIN), window: fixed.is_none().then_some((start, acked)) }
    }

    /// Maximum of unsent bytes.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// Records that `acked` bytes were acknowledged by `now`. Returns whether the bound has grown to the bytes
    /// acknowledged within one window.
    ///
    /// The bound never shrinks: after a pause the kernel may send a whole window at once. It depends on bytes instead
    /// of a rate because one acknowledgement after a repaired loss covers megabytes.
    pub(crate) fn handle_acked(&mut self, acked: u64, now: Instant) -> bool {
        let Some((since, before)) = self.window else { return false };
        let delivered = acked.saturating_sub(before);
        if now.saturating_since(since) >= UNPACED_UNSENT {
            self.window = Some((now, acked));
        }
        let grows = delivered > self.bound;
        self.bound = self.bound.max(delivered);
        grows
    }

    /// Returns the bytes that may be written when `unsent` bytes wait in the socket and `written` bytes were written
    /// within `elapsed`.
    pub(crate) fn room(&self, unsent: u64, written: u64, elapsed: Duration) -> Room {
        // The condition under which the kernel wakes a writer (tcp_stream_memory_free in include/net/tcp.h).
        if unsent.saturating_mul(2) >= self.bound {
            return Room::Full;
        }
        let room = self.bound - unsent;
        let Some(rate) = self.pacing else { return Room::Bytes(room) };
        let allowed = (rate.bytes_in(elapsed).as_u64().saturating_add(self.bound)).saturating_sub(written);
        // Writes of at least half of the bound, instead of single bytes.
        let missing = (self.bound / 2).max(1).saturating_sub(allowed);
        if missing > 0 {
            return Room::Ahead(rate.time_for(Bytes::new(missing)).unwrap_or(PACED_UNSENT));
        }
        Room::Bytes(room.min(allowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn paced(bps: u64) -> Unsent {
        Unsent::new(None, Some(Rate::from_bps(bps)), at(0), 0)
    }

    /// A kernel that sends the first ten segments at once and paces the rest, in steps of 1 ms.
    #[test]
    fn a_paced_stream_never_writes_more_than_its_rate_and_its_bound() {
        for bps in [10_000, 100_000, 1_000_000, 100_000_000] {
            let (stream, rate) = (paced(bps), Rate::from_bps(bps));
            let (mut written, mut sent, mut burst) = (0, 0, 10 * 1448);
            for ms in 0..4_000 {
                let elapsed = Duration::from_millis(ms);
                while let Room::Bytes(n) = stream.room(written - sent, written, elapsed) {
                    written += n;
                    let at_once = n.min(burst);
                    (sent, burst) = (sent + at_once, burst - at_once);
                }
                let allowed = rate.bytes_in(elapsed).as_u64();
                assert!(written <= allowed + stream.bound(), "{bps}: {written} at {ms} ms");
                assert!(written - sent <= stream.bound());
                sent = sent.max(allowed.min(written));
            }
            // The stream lags by at most its bound.
            assert!(written + stream.bound() >= rate.bytes_in(Duration::from_secs(4)).as_u64(), "{bps}: {written}");
        }
    }

    #[test]
    fn a_requested_bound_limits_the_unsent_bytes_at_any_rate() {
        let stream = Unsent::new(Some(4_000), Some(Rate::from_bps(1_000_000)), at(0), 0);
        assert_eq!(stream.room(0, 0, Duration::ZERO), Room::Bytes(4_000));
        assert_eq!(stream.room(1_999, 4_000, Duration::from_secs(1)), Room::Bytes(2_001));
        assert_eq!(stream.room(2_000, 4_000, Duration::from_secs(1)), Room::Full);
        assert_eq!(stream.room(0, 4_000, Duration::ZERO), Room::Ahead(Duration::from_millis(16)));
        let smallest = Unsent::new(Some(1), None, at(0), 0);
        assert_eq!(
            (smallest.room(0, 9, Duration::ZERO), smallest.room(1, 9, Duration::ZERO)),
            (Room::Bytes(1), Room::Full)
        );
    }

    #[test]
    fn the_default_bound_follows_the_delivered_rate() {
        // 512 kb/s: 16 kB in 250 ms, which is below the minimum bound.
        let mut slow = Unsent::new(None, None, at(0), 500);
        assert!((1..100).all(|i| !slow.handle_acked(500 + i * 640, at(i * 10))));
        assert_eq!(slow.bound(), UNPACED_BYTES_MIN);
        // 8 Gb/s: 250 MB in 250 ms.
        let mut fast = Unsent::new(None, None, at(0), 0);
        let grown = (1..=100).filter(|i| fast.handle_acked(i * 10_000_000, at(i * 10))).count();
        assert_eq!((grown, fast.bound()), (25, 250_000_000));
        // One acknowledgement of 384 kB after a repaired loss counts as 384 kB, not as a rate of 307 Mb/s.
        let mut repaired = Unsent::new(None, None, at(0), 0);
        assert!(repaired.handle_acked(384_000, at(10)) && repaired.handle_acked(390_000, at(250)));
        assert_eq!(repaired.bound(), 390_000);
    }
}
