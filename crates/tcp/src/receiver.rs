//! The receiver of a connection: cumulative and selective acknowledgements, delayed and compressed.

use std::collections::VecDeque;

use units::{Duration, Instant};

use crate::config::ReceiverConfig;
use crate::receive_window::ReceiveWindow;
use crate::segment::{Ack, SackBlocks, Segments, SeqRange};
use crate::ticks::Ticks;

/// Bounds of the delay of an acknowledgement (TCP_DELACK_MIN, TCP_DELACK_MAX; TCP_ATO_MIN equals the minimum).
const DELAY_US_MIN: u64 = 40_000;
const DELAY_US_MAX: u64 = 200_000;
/// Receiver's timeout beyond the round trip, after which a gap starts quick acknowledgements (TCP_RTO_MIN).
const GAP_US_MIN: u64 = 200_000;
/// Maximum number of acknowledgements at once after the start or a loss (TCP_MAX_QUICKACKS).
const QUICK_MAX: u64 = 16;
/// Duplicate acknowledgements before SACKs are compressed (TCP_FASTRETRANS_THRESH).
const DUPLICATES_UNCOMPRESSED: u32 = 3;
/// Maximum number of SACKs in one (`tcp_comp_sack_nr`), and their maximum delay (`tcp_comp_sack_delay_ns`).
const COMPRESSED_MAX: u32 = 44;
const COMPRESSED_DELAY: Duration = Duration::from_millis(1);
/// Share of the round trip for which SACKs are compressed: 5 %.
const COMPRESSED_RTT_DIVISOR: u32 = 20;

/// The receiver of a connection. The application reads all data in order at once.
#[derive(Debug, Clone)]
pub struct Receiver {
    config: ReceiverConfig,
    ticks: Ticks,
    next: u64,
    window: ReceiveWindow,
    /// Ranges beyond `next`, in order, with a gap before each.
    beyond: Vec<SeqRange>,
    /// Starts of the ranges that changed, the most recent first.
    recent: VecDeque<u64>,
    /// Bytes that the latest acknowledgement covers.
    reported: u64,
    /// First byte beyond the window that the latest acknowledgement advertised.
    advertised: u64,
    /// Timestamp to echo (RFC 7323, 4.3).
    echo_ms: u64,
    /// Acknowledgements that are sent at once (`quick`).
    quick: u64,
    /// Estimate of the time between segments in us (`ato`), and the time of the latest.
    interval_us: u64,
    latest: Option<Instant>,
    delayed_at: Option<Instant>,
    compressed_at: Option<Instant>,
    compressed: u32,
    duplicates: (u64, u32),
}

impl Receiver {
    /// Creates the receiver of an established connection.
    pub fn new(config: ReceiverConfig) -> Self {
        let window = ReceiveWindow::new(config.window, config.window_max);
        Self {
            ticks: Ticks::new(config.tick),
            next: 0,
            beyond: Vec::new(),
            recent: VecDeque::new(),
            reported: 0,
            advertised: window.end(0),
            echo_ms: 0,
            quick: (config.window / (2 * u64::from(config.mss.max(1)))).clamp(2, QUICK_MAX),
            interval_us: DELAY_US_MIN,
            latest: None,
            delayed_at: None,
            compressed_at: None,
            compressed: 0,
            duplicates: (0, 0),
            window,
            config,
        }
    }

    /// Bytes received in order.
    pub const fn received(&self) -> u64 {
        self.next
    }

    /// Handles segments that arrived together. Returns the acknowledgement to send at once.
    pub fn handle(&mut self, now: Instant, segments: Segments) -> Option<Ack> {
        let range = SeqRange { start: segments.seq, end: segments.end() };
        if range.is_empty() || range.start > self.advertised {
            return Some(self.acknowledge(None));
        }
        if range.start <= self.reported {
            self.echo_ms = self.echo_ms.max(segments.timestamp_ms);
        }
        if range.end <= self.next {
            self.quick = QUICK_MAX;
            return Some(self.acknowledge(Some(range)));
        }
        if range.start > self.next {
            return self.store(now, range);
        }
        self.note_arrival(now);
        let had_gap = !self.beyond.is_empty();
        let before = self.next;
        self.next = range.end;
        self.take_beyond();
        let count = (self.next - before).div_ceil(u64::from(self.config.mss.max(1)));
        self.window.advance(self.next, count, u64::from(self.config.mss));
        if had_gap {
            return Some(self.acknowledge(None));
        }
        let more_than_one = self.next - self.reported > u64::from(self.config.mss);
        if more_than_one || self.quick > 0 {
            return Some(self.acknowledge(None));
        }
        self.delay(now);
        None
    }

    /// Time of the next call of [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        match (self.delayed_at, self.compressed_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns an acknowledgement whose delay has passed.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Ack> {
        self.poll_timeout().filter(|at| *at <= now)?;
        if self.delayed_at.is_some_and(|at| at <= now) {
            // The sender sends less often than expected (tcp_delack_timer_handler).
            self.interval_us = (self.interval_us * 2).min(DELAY_US_MAX);
        }
        Some(self.acknowledge(None))
    }

    /// Stores a range beyond a gap, and acknowledges it at once or compressed.
    fn store(&mut self, now: Instant, range: SeqRange) -> Option<Ack> {
        let known = self.beyond.iter().find(|r| r.start <= range.start && range.end <= r.end).copied();
        if known.is_some() {
            return Some(self.acknowledge(Some(range)));
        }
        self.insert(range);
        if self.duplicates.0 != self.next {
            self.duplicates = (self.next, 0);
        }
        if self.duplicates.1 < DUPLICATES_UNCOMPRESSED || self.compressed >= COMPRESSED_MAX {
            self.duplicates.1 += 1;
            return Some(self.acknowledge(None));
        }
        self.compressed += 1;
        let delay = COMPRESSED_DELAY.min(self.config.rtt / COMPRESSED_RTT_DIVISOR);
        self.compressed_at = self.compressed_at.or(Some(now + delay));
        None
    }

    fn insert(&mut self, range: SeqRange) {
        let from = self.beyond.partition_point(|r| r.end < range.start);
        let to = self.beyond.partition_point(|r| r.start <= range.end);
        let mut joined = range;
        for r in self.beyond.drain(from..to) {
            joined = SeqRange { start: joined.start.min(r.start), end: joined.end.max(r.end) };
            self.recent.retain(|start| *start != r.start);
        }
        self.beyond.insert(from, joined);
        self.recent.push_front(joined.start);
        // More than the blocks of an acknowledgement are never reported (the kernel keeps four).
        self.recent.truncate(4);
    }

    /// Takes the ranges that are in order now.
    fn take_beyond(&mut self) {
        let count = self.beyond.partition_point(|r| r.start <= self.next);
        for r in self.beyond.drain(..count) {
            self.next = self.next.max(r.end);
            self.recent.retain(|start| *start != r.start);
        }
    }

    /// Follows the time between segments (tcp_event_data_recv).
    fn note_arrival(&mut self, now: Instant) {
        if let Some(latest) = self.latest {
            let us = u64::try_from(now.saturating_since(latest).as_micros()).unwrap_or(u64::MAX);
            if us <= DELAY_US_MIN / 2 {
                self.interval_us = self.interval_us / 2 + DELAY_US_MIN / 2;
            } else if us < self.interval_us {
                self.interval_us = self.interval_us / 2 + us;
            } else if us > GAP_US_MIN + self.rtt_us() {
                self.quick = self.quick.max(self.quick_max());
            }
        }
        self.latest = Some(now);
    }

    fn rtt_us(&self) -> u64 {
        u64::try_from(self.config.rtt.as_micros()).unwrap_or(u64::MAX)
    }

    /// Number of quick acknowledgements (tcp_incr_quickack).
    fn quick_max(&self) -> u64 {
        (self.config.window / (2 * u64::from(self.config.mss.max(1)))).clamp(2, QUICK_MAX)
    }

    /// Delays an acknowledgement (tcp_send_delayed_ack).
    fn delay(&mut self, now: Instant) {
        let maximum = self.rtt_us().clamp(DELAY_US_MIN, DELAY_US_MAX);
        let us = self.interval_us.clamp(DELAY_US_MIN, maximum);
        let at = self.ticks.deadline(now, us);
        self.delayed_at = self.delayed_at.or(Some(at));
    }

    fn acknowledge(&mut self, duplicate: Option<SeqRange>) -> Ack {
        self.delayed_at = None;
        self.compressed_at = None;
        self.compressed = 0;
        self.quick = self.quick.saturating_sub(1);
        self.reported = self.next;
        self.advertised = self.advertised.max(self.window.end(self.next));
        let mut sack = SackBlocks::default();
        let places = if duplicate.is_some() { 2 } else { 3 };
        for start in self.recent.iter().take(places) {
            let found = self.beyond.binary_search_by_key(start, |r| r.start);
            if let Some(range) = found.ok().and_then(|index| self.beyond.get(index)) {
                sack.push(*range);
            }
        }
        Ack { cumulative: self.next, window_end: self.advertised, sack, duplicate, echo_ms: self.echo_ms }
    }
}
