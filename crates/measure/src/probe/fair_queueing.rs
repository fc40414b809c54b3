//! Detection of fair queueing or priorities: another flow overtakes the probes.
//!
//! A ping leaves on the control connection, a flow of its own, directly after the last packet of a train. In one shared
//! queue the ping arrives after the train, whatever the hosts add to its delay. With a queue per flow it arrives
//! earlier. The times of the train alone show no difference: its packets arrive as over an idle link with the rate of
//! one share.

use std::time::Duration;

use estimate::probe::TrainObservation;
use units::Instant;

/// Minimum queueing delay of a usable train. Reading a message adds tenths of a millisecond to its delay, which the
/// kernel's packet timestamps exclude.
const QUEUEING_DELAY_MIN: Duration = Duration::from_millis(1);

/// Minimum number of trains with such a queueing delay, for a conclusion.
const TRAINS_MIN: u32 = 3;
/// Minimum share of these trains that the ping must overtake.
const OVERTAKEN_SHARE_MIN: f64 = 0.8;

/// Minimum packets of a usable train; no ping follows a shorter one.
pub(super) const PACKETS_MIN: usize = 10;

/// Counts of usable trains.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FairQueueingDetector {
    /// Trains whose last packet waited in a queue for at least 1 ms.
    trains: u32,
    /// Trains that the following ping overtook by more than half of that delay.
    overtaken: u32,
}

impl FairQueueingDetector {
    /// Records a train and the arrival time of the ping behind it, by the clock of the train's arrivals.
    pub(super) fn record(&mut self, observation: &TrainObservation, ping_at: Instant) {
        let Some((queue, arrived)) = last_packet(observation).filter(|(queue, _)| *queue >= QUEUEING_DELAY_MIN) else {
            return;
        };
        self.trains += 1;
        self.overtaken += u32::from(arrived.saturating_since(ping_at) > queue / 2);
    }

    /// Whether the trains recorded since `before` indicate fair queueing.
    pub(super) fn is_fair_queueing_since(self, before: Self) -> bool {
        let (trains, overtaken) = (self.trains - before.trains, self.overtaken - before.overtaken);
        trains >= TRAINS_MIN && f64::from(overtaken) >= OVERTAKEN_SHARE_MIN * f64::from(trains)
    }
}

/// Queueing delay and arrival time of the last packet of a train.
fn last_packet(observation: &TrainObservation) -> Option<(Duration, Instant)> {
    let last = observation.packets.last().filter(|_| observation.packets.len() >= PACKETS_MIN)?;
    let delays = observation.packets.iter().filter_map(|p| Some(p.received?.nanos_since(p.sent?)));
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

    /// A burst of packets that a link serialises in 2 ms each; the clocks of the ends differ by about 1 s.
    fn train(packets: u64) -> TrainObservation {
        let outcome = |i| PacketOutcome { bytes: 1500, sent: Some(at(5)), received: Some(at(1000 + 2 * i)) };
        TrainObservation { packets: (0..packets).map(outcome).collect() }
    }

    fn is_fair_queueing(observation: &TrainObservation, ping_ms: u64, times: u32) -> bool {
        let mut fair_queueing = FairQueueingDetector::default();
        (0..times).for_each(|_| fair_queueing.record(observation, at(ping_ms)));
        fair_queueing.is_fair_queueing_since(FairQueueingDetector::default())
    }

    #[test]
    fn a_ping_that_overtakes_the_train_indicates_fair_queueing() {
        // The last of fifteen packets arrives at 1028 ms after a queueing delay of 28 ms.
        assert!(is_fair_queueing(&train(15), 1001, 3) && is_fair_queueing(&train(15), 1013, 3));
        assert!(!is_fair_queueing(&train(15), 1028, 3) && !is_fair_queueing(&train(15), 1040, 3), "one shared queue");
        assert!(
            !is_fair_queueing(&train(15), 1015, 3),
            "a delay of less than half of the queueing delay is inconclusive"
        );
        assert!(!is_fair_queueing(&train(15), 1001, 2), "two trains are too few");
        assert!(!is_fair_queueing(&train(9), 1001, 3), "too few packets");
    }

    #[test]
    fn a_train_without_queueing_delay_is_not_counted() {
        let outcome = |i: u64| PacketOutcome { bytes: 1500, sent: Some(at(2 * i)), received: Some(at(1000 + 2 * i)) };
        assert!(!is_fair_queueing(&TrainObservation { packets: (0..15).map(outcome).collect() }, 1001, 9));
        let lost = PacketOutcome { received: None, ..outcome(0) };
        assert!(!is_fair_queueing(&TrainObservation { packets: vec![lost; 15] }, 1001, 9));
    }

    #[test]
    fn four_of_five_trains_must_be_overtaken() {
        let mut fair_queueing = FairQueueingDetector::default();
        (0..3).for_each(|_| fair_queueing.record(&train(15), at(1001)));
        let before = fair_queueing;
        [1001, 1001, 1001, 1030].into_iter().for_each(|ms| fair_queueing.record(&train(15), at(ms)));
        assert!(fair_queueing.is_fair_queueing_since(FairQueueingDetector::default()), "six of seven");
        assert!(!fair_queueing.is_fair_queueing_since(before), "three of four");
    }
}
