//! Data that a test collects at the client from both ends.

use std::collections::BTreeMap;
use std::time::Duration;

use estimate::{ClockEstimator, ClockModel};
use results::{Completion, Direction, IntervalRecord, Limit, LoadStart, Memory, PathMtu};
use units::{Bytes, Instant, Rate};
use wire::{EndSide, Finished};

use super::clock::Idle;

/// Data of one test.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(super) clock: ClockEstimator,
    /// Clock models and the time since which each was in use.
    pub(super) models: Vec<(Instant, ClockModel)>,
    pub(super) before: Idle,
    pub(super) during: u64,
    pub(super) after: Idle,
    pub(super) best: BTreeMap<Direction, Rate>,
    /// Time for which each factor was the limit, in seconds.
    pub(super) limits: BTreeMap<Direction, BTreeMap<Limit, f64>>,
    pub(super) local: Option<(Vec<EndSide>, Vec<String>)>,
    pub(super) remote: Option<Finished>,
    pub(super) failure: Option<String>,
    /// Reason why a stream ended early while the test continued.
    pub(super) broken: Option<String>,
    pub(super) stopped: bool,
    /// Start of the load.
    pub(super) load_start: Option<LoadStart>,
    pub(super) memory: Memory,
    /// Path MTU black hole, and the directions in which full-size segments were lost.
    pub(super) path_mtu: Option<(PathMtu, Vec<Direction>)>,
}

impl Gathered {
    pub(super) fn new() -> Self {
        Self {
            clock: ClockEstimator::new(),
            models: Vec::new(),
            before: Idle::default(),
            during: 0,
            after: Idle::default(),
            best: BTreeMap::new(),
            limits: BTreeMap::new(),
            local: None,
            remote: None,
            failure: None,
            broken: None,
            stopped: false,
            load_start: None,
            memory: Memory::default(),
            path_mtu: None,
        }
    }

    /// Creates the data of a test without a control connection (thrulay), whose clocks are not compared.
    pub(crate) fn without_control(baseline: Option<Duration>, best: Rate, local: EndSide, remote: EndSide) -> Self {
        Self {
            before: Idle { answered: 0, rtt: baseline },
            best: [(local.direction, best)].into(),
            local: Some((vec![local], Vec::new())),
            remote: Some(Finished { directions: vec![remote], ..Finished::default() }),
            ..Self::new()
        }
    }

    /// Sets the outcome and the warnings of the test.
    pub(crate) fn ended(self, failure: Option<String>, stopped: bool, warnings: Vec<String>, memory: Memory) -> Self {
        let local = self.local.map(|(sides, before)| (sides, [before, warnings].concat()));
        Self { failure, stopped, memory, local, ..self }
    }

    /// Classifies an interval of a sender against the link rate given by the user, and adds its length to the limit's
    /// time.
    pub(super) fn judge(&mut self, record: &mut IntervalRecord, link: Option<Rate>) {
        let Some(verdict) = &mut record.limit else { return };
        let socket = record.streams.iter().find_map(|s| s.tcp.as_ref());
        if let Some((link, tcp)) = link.zip(socket) {
            let frame = Bytes::new(tcp.pmtu_bytes) + estimate::rfc6349::ETHERNET_FRAMING;
            let (rate, payload) = (Rate::from_bps(record.throughput_bps), Bytes::new(tcp.mss_bytes));
            if let Some(full) = estimate::full_link(rate, link, payload, frame, verdict) {
                *verdict = full;
            }
        }
        let seconds = (record.end_s - record.start_s).clamp(0.0, 1e9);
        *self.limits.entry(record.direction).or_default().entry(verdict.limit).or_default() += seconds;
    }

    /// Outcome of the test.
    pub(super) fn completion(&self) -> Completion {
        match self.failure.as_ref().or(self.broken.as_ref()) {
            Some(reason) if !self.stopped => Completion::Failed { reason: reason.clone() },
            _ if self.stopped => Completion::Interrupted,
            _ => Completion::Complete,
        }
    }
}
