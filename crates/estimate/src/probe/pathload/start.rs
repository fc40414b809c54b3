//! Trains before the search, which measure the rate at which a burst leaves the path.

use units::Duration;

use super::parameters::BATCHED_SHARE;
use crate::probe::{Interval, Train, TrainObservation};
use crate::samples::mean;

/// Packets of the trains, one after the other until one loses none; each has one additional packet in front (1.3.2).
const PACKETS: [u32; 5] = [50, 35, 20, 5, 3];

/// Maximum time for which the backlog of a train is allowed to drain, whatever the far end reports.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// The trains of the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Start {
    sent: usize,
    /// Rate of the train without loss in b/s.
    whole: Option<f64>,
    /// Rates of the other trains in b/s.
    partial: Vec<f64>,
    /// Whether packets arrived in batches.
    pub(super) is_batched: bool,
    /// Whether any packet arrived.
    pub(super) any_arrived: bool,
    /// Duration of the last train at the receiver, limited to [`DRAIN_MAX`].
    pub(super) drain: Duration,
}

impl Start {
    /// The next train, as fast as the sender can; `None` after the last.
    pub(super) fn next(&mut self, bytes: u32) -> Option<Train> {
        let packets = PACKETS.get(self.sent).filter(|_| self.whole.is_none())?;
        self.sent += 1;
        Some(Train::spaced(packets + 1, bytes, Duration::ZERO))
    }

    pub(super) fn observe(&mut self, observation: &TrainObservation, batch_gap: Duration) {
        self.any_arrived |= observation.packets.iter().any(|p| p.received.is_some());
        // The first packet is delayed by hosts and caches that were idle.
        let rest = TrainObservation { packets: observation.packets.iter().skip(1).copied().collect() };
        // If the queue holds two packets, only the first and the second arrive.
        let Some(seen) = rest.dispersion().or_else(|| observation.dispersion()) else { return };
        self.drain = seen.received.min(DRAIN_MAX);
        let bps = seen.received_rate().as_bps() as f64;
        if bps <= 0.0 {
            return;
        }
        let gaps = rest.gaps();
        let close = gaps.iter().filter(|g| g.received <= batch_gap).count();
        self.is_batched |= close as f64 > BATCHED_SHARE * gaps.len().max(1) as f64;
        let lost = observation.lost() + observation.reordered() > 0 || observation.sent() < observation.packets.len();
        if lost { self.partial.push(bps) } else { self.whole = Some(bps) }
    }

    /// The rate in b/s: of the train without loss, or the mean of the others.
    pub(super) fn bps(&self) -> Option<f64> {
        self.whole.or_else(|| mean(self.partial.iter().copied()))
    }

    /// The rate with an interval from the slowest to the fastest train that counts.
    pub(super) fn interval(&self) -> Option<Interval> {
        let value = self.bps()?;
        let counted = || self.partial.iter().copied().filter(|_| self.whole.is_none());
        let (low, high) = (counted().fold(value, f64::min), counted().fold(value, f64::max));
        Some(Interval::from_bps(value, low, high))
    }
}
