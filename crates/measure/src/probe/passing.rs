//! Whether another flow passes the probes: fair queueing on the path, or priorities.
//!
//! Right behind the last packet of a train a message leaves on the session's own connection, which is a flow of its own. In one queue for all it comes
//! behind the train, whatever hosts add to its delay; where flows take turns it comes before. The train itself cannot tell: its packets come as over an
//! idle link of the rate of one share.

use std::time::Duration;

use estimate::probe::TrainObservation;
use units::Instant;

/// A shorter queue says nothing: whoever reads a message adds tenths of a millisecond to its delay, the kernel's stamps of packets have none of that.
const QUEUE_MIN: Duration = Duration::from_millis(1);

/// Trains that must have made such a queue, and the share of them that was passed.
const TRAINS_MIN: u32 = 3;
const OF_MAX: f64 = 0.8;

/// Shorter trains say nothing, nor are they followed by a message.
pub(super) const PACKETS_MIN: usize = 10;

/// Trains that made a queue, and those of them that were passed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passing {
    trains: u32,
    passed: u32,
}

impl Passing {
    /// A message left right behind the last packet of a train, and came at `came` by the clock that tells when the packets did.
    pub(super) fn note(&mut self, passage: &TrainObservation, came: Instant) {
        let Some((queue, arrived)) = end(passage).filter(|(queue, _)| *queue >= QUEUE_MIN) else { return };
        self.trains += 1;
        self.passed += u32::from(arrived.saturating_since(came) > queue / 2);
    }

    /// Whether the trains since then were passed.
    pub(super) fn is_fair_queueing_since(self, before: Self) -> bool {
        let (trains, passed) = (self.trains - before.trains, self.passed - before.passed);
        trains >= TRAINS_MIN && f64::from(passed) >= OF_MAX * f64::from(trains)
    }
}

/// For how long the last packet of a train waited in a queue, and when it came.
fn end(passage: &TrainObservation) -> Option<(Duration, Instant)> {
    let last = passage.packets.last().filter(|_| passage.packets.len() >= PACKETS_MIN)?;
    let delays = passage.packets.iter().filter_map(|p| Some(p.received?.nanos_since(p.sent?)));
    let waited = last.received?.nanos_since(last.sent?) - delays.min()?;
    Some((Duration::from_nanos(u64::try_from(waited).ok()?), last.received?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use estimate::probe::PacketOutcome;

    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// So many packets at once, which a link of 2 ms a packet lets through one after the other; the clocks are a second apart.
    fn train(packets: u64) -> TrainObservation {
        let fate = |i| PacketOutcome { bytes: 1500, sent: Some(at(5)), received: Some(at(1000 + 2 * i)) };
        TrainObservation { packets: (0..packets).map(fate).collect() }
    }

    fn told(passage: &TrainObservation, came_ms: u64, times: u32) -> bool {
        let mut passing = Passing::default();
        (0..times).for_each(|_| passing.note(passage, at(came_ms)));
        passing.is_fair_queueing_since(Passing::default())
    }

    #[test]
    fn who_comes_before_the_end_of_a_train_has_a_queue_of_his_own() {
        // The last of fifteen comes at 1028 ms, and has waited for 28.
        assert!(told(&train(15), 1001, 3) && told(&train(15), 1013, 3));
        assert!(!told(&train(15), 1028, 3) && !told(&train(15), 1040, 3), "one queue for all");
        assert!(!told(&train(15), 1015, 3), "left late, or was read late");
        assert!(!told(&train(15), 1001, 2), "twice may be chance");
        assert!(!told(&train(9), 1001, 3), "too short");
    }

    #[test]
    fn a_train_that_made_no_queue_says_nothing() {
        let fate = |i: u64| PacketOutcome { bytes: 1500, sent: Some(at(2 * i)), received: Some(at(1000 + 2 * i)) };
        assert!(!told(&TrainObservation { packets: (0..15).map(fate).collect() }, 1001, 9));
        let lost = PacketOutcome { received: None, ..fate(0) };
        assert!(!told(&TrainObservation { packets: vec![lost; 15] }, 1001, 9));
    }

    #[test]
    fn four_in_five_must_have_been_passed() {
        let mut passing = Passing::default();
        (0..3).for_each(|_| passing.note(&train(15), at(1001)));
        let before = passing;
        [1001, 1001, 1001, 1030].into_iter().for_each(|ms| passing.note(&train(15), at(ms)));
        assert!(passing.is_fair_queueing_since(Passing::default()), "six of seven");
        assert!(!passing.is_fair_queueing_since(before), "three of four");
    }
}
