//! The steps of a method with packet trains.

use estimate::probe::{Bounds, Method, Outcome, PROBE_BYTES_MIN, Run, Step, Train};
use results::estimate::Caveat;
use units::{Bytes, Instant};

use super::train::{Ended, Kind, PEER_TIMEOUT};
use super::{Estimator, Stage};

/// State of a running method.
#[derive(Debug)]
pub(super) struct Progress {
    bounds: Bounds,
    start: Instant,
    packets: u64,
    bytes: u64,
}

impl Progress {
    pub(super) fn new(start: Instant, bounds: Bounds) -> Self {
        Self { bounds, start, packets: 0, bytes: 0 }
    }

    fn run(&self, now: Instant, outcome: Outcome, error: Option<String>) -> Run {
        let elapsed = now.saturating_since(self.start);
        Run { outcome, packets: self.packets, bytes: Bytes::new(self.bytes), elapsed, error }
    }
}

impl Estimator {
    /// Takes the next step of the present method.
    pub(super) fn step(&mut self, now: Instant) {
        let Some((method, progress)) = &mut self.method else { return };
        let (train, pause) = match method.next() {
            Step::Send { train, pause } => (train, pause),
            Step::Done(outcome) => {
                self.end_method(now, Some(outcome), None);
                return;
            }
        };
        let cost = cost(&train);
        let end = now.saturating_since(progress.start).saturating_add(pause).saturating_add(train.span());
        let over_session = (self.session.0 + cost > self.session.1).then_some(Caveat::BudgetSpent);
        match over_session.or_else(|| progress.bounds.exceeded(progress.bytes, cost, end)) {
            Some(caveat) => self.end_method(now, None, Some((caveat, None))),
            None => {
                self.stage = Stage::Pausing(train, now.max(self.last_train_end + pause));
                // A train without a pause leaves now.
                if pause.is_zero() {
                    self.send_train(now);
                }
            }
        }
    }

    /// Sends the train whose pause has ended.
    pub(super) fn send_train(&mut self, now: Instant) {
        let Stage::Pausing(train, _) = std::mem::replace(&mut self.stage, Stage::Waiting) else { return };
        let kind = match (train.is_echoed(), self.call.reverse) {
            (true, _) => Kind::Echoed,
            (false, true) => Kind::Down,
            (false, false) => Kind::Up,
        };
        let cost = cost(&train);
        self.session.0 += cost;
        if let Some((_, progress)) = &mut self.method {
            progress.bytes += cost;
            progress.packets += train.departures().len() as u64 * if train.is_echoed() { 2 } else { 1 };
        }
        self.stage = Stage::Probing(Box::new(self.run_train(now, kind, train)));
    }

    /// Passes the result of a train to the method.
    pub(super) fn handle_train(&mut self, now: Instant, ended: Ended) {
        self.last_train_end = now;
        match ended {
            Ended::Observed(observation) => {
                self.longest_gap = self.longest_gap.max(observation.longest_added_gap());
                if let Some((method, _)) = &mut self.method {
                    method.observe(&observation);
                }
                self.step(now);
            }
            Ended::Silent => {
                let error = format!("the server sent nothing for {} s while it was probed", PEER_TIMEOUT.as_secs());
                self.end_method(now, None, Some((Caveat::NoAnswer, Some(error))));
            }
        }
    }

    /// Ends the present method, with its outcome or for a reason.
    fn end_method(&mut self, now: Instant, outcome: Option<Outcome>, reason: Option<(Caveat, Option<String>)>) {
        let Some((method, progress)) = self.method.take() else { return };
        let (caveat, error) = reason.map_or((None, None), |(caveat, error)| (Some(caveat), error));
        let outcome = outcome.unwrap_or_else(|| method.so_far()).with_caveats(caveat);
        let result = method.result(&progress.run(now, outcome, error));
        self.conclude(now, result);
    }
}

/// Bytes of a train with headers, echoes included.
fn cost(train: &Train) -> u64 {
    let once: u64 = train.departures().iter().map(|d| u64::from(d.bytes.max(PROBE_BYTES_MIN))).sum();
    if train.is_echoed() { once * 2 } else { once }
}
