//! How many bytes a sender lets wait unsent in its socket, and how far a paced one may be ahead of its rate.
//!
//! The kernel alone keeps neither bound at low rates: it looks at TCP_NOTSENT_LOWAT only when it begins a packet buffer, which
//! holds 45 segments, and does not pace the first ten segments of a connection.

use std::time::Duration;

use units::{Bytes, Instant, Rate};
use wire::BLOCK_HEADER_BYTES;

/// What a paced stream keeps unsent, in time at its rate: more than a sleeping thread loses on a busy host, and little enough
/// that neither the delay of a block nor the end of the test shows it. Its default block is as long.
pub const PACED_UNSENT: Duration = Duration::from_millis(50);

/// The same for a stream that nobody paces, at the rate that the path has taken: what is unsent at the end of the load is sent
/// within this time, and a thread that is not woken for this long starves no path.
const UNPACED_UNSENT: Duration = Duration::from_millis(250);

/// Smallest bound of a stream that nobody paces: one packet buffer of the kernel (GSO_LEGACY_MAX_SIZE), which three streams
/// over 512 kb/s send within 3 s.
const UNPACED_MIN: u64 = 64 << 10;

/// What a sender may write now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// This many bytes, at least one.
    Bytes(u64),
    /// Nothing until the kernel has sent half of what waits; it then wakes who waits for room.
    Full,
    /// Nothing for so long: the stream is ahead of its rate.
    Ahead(Duration),
}

/// The bound of one stream.
#[derive(Debug)]
pub(crate) struct Unsent {
    pacing: Option<Rate>,
    bound: u64,
    /// Begin of the running window and the bytes acknowledged until then; absent where the bound does not adapt.
    window: Option<(Instant, u64)>,
}

impl Unsent {
    /// `asked` is the user's bound, `pacing` the user's rate; without either the bound follows the path. `acked` bytes are
    /// acknowledged at `start`.
    pub(crate) fn new(asked: Option<u64>, pacing: Option<Rate>, start: Instant, acked: u64) -> Self {
        let paced = pacing.map(|r| r.bytes_in(PACED_UNSENT).as_u64().max(BLOCK_HEADER_BYTES as u64));
        let fixed = asked.or(paced);
        Self { pacing, bound: fixed.unwrap_or(UNPACED_MIN), window: fixed.is_none().then_some((start, acked)) }
    }

    /// Most bytes that may wait unsent.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// `acked` bytes were acknowledged by `now`; whether the bound has grown to what was acknowledged within one window.
    ///
    /// It never shrinks: after a pause the kernel may send a whole window at once. Bytes count and not a rate, because one
    /// acknowledgement after a repaired loss covers megabytes.
    pub(crate) fn handle_acked(&mut self, acked: u64, now: Instant) -> bool {
        let Some((since, before)) = self.window else { return false };
        let carried = acked.saturating_sub(before);
        if now.saturating_since(since) >= UNPACED_UNSENT {
            self.window = Some((now, acked));
        }
        let grows = carried > self.bound;
        self.bound = self.bound.max(carried);
        grows
    }

    /// What may be written when `unsent` bytes wait in the socket and `written` were written within `elapsed`.
    pub(crate) fn room(&self, unsent: u64, written: u64, elapsed: Duration) -> Room {
        // As the kernel judges when it wakes a writer (tcp_stream_memory_free in include/net/tcp.h).
        if unsent.saturating_mul(2) >= self.bound {
            return Room::Full;
        }
        let room = self.bound - unsent;
        let Some(rate) = self.pacing else { return Room::Bytes(room) };
        let allowed = (rate.bytes_in(elapsed).as_u64().saturating_add(self.bound)).saturating_sub(written);
        // Half of the bound at a time, or the stream would be written byte by byte.
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

    /// A kernel that sends the first ten segments at once and paces the rest, in steps of a millisecond.
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
                let asked = rate.bytes_in(elapsed).as_u64();
                assert!(written <= asked + stream.bound(), "{bps}: {written} at {ms} ms");
                assert!(written - sent <= stream.bound());
                sent = sent.max(asked.min(written));
            }
            // It is not slower, either: at most its bound behind.
            assert!(written + stream.bound() >= rate.bytes_in(Duration::from_secs(4)).as_u64(), "{bps}: {written}");
        }
    }

    #[test]
    fn what_is_asked_for_bounds_what_is_unsent_at_any_rate() {
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
    fn the_bound_follows_what_the_path_carries_where_nobody_sets_one() {
        // 512 kb/s: 16 kB in a quarter of a second, so that the smallest bound stays.
        let mut slow = Unsent::new(None, None, at(0), 500);
        assert!((1..100).all(|i| !slow.handle_acked(500 + i * 640, at(i * 10))));
        assert_eq!(slow.bound(), UNPACED_MIN);
        // 8 Gb/s: 250 MB in a quarter of a second.
        let mut fast = Unsent::new(None, None, at(0), 0);
        let grown = (1..=100).filter(|i| fast.handle_acked(i * 10_000_000, at(i * 10))).count();
        assert_eq!((grown, fast.bound()), (25, 250_000_000));
        // One acknowledgement of 384 kB after a repaired loss is what it is, not 307 Mb/s.
        let mut repaired = Unsent::new(None, None, at(0), 0);
        assert!(repaired.handle_acked(384_000, at(10)) && repaired.handle_acked(390_000, at(250)));
        assert_eq!(repaired.bound(), 390_000);
    }
}
