//! Estimators that are fed by the frames of a link: gaps in sequence numbers, throughput and round-trip time. The loss
//! estimator is in [`crate::loss`].

use std::time::Duration;

use units::{Instant, Rate};

/// Half-life of the weight of a throughput sample, in seconds.
const THROUGHPUT_HALF_LIFE_S: f64 = 0.4;
/// Span of the minimum round trip; one or two spans count. A path that became longer has its new minimum after that
/// time.
const RTT_MIN_SPAN: Duration = Duration::from_secs(10);

/// Losses between two readings of a sequence's counters. A reordered frame counts as lost at first; its arrival offsets
/// a later loss.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gaps {
    /// Highest sequence number plus one.
    end: u64,
    received: u64,
    /// Losses that were reported too many: frames that arrived after they had been counted as lost.
    debt: u64,
}

impl Gaps {
    /// Excludes all frames below this number that have not arrived from the losses. The gap shows late: each queue of a
    /// sender numbers its frames independently, and reveals its missing frames only with its next frame.
    pub(crate) fn reset_baseline(&mut self, sent: u64) {
        self.debt = sent.saturating_sub(self.end);
    }

    /// Takes a reading; returns the frames sent and lost since the previous one. `end`: highest sequence number plus
    /// one; `received`: number of received frames. Counters that decrease, as those of a malicious peer can, count as
    /// unchanged.
    pub(crate) fn note(&mut self, end: u64, received: u64) -> (u64, u64) {
        let sent = end.saturating_sub(self.end);
        let arrived = received.saturating_sub(self.received);
        self.end = self.end.max(end);
        self.received = self.received.max(received);
        let lost = sent.saturating_sub(arrived);
        self.debt += arrived.saturating_sub(sent);
        let offset = lost.min(self.debt);
        self.debt -= offset;
        (sent, lost - offset)
    }
}

/// Throughput from the byte counts of the receiver: an exponentially weighted mean, in b/s.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThroughputEstimator {
    /// Bytes that are not in the mean yet.
    bytes: u64,
    at: Option<Instant>,
    bps: f64,
}

impl ThroughputEstimator {
    /// Takes the bytes since the previous report. Two reports can arrive at the same time.
    pub(crate) fn note(&mut self, now: Instant, bytes: u64) {
        let passed = self.at.map_or(0.0, |at| now.saturating_since(at).as_secs_f64());
        self.bytes = self.bytes.saturating_add(bytes);
        if passed > 0.0 {
            let weight = 1.0 - (-passed / THROUGHPUT_HALF_LIFE_S).exp2();
            self.bps += weight * (8.0 * std::mem::take(&mut self.bytes) as f64 / passed - self.bps);
        }
        self.at = Some(now);
    }

    /// The mean; zero without a report in the last second.
    pub(crate) fn rate(&self, now: Instant) -> Rate {
        let recent = self.at.is_some_and(|at| now.saturating_since(at) < Duration::from_secs(1));
        Rate::from_bps(if recent { self.bps as u64 } else { 0 })
    }
}

/// Minimum or maximum of the values of the present span and of the one before. A span ends with the first value after
/// it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowedExtremum<T> {
    values: [Option<T>; 2],
    since: Option<Instant>,
}

impl<T> Default for WindowedExtremum<T> {
    fn default() -> Self {
        Self { values: [None, None], since: None }
    }
}

impl<T: Copy> WindowedExtremum<T> {
    /// Takes a value. `pick`: the minimum or the maximum of two values.
    pub(crate) fn note(&mut self, now: Instant, span: Duration, value: T, pick: impl Fn(T, T) -> T) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_since(since) >= span {
            self.values = [None, self.values[0]];
            self.since = Some(now);
        }
        self.values[0] = Some(self.values[0].map_or(value, |kept| pick(kept, value)));
    }

    /// Takes a value, after a reset if the present span began two spans ago or earlier.
    pub(crate) fn note_or_reset(&mut self, now: Instant, span: Duration, value: T, pick: impl Fn(T, T) -> T) {
        if self.since.is_some_and(|since| now.saturating_since(since) >= 2 * span) {
            *self = Self::default();
        }
        self.note(now, span, value, pick);
    }

    /// The extremum of both spans; `None` without a value.
    pub(crate) fn extremum(&self, pick: impl Fn(T, T) -> T) -> Option<T> {
        self.values.into_iter().flatten().reduce(pick)
    }
}

/// Minimum of the recent round trips, and the latest one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    latest: Option<Duration>,
    min: WindowedExtremum<Duration>,
}

impl RoundTrip {
    pub(crate) fn note(&mut self, now: Instant, rtt: Duration) {
        self.latest = Some(rtt);
        self.min.note_or_reset(now, RTT_MIN_SPAN, rtt, Duration::min);
    }

    /// Minimum of the last 10 to 20 s, an estimate of the round trip without queueing.
    pub(crate) fn min(&self) -> Option<Duration> {
        self.min.extremum(Duration::min)
    }

    pub(crate) fn latest(&self) -> Option<Duration> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    #[test]
    fn reordered_frames_offset_later_losses() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.note(10, 8), (10, 2));
        assert_eq!(gaps.note(20, 20), (10, 0), "two late arrivals");
        assert_eq!(gaps.note(30, 28), (10, 0), "which offset two losses");
        assert_eq!(gaps.note(5, 3), (0, 0), "decreasing counters are ignored");
        assert_eq!(gaps.note(40, 37), (10, 1));
    }

    #[test]
    fn throughput_converges_within_two_seconds_and_expires_without_reports() {
        let (mut throughput, mut now) = (ThroughputEstimator::default(), Instant::from_nanos(1));
        for _ in 0..20 {
            now = now + TICK;
            throughput.note(now, 125_000);
        }
        let rate = throughput.rate(now).as_bps() as f64;
        assert!((rate / 10e6 - 1.0).abs() < 0.1, "10 Mb/s: {rate}");
        assert_eq!(throughput.rate(now + 2 * Duration::from_secs(1)).as_bps(), 0);
    }

    #[test]
    fn a_value_counts_for_one_to_two_spans() {
        let at = |tenths: u64| Instant::from_nanos(tenths * 100_000_000);
        let max = |until| {
            let mut window = WindowedExtremum::default();
            (10..=until).for_each(|t| window.note(at(t), 10 * TICK, if t == 18 { 0.4 } else { 0.1 }, f64::max));
            window.extremum(f64::max)
        };
        // The spans begin at 1, 2 and 3 s.
        assert_eq!([9, 17, 18, 29, 30, 31].map(max), [None, Some(0.1), Some(0.4), Some(0.4), Some(0.1), Some(0.1)]);
    }

    #[test]
    fn the_first_value_after_a_long_silence_replaces_the_minimum() {
        let mut rtt = RoundTrip::default();
        rtt.note(Instant::from_nanos(1), Duration::from_millis(20));
        rtt.note(Instant::from_nanos(300_000_000_000), Duration::from_millis(100));
        assert_eq!(rtt.min(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn the_minimum_follows_a_path_that_became_longer() {
        let mut rtt = RoundTrip::default();
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        let ms = Duration::from_millis;
        rtt.note(at(0), ms(10));
        rtt.note(at(5), ms(30));
        assert_eq!(rtt.min(), Some(ms(10)));
        rtt.note(at(11), ms(30));
        assert_eq!(rtt.min(), Some(ms(10)), "the increase can be a queue");
        rtt.note(at(22), ms(30));
        assert_eq!((rtt.min(), rtt.latest()), (Some(ms(30)), Some(ms(30))));
    }
}
