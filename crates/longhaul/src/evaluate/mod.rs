//! `longhaul evaluate`: estimates against the truth of emulated paths, and how well they choose between them.

pub(crate) mod cli;
mod folder;
mod join;
mod probes;
mod said;
mod tables;
#[cfg(test)]
mod tests;
mod truth;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use estimate::evaluation::Bootstrap;
use results::evaluate::{EVALUATE_SCHEMA, Ensemble, EvaluateRecord, EvaluateStart, MeasuredPath};
use scenario::{Scenario, Transport};

use crate::output::write_evaluation_page;
use crate::whole_file::WholeFile;
use cli::EvaluateOptions;
use folder::Folder;
use join::{Joined, Transfer, join};
use tables::Tables;

pub(crate) fn run(options: &EvaluateOptions) -> anyhow::Result<ExitCode> {
    // A place that cannot be written is told before the work.
    let place = options.report.as_deref().map(WholeFile::open).transpose()?;
    let mut groups: Vec<Group> = Vec::new();
    for path in &options.folders {
        let folder = Folder::open(path)?;
        let name = folder.name();
        match groups.last_mut().filter(|_| options.together) {
            Some(group) => {
                group.head.ensemble += &format!(" + {name}");
                group.add(&folder, options)?;
            }
            None => {
                let mut group = Group::new(name, folder.experiment.about.clone());
                group.add(&folder, options)?;
                groups.push(group);
            }
        }
    }
    let mut records = vec![EvaluateRecord::Start(start(options))];
    for group in groups {
        records.extend(group.records(options)?);
    }
    write(options, &records)?;
    if let Some(place) = place {
        write_evaluation_page(place, &records, "longhaul evaluate")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn start(options: &EvaluateOptions) -> EvaluateStart {
    EvaluateStart {
        schema: EVALUATE_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        transfer: options.transfer.clone(),
        include_invalid: options.include_invalid,
        resamples: options.resamples,
        seed: options.seed,
    }
}

fn write(options: &EvaluateOptions, records: &[EvaluateRecord]) -> anyhow::Result<()> {
    let to_stdout = options.json.as_deref().is_some_and(|p| p == Path::new("-"));
    if let Some(path) = &options.json {
        let mut out: Box<dyn Write> = if to_stdout {
            Box::new(BufWriter::new(io::stdout()))
        } else {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Box::new(BufWriter::new(file))
        };
        for record in records {
            serde_json::to_writer(&mut out, record)?;
            out.write_all(b"\n")?;
        }
        out.flush().with_context(|| format!("cannot write {}", path.display()))?;
    }
    if !to_stdout {
        report::evaluate::write_evaluation(records, &mut io::stdout())?;
    }
    Ok(())
}

/// Runs that are judged together.
struct Group {
    head: Ensemble,
    paths: Vec<MeasuredPath>,
}

impl Group {
    fn new(name: String, about: String) -> Self {
        let head = Ensemble {
            ensemble: name,
            about,
            runs: 0,
            invalid: 0,
            unfinished: 0,
            without_transfer: 0,
            without_estimates: 0,
            overlapping: 0,
            paths: 0,
            centre_bps: None,
            sigma_ln: None,
        };
        Self { head, paths: Vec::new() }
    }

    /// Joins the runs of a folder.
    fn add(&mut self, folder: &Folder, options: &EvaluateOptions) -> anyhow::Result<()> {
        let name = folder.name();
        for run in &folder.runs {
            let scenario = folder.scenario(&run.start)?;
            let transfer = transfer(scenario, &options.transfer).with_context(|| name.clone())?;
            let mut calls = Vec::new();
            for program in &scenario.programs {
                calls.push((program, probes::read(&folder.output(run.start.run, &program.name))?));
            }
            self.head.runs += 1;
            match join(&name, run, &transfer, &calls, options.include_invalid) {
                Joined::Path(path, overlaps) => {
                    self.head.overlapping += u32::from(overlaps);
                    self.paths.push(*path);
                }
                Joined::Invalid => self.head.invalid += 1,
                Joined::Unfinished => self.head.unfinished += 1,
                Joined::WithoutTransfer => self.head.without_transfer += 1,
                Joined::WithoutEstimates => self.head.without_estimates += 1,
            }
        }
        Ok(())
    }

    /// All records of the ensemble; an error that says why when there is nothing to judge.
    fn records(mut self, options: &EvaluateOptions) -> anyhow::Result<Vec<EvaluateRecord>> {
        if self.paths.is_empty() {
            bail!("{}", why_nothing(&self.head));
        }
        let Self { head, paths } = &mut self;
        let tables = Tables::new(&head.ensemble, paths);
        let spread = tables.spread();
        let bootstrap = Bootstrap { resamples: options.resamples, seed: options.seed };
        let accuracy = tables.accuracy().into_iter().map(EvaluateRecord::Accuracy);
        let decisions = tables.decisions(bootstrap).into_iter().map(EvaluateRecord::Decisions);
        let agreement = tables.agreement().into_iter().map(EvaluateRecord::Agreement);
        let judged: Vec<EvaluateRecord> = accuracy.chain(decisions).chain(agreement).collect();
        self.head.paths = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        self.head.centre_bps = spread.map(|s| s.0);
        self.head.sigma_ln = spread.map(|s| s.1);
        let head = std::iter::once(EvaluateRecord::Ensemble(self.head));
        Ok(head.chain(self.paths.into_iter().map(EvaluateRecord::Path)).chain(judged).collect())
    }
}

/// The flow of this name, with the way that it takes.
fn transfer<'a>(scenario: &'a Scenario, name: &str) -> anyhow::Result<Transfer<'a>> {
    let tcp = || scenario.flows.iter().filter(|f| f.transport == Transport::Tcp);
    let Some(flow) = tcp().find(|f| f.name == name) else {
        let known = tcp().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "there is none".to_owned() } else { format!("there are: {known}") };
        bail!("the experiment has no TCP flow `{name}` ({known}); name one with --transfer");
    };
    let path = truth::Path::of(scenario, flow.from, flow.to).context("the transfer has no way")?;
    Ok(Transfer { scenario, flow, path })
}

fn why_nothing(head: &Ensemble) -> String {
    let why = [
        (head.invalid, "the machine did not carry (--include-invalid takes them)"),
        (head.unfinished, "were broken off"),
        (head.without_transfer, "have no throughput of the transfer"),
        (head.without_estimates, "have no records of `longhaul estimate --json` about the way of the transfer"),
    ];
    let why = why.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}"));
    let why = why.collect::<Vec<_>>().join(", ");
    let why = if why.is_empty() { "there is none".to_owned() } else { why };
    format!("{} has no run to judge: of {} runs {why}", head.ensemble, head.runs)
}
