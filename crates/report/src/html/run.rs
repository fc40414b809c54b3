//! One run, sorted for display: start, rows of each direction, end.

use std::collections::BTreeMap;

use results::{
    Completion, Decomposition, DelaySummary, Direction, DirectionSummary, EndRecord, Limit, Record, StartRecord,
};

use crate::pairing::{Row, all_rows};
use crate::summary;

/// Error of records that are not one run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The start record is missing.
    #[error("`{0}` has no start record: the beginning of the file is missing, or it is not a longhaul test")]
    NoStart(String),
    /// The file contains several tests.
    #[error("`{0}` has records of several tests; split the file, each test starts with its start record")]
    SeveralTests(String),
}

/// The records of one test, ready for a report.
#[derive(Debug)]
pub struct Run {
    pub(crate) name: String,
    pub(crate) start: StartRecord,
    pub(crate) tracks: Vec<Track>,
    pub(crate) end: Option<EndRecord>,
}

/// One direction of a run. Without an end record its values are computed from the intervals.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) direction: Direction,
    pub(crate) rows: Vec<Row>,
    pub(crate) summary: Option<DirectionSummary>,
    pub(crate) throughput_bps: Option<u64>,
    pub(crate) block_rtt: Option<DelaySummary>,
    pub(crate) limits: Vec<(Limit, f64)>,
    /// Whether the test failed, so that its counts cover only a part of it.
    pub(crate) failed: bool,
    stages: Option<Decomposition>,
}

impl Run {
    /// Sorts the records of one test. A missing end record marks the run as unfinished, missing intervals leave the
    /// charts empty.
    ///
    /// # Errors
    /// There is no start record, or more than one.
    pub fn from_records(name: impl Into<String>, records: Vec<Record>) -> Result<Self, RunError> {
        let name = name.into();
        let (mut start, mut end, mut intervals) = (None, None, Vec::new());
        for record in records {
            match record {
                Record::Start(_) if start.is_some() => return Err(RunError::SeveralTests(name)),
                Record::Start(s) => start = Some(s),
                Record::Interval(i) => intervals.push(i),
                Record::End(e) => end = Some(e),
            }
        }
        let Some(start) = start else { return Err(RunError::NoStart(name)) };
        let mut tracks = tracks(&start, all_rows(intervals), end.as_ref());
        if end.as_ref().is_some_and(|e| matches!(e.completion, Completion::Failed { .. })) {
            tracks.iter_mut().for_each(Track::fail);
        }
        Ok(Self { name, start, tracks, end })
    }

    /// The name, with the title that the user gave the test.
    pub(crate) fn label(&self) -> String {
        match &self.start.title {
            Some(title) if *title != self.name => format!("{title} ({})", self.name),
            _ => self.name.clone(),
        }
    }

    /// End of the run as text for a badge, and whether it completed.
    pub(crate) fn ending(&self) -> (String, bool) {
        match self.end.as_ref().map(|e| &e.completion) {
            None => ("unfinished: the file has no end record".to_owned(), false),
            Some(Completion::Complete) => ("complete".to_owned(), true),
            Some(c @ (Completion::Interrupted | Completion::Failed { .. })) => (crate::end_text::completion(c), false),
        }
    }

    /// Last second that any record covers.
    pub(crate) fn end_s(&self) -> f64 {
        let last = |t: &Track| t.rows.iter().map(|r| summary::finite(r.end_s())).fold(0.0, f64::max);
        self.tracks.iter().map(last).fold(0.0, f64::max)
    }
}

fn tracks(start: &StartRecord, mut rows: BTreeMap<Direction, Vec<Row>>, end: Option<&EndRecord>) -> Vec<Track> {
    let summaries = end.map_or(&[][..], |e| &e.directions);
    [Direction::Up, Direction::Down]
        .into_iter()
        .filter_map(|direction| {
            let rows = rows.remove(&direction);
            let summary = summaries.iter().find(|d| d.direction == direction).cloned();
            let is_planned = start.plan.directions.contains(&direction);
            (rows.is_some() || summary.is_some() || is_planned)
                .then(|| Track::new(direction, rows.unwrap_or_default(), summary))
        })
        .collect()
}

impl Track {
    fn new(direction: Direction, rows: Vec<Row>, summary: Option<DirectionSummary>) -> Self {
        let given = summary.as_ref();
        let throughput_bps = given.map(|d| d.throughput_bps).or_else(|| mean_rate(&rows));
        let block_rtt =
            given.map_or_else(|| DelaySummary::merged(rows.iter().filter_map(Row::block_rtt)), |d| d.block_rtt.clone());
        let limits = given.map(summary::limits_by_share).unwrap_or_else(|| shares(&rows));
        let stages = given.map_or_else(|| merged_stages(&rows), |d| d.decomposition.clone());
        Self { direction, rows, throughput_bps, block_rtt, limits, failed: false, stages, summary }
    }

    /// Removes goodput and RFC 6349 metrics of a failed test.
    fn fail(&mut self) {
        self.throughput_bps = None;
        self.failed = true;
        if let Some(d) = &mut self.summary {
            d.rfc6349 = None;
        }
    }

    /// Delay by stage over the whole test.
    pub(crate) const fn decomposition(&self) -> Option<&Decomposition> {
        self.stages.as_ref()
    }
}

/// Mean rate of all rows over their time.
fn mean_rate(rows: &[Row]) -> Option<u64> {
    let covered: f64 = rows.iter().map(|r| summary::finite(r.end_s() - r.start_s()).max(0.0)).sum();
    let bytes = rows.iter().fold(0_u64, |a, r| a.saturating_add(r.bytes()));
    (covered > 0.0).then(|| (bytes as f64 * 8.0 / covered) as u64)
}

/// Stages of all intervals combined.
fn merged_stages(rows: &[Row]) -> Option<Decomposition> {
    let all: Vec<Decomposition> = rows.iter().filter_map(Row::decomposition).collect();
    Decomposition::merged(&all)
}

/// Share of each limit in the intervals with a verdict.
fn shares(rows: &[Row]) -> Vec<(Limit, f64)> {
    let mut count: BTreeMap<Limit, u64> = BTreeMap::new();
    for verdict in rows.iter().filter_map(Row::limit) {
        *count.entry(verdict.limit).or_default() += 1;
    }
    let total: u64 = count.values().sum();
    let mut shares: Vec<_> = count.into_iter().map(|(l, n)| (l, n as f64 / total as f64)).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}
