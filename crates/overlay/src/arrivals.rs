use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wire::overlay::SpaceReport;

/// That there is a value in the lower half of a word.
const THERE: u64 = 1 << 32;

/// For so long at least the least delay is remembered, microseconds, as round trips are: clocks that differ by 100 ppm are 2 ms apart in two of these.
const LEAST_SPAN: u32 = 10_000_000;

/// What arrived in a packet number space of a session, by all queues of its sender. Any thread may write and read, without waiting for another.
pub(crate) struct Arrivals {
    /// Sum over the sender's queues of one more than the highest sequence number; 0: nothing yet.
    end: AtomicU64,
    /// Changed after `end`, and read before it: never more than that.
    received: AtomicU64,
    bytes: AtomicU64,
    /// Of the packets in the frames.
    carried: AtomicU64,
    /// Of the frame that was the latest of its queue: `sent`, in the upper half, and when it came, microseconds.
    latest: AtomicU64,
    /// Least difference of arrival and departure by the two clocks, microseconds modulo 2^32, beside [`THERE`]; the clocks' difference is in it, and
    /// clocks run apart: that of the present span and the one before, and that of the present one alone.
    least: AtomicU64,
    next_least: AtomicU64,
    /// When the present span began, microseconds.
    span: AtomicU32,
    /// Largest delay above it since the last report, microseconds.
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
            least: AtomicU64::new(0),
            next_least: AtomicU64::new(0),
            span: AtomicU32::new(0),
            queued: AtomicU32::new(0),
        }
    }

    /// A frame that is authentic and new: it is `ahead` numbers ahead of all before it in its queue, 0 if it was overtaken. `bytes` of IP, sent at
    /// `sent` by its sender's clock, here at `now`, both microseconds.
    pub(crate) fn note(&self, ahead: u64, bytes: u64, sent: u32, now: u32) {
        if ahead > 0 {
            self.end.fetch_add(ahead, Ordering::Relaxed);
            self.latest.store(u64::from(sent) << 32 | u64::from(now), Ordering::Relaxed);
        }
        self.received.fetch_add(1, Ordering::Release);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let difference = now.wrapping_sub(sent);
        let lower = |least| above(least, difference).is_none().then_some(THERE | u64::from(difference));
        let _ = self.next_least.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        if let Err(least) = self.least.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower) {
            self.queued.fetch_max(above(least, difference).unwrap_or_default(), Ordering::Relaxed);
        }
    }

    /// One of those frames had a packet of so many bytes in it.
    pub(crate) fn note_packet(&self, bytes: u64) {
        self.carried.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Frames that were sent up to the latest that arrived, and frames that arrived: never more.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let received = self.received.load(Ordering::Acquire);
        // One that was overtaken behind a rest has come, and is not among those that were to come.
        (self.end.load(Ordering::Relaxed).max(received), received)
    }

    /// IP bytes that arrived.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Forgets the least delay of the span before, if the present one has lasted long enough.
    fn begin_span(&self, now: u32) {
        let next = self.next_least.load(Ordering::Relaxed);
        if next & THERE != 0 && now.wrapping_sub(self.span.load(Ordering::Relaxed)) >= LEAST_SPAN {
            self.least.store(next, Ordering::Relaxed);
            self.next_least.store(0, Ordering::Relaxed);
            self.span.store(now, Ordering::Relaxed);
        }
    }

    /// What to tell the sender, at `now` in microseconds; `None` when nothing ever arrived. Begins the next largest delay.
    pub(crate) fn report(&self, space: u8, now: u32) -> Option<SpaceReport> {
        let (sent, received) = self.counts();
        let latest = self.latest.load(Ordering::Relaxed);
        // A frame may have come since the caller looked at its clock.
        let held = u32::try_from(now.wrapping_sub(latest as u32) as i32).unwrap_or(0);
        self.begin_span(now);
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

/// By how much a difference is above the least one; `None`: it is less, or the first. All of it is modulo 71 minutes: only by how much two
/// differences differ has a sign.
fn above(least: u64, difference: u32) -> Option<u32> {
    let more = u32::try_from(difference.wrapping_sub(least as u32) as i32).ok();
    more.filter(|_| least & THERE != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_known_whatever_the_clocks_say() {
        // Clocks that differ by nothing, by half their range, and so that the difference wraps between two frames.
        for offset in [0, 1 << 31, u32::MAX - 2_000, 0x7fff_f000] {
            let arrivals = Arrivals::new();
            for (sequence, delay) in [5_000_u32, 4_000, 9_000, 6_000].into_iter().enumerate() {
                let sent = 1_000_000 * sequence as u32;
                arrivals.note(1, 100, sent, sent.wrapping_add(delay).wrapping_add(offset));
            }
            let report = arrivals.report(0, 0).unwrap();
            assert_eq!((report.queued, report.received, report.sent), (5_000, 4, 4), "{offset}");
            assert_eq!(arrivals.report(0, 0).unwrap().queued, 0, "told once");
        }
    }

    #[test]
    fn clocks_that_run_apart_are_no_queue() {
        let arrivals = Arrivals::new();
        let mut most = 0;
        // The receiver's clock is faster by 100 ppm; a frame each 10 ms for two minutes, as long as a session lasts.
        for sent in (0..120_000_000).step_by(10_000) {
            let now = sent + sent / 10_000 + 5_000;
            arrivals.note(1, 100, sent, now);
            if sent % 100_000 == 0 {
                most = arrivals.report(0, now).unwrap().queued.max(most);
            }
        }
        assert!((900..=2_200).contains(&most), "two spans of 10 s are 2 ms: {most} us");
    }

    #[test]
    fn a_frame_that_came_after_the_look_at_the_clock_came_just_now() {
        let arrivals = Arrivals::new();
        arrivals.note(1, 100, 7, 1_000_050);
        assert_eq!(arrivals.report(0, 1_000_000).map(|r| (r.echo, r.held)), Some((7, 0)));
        assert_eq!(arrivals.report(0, 1_000_060).map(|r| r.held), Some(10));
    }

    #[test]
    fn whoever_looks_while_others_write_finds_no_more_received_than_sent() {
        let arrivals = Arrivals::new();
        std::thread::scope(|scope| {
            // One queue without loss, and one that loses every second frame.
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
