//! The trains before the search: at which rate a burst comes out of the path.

use units::Duration;

use super::parameters::BATCHED;
use crate::probe::{Interval, Train, TrainObservation};
use crate::samples::mean;

/// Packets of the trains, one after the other until one loses none; each has one more in front (1.3.2).
const PACKETS: [u32; 5] = [50, 35, 20, 5, 3];

/// Longest pause for the sake of what a train left in a queue: a far end can write what it likes.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);

/// The trains of the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Start {
    sent: usize,
    /// Rate of the train that lost nothing in b/s.
    whole: Option<f64>,
    /// Rates of the others in b/s.
    partial: Vec<f64>,
    /// Whether packets came in batches.
    pub(super) is_batched: bool,
    /// Whether any packet came.
    pub(super) came: bool,
    /// How long the last train took to come, within reason.
    pub(super) drain: Duration,
}

impl Start {
    /// The next train, as fast as the sender can; `None` after the last.
    pub(super) fn next(&mut self, bytes: u32) -> Option<Train> {
        let packets = PACKETS.get(self.sent).filter(|_| self.whole.is_none())?;
        self.sent += 1;
        Some(Train::spaced(packets + 1, bytes, Duration::ZERO))
    }

    pub(super) fn observe(&mut self, passage: &TrainObservation, together: Duration) {
        self.came |= passage.packets.iter().any(|p| p.received.is_some());
        // The first packet meets hosts and caches that were asleep.
        let rest = TrainObservation { packets: passage.packets.iter().skip(1).copied().collect() };
        // Where the queue holds two packets, what comes is the first and the second.
        let Some(seen) = rest.dispersion().or_else(|| passage.dispersion()) else { return };
        self.drain = seen.received.min(LONGEST_DRAIN);
        let bps = seen.received_rate().as_bps() as f64;
        if bps <= 0.0 {
            return;
        }
        let gaps = rest.gaps();
        let close = gaps.iter().filter(|g| g.received <= together).count();
        self.is_batched |= close as f64 > BATCHED * gaps.len().max(1) as f64;
        let lost = passage.lost() + passage.reordered() > 0 || passage.sent() < passage.packets.len();
        if lost { self.partial.push(bps) } else { self.whole = Some(bps) }
    }

    /// The rate in b/s: of the first train without loss, or the mean of the others.
    pub(super) fn bps(&self) -> Option<f64> {
        self.whole.or_else(|| mean(self.partial.iter().copied()))
    }

    /// The same, between the slowest and the fastest train that counts.
    pub(super) fn interval(&self) -> Option<Interval> {
        let value = self.bps()?;
        let counted = || self.partial.iter().copied().filter(|_| self.whole.is_none());
        let (low, high) = (counted().fold(value, f64::min), counted().fold(value, f64::max));
        Some(Interval::from_bps(value, low, high))
    }
}
