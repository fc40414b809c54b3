use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use wire::overlay::LaneReport;

/// What arrived in a lane of a session. One thread writes, others read: each number is exact, and they may be one frame apart.
pub(crate) struct Arrivals {
    /// One more than the highest sequence number; 0: nothing yet.
    end: AtomicU64,
    received: AtomicU64,
    bytes: AtomicU64,
    /// `sent` of the last frame, and when it came, microseconds.
    echo: AtomicU32,
    at: AtomicU32,
    /// Least difference of arrival and departure by the two clocks, microseconds; the clocks' difference is in it.
    least: AtomicI64,
    /// Largest delay above it since the last report, microseconds.
    queued: AtomicU32,
}

impl Arrivals {
    pub(crate) const fn new() -> Self {
        Self {
            end: AtomicU64::new(0),
            received: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            echo: AtomicU32::new(0),
            at: AtomicU32::new(0),
            least: AtomicI64::new(i64::MAX),
            queued: AtomicU32::new(0),
        }
    }

    /// A frame that is authentic and new: `bytes` of IP, sent at `sent` by its sender's clock, here at `now`, both microseconds.
    pub(crate) fn note(&self, sequence: u64, bytes: u64, sent: u32, now: u32) {
        let add = |n: &AtomicU64, by| n.store(n.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        add(&self.received, 1);
        add(&self.bytes, bytes);
        if sequence >= self.end.load(Ordering::Relaxed) {
            self.end.store(sequence + 1, Ordering::Relaxed);
            self.echo.store(sent, Ordering::Relaxed);
            self.at.store(now, Ordering::Relaxed);
        }
        // Both wrap after 71 minutes, as does their difference, which is kept near the first one.
        let difference = i64::from(now.wrapping_sub(sent) as i32);
        let least = self.least.load(Ordering::Relaxed);
        if difference < least {
            self.least.store(difference, Ordering::Relaxed);
        } else {
            let queued = u32::try_from(difference - least).unwrap_or(u32::MAX);
            if queued > self.queued.load(Ordering::Relaxed) {
                self.queued.store(queued, Ordering::Relaxed);
            }
        }
    }

    /// Frames that arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// One more than the highest sequence number that arrived.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// IP bytes that arrived.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What to tell the sender, at `now` in microseconds; `None` when nothing ever arrived. Begins the next largest delay.
    pub(crate) fn report(&self, lane: u16, now: u32) -> Option<LaneReport> {
        let end = self.end();
        (end > 0).then(|| LaneReport {
            lane,
            highest: end - 1,
            received: self.received(),
            bytes: self.bytes(),
            echo: self.echo.load(Ordering::Relaxed),
            held: now.wrapping_sub(self.at.load(Ordering::Relaxed)),
            queued: self.queued.swap(0, Ordering::Relaxed),
        })
    }
}
