//! Records of an emulated experiment, sorted for display.

use std::collections::BTreeMap;

use results::DelaySummary;
use results::lab::{
    EngineInterval, FlowInterval, LabEngine, LabExperiment, LabRecord, LabRun, LabRunEnd, LabSummary, LinkInterval,
    PointSummary, Transfer, Verdict,
};

use super::data::RunData;
use super::format::point_label;
use crate::summary::finite;

/// Error of records that are not one experiment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The experiment record is missing.
    #[error("no experiment record: the beginning of the file is missing, or it is not an emulated experiment")]
    NoExperiment,
    /// The records belong to several experiments, whose run numbers collide.
    #[error("records of several experiments; split the file, each experiment starts with its experiment record")]
    SeveralExperiments,
    /// Two runs have the same number.
    #[error("run {0} starts twice; the file holds parts of several experiments")]
    RunTwice(u32),
}

/// Maximum number of runs whose intervals are kept for charts.
pub(super) const CHARTED_MAX: usize = 40;

/// Records of one experiment, prepared for a report.
///
/// A missing summary or end of a run marks the experiment as unfinished.
#[derive(Debug)]
pub struct LabReport {
    pub(super) experiment: LabExperiment,
    pub(super) runs: Vec<RunRecords>,
    pub(super) summary: Option<LabSummary>,
    /// Number of records without a running run.
    pub(super) strays: u64,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkKey {
    pub(super) link: String,
    pub(super) from: String,
    pub(super) to: String,
}

/// One run: start, end, and data of its charts.
#[derive(Debug)]
pub(super) struct RunRecords {
    pub(super) start: LabRun,
    pub(super) end: Option<LabRunEnd>,
    /// Scheduling policies of the emulator's threads, each once.
    pub(super) scheduling: Vec<String>,
    /// Absent if there are too many runs to draw.
    pub(super) charts: Option<RunData>,
}

/// Records during a run.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    pub(super) links: BTreeMap<LinkKey, Vec<LinkInterval>>,
    pub(super) flows: BTreeMap<String, Vec<FlowInterval>>,
    pub(super) transfers: BTreeMap<String, Vec<Transfer>>,
    pub(super) engine: Vec<EngineInterval>,
}

/// Verdict on the experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExperimentVerdict {
    Valid,
    Invalid(Vec<String>),
    /// Incomplete, without an invalid run so far.
    Unfinished,
}

impl LabReport {
    /// Sorts the records of one experiment.
    ///
    /// # Errors
    /// See [`LabError`].
    pub fn from_records(records: impl IntoIterator<Item = LabRecord>) -> Result<Self, LabError> {
        Self::try_from_records(records.into_iter().map(Ok))
    }

    /// Sorts the records of one experiment as they are read, such as from [`results::LabReader`].
    ///
    /// Only the current run is held in full, so that the intervals of all runs and links need not fit into memory.
    ///
    /// # Errors
    /// Errors of the source, and [`LabError`].
    pub fn try_from_records<E: From<LabError>>(
        records: impl IntoIterator<Item = Result<LabRecord, E>>,
    ) -> Result<Self, E> {
        let mut sorter = Sorter::default();
        for record in records {
            sorter.add(record?)?;
        }
        Ok(sorter.finish()?)
    }

    /// Name of the experiment.
    pub fn name(&self) -> &str {
        &self.experiment.name
    }

    /// What ran the experiment.
    pub fn engine(&self) -> LabEngine {
        self.experiment.engine
    }

    /// Means at each point of the sweep; none if the experiment is unfinished.
    pub(super) fn points(&self) -> &[PointSummary] {
        self.summary.as_ref().map_or(&[], |s| &s.points)
    }

    pub(super) fn standing(&self) -> ExperimentVerdict {
        let mut reasons = match self.summary.as_ref().map(|s| &s.verdict) {
            Some(Verdict::Invalid { reasons }) => reasons.clone(),
            Some(Verdict::Valid) | None => Vec::new(),
        };
        // A valid verdict in the summary does not override an invalid one of a run.
        if reasons.is_empty() {
            reasons.extend(
                self.final_runs().flat_map(|r| {
                    r.reasons().iter().map(|why| format!("run {}: {why}", r.start.run)).collect::<Vec<_>>()
                }),
            );
        }
        let said_invalid = matches!(self.summary.as_ref().map(|s| &s.verdict), Some(Verdict::Invalid { .. }))
            || self.final_runs().any(|r| r.is_valid() == Some(false));
        if said_invalid {
            return ExperimentVerdict::Invalid(reasons);
        }
        let is_whole = self.summary.is_some() && self.runs.iter().any(|r| r.end.is_some());
        if is_whole { ExperimentVerdict::Valid } else { ExperimentVerdict::Unfinished }
    }

    /// Runs that were not replaced by a further attempt.
    fn final_runs(&self) -> impl Iterator<Item = &RunRecords> {
        let mut last: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for start in self.runs.iter().map(|r| &r.start) {
            let attempt = last.entry((start.point, start.repetition)).or_default();
            *attempt = start.attempt.max(*attempt);
        }
        self.runs.iter().filter(move |r| last.get(&(r.start.point, r.start.repetition)) == Some(&r.start.attempt))
    }

    /// Number of planned runs.
    pub(super) fn planned_runs(&self) -> u64 {
        self.experiment.planned_runs()
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.summary.as_ref().is_some_and(|s| s.interrupted)
            || self.runs.iter().any(|r| r.end.as_ref().is_some_and(|e| e.interrupted))
    }

    /// Means over the repetitions of a point.
    pub(super) fn point(&self, point: u32) -> Option<&PointSummary> {
        self.summary.as_ref()?.points.iter().find(|p| p.point == point)
    }

    /// The run in one line: number, point, repetition.
    pub(super) fn run_label(&self, run: &RunRecords) -> String {
        let mut parts = vec![format!("run {}", run.start.run)];
        if !run.start.values.is_empty() {
            parts.push(point_label(&run.start.values));
        }
        if self.experiment.repetitions > 1 {
            parts.push(format!("repetition {} of {}", run.start.repetition + 1, self.experiment.repetitions));
        }
        if run.start.attempt > 0 {
            parts.push(format!("attempt {}", run.start.attempt + 1));
        }
        parts.join(" \u{b7} ")
    }
}

/// Builds a report from a stream of records.
#[derive(Debug, Default)]
struct Sorter {
    experiment: Option<LabExperiment>,
    runs: BTreeMap<u32, RunRecords>,
    /// Intervals of the running runs.
    open: BTreeMap<u32, Intervals>,
    summary: Option<LabSummary>,
    strays: u64,
}

impl Sorter {
    fn add(&mut self, record: LabRecord) -> Result<(), LabError> {
        match record {
            LabRecord::Experiment(_) if self.experiment.is_some() => return Err(LabError::SeveralExperiments),
            LabRecord::Experiment(e) => self.experiment = Some(e),
            LabRecord::Run(start) => {
                let number = start.run;
                self.open.insert(number, Intervals::default());
                if self
                    .runs
                    .insert(number, RunRecords { start, end: None, scheduling: Vec::new(), charts: None })
                    .is_some()
                {
                    return Err(LabError::RunTwice(number));
                }
            }
            LabRecord::Link(i) => self.interval(i.run, |open| open.link(i)),
            LabRecord::Flow(i) => self.interval(i.run, |open| open.flow(i)),
            LabRecord::Transfer(t) => {
                self.interval(t.run, |open| open.transfers.entry(t.flow.clone()).or_default().push(t));
            }
            LabRecord::Engine(i) => self.interval(i.run, |open| open.engine(i)),
            LabRecord::RunEnd(end) => self.end(end),
            LabRecord::Summary(s) => self.summary = Some(s),
        }
        Ok(())
    }

    fn interval(&mut self, run: u32, add: impl FnOnce(&mut Intervals)) {
        match self.open.get_mut(&run) {
            Some(open) => add(open),
            None => self.strays += 1,
        }
    }

    fn end(&mut self, end: LabRunEnd) {
        let number = end.run;
        match (self.open.remove(&number), self.runs.get_mut(&number)) {
            (Some(intervals), Some(run)) => {
                run.end = Some(end);
                self.chart(number, &intervals);
            }
            _ => self.strays += 1,
        }
    }

    /// Keeps the chart data of a run. With too many runs, the last repetitions are dropped first, so that each point
    /// keeps one.
    fn chart(&mut self, number: u32, intervals: &Intervals) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        for i in intervals.engine.iter().filter(|i| !i.scheduling.is_empty()) {
            if !run.scheduling.contains(&i.scheduling) {
                run.scheduling.push(i.scheduling.clone());
            }
        }
        let route_changes = run.end.as_ref().map_or(&[][..], |e| &e.route_changes);
        run.charts = Some(RunData::new(&run.start, intervals, route_changes));
        let charted = || self.runs.values().filter(|r| r.charts.is_some());
        if charted().count() > CHARTED_MAX {
            let last = charted().max_by_key(|r| r.rank()).map(|r| r.start.run);
            if let Some(run) = last.and_then(|n| self.runs.get_mut(&n)) {
                run.charts = None;
            }
        }
    }

    fn finish(mut self) -> Result<LabReport, LabError> {
        for (number, intervals) in core::mem::take(&mut self.open) {
            self.chart(number, &intervals);
        }
        let experiment = self.experiment.ok_or(LabError::NoExperiment)?;
        let runs = self.runs.into_values().collect();
        Ok(LabReport { experiment, runs, summary: self.summary, strays: self.strays })
    }
}

/// Drops the histograms, which no chart of the lab uses and which need most of the memory.
fn slim(summaries: &mut [&mut Option<DelaySummary>]) {
    for summary in summaries.iter_mut().filter_map(|s| s.as_mut()) {
        summary.histogram = String::new();
    }
}

impl Intervals {
    fn link(&mut self, mut i: LinkInterval) {
        let s = &mut i.statistics;
        slim(&mut [&mut s.wait, &mut s.lateness]);
        let key = LinkKey { link: s.link.clone(), from: s.from.clone(), to: s.to.clone() };
        self.links.entry(key).or_default().push(i);
    }

    fn flow(&mut self, mut i: FlowInterval) {
        slim(&mut [&mut i.block_rtt]);
        self.flows.entry(i.flow.clone()).or_default().push(i);
    }

    fn engine(&mut self, mut i: EngineInterval) {
        slim(&mut [&mut i.lateness, &mut i.arrival_uncertainty]);
        self.engine.push(i);
    }

    /// Last second that any interval covers.
    pub(super) fn end_s(&self) -> f64 {
        let links = self.links.values().flatten().map(|i| i.end_s);
        let flows = self.flows.values().flatten().map(|i| i.end_s);
        let engine = self.engine.iter().map(|i| i.end_s);
        links.chain(flows).chain(engine).map(finite).fold(0.0, f64::max)
    }
}

impl RunRecords {
    /// Sort key that selects one run of each point before a second one of any.
    pub(super) const fn rank(&self) -> (u32, u32, u32) {
        (self.start.repetition, self.start.point, self.start.run)
    }

    /// `None` while the run has no end.
    pub(super) fn is_valid(&self) -> Option<bool> {
        self.end.as_ref().map(|e| e.verdict == Verdict::Valid)
    }

    /// Reasons why the run is not valid.
    pub(super) fn reasons(&self) -> &[String] {
        match self.end.as_ref().map(|e| &e.verdict) {
            Some(Verdict::Invalid { reasons }) => reasons,
            Some(Verdict::Valid) | None => &[],
        }
    }

    /// State `valid`, `invalid` or `unfinished`, and whether it is `valid`.
    pub(super) fn state(&self) -> (&'static str, bool) {
        match self.is_valid() {
            Some(true) if self.end.as_ref().is_some_and(|e| e.interrupted) => ("interrupted", false),
            Some(true) => ("valid", true),
            Some(false) => ("invalid", false),
            None => ("unfinished", false),
        }
    }
}
