//! Range of rates of a chirp, and how it follows the available bandwidth.

use units::Duration;

use super::super::{Departure, Train};

/// Rates of the first chirp in b/s (pathChirp 2.3.7).
const FIRST_RANGE_BPS: (f64, f64) = (10e6, 200e6);

/// Factor by which the range moves (pathChirp 2.3.7).
const MOVE_FACTOR: f64 = 7.0;

/// Minimum start rate of a chirp, in b/s: its slowest packets are then about a second apart.
const START_BPS_MIN: f64 = 10_000.0;

/// A range of rates in b/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Maximum rate of the sender.
    limit: f64,
    moved: (bool, bool),
}

impl Range {
    /// The first range, for a sender with packets of this length and this minimum gap.
    pub(super) fn new(bytes: u32, gap_min: Duration) -> Self {
        let limit = f64::from(bytes) * 8e9 / (gap_min.as_nanos().max(1) as f64);
        Self { low: FIRST_RANGE_BPS.0, high: FIRST_RANGE_BPS.1, limit, moved: (false, false) }.limited()
    }

    fn limited(self) -> Self {
        let high = self.high.min(self.limit);
        // As wide as the first range.
        Self { high, low: self.low.min(high * FIRST_RANGE_BPS.0 / FIRST_RANGE_BPS.1).max(1.0), ..self }
    }

    /// The next range upwards; `None` if the sender cannot go faster. Rates that were too fast before stay below it.
    pub(super) fn up(self) -> Option<Self> {
        let low = if self.moved.1 { self.low } else { self.low * MOVE_FACTOR };
        let moved = Self { high: self.high * MOVE_FACTOR, low, moved: (true, self.moved.1), ..self }.limited();
        (self.high < self.limit && !self.is_spanning()).then_some(moved)
    }

    /// The next range downwards; `None` if it is slow enough for any path.
    pub(super) fn down(self) -> Option<Self> {
        let high = if self.moved.0 { self.high } else { self.high / MOVE_FACTOR };
        let moved = Self { high, low: self.low / MOVE_FACTOR, moved: (self.moved.0, true), ..self };
        (moved.low >= START_BPS_MIN && !self.is_spanning()).then_some(moved)
    }

    /// Whether the range has moved in both directions and is so wide that it moves no more.
    fn is_spanning(self) -> bool {
        self.moved == (true, true)
    }

    /// The chirp: packets at decreasing gaps, from the lowest rate to the highest, each rate the previous one times the
    /// spread.
    pub(super) fn chirp(&self, bytes: u32, spread: f64) -> Train {
        let mut after_ns = 0.0;
        let mut departures = vec![Departure { after: Duration::ZERO, bytes }];
        let mut rate = self.low;
        while rate <= self.high {
            after_ns += f64::from(bytes) * 8e9 / rate;
            departures.push(Departure { after: Duration::from_nanos(after_ns as u64), bytes });
            rate *= spread;
        }
        Train::new(departures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_nanos(100);

    #[test]
    fn a_chirp_of_the_first_range_is_18_packets() {
        // 10 Mb/s times 1.2^16 is 185 Mb/s: 17 gaps, 18 kB as the tool's.
        let train = Range::new(1000, FAST).chirp(1000, 1.2);
        assert_eq!(train.bytes().as_u64(), 18_000);
        let after: Vec<u128> = train.departures().iter().map(|d| d.after.as_nanos()).collect();
        assert_eq!((after[1], after[2] - after[1]), (800_000, 666_666));
    }

    #[test]
    fn a_range_that_moved_in_both_directions_spans_both_and_stays() {
        let up = Range::new(1000, FAST).up().unwrap();
        assert_eq!((up.low, up.high), (70e6, 1.4e9));
        let both = up.down().unwrap();
        assert_eq!((both.low, both.high), (10e6, 1.4e9));
        assert_eq!((both.up(), both.down()), (None, None));
    }

    #[test]
    fn a_range_ends_where_the_sender_does() {
        // 1000 bytes in 80 us: 100 Mb/s.
        let slow = Range::new(1000, Duration::from_micros(80));
        assert_eq!((slow.low, slow.high, slow.up()), (5e6, 100e6, None));
        let never = Range::new(29, Duration::MAX);
        assert!(never.chirp(29, 1.2).departures().len() < 30);
        let steps = std::iter::successors(Some(Range::new(1000, FAST)), |r| r.down()).count();
        // 10 Mb/s over 7^3 is 29 kb/s, over 7^4 4 kb/s.
        assert_eq!(steps, 4);
    }
}
