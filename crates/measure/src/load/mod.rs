//! One end's share of the load: the threads that send and receive, and the collection of what they saw.
//!
//! Both ends use the same code; which end is client and which is server matters only to the control connection.

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

/// How the threads of a load are told to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicU8>);

impl Stop {
    /// Senders stop; what is under way is still received and counted.
    pub(crate) fn gently(&self) {
        self.0.fetch_max(1, Ordering::Relaxed);
    }

    /// Everything stops now; connections are reset.
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

/// What every stream of a load needs to know.
#[derive(Debug, Clone)]
pub(crate) struct LoadPlan {
    /// Identifies the test in records.
    pub(crate) test_id: String,
    /// Begin of the load on this end's clock; intervals are cut from here.
    pub(crate) start: Instant,
    /// Length of an interval.
    pub(crate) interval: Duration,
    /// Length of the load, when time decides.
    pub(crate) duration: Option<Duration>,
    /// Streams in each direction.
    pub(crate) streams: u32,
    /// Bytes in a block.
    pub(crate) block: usize,
    /// Ceiling that the user set on each stream.
    pub(crate) pacing: Option<Rate>,
    /// Most bytes that the user lets wait unsent in each sending socket.
    pub(crate) unsent: Option<u64>,
    /// Rate that a receiving stream does not exceed whatever its sender does.
    pub(crate) ceiling: Option<Rate>,
    /// Whether this end's congestion control paces by its own estimate of the bottleneck.
    pub(crate) is_paced: bool,
    /// How long a stream of datagrams may receive none before the load is broken off; absent: for ever.
    pub(crate) max_silence: Option<Duration>,
    /// sendfile and MSG_TRUNC instead of copies.
    pub(crate) zero_copy: bool,
    /// File that this end's streams are read from or written to.
    pub(crate) disk: Option<Disk>,
    /// How long to wait, after the last block was written, for what is still under way.
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

    /// Whether what is left at the end of a load is long enough for a rate: a tenth of an interval. Shorter rests count in
    /// the totals only.
    pub(crate) fn is_worth_a_record(&self, begin: Instant, now: Instant) -> bool {
        now.saturating_since(begin) * 10 >= self.interval
    }

    /// End of the sending, when time decides.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.duration.map(|d| self.start + d)
    }
}

/// Bytes that stream `index` of `streams` sends of a direction's `total`.
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
    fn shares_add_up_to_the_whole() {
        for (total, streams) in [(10_u64, 3_u32), (0, 4), (7, 8), (1_000_000_007, 128)] {
            let sum: u64 = (0..streams).map(|i| share_of(total, streams, i)).sum();
            assert_eq!(sum, total);
        }
    }
}
