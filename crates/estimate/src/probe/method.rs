use units::Duration;

use super::{Outcome, Train, TrainObservation};

/// What is known of a path before it is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Smallest round trip seen.
    pub round_trip: Duration,
    /// Largest IP packet that passes in one piece, in bytes.
    pub mtu: u32,
    /// Smallest distance at which the sender can send packets apart.
    pub least_gap: Duration,
    /// What random choices follow from.
    pub seed: u64,
}

impl Path {
    /// Rate in b/s of packets of full size as fast as the sender can send them apart.
    pub(crate) fn fastest(&self) -> f64 {
        f64::from(self.mtu) * 8e9 / (self.least_gap.as_nanos().max(1) as f64)
    }
}

/// What a method wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send this train, at the earliest `pause` after the last packet of the one before, and tell how it passed.
    Send {
        /// The packets.
        train: Train,
        /// Time without packets before.
        pause: Duration,
    },
    /// The end.
    Done(Outcome),
}

/// A way to probe a path.
///
/// [`next`](Self::next) and [`observe`](Self::observe) take turns until [`Step::Done`], which then is the answer to every
/// further question.
pub trait Method {
    /// What to do now.
    fn next(&mut self) -> Step;

    /// How the train passed for which `next` asked.
    fn observe(&mut self, passage: &TrainObservation);

    /// What can be said already, should no more be allowed: the budget is spent, or the far end is gone.
    fn so_far(&self) -> Outcome;
}
