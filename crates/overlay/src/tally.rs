use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wire::overlay::LaneReport;

/// What arrived in a lane of a session. One thread writes, others read: each number is exact, and they may be one frame apart.
pub(crate) struct Arrivals {
    /// One more than the highest sequence number; 0: nothing yet.
    end: AtomicU64,
    received: AtomicU64,
    bytes: AtomicU64,
    /// Of the packets in the frames.
    carried: AtomicU64,
    /// `sent` of the last frame, and when it came, microseconds.
    echo: AtomicU32,
    at: AtomicU32,
    /// Least difference of arrival and departure by the two clocks, microseconds modulo 2^32; the clocks' difference is in it.
    least: AtomicU32,
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
            echo: AtomicU32::new(0),
            at: AtomicU32::new(0),
            least: AtomicU32::new(0),
            queued: AtomicU32::new(0),
        }
    }

    /// A frame that is authentic and new: `bytes` of IP, sent at `sent` by its sender's clock, here at `now`, both microseconds.
    pub(crate) fn note(&self, sequence: u64, bytes: u64, sent: u32, now: u32) {
        add(&self.received, 1);
        add(&self.bytes, bytes);
        if sequence >= self.end.load(Ordering::Relaxed) {
            self.end.store(sequence + 1, Ordering::Relaxed);
            self.echo.store(sent, Ordering::Relaxed);
            self.at.store(now, Ordering::Relaxed);
        }
        // All of it is modulo 71 minutes: only by how much two differences differ has a sign.
        let difference = now.wrapping_sub(sent);
        let is_first = self.received.load(Ordering::Relaxed) == 1;
        match u32::try_from(difference.wrapping_sub(self.least.load(Ordering::Relaxed)) as i32) {
            Ok(queued) if !is_first => {
                self.queued.fetch_max(queued, Ordering::Relaxed);
            }
            Ok(_) | Err(_) => self.least.store(difference, Ordering::Relaxed),
        }
    }

    /// One of those frames had a packet of so many bytes in it.
    pub(crate) fn note_packet(&self, bytes: u64) {
        add(&self.carried, bytes);
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
            bytes: self.carried.load(Ordering::Relaxed),
            echo: self.echo.load(Ordering::Relaxed),
            held: now.wrapping_sub(self.at.load(Ordering::Relaxed)),
            queued: self.queued.swap(0, Ordering::Relaxed),
        })
    }
}

fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
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
                arrivals.note(sequence as u64, 100, sent, sent.wrapping_add(delay).wrapping_add(offset));
            }
            let report = arrivals.report(0, 0).unwrap();
            assert_eq!((report.queued, report.received, report.highest), (5_000, 4, 3), "{offset}");
            assert_eq!(arrivals.report(0, 0).unwrap().queued, 0, "told once");
        }
    }
}
