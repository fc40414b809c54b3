//! Assigns lost datagrams to the intervals in which they were sent.

use units::{Duration, Instant};

/// Maximum length of the list, which a peer with invented send times could otherwise grow without bound. Later losses
/// count in the last interval.
const INTERVALS_MAX: u64 = 10_000;

/// Lost datagrams by interval of sending.
///
/// A lost datagram carries no send time to the receiver. Its time is interpolated between the two datagrams with the
/// nearest numbers that arrived in order, and extrapolated by the planned gap before the first and after the last one.
#[derive(Debug, Clone)]
pub(super) struct SentLosses {
    interval: Duration,
    gap: Duration,
    /// Send time of datagram 0, derived from the first arrival.
    origin: Option<Instant>,
    /// Number and send time of the highest datagram that arrived.
    newest: Option<(u64, Instant)>,
    lost: Vec<u64>,
}

impl SentLosses {
    pub(super) fn new(interval: Duration, gap: Duration) -> Self {
        Self { interval: interval.max(Duration::from_nanos(1)), gap, origin: None, newest: None, lost: Vec::new() }
    }

    /// Handles a datagram with a number above all before.
    pub(super) fn on_highest(&mut self, seq: u64, sent: Instant) {
        let origin = self.origin.unwrap_or_else(|| sent - self.time_of(seq));
        self.origin = Some(origin);
        let (missing, from) = match self.newest {
            Some((before, at)) => (seq.saturating_sub(before + 1), at),
            None => (seq, origin),
        };
        self.spread(missing, from, sent);
        self.newest = Some((seq, sent));
    }

    /// Handles a datagram that counted as lost and arrived late.
    pub(super) fn on_late(&mut self, sent: Instant) {
        let Some(index) = self.index(sent) else { return };
        if let Some(n) = self.lost.get_mut(index).filter(|n| **n > 0) {
            *n -= 1;
            return;
        }
        // Interpolation may have assigned it to a neighbour of its interval.
        let counted = self.lost.iter_mut().enumerate().filter(|(_, n)| **n > 0);
        if let Some((_, n)) = counted.min_by_key(|(i, _)| i.abs_diff(index)) {
            *n -= 1;
        }
    }

    /// The list, with the `missing` datagrams after the last arrival.
    pub(super) fn finish(mut self, missing: u64) -> Vec<u64> {
        if let Some((_, at)) = self.newest {
            self.spread(missing, at, at + self.time_of(missing));
        }
        let used = self.lost.iter().rposition(|n| *n > 0).map_or(0, |i| i + 1);
        self.lost.truncate(used);
        self.lost
    }

    /// Assigns `missing` datagrams that were sent evenly from `from` to `to`.
    fn spread(&mut self, missing: u64, from: Instant, to: Instant) {
        let (Some(first), Some(last)) = (self.index(from), self.index(to)) else { return };
        if missing == 0 {
            return;
        }
        let span = to.saturating_since(from).as_nanos().max(1);
        let mut assigned = 0;
        for index in first..=last.max(first) {
            let until = self.end_of(index).saturating_since(from).as_nanos().min(span);
            let share = u64::try_from(u128::from(missing) * until / span).unwrap_or(missing);
            let share = if index >= last { missing } else { share.min(missing) };
            self.add(index, share - assigned);
            assigned = share;
        }
    }

    fn add(&mut self, index: usize, count: u64) {
        if count == 0 {
            return;
        }
        if self.lost.len() <= index {
            self.lost.resize(index + 1, 0);
        }
        if let Some(n) = self.lost.get_mut(index) {
            *n += count;
        }
    }

    fn index(&self, at: Instant) -> Option<usize> {
        let since = at.saturating_since(self.origin?).as_nanos();
        let index = (since / self.interval.as_nanos()).min(u128::from(INTERVALS_MAX - 1));
        usize::try_from(index).ok()
    }

    fn end_of(&self, index: usize) -> Instant {
        let intervals = u32::try_from(index + 1).unwrap_or(u32::MAX);
        self.origin.unwrap_or_default() + self.interval.saturating_mul(intervals)
    }

    fn time_of(&self, count: u64) -> Duration {
        let ns = self.gap.as_nanos().saturating_mul(u128::from(count));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos((1_000 + ms) * MS)
    }

    /// 100 datagrams a second, intervals of a second.
    fn losses() -> SentLosses {
        SentLosses::new(Duration::from_secs(1), Duration::from_millis(10))
    }

    #[test]
    fn an_outage_is_assigned_to_the_time_in_which_it_was() {
        // No datagram that was sent from 1.5 s to 4 s arrived, and none from 5.5 s to the end at 6 s.
        let mut l = losses();
        for seq in (0..150).chain(400..550) {
            l.on_highest(seq, at(seq * 10));
        }
        assert_eq!(l.finish(50), [0, 50, 100, 100, 0, 50]);
    }

    #[test]
    fn the_first_arrival_gives_the_send_time_of_the_lost_ones_before_it() {
        let mut l = losses();
        l.on_highest(250, at(7_000));
        assert_eq!(l.finish(0), [100, 100, 50]);
    }

    #[test]
    fn a_late_datagram_is_not_lost() {
        let mut l = losses();
        for seq in [0, 99, 101, 150] {
            l.on_highest(seq, at(seq * 10));
        }
        for seq in 102..150 {
            l.on_late(at(seq * 10));
        }
        l.on_late(at(1_000));
        assert_eq!(l.finish(0), [98]);
    }

    #[test]
    fn invented_times_neither_panic_nor_grow_the_list_without_bound() {
        let mut l = losses();
        let times = [u64::MAX, 0, 7, u64::MAX - 1].map(Instant::from_nanos);
        for (seq, sent) in [0, 1 << 40, 1 << 60, u64::MAX - 2].into_iter().zip(times) {
            l.on_highest(seq, sent);
            l.on_late(sent);
        }
        assert!(l.finish(1).len() <= usize::try_from(INTERVALS_MAX).unwrap());
    }
}
