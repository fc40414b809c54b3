//! State of the live view of a running test.

use std::collections::BTreeMap;

use results::{Direction, EndRecord, IntervalRecord, Record, StartRecord, Transport};

use super::history::History;
use crate::pairing::Row;
use crate::summary::finite;

/// Number of rows that wait for the other end's record; older rows are final.
const RECENT_ROWS: usize = 8;

/// The records of one test so far, in bounded memory.
#[derive(Debug, Clone)]
pub struct LiveState {
    pub(crate) start: Option<StartRecord>,
    pub(crate) lanes: BTreeMap<Direction, DirectionState>,
    pub(crate) end: Option<EndRecord>,
    pub(crate) has_colour: bool,
}

/// One direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectionState {
    pub(crate) history: History,
    recent: BTreeMap<u64, Row>,
}

impl DirectionState {
    fn record(&mut self, r: &IntervalRecord) {
        self.history.add(r);
        self.recent.entry(r.index).or_insert_with(|| Row::new(r.direction)).fill(r.clone());
        while self.recent.len() > RECENT_ROWS {
            self.recent.pop_first();
        }
    }

    /// The newest row that both ends have reported, else the newest at all.
    pub(crate) fn current(&self) -> Option<&Row> {
        let is_complete = |r: &&Row| r.sender.is_some() && r.receiver.is_some();
        self.recent.values().rev().find(is_complete).or_else(|| self.recent.values().next_back())
    }
}

impl LiveState {
    /// Creates an empty state. Without colour, series differ by their markers and stages by their shades.
    pub const fn new(has_colour: bool) -> Self {
        Self { start: None, lanes: BTreeMap::new(), end: None, has_colour }
    }

    /// Adds a record; a start record resets the state.
    pub fn record(&mut self, record: &Record) {
        match record {
            Record::Start(s) => *self = Self { start: Some(s.clone()), ..Self::new(self.has_colour) },
            Record::Interval(i) => self.lanes.entry(i.direction).or_default().record(i),
            Record::End(e) => self.end = Some(e.clone()),
        }
    }

    /// Seconds of the load so far.
    pub(crate) fn elapsed_s(&self) -> f64 {
        let last = |l: &DirectionState| l.recent.values().map(|r| finite(r.end_s())).fold(0.0, f64::max);
        self.lanes.values().map(last).fold(0.0, f64::max)
    }

    /// Completed share of the test, if its duration is known.
    pub(crate) fn progress(&self) -> Option<f64> {
        let planned_s = self.start.as_ref()?.plan.duration_ns? as f64 / 1e9;
        (planned_s > 0.0).then(|| (self.elapsed_s() / planned_s).clamp(0.0, 1.0))
    }

    pub(crate) fn is_udp(&self) -> bool {
        self.start.as_ref().is_some_and(|s| s.plan.transport != Transport::Tcp)
    }
}
