use std::time::Duration;

use estimate::Schedule;
use units::Instant;

use super::Traffic;

/// Maximum lag behind the schedule that a sender makes up in a burst: about two time slices of the scheduler. Datagrams
/// delayed by a longer stall are omitted; a burst of them would measure the stall instead of the path.
const CATCH_UP_MAX: Duration = Duration::from_millis(10);

/// Minimum lag of a departure that counts as late, if it also exceeds one gap. Below it datagrams leave in batches by
/// design.
const LATE_LAG_MIN: Duration = Duration::from_micros(100);

/// Next action of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// A datagram is due, with its deadline.
    Due(Instant),
    /// The next datagram is due at this time.
    At(Instant),
    /// The schedule is complete.
    None,
}

/// Schedule of departures, and its observance. It reads no clock.
#[derive(Debug)]
pub(crate) struct Pacer {
    schedule: Schedule,
    end: Option<Instant>,
    left: u64,
    late_after: Duration,
    lag_max: Duration,
    late: u64,
    stalled: Duration,
}

impl Pacer {
    pub(crate) fn new(traffic: &Traffic, start: Instant) -> Self {
        Self {
            schedule: traffic.schedule(start),
            end: traffic.end(start),
            left: traffic.planned_max(),
            late_after: traffic.gap().max(LATE_LAG_MIN),
            lag_max: Duration::ZERO,
            late: 0,
            stalled: Duration::ZERO,
        }
    }

    /// Returns the next departure; a due one counts as taken.
    ///
    /// After a stall the rest of the schedule shifts by the time beyond the catch-up limit, in one step of any length.
    /// A test limited by time then sends less; one limited by data takes longer.
    pub(crate) fn take(&mut self, now: Instant) -> Departure {
        let deadline = self.schedule.deadline() + self.stalled;
        if self.left == 0 || self.end.is_some_and(|e| deadline >= e) {
            return Departure::None;
        }
        if deadline > now {
            return Departure::At(deadline);
        }
        self.stalled += now.saturating_since(deadline).saturating_sub(CATCH_UP_MAX);
        self.schedule.advance();
        self.left -= 1;
        Departure::Due(deadline)
    }

    /// Records that the datagram of `deadline` left at `now`.
    pub(crate) fn handle_sent(&mut self, deadline: Instant, now: Instant) {
        let lag = now.saturating_since(deadline);
        self.lag_max = self.lag_max.max(lag);
        self.late += u64::from(lag > self.late_after);
    }

    /// Maximum lag of a departure.
    pub(crate) fn lag_max(&self) -> Duration {
        self.lag_max
    }

    /// Number of departures more than one gap, and more than 100 us, behind schedule.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Total shift of the schedule because this host stalled.
    pub(crate) fn stalled(&self) -> Duration {
        self.stalled
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::tests::plan;
    use super::*;
    use results::{TestPlan, Transport};

    const MS: u64 = 1_000_000;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(5_000 * MS + us * 1000)
    }

    fn pacer(plan: &TestPlan) -> Pacer {
        Pacer::new(&Traffic::new(plan, 0), at(0))
    }

    /// Sends all due datagrams at each wake-up; returns the number of departures of each wake-up.
    fn run(p: &mut Pacer, wakes_us: impl IntoIterator<Item = u64>) -> Vec<usize> {
        let mut counts = Vec::new();
        for us in wakes_us {
            let mut n = 0;
            while let Departure::Due(deadline) = p.take(at(us)) {
                p.handle_sent(deadline, at(us));
                n += 1;
            }
            counts.push(n);
        }
        counts
    }

    #[test]
    fn a_constant_stream_sends_exactly_at_its_rate() {
        let mut p = pacer(&plan(Transport::UdpConstant, 8_000_000, 1000));
        let counts = run(&mut p, (0..1_000).map(|ms| ms * 1000));
        assert!(counts.iter().all(|n| *n == 1));
        assert_eq!(p.take(at(2_000_000)), Departure::None);
        assert_eq!((p.late(), p.lag_max(), p.stalled()), (0, Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn a_poisson_stream_has_gaps_of_all_lengths() {
        let mut p = pacer(&plan(Transport::UdpPoisson, 8_000_000, 1000));
        let counts = run(&mut p, (0..=1_000).map(|ms| ms * 1000));
        let sum: usize = counts.iter().sum();
        // Mean 1000, standard deviation 32; 1/e of the 1000 ms are empty.
        assert!((850..1150).contains(&sum), "{sum}");
        let empty = counts.iter().filter(|n| **n == 0).count();
        assert!((300..440).contains(&empty), "{empty}");
        assert!(counts.iter().any(|n| *n >= 3));
    }

    #[test]
    fn short_stalls_are_made_up_and_long_ones_are_not() {
        let mut p = pacer(&plan(Transport::UdpConstant, 8_000_000, 1000));
        assert_eq!(run(&mut p, [0, 5_000]), [1, 5], "a lag of 5 ms: all five in a burst");
        // After 300 ms, 11 of 300 departures are made up (10 ms and the one due now), the others are omitted.
        assert_eq!(run(&mut p, [305_000, 306_000]), [11, 1]);
        assert_eq!(p.stalled(), Duration::from_millis(289));
        // Lags of more than a gap: 4, 3, 2 ms; then 299 ms and 9 to 2 ms.
        assert_eq!((p.lag_max(), p.late()), (Duration::from_millis(299), 3 + 1 + 8));
        let rest: usize = run(&mut p, (307..1_000).map(|ms| ms * 1000)).iter().sum();
        assert_eq!(1 + 5 + 11 + 1 + rest, 1000 - 289);
    }

    #[test]
    fn a_suspension_of_an_hour_is_skipped_in_one_step() {
        let mut p =
            pacer(&TestPlan { duration_ns: Some(7_200_000 * MS), ..plan(Transport::UdpConstant, 10_000_000_000, 24) });
        let hour = at(3_600_000_000);
        let due = std::iter::from_fn(|| Some(p.take(hour))).take_while(|d| matches!(d, Departure::Due(_))).count();
        // 10 ms of 19.2 ns gaps.
        assert!((520_000..=520_900).contains(&due), "{due}");
    }

    #[test]
    fn a_data_amount_ends_a_stream_without_a_duration() {
        let p = TestPlan { duration_ns: None, bytes: Some(2_500), ..plan(Transport::UdpConstant, 8_000_000, 1000) };
        let mut p = pacer(&p);
        assert_eq!(run(&mut p, [0, 1_000, 50_000, 60_000]), [1, 1, 1, 0]);
        assert_eq!(p.take(at(90_000)), Departure::None);
    }
}
