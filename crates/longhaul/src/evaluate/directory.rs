//! Result directory of `longhaul lab run`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use results::LabReader;
use results::lab::{LabEngine, LabExperiment, LabRecord, LabRun, LabRunEnd, LinkInterval};
use scenario::{Experiment, Options, Scenario};

use crate::input::{read_referenced, read_text};
use crate::output::warn_of_gaps;

/// Records of the runs.
const RECORDS: &str = "records.jsonl";
/// Copy of the experiment file.
const EXPERIMENT: &str = "experiment.toml";
/// Files of a result directory that are read.
pub(super) const FILES: [&str; 2] = [RECORDS, EXPERIMENT];

/// Contents of a result directory that evaluation needs.
pub(super) struct ResultDirectory {
    pub(super) path: PathBuf,
    pub(super) experiment: LabExperiment,
    /// Experiment file as it was run, with one scenario per sweep point.
    pub(super) file: Experiment,
    pub(super) runs: Vec<Run>,
}

/// Records of one run.
pub(super) struct Run {
    pub(super) start: LabRun,
    pub(super) usage: Usage,
    /// End of the run; absent if the run was interrupted.
    pub(super) end: Option<LabRunEnd>,
}

/// Utilisation of each link direction over time, by link name and name of the transmitting node.
#[derive(Debug, Default)]
pub(super) struct Usage(BTreeMap<(String, String), Vec<Used>>);

/// Utilisation of one link direction in one interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    /// Used share of the capacity.
    pub(super) share: f64,
}

impl Usage {
    pub(super) fn add(&mut self, interval: LinkInterval) {
        // A link without a rate limit, or one that is down, has no utilisation.
        let link = interval.statistics;
        let Some(share) = link.utilisation else { return };
        let used = Used { start_s: interval.start_s, end_s: interval.end_s, share };
        self.0.entry((link.link, link.from)).or_default().push(used);
    }

    pub(super) fn of(&self, link: &str, from: &str) -> &[Used] {
        self.0.get(&(link.to_owned(), from.to_owned())).map_or(&[], Vec::as_slice)
    }
}

impl ResultDirectory {
    /// Reads the records and the copy of the experiment file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let records = path.join(RECORDS);
        if !path.is_dir() || !records.is_file() {
            bail!("{name} is not a result directory (no records.jsonl); `longhaul lab run FILE -o {name}` writes one");
        }
        let (experiment, runs) = read(&records)?;
        let file = read_file(path, &experiment)?;
        Ok(Self { path: path.to_owned(), experiment, file, runs })
    }

    /// Last component of the path, the name of the ensemble.
    pub(super) fn name(&self) -> String {
        let whole = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        whole.file_name().map_or_else(|| whole.display().to_string(), |n| n.to_string_lossy().into_owned())
    }

    /// Scenario of a run; an error if the experiment file has changed since the run.
    pub(super) fn scenario(&self, run: &LabRun) -> anyhow::Result<&Scenario> {
        let scenario = self.file.scenarios.get(run.point as usize);
        let values: Vec<(String, String)> = run.values.iter().map(|v| (v.key.clone(), v.value.clone())).collect();
        let same = |s: &&Scenario| s.point == values;
        scenario.filter(same).with_context(|| {
            format!(
                "{}/experiment.toml has changed since the experiment: run {} has other values",
                self.path.display(),
                run.run
            )
        })
    }

    /// File with the output of a program in a run.
    pub(super) fn output(&self, run: u32, program: &str) -> PathBuf {
        self.path.join(format!("run-{run}")).join(format!("{program}.out"))
    }
}

fn read(path: &Path) -> anyhow::Result<(LabExperiment, Vec<Run>)> {
    let name = || path.display().to_string();
    let source = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut reader = LabReader::new(BufReader::new(source));
    let (mut experiment, mut runs) = (None, Vec::new());
    for record in reader.by_ref() {
        let last = runs.last_mut();
        match (record.with_context(name)?, last) {
            (LabRecord::Experiment(e), _) => experiment = Some(e),
            (LabRecord::Run(start), _) => runs.push(Run { start, usage: Usage::default(), end: None }),
            (LabRecord::Link(interval), Some(run)) => run.usage.add(interval),
            (LabRecord::RunEnd(end), Some(run)) => run.end = Some(end),
            (
                LabRecord::Link(_)
                | LabRecord::RunEnd(_)
                | LabRecord::Flow(_)
                | LabRecord::Transfer(_)
                | LabRecord::Engine(_)
                | LabRecord::Summary(_),
                _,
            ) => {}
        }
    }
    warn_of_gaps(&reader, &path.display().to_string());
    let experiment: LabExperiment =
        experiment.with_context(|| format!("{} has no experiment record; its beginning is missing", path.display()))?;
    if experiment.engine == LabEngine::Simulator {
        // The records of estimates count the time of a simulated run from 1970 on.
        runs.iter_mut().filter_map(|run| run.end.as_mut()).for_each(|end| end.start_utc_s = Some(0.0));
    }
    Ok((experiment, runs))
}

/// Reads the copy of the experiment file and applies the overrides of the command line.
fn read_file(directory: &Path, experiment: &LabExperiment) -> anyhow::Result<Experiment> {
    let path = directory.join(EXPERIMENT);
    let text = read_text(&path)?;
    let overrides = experiment.overrides.iter().map(|o| (o.key.clone(), o.value.clone())).collect();
    let options = Options { overrides, variant: experiment.variant.clone(), repeat: None };
    Ok(scenario::read(&path, &text, &options, &read_referenced)?)
}
