use units::Duration;

use super::{Outcome, Train, TrainObservation};

/// Prior knowledge of a path before it is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Minimum round-trip time.
    pub round_trip: Duration,
    /// Path MTU: the largest IP packet that is not fragmented, in bytes.
    pub mtu: u32,
    /// Minimum gap between packets that the sender can keep.
    pub gap_min: Duration,
    /// Seed of the random choices.
    pub seed: u64,
}

impl Path {
    /// Maximum rate in b/s of full-size packets with the sender's minimum gap.
    pub(crate) fn fastest(&self) -> f64 {
        f64::from(self.mtu) * 8e9 / (self.gap_min.as_nanos().max(1) as f64)
    }
}

/// Next action of a method.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send this train, at the earliest `pause` after the last packet of the previous train, and report the
    /// observation.
    Send {
        /// The packets.
        train: Train,
        /// Minimum time without packets before the train.
        pause: Duration,
    },
    /// The method has ended with this outcome.
    Done(Outcome),
}

/// A method that probes a path.
///
/// Calls of [`next`](Self::next) and [`observe`](Self::observe) alternate until [`Step::Done`], which every further
/// call of `next` returns again.
pub trait Method {
    /// Returns the next action.
    fn next(&mut self) -> Step;

    /// Takes the observation of the train that `next` requested.
    fn observe(&mut self, observation: &TrainObservation);

    /// The outcome of the observations so far, if the budget is spent or the far end no longer responds.
    fn so_far(&self) -> Outcome;
}
