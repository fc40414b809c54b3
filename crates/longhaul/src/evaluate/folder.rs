//! A result folder of `longhaul lab run`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use results::LabReader;
use results::lab::{LabExperiment, LabRecord, LabRun, LabRunEnd, LinkInterval};
use scenario::{Experiment, Options, Scenario};

use crate::output::say_what_is_lacking;

/// What evaluation needs of a result folder.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) experiment: LabExperiment,
    /// The experiment file as it was run, a scenario for each point.
    pub(super) file: Experiment,
    pub(super) runs: Vec<Run>,
}

/// One run.
pub(super) struct Run {
    pub(super) start: LabRun,
    pub(super) usage: Usage,
    /// Absent when it was broken off.
    pub(super) end: Option<LabRunEnd>,
}

/// How much of each direction of a link was used, by the name of the link and of the node that sends into it.
#[derive(Debug, Default)]
pub(super) struct Usage(BTreeMap<(String, String), Vec<Used>>);

/// Use of one direction in one interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub(super) begin_s: f64,
    pub(super) end_s: f64,
    /// Share of the capacity.
    pub(super) share: f64,
}

impl Usage {
    pub(super) fn add(&mut self, interval: LinkInterval) {
        // Nothing is used or left of a link without a bound, or one that is down.
        let Some(share) = interval.utilisation else { return };
        let used = Used { begin_s: interval.begin_s, end_s: interval.end_s, share };
        self.0.entry((interval.link, interval.from)).or_default().push(used);
    }

    pub(super) fn of(&self, link: &str, from: &str) -> &[Used] {
        self.0.get(&(link.to_owned(), from.to_owned())).map_or(&[], Vec::as_slice)
    }
}

impl Folder {
    /// Reads the records and the copy of the experiment file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let records = path.join("records.jsonl");
        if !path.is_dir() || !records.is_file() {
            bail!("{name} is no result folder: `longhaul lab run FILE -o {name}` writes one, with records.jsonl in it");
        }
        let (experiment, runs) = read(&records)?;
        let file = read_file(path, &experiment)?;
        Ok(Self { path: path.to_owned(), experiment, file, runs })
    }

    /// Its last part, which tells it from others.
    pub(super) fn name(&self) -> String {
        let whole = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        whole.file_name().map_or_else(|| whole.display().to_string(), |n| n.to_string_lossy().into_owned())
    }

    /// The scenario of a run; an error when the file has changed since.
    pub(super) fn scenario(&self, run: &LabRun) -> anyhow::Result<&Scenario> {
        let scenario = self.file.scenarios.get(run.point as usize);
        let values: Vec<(String, String)> = run.values.iter().map(|v| (v.key.clone(), v.value.clone())).collect();
        let same = |s: &&Scenario| s.point == values;
        scenario.filter(same).with_context(|| {
            format!("{}/experiment.toml is not what was run: run {} has other values", self.path.display(), run.run)
        })
    }

    /// What a program of a run wrote.
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
    say_what_is_lacking(&reader, &path.display().to_string());
    let experiment = experiment.with_context(|| format!("{} is cut at its beginning", path.display()))?;
    Ok((experiment, runs))
}

/// The copy of the experiment file with what the command line changed.
fn read_file(folder: &Path, experiment: &LabExperiment) -> anyhow::Result<Experiment> {
    let path = folder.join("experiment.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let overrides = experiment.overrides.iter().map(|o| (o.key.clone(), o.value.clone())).collect();
    let options = Options { overrides, variant: experiment.variant.clone(), repeat: None };
    Ok(scenario::read(&path, &text, &options, &|path| std::fs::read_to_string(path).map_err(|e| e.to_string()))?)
}
