//! The records of an emulated experiment, sorted for display.

use std::collections::BTreeMap;

use results::DelaySummary;
use results::lab::{
    EngineInterval, FlowInterval, LabExperiment, LabRecord, LabRun, LabRunEnd, LabSummary, LinkInterval, PointSummary,
    Transfer, Verdict,
};

use super::words::point_label;
use crate::summary::finite;

/// Records that do not make an experiment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Nothing says what the numbers mean.
    #[error("no experiment record: the file is cut at its beginning, or is not of an emulated experiment")]
    NoExperiment,
    /// Several experiments number their runs alike.
    #[error("records of several experiments; split the file, each experiment begins with its experiment record")]
    SeveralExperiments,
    /// Two runs in one cannot be told apart.
    #[error("run {0} begins twice; the file holds parts of several experiments")]
    RunTwice(u32),
}

/// The records of one experiment, ready for a report.
///
/// Whatever is missing at the end (a summary, the end of a run) marks the experiment as unfinished.
#[derive(Debug)]
pub struct LabReport {
    pub(super) experiment: LabExperiment,
    pub(super) runs: Vec<RunRecords>,
    pub(super) summary: Option<LabSummary>,
    /// Records of runs that did not begin.
    pub(super) strays: u64,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkKey {
    pub(super) link: String,
    pub(super) from: String,
    pub(super) to: String,
}

/// One run: its begin, what was recorded while it ran, its end.
#[derive(Debug)]
pub(super) struct RunRecords {
    pub(super) start: LabRun,
    pub(super) links: BTreeMap<LinkKey, Vec<LinkInterval>>,
    pub(super) flows: BTreeMap<String, Vec<FlowInterval>>,
    pub(super) transfers: BTreeMap<String, Vec<Transfer>>,
    pub(super) engine: Vec<EngineInterval>,
    pub(super) end: Option<LabRunEnd>,
}

/// Whether to believe the experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    Valid,
    Invalid(Vec<String>),
    /// Nothing was found wrong so far, which is not the same as valid.
    Unfinished,
}

impl LabReport {
    /// Sorts the records of one experiment.
    ///
    /// # Errors
    /// See [`LabError`].
    pub fn from_records(records: impl IntoIterator<Item = LabRecord>) -> Result<Self, LabError> {
        let (mut experiment, mut summary, mut strays) = (None, None, 0_u64);
        let mut runs: BTreeMap<u32, RunRecords> = BTreeMap::new();
        for record in records {
            match record {
                LabRecord::Experiment(_) if experiment.is_some() => return Err(LabError::SeveralExperiments),
                LabRecord::Experiment(e) => experiment = Some(e),
                LabRecord::Run(r) => {
                    let number = r.run;
                    if runs.insert(number, RunRecords::new(r)).is_some() {
                        return Err(LabError::RunTwice(number));
                    }
                }
                LabRecord::Summary(s) => summary = Some(s),
                other @ (LabRecord::Link(_)
                | LabRecord::Flow(_)
                | LabRecord::Transfer(_)
                | LabRecord::Engine(_)
                | LabRecord::RunEnd(_)) => match run_of(&other).and_then(|n| runs.get_mut(&n)) {
                    Some(run) => run.add(other),
                    None => strays += 1,
                },
            }
        }
        let experiment = experiment.ok_or(LabError::NoExperiment)?;
        Ok(Self { experiment, runs: runs.into_values().collect(), summary, strays })
    }

    pub(super) fn standing(&self) -> Standing {
        let mut reasons = match self.summary.as_ref().map(|s| &s.verdict) {
            Some(Verdict::Invalid { because }) => because.clone(),
            Some(Verdict::Valid) | None => Vec::new(),
        };
        // A summary that calls valid what a run called invalid does not overrule it.
        if reasons.is_empty() {
            reasons.extend(
                self.runs.iter().flat_map(|r| {
                    r.reasons().iter().map(|why| format!("run {}: {why}", r.start.run)).collect::<Vec<_>>()
                }),
            );
        }
        let said_invalid = matches!(self.summary.as_ref().map(|s| &s.verdict), Some(Verdict::Invalid { .. }))
            || self.runs.iter().any(|r| r.is_valid() == Some(false));
        if said_invalid {
            return Standing::Invalid(reasons);
        }
        let is_whole = self.summary.is_some() && self.runs.iter().any(|r| r.end.is_some());
        if is_whole { Standing::Valid } else { Standing::Unfinished }
    }

    /// Number of runs that the experiment was to make.
    pub(super) fn planned_runs(&self) -> u64 {
        u64::from(self.experiment.points) * u64::from(self.experiment.repetitions)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.summary.as_ref().is_some_and(|s| s.interrupted)
            || self.runs.iter().any(|r| r.end.as_ref().is_some_and(|e| e.interrupted))
    }

    /// The means over the repetitions of a point.
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
        parts.join(" \u{b7} ")
    }
}

const fn run_of(record: &LabRecord) -> Option<u32> {
    match record {
        LabRecord::Link(r) => Some(r.run),
        LabRecord::Flow(r) => Some(r.run),
        LabRecord::Transfer(r) => Some(r.run),
        LabRecord::Engine(r) => Some(r.run),
        LabRecord::RunEnd(r) => Some(r.run),
        LabRecord::Run(_) | LabRecord::Experiment(_) | LabRecord::Summary(_) => None,
    }
}

/// No chart of the lab is made of histograms, and they are most of a long experiment's memory.
fn slim(summaries: &mut [&mut Option<DelaySummary>]) {
    for summary in summaries.iter_mut().filter_map(|s| s.as_mut()) {
        summary.histogram = String::new();
    }
}

impl RunRecords {
    fn new(start: LabRun) -> Self {
        Self {
            start,
            links: BTreeMap::new(),
            flows: BTreeMap::new(),
            transfers: BTreeMap::new(),
            engine: Vec::new(),
            end: None,
        }
    }

    fn add(&mut self, record: LabRecord) {
        match record {
            LabRecord::Link(mut i) => {
                slim(&mut [&mut i.wait, &mut i.lateness]);
                let key = LinkKey { link: i.link.clone(), from: i.from.clone(), to: i.to.clone() };
                self.links.entry(key).or_default().push(i);
            }
            LabRecord::Flow(mut i) => {
                slim(&mut [&mut i.block_rtt]);
                self.flows.entry(i.flow.clone()).or_default().push(i);
            }
            LabRecord::Transfer(t) => self.transfers.entry(t.flow.clone()).or_default().push(t),
            LabRecord::Engine(mut i) => {
                slim(&mut [&mut i.lateness, &mut i.arrival_uncertainty]);
                self.engine.push(i);
            }
            LabRecord::RunEnd(e) => self.end = Some(e),
            LabRecord::Run(_) | LabRecord::Experiment(_) | LabRecord::Summary(_) => {}
        }
    }

    /// `None` while the run has no end.
    pub(super) fn is_valid(&self) -> Option<bool> {
        self.end.as_ref().map(|e| e.verdict == Verdict::Valid)
    }

    /// Why the run is not valid.
    pub(super) fn reasons(&self) -> &[String] {
        match self.end.as_ref().map(|e| &e.verdict) {
            Some(Verdict::Invalid { because }) => because,
            Some(Verdict::Valid) | None => &[],
        }
    }

    /// `valid`, `invalid` or `unfinished`, and whether that is good.
    pub(super) fn state(&self) -> (&'static str, bool) {
        match self.is_valid() {
            Some(true) if self.end.as_ref().is_some_and(|e| e.interrupted) => ("interrupted", false),
            Some(true) => ("valid", true),
            Some(false) => ("invalid", false),
            None => ("unfinished", false),
        }
    }

    /// Last second that any record covers, at least the planned length.
    pub(super) fn end_s(&self) -> f64 {
        let links = self.links.values().flatten().map(|i| i.end_s);
        let flows = self.flows.values().flatten().map(|i| i.end_s);
        let engine = self.engine.iter().map(|i| i.end_s);
        links.chain(flows).chain(engine).map(finite).fold(finite(self.start.duration_s), f64::max)
    }
}
