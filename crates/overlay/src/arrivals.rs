//! Receive statistics of a packet number space: counts for loss, and queueing delay above the minimum one-way delay.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wire::overlay::SpaceReport;

/// Bit that marks the lower half of a word as set.
const IS_SET: u64 = 1 << 32;

/// Minimum length of the window of the minimum delay, microseconds; as long as that of round-trip times. Clocks that
/// differ by 100 ppm drift apart by 2 ms in two windows.
const DELAY_WINDOW_US_MIN: u32 = 10_000_000;

/// Receive statistics of one packet number space of a session, over all queues of the sender. Lock-free for all
/// threads.
pub(crate) struct Arrivals {
    /// Sum over the sender's queues of the highest sequence number plus one; 0: no frame has arrived.
    end: AtomicU64,
    /// Received frames. Written after `end` and read before it, so that a reader never sees more frames received than
    /// sent.
    received: AtomicU64,
    bytes: AtomicU64,
    /// Bytes of the packets in the frames.
    carried: AtomicU64,
    /// Transmit time of the latest frame of its queue in the upper half, its receive time in the lower half;
    /// microseconds.
    latest: AtomicU64,
    /// Minimum difference of receive and transmit time, microseconds modulo 2^32, with [`IS_SET`]. It contains the
    /// clock offset, which drifts; therefore this minimum covers the current and the previous window, and `next_min`
    /// the current window alone.
    min: AtomicU64,
    next_min: AtomicU64,
    /// Start of the current window, microseconds.
    window_start: AtomicU32,
    /// Largest delay above the minimum since the last report, microseconds.
    queued: AtomicU32,
}

impl Arrivals {
    pub(crate) const fn new() -> Self {
        Self {
            end: AtomicU64::new(0),
            received: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            carried: AtomicU64::new(0),
            latest: AtomicU64::new(0),
            min: AtomicU64::new(0),
            next_min: AtomicU64::new(0),
            window_start: AtomicU32::new(0),
            queued: AtomicU32::new(0),
        }
    }

    /// Counts an accepted frame. `ahead`: increase of its queue's highest sequence number, 0 for a reordered frame.
    /// `bytes`: IP bytes of its datagram. `sent`: transmit time by the sender's clock, and `now`: receive time, both in
    /// microseconds.
    pub(crate) fn note(&self, ahead: u64, bytes: u64, sent: u32, now: u32) {
        if ahead > 0 {
            self.end.fetch_add(ahead, Ordering::Relaxed);
            self.latest.store(u64::from(sent) << 32 | u64::from(now), Ordering::Relaxed);
        }
        self.received.fetch_add(1, Ordering::Release);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let difference = now.wrapping_sub(sent);
        let lower = |min| above(min, difference).is_none().then_some(IS_SET | u64::from(difference));
        let _ = self.next_min.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        if let Err(min) = self.min.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower) {
            self.queued.fetch_max(above(min, difference).unwrap_or_default(), Ordering::Relaxed);
        }
    }

    /// Counts the bytes of an inner packet.
    pub(crate) fn note_packet(&self, bytes: u64) {
        self.carried.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Number of frames sent up to the latest received one, and number of frames received, which is never larger.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let received = self.received.load(Ordering::Acquire);
        // A frame reordered across an idle period is received, but not counted in `end`.
        (self.end.load(Ordering::Relaxed).max(received), received)
    }

    /// Received IP bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Drops the minimum of the previous window when the current window has reached its length.
    fn advance_window(&self, now: u32) {
        let next = self.next_min.load(Ordering::Relaxed);
        let age_us = now.wrapping_sub(self.window_start.load(Ordering::Relaxed));
        if next & IS_SET != 0 && age_us >= DELAY_WINDOW_US_MIN {
            self.min.store(next, Ordering::Relaxed);
            self.next_min.store(0, Ordering::Relaxed);
            self.window_start.store(now, Ordering::Relaxed);
        }
    }

    /// The receiver report at `now` (microseconds); `None`: no frame has arrived. Resets the largest delay.
    pub(crate) fn report(&self, space: u8, now: u32) -> Option<SpaceReport> {
        let (sent, received) = self.counts();
        let latest = self.latest.load(Ordering::Relaxed);
        // A frame may have arrived after the caller read its clock.
        let held = u32::try_from(now.wrapping_sub(latest as u32) as i32).unwrap_or(0);
        self.advance_window(now);
        (received > 0).then(|| SpaceReport {
            space,
            sent,
            received,
            bytes: self.carried.load(Ordering::Relaxed),
            echo: (latest >> 32) as u32,
            held,
            queued: self.queued.swap(0, Ordering::Relaxed),
        })
    }
}

/// Excess of a difference over the minimum; `None`: it is a new minimum. Times wrap after 71 minutes, so the excess is
/// compared as a signed number.
fn above(min: u64, difference: u32) -> Option<u32> {
    let excess = u32::try_from(difference.wrapping_sub(min as u32) as i32).ok();
    excess.filter(|_| min & IS_SET != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queueing_delay_is_independent_of_the_clock_offset() {
        // Clock offsets of zero, of half the range, and such that the difference wraps between two frames.
        for offset in [0, 1 << 31, u32::MAX - 2_000, 0x7fff_f000] {
            let arrivals = Arrivals::new();
            for (sequence, delay) in [5_000_u32, 4_000, 9_000, 6_000].into_iter().enumerate() {
                let sent = 1_000_000 * sequence as u32;
                arrivals.note(1, 100, sent, sent.wrapping_add(delay).wrapping_add(offset));
            }
            let report = arrivals.report(0, 0).unwrap();
            assert_eq!((report.queued, report.received, report.sent), (5_000, 4, 4), "{offset}");
            assert_eq!(arrivals.report(0, 0).unwrap().queued, 0, "reported once");
        }
    }

    #[test]
    fn clock_drift_is_not_queueing_delay() {
        let arrivals = Arrivals::new();
        let mut max = 0;
        // The receiver's clock is faster by 100 ppm. One frame per 10 ms for two minutes, the lifetime of a session.
        for sent in (0..120_000_000).step_by(10_000) {
            let now = sent + sent / 10_000 + 5_000;
            arrivals.note(1, 100, sent, now);
            if sent % 100_000 == 0 {
                max = arrivals.report(0, now).unwrap().queued.max(max);
            }
        }
        assert!((900..=2_200).contains(&max), "two windows of 10 s are 2 ms: {max} us");
    }

    #[test]
    fn a_frame_received_after_the_clock_reading_has_no_holding_time() {
        let arrivals = Arrivals::new();
        arrivals.note(1, 100, 7, 1_000_050);
        assert_eq!(arrivals.report(0, 1_000_000).map(|r| (r.echo, r.held)), Some((7, 0)));
        assert_eq!(arrivals.report(0, 1_000_060).map(|r| r.held), Some(10));
    }

    #[test]
    fn concurrent_readers_never_see_more_frames_received_than_sent() {
        let arrivals = Arrivals::new();
        std::thread::scope(|scope| {
            // One queue without loss, and one with a loss of 50 %.
            let writers = [1, 2].map(|ahead| {
                scope.spawn({
                    let arrivals = &arrivals;
                    move || (0..100_000).for_each(|n| arrivals.note(ahead, 100, n, n + 50))
                })
            });
            while !writers.iter().all(|w| w.is_finished()) {
                let (sent, received) = arrivals.counts();
                assert!(sent >= received, "{sent} {received}");
            }
        });
        assert_eq!((arrivals.counts(), arrivals.bytes()), ((300_000, 200_000), 20_000_000));
    }
}
