//! Receivers whose timestamps differ from the arrival times.

use std::time::Duration;

use estimate::probe::{Method, Outcome, Step, TrainObservation};

/// A method that receives the observations of such a receiver.
pub(crate) struct ThroughReceiver<M, F>(pub(crate) M, pub(crate) F);

impl<M: Method, F: FnMut(&mut TrainObservation)> Method for ThroughReceiver<M, F> {
    fn next(&mut self) -> Step {
        self.0.next()
    }
    fn observe(&mut self, observation: &TrainObservation) {
        let mut observation = observation.clone();
        self.1(&mut observation);
        self.0.observe(&observation);
    }
    fn so_far(&self) -> Outcome {
        self.0.so_far()
    }
}

/// Delays each packet by up to this time, in order, as between virtual hosts with occasional late wake-ups.
pub(crate) fn late_wakes(delay_max: Duration, seed: u64) -> impl FnMut(&mut TrainObservation) {
    let mut packet = 0;
    move |observation| {
        let mut last = None;
        for p in &mut observation.packets {
            packet += 1;
            p.received = p.received.map(|at| at + delay_max.mul_f64(estimate::draw(seed, packet))).max(last);
            last = p.received;
        }
    }
}
