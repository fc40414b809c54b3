//! Receivers whose stamps are not the times at which packets came.

use std::time::Duration;

use estimate::probe::{Method, Outcome, Step, TrainObservation};

/// A method that is told of trains as such a receiver would tell.
pub(crate) struct Told<M, F>(pub(crate) M, pub(crate) F);

impl<M: Method, F: FnMut(&mut TrainObservation)> Method for Told<M, F> {
    fn next(&mut self) -> Step {
        self.0.next()
    }
    fn observe(&mut self, passage: &TrainObservation) {
        let mut passage = passage.clone();
        self.1(&mut passage);
        self.0.observe(&passage);
    }
    fn so_far(&self) -> Outcome {
        self.0.so_far()
    }
}

/// Each packet comes up to this late, in order, as between virtual hosts whose wakes are late now and then.
pub(crate) fn late(most: Duration, seed: u64) -> impl FnMut(&mut TrainObservation) {
    let mut packet = 0;
    move |passage| {
        let mut last = None;
        for p in &mut passage.packets {
            packet += 1;
            p.received = p.received.map(|at| at + most.mul_f64(estimate::draw(seed, packet))).max(last);
            last = p.received;
        }
    }
}
