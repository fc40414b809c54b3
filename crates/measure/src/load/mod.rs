//! Load of one end: the threads that send and receive, and the collection of their reports.
//!
//! Both ends use the same code; the roles client and server matter only to the control connection.

mod collect;
mod disk;
mod filler;
mod load_time;
mod receiver;
mod sample;
mod sender;
mod side;
mod unsent;

pub use disk::Disk;

pub(crate) use collect::{StreamDone, StreamEvent};
pub(crate) use load_time::LoadTime;
pub(crate) use sample::SampleTap;
pub(crate) use side::{PeerClock, Side, SideEvent, SideHandle, Stream, StreamSocket};
pub use unsent::PACED_UNSENT;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use results::{Direction, TestPlan};
use units::{Instant, Rate};

/// Stop signal for the threads of a load.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicU8>);

impl Stop {
    /// Stops the senders; data in flight is still received and counted.
    pub(crate) fn gently(&self) {
        self.0.fetch_max(1, Ordering::Relaxed);
    }

    /// Stops all threads immediately and resets the connections.
    pub(crate) fn at_once(&self) {
        self.0.fetch_max(2, Ordering::Relaxed);
    }

    pub(crate) fn is_gentle(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= 1
    }

    pub(crate) fn is_at_once(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= 2
    }
}

/// Parameters that all streams of a load share.
#[derive(Debug, Clone)]
pub(crate) struct LoadPlan {
    /// Identifier of the test in records.
    pub(crate) test_id: String,
    /// Start of the load on this end's clock; intervals are counted from here.
    pub(crate) start: Instant,
    /// Length of an interval.
    pub(crate) interval: Duration,
    /// Duration of the load, if the test is limited by time.
    pub(crate) duration: Option<Duration>,
    /// Streams in each direction.
    pub(crate) streams: u32,
    /// Bytes in a block.
    pub(crate) block: usize,
    /// Rate limit of each stream, set by the user.
    pub(crate) pacing: Option<Rate>,
    /// Maximum of unsent bytes in each sending socket, set by the user.
    pub(crate) unsent: Option<u64>,
    /// Rate limit of a receiving stream, independent of its sender.
    pub(crate) ceiling: Option<Rate>,
    /// Whether this end's congestion control paces packets by its own estimate of the bottleneck rate.
    pub(crate) is_paced: bool,
    /// Maximum time without a datagram before a datagram stream ends the load; absent: no limit.
    pub(crate) max_silence: Option<Duration>,
    /// Whether streams use sendfile and MSG_TRUNC instead of copies.
    pub(crate) zero_copy: bool,
    /// File that this end's streams read or write.
    pub(crate) disk: Option<Disk>,
    /// Time after the last block was written in which data in flight is received.
    pub(crate) grace: Duration,
}

impl LoadPlan {
    pub(crate) fn new(plan: &TestPlan, test_id: &str, start: Instant, grace: Duration) -> Self {
        Self {
            test_id: test_id.to_owned(),
            start,
            interval: Duration::from_nanos(plan.interval_ns),
            duration: plan.duration_ns.map(Duration::from_nanos),
            streams: plan.streams,
            block: usize::try_from(plan.block_bytes).unwrap_or(usize::MAX),
            pacing: plan.rate_bps.map(Rate::from_bps),
            unsent: plan.notsent_lowat_bytes.map(u64::from),
            ceiling: None,
            max_silence: None,
            is_paced: kernel::paces_itself(plan.congestion_control.as_deref()),
            zero_copy: plan.zero_copy,
            disk: None,
            grace,
        }
    }

    /// End of interval `index`.
    pub(crate) fn cut(&self, index: u64) -> Instant {
        let ns = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(self.start.as_nanos().saturating_add(ns.saturating_mul(index + 1)))
    }

    /// Whether the rest at the end of a load is long enough for a record: a tenth of an interval. Shorter rests count
    /// in the totals only.
    pub(crate) fn is_worth_a_record(&self, start: Instant, now: Instant) -> bool {
        now.saturating_since(start) * 10 >= self.interval
    }

    /// End of the transmission, if the test is limited by time.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.duration.map(|d| self.start + d)
    }
}

/// Bytes that stream `index` of `streams` sends out of a direction's `total`.
pub(crate) fn share_of(total: u64, streams: u32, index: u32) -> u64 {
    let (n, i) = (u64::from(streams.max(1)), u64::from(index));
    total / n + u64::from(i < total % n)
}

/// The streams of a plan: number and direction. Numbers are unique over both directions.
pub(crate) fn stream_numbers(plan: &TestPlan) -> Vec<(u32, Direction)> {
    let mut all = Vec::new();
    for direction in &plan.directions {
        for _ in 0..plan.streams {
            all.push((all.len() as u32, *direction));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_total() {
        for (total, streams) in [(10_u64, 3_u32), (0, 4), (7, 8), (1_000_000_007, 128)] {
            let sum: u64 = (0..streams).map(|i| share_of(total, streams, i)).sum();
            assert_eq!(sum, total);
        }
    }
}
