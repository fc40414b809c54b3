//! Rules that every driver of a method follows: limits of bytes and time, and the wait for late packets.

use results::estimate::Caveat;
use units::{Bytes, Duration};

use super::{Departure, Outcome};

/// Minimum gap at which departures of a host are not late: a system call and two reads of the clock.
pub const SENDER_GAP_MIN: Duration = Duration::from_micros(4);

/// Minimum settle time: time without an arrival after which missing packets of a train count as lost.
const SETTLE_MIN: Duration = Duration::from_millis(250);
/// Settle time on a path that has delivered no train yet: at 64 kb/s, packets of 1500 bytes are 0.2 s apart.
const SETTLE_UNKNOWN_PATH: Duration = Duration::from_secs(1);
/// Maximum settle time.
pub const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Budget of one method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Limit of probe bytes with headers, echoes included.
    pub bytes: u64,
    /// Time limit.
    pub time: Duration,
}

impl Bounds {
    /// The limit that a train would exceed, if there is one. `spent` and `cost` are the bytes before the train and of
    /// the train, `end` is the time from the start of the method to the last departure.
    pub fn exceeded(&self, spent: u64, cost: u64, end: Duration) -> Option<Caveat> {
        if spent.saturating_add(cost) > self.bytes {
            return Some(Caveat::BudgetSpent);
        }
        (end > self.time).then_some(Caveat::TimeSpent)
    }
}

/// Result of one method, as its driver observed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Estimate and its caveats.
    pub outcome: Outcome,
    /// Packets sent, echoes included.
    pub packets: u64,
    /// Bytes of all packets sent, with headers, echoes included.
    pub bytes: Bytes,
    /// Duration.
    pub elapsed: Duration,
    /// Error that ended the method early.
    pub error: Option<String>,
}

/// Time to wait for late packets of a train. It covers several round trips, twice the longest gap between departures,
/// and four times the largest gap that the path has caused (`longest_gap`), which dominates on a slow link. `None`: the
/// path has not delivered a train.
pub fn settle(departures: &[Departure], round_trip: Duration, longest_gap: Option<Duration>) -> Duration {
    let gap = departures.windows(2).map(|w| w[1].after.saturating_sub(w[0].after)).max().unwrap_or_default();
    let (min, path_gaps) = longest_gap.map_or((SETTLE_UNKNOWN_PATH, Duration::ZERO), |gap| (SETTLE_MIN, gap * 4));
    (round_trip * 2 + min).max((gap * 2).min(Duration::from_secs(1))).max(path_gaps).min(SETTLE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settle_time_follows_the_slowest_of_path_and_sender() {
        let ms = Duration::from_millis;
        let train = |gap| (0..3).map(|i| Departure { after: gap * i, bytes: 1500 }).collect::<Vec<_>>();
        let (slow, train) = (train(ms(400)), train(ms(100)));
        assert_eq!(settle(&train, ms(20), None), ms(1040));
        assert_eq!(settle(&train, ms(20), Some(ms(1))), ms(290));
        assert_eq!(settle(&train, ms(20), Some(ms(200))), ms(800));
        assert_eq!(settle(&slow, ms(20), Some(ms(1))), ms(800));
        assert_eq!(settle(&train, Duration::from_secs(9), None), SETTLE_MAX);
    }

    #[test]
    fn a_train_that_fits_exactly_is_sent() {
        let bounds = Bounds { bytes: 100, time: Duration::from_secs(1) };
        assert_eq!(bounds.exceeded(60, 40, Duration::from_secs(1)), None);
        assert_eq!(bounds.exceeded(60, 41, Duration::ZERO), Some(Caveat::BudgetSpent));
        assert_eq!(bounds.exceeded(0, 0, Duration::from_millis(1001)), Some(Caveat::TimeSpent));
    }
}
