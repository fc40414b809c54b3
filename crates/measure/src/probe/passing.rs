//! Whether another flow passes the probes: fair queueing on the path, or priorities.
//!
//! Right behind the last packet of a train a message leaves on the session's own connection, which is a flow of its own. In one queue for all it waits
//! for the train; where flows take turns it does not. The train itself cannot tell: its packets come as over an idle link of the rate of one share.

use std::time::Duration;

use estimate::probe::Passage;
use units::Instant;
use wire::ClockPong;

/// A shorter queue says nothing: hosts that are busy add half as much.
const LEAST_QUEUE: Duration = Duration::from_millis(5);

/// Trains that must have made such a queue, and the share of them that was passed.
const LEAST_TRAINS: u32 = 3;
const MOST_OF: f64 = 0.8;

/// Shorter trains are not followed by a message.
pub(super) const LEAST_PACKETS: usize = 10;

/// Trains that made a queue, and those of them that were passed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passing {
    trains: u32,
    passed: u32,
}

impl Passing {
    /// A message left at `asked` right behind a train, and waited so long.
    pub(super) fn note(&mut self, passage: &Passage, asked: Instant, waited: Duration) {
        let Some(queue) = queue_at(passage, asked).filter(|q| *q >= LEAST_QUEUE) else { return };
        self.trains += 1;
        self.passed += u32::from(waited < queue / 2);
    }

    /// Whether the trains since then were passed.
    pub(super) fn is_fair_queueing_since(self, before: Self) -> bool {
        let (trains, passed) = (self.trains - before.trains, self.passed - before.passed);
        trains >= LEAST_TRAINS && f64::from(passed) >= MOST_OF * f64::from(trains)
    }
}

/// What is left at this time of the queue that the last packet of a train found.
fn queue_at(passage: &Passage, asked: Instant) -> Option<Duration> {
    let delays = passage.packets.iter().filter_map(|p| Some(p.received?.nanos_since(p.sent?)));
    let last = passage.packets.last()?;
    let found = last.received?.nanos_since(last.sent?) - delays.min()?;
    Some(Duration::from_nanos(u64::try_from(found).ok()?).saturating_sub(asked.saturating_since(last.sent?)))
}

/// How much longer a message was under way than it is on an idle path, without the time that it spent at the far end.
pub(super) fn waited(pong: &ClockPong, received: Instant, round_trip: Duration) -> Duration {
    let away = received.saturating_since(Instant::from_nanos(pong.t1));
    away.saturating_sub(Duration::from_nanos(pong.t3.saturating_sub(pong.t2))).saturating_sub(round_trip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use estimate::probe::Fate;

    /// Fifteen packets at once, which a link of this distance between packets lets through one after the other.
    fn train(distance_ms: u64) -> Passage {
        let at = |ms| Some(Instant::from_nanos((5 + ms) * 1_000_000));
        let fate = |i| Fate { bytes: 1500, sent: at(0), received: at(1000 + i * distance_ms) };
        Passage { packets: (0..15).map(fate).collect() }
    }

    fn told(distance_ms: u64, waited_ms: u64, times: u32) -> bool {
        let mut passing = Passing::default();
        let asked = Instant::from_nanos(5_000_000);
        (0..times).for_each(|_| passing.note(&train(distance_ms), asked, Duration::from_millis(waited_ms)));
        passing.is_fair_queueing_since(Passing::default())
    }

    #[test]
    fn who_does_not_wait_behind_a_train_has_a_queue_of_his_own() {
        // 14 packets wait 28 ms in all.
        assert!(told(2, 1, 3) && told(2, 13, 3));
        assert!(!told(2, 28, 3) && !told(2, 40, 3), "one queue for all");
        assert!(!told(2, 1, 2), "twice may be chance");
        assert!(!told(0, 0, 9), "no queue");
    }

    #[test]
    fn a_message_that_leaves_late_finds_less_of_the_queue() {
        let asked = Instant::from_nanos(5_000_000 + 20_000_000);
        assert_eq!(queue_at(&train(2), asked), Some(Duration::from_millis(8)));
    }

    #[test]
    fn the_time_at_the_far_end_is_none_of_the_path() {
        let pong = ClockPong { id: 1, t1: 1_000_000, t2: 500, t3: 2_000_500 };
        let received = Instant::from_nanos(15_000_000);
        assert_eq!(waited(&pong, received, Duration::from_millis(10)), Duration::from_millis(2));
    }
}
