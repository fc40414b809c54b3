//! What frames tell of a link without being asked, beside what it loses ([`crate::loss`]): what is missing, how much arrives, round trips.

use std::time::Duration;

use units::{Instant, Rate};

/// Half-life of a rate, in seconds.
const QUICK: f64 = 0.4;
/// For how long the least round trip is remembered: two such spans at most. A path that became longer is known to be so then.
const RTT_SPAN: Duration = Duration::from_secs(10);

/// Counts of a sequence at two times, and what was lost in between. Frames that are overtaken count as lost first and are given back when
/// they come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gaps {
    end: u64,
    received: u64,
    /// Lost in excess of what the numbers show: frames that came although they had been counted as lost.
    debt: u64,
}

impl Gaps {
    /// Of the frames below this number those that have not come yet are no losses. (Each queue of a sender has numbers of its own: they may not be known to be missing
    /// before something else comes by the same queue, long after.)
    pub(crate) fn reset_baseline(&mut self, sent: u64) {
        self.debt = sent.saturating_sub(self.end);
    }

    /// `end`: one more than the highest number, `received`: how many arrived. Gives frames sent and lost since the last time. Numbers that go
    /// back, as those of a liar may, count as nothing.
    pub(crate) fn note(&mut self, end: u64, received: u64) -> (u64, u64) {
        let sent = end.saturating_sub(self.end);
        let came = received.saturating_sub(self.received);
        self.end = self.end.max(end);
        self.received = self.received.max(received);
        let lost = sent.saturating_sub(came);
        self.debt += came.saturating_sub(sent);
        let forgiven = lost.min(self.debt);
        self.debt -= forgiven;
        (sent, lost - forgiven)
    }
}

/// The rate at which something arrives, by what its receiver reports.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThroughputEstimator {
    /// Bytes that are not in the rate yet.
    bytes: u64,
    at: Option<Instant>,
    bps: f64,
}

impl ThroughputEstimator {
    /// So many bytes have arrived since the last time. Two reports may come at once.
    pub(crate) fn note(&mut self, now: Instant, bytes: u64) {
        let passed = self.at.map_or(0.0, |at| now.saturating_since(at).as_secs_f64());
        self.bytes = self.bytes.saturating_add(bytes);
        if passed > 0.0 {
            // Half of it is that of the last third of a second or so.
            let weight = 1.0 - (-passed / QUICK).exp2();
            self.bps += weight * (8.0 * std::mem::take(&mut self.bytes) as f64 / passed - self.bps);
        }
        self.at = Some(now);
    }

    /// Bits a second, nothing when there was no report for a while.
    pub(crate) fn rate(&self, now: Instant) -> Rate {
        let recent = self.at.is_some_and(|at| now.saturating_since(at) < Duration::from_secs(1));
        Rate::from_bps(if recent { self.bps as u64 } else { 0 })
    }
}

/// The least, or the largest, of the values of a span that goes on and of the one before: a span ends with the first value after it.
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
    /// `pick`: which of two values is kept.
    pub(crate) fn note(&mut self, now: Instant, span: Duration, value: T, pick: impl Fn(T, T) -> T) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_since(since) >= span {
            self.values = [None, self.values[0]];
            self.since = Some(now);
        }
        self.values[0] = Some(self.values[0].map_or(value, |kept| pick(kept, value)));
    }

    /// The same, but what is older than the span before is forgotten with the first value after it.
    pub(crate) fn note_afresh(&mut self, now: Instant, span: Duration, value: T, pick: impl Fn(T, T) -> T) {
        if self.since.is_some_and(|since| now.saturating_since(since) >= 2 * span) {
            *self = Self::default();
        }
        self.note(now, span, value, pick);
    }

    /// `None`: there was no value yet.
    pub(crate) fn of_both(&self, pick: impl Fn(T, T) -> T) -> Option<T> {
        self.values.into_iter().flatten().reduce(pick)
    }
}

/// The least round trip of the last seconds, and the latest.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    latest: Option<Duration>,
    least: WindowedExtremum<Duration>,
}

impl RoundTrip {
    pub(crate) fn note(&mut self, now: Instant, rtt: Duration) {
        self.latest = Some(rtt);
        self.least.note_afresh(now, RTT_SPAN, rtt, Duration::min);
    }

    /// That of the idle path, as far as the last seconds show it.
    pub(crate) fn least(&self) -> Option<Duration> {
        self.least.of_both(Duration::min)
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
    fn overtaken_frames_are_given_back() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.note(10, 8), (10, 2));
        assert_eq!(gaps.note(20, 20), (10, 0), "two came late");
        assert_eq!(gaps.note(30, 28), (10, 0), "and are taken from what is lost next");
        assert_eq!(gaps.note(5, 3), (0, 0), "numbers that go back are ignored");
        assert_eq!(gaps.note(40, 37), (10, 1));
    }

    #[test]
    fn what_arrives_is_known_within_a_second_and_forgotten_with_the_reports() {
        let (mut carried, mut now) = (ThroughputEstimator::default(), Instant::from_nanos(1));
        for _ in 0..20 {
            now = now + TICK;
            carried.note(now, 125_000);
        }
        let rate = carried.rate(now).as_bps() as f64;
        assert!((rate / 10e6 - 1.0).abs() < 0.1, "10 Mb/s: {rate}");
        assert_eq!(carried.rate(now + 2 * Duration::from_secs(1)).as_bps(), 0);
    }

    #[test]
    fn a_value_is_remembered_for_one_span_or_two() {
        let at = |tenths: u64| Instant::from_nanos(tenths * 100_000_000);
        let most = |until| {
            let mut lately = WindowedExtremum::default();
            (10..=until).for_each(|t| lately.note(at(t), 10 * TICK, if t == 18 { 0.4 } else { 0.1 }, f64::max));
            lately.of_both(f64::max)
        };
        // Spans begin at 1, 2 and 3 s.
        assert_eq!([9, 17, 18, 29, 30, 31].map(most), [None, Some(0.1), Some(0.4), Some(0.4), Some(0.1), Some(0.1)]);
    }

    #[test]
    fn what_was_before_a_long_silence_is_forgotten_with_the_first_value_after_it() {
        let mut rtt = RoundTrip::default();
        rtt.note(Instant::from_nanos(1), Duration::from_millis(20));
        rtt.note(Instant::from_nanos(300_000_000_000), Duration::from_millis(100));
        assert_eq!(rtt.least(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn a_path_that_became_longer_is_known_to_be_so() {
        let mut rtt = RoundTrip::default();
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        let ms = Duration::from_millis;
        rtt.note(at(0), ms(10));
        rtt.note(at(5), ms(30));
        assert_eq!(rtt.least(), Some(ms(10)));
        rtt.note(at(11), ms(30));
        assert_eq!(rtt.least(), Some(ms(10)), "it may have been a queue");
        rtt.note(at(22), ms(30));
        assert_eq!((rtt.least(), rtt.latest()), (Some(ms(30)), Some(ms(30))));
    }
}
