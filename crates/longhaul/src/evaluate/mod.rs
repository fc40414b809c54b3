//! `longhaul evaluate`: accuracy of estimates on emulated paths, and of choices between paths based on them.

pub(crate) mod cli;
mod directory;
mod estimates;
mod join;
mod probes;
mod tables;
#[cfg(test)]
mod tests;
mod truth;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use estimate::evaluation::Bootstrap;
use results::evaluate::{EVALUATE_SCHEMA, Ensemble, EvaluateRecord, EvaluateStart, MeasuredPath};
use scenario::{Scenario, Transport};

use crate::output::{json_line, output_name, write_evaluation_page};
use crate::record_file::RecordFile;
use crate::standard_output::standard_output;
use crate::target::{check_distinct, check_not_input};
use crate::whole_file::WholeFile;
use cli::EvaluateOptions;
use directory::{FILES, ResultDirectory};
use join::{Caller, Joined, Transfer, join};
use tables::Tables;

pub(crate) fn run(options: &EvaluateOptions) -> anyhow::Result<ExitCode> {
    check_outputs(options)?;
    // An output that cannot be written fails before the work starts.
    let place = options.report.as_deref().map(WholeFile::open).transpose()?;
    let mut groups: Vec<Group> = Vec::new();
    for path in &options.directories {
        let directory = ResultDirectory::open(path)?;
        let name = directory.name();
        match groups.last_mut().filter(|_| options.together) {
            Some(group) => {
                group.head.ensemble += &format!(" + {name}");
                group.add(&directory, options)?;
            }
            None => {
                let mut group = Group::new(name, directory.experiment.about.clone());
                group.add(&directory, options)?;
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

/// Refuses outputs that would replace each other or the records that are read.
fn check_outputs(options: &EvaluateOptions) -> anyhow::Result<()> {
    let outputs = [("--json", options.json.as_deref()), ("--report", options.report.as_deref())];
    check_distinct(&outputs)?;
    let inputs: Vec<PathBuf> = options.directories.iter().flat_map(|d| FILES.map(|file| d.join(file))).collect();
    let check = |output| check_not_input(output, inputs.iter().map(PathBuf::as_path));
    outputs.into_iter().filter_map(|(_, path)| path).try_for_each(check)
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
            Box::new(BufWriter::new(standard_output()))
        } else {
            Box::new(BufWriter::new(RecordFile::open(path)?))
        };
        records
            .iter()
            .try_for_each(|record| json_line(&mut out, record))
            .and_then(|()| out.flush())
            .with_context(|| format!("cannot write {}", output_name(path)))?;
    }
    if !to_stdout {
        report::evaluate::write_evaluation(records, &mut standard_output())?;
    }
    Ok(())
}

/// Runs that are evaluated together.
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

    /// Adds the runs of a result directory.
    fn add(&mut self, directory: &ResultDirectory, options: &EvaluateOptions) -> anyhow::Result<()> {
        let name = directory.name();
        for run in &directory.runs {
            let scenario = directory.scenario(&run.start)?;
            let transfer = transfer(scenario, &options.transfer).with_context(|| name.clone())?;
            let mut calls = Vec::new();
            let estimates = scenario.estimates.iter().map(|e| (Caller::from(e), &e.name));
            for (caller, name) in estimates.chain(scenario.programs.iter().map(|p| (Caller::from(p), &p.name))) {
                calls.push((caller, probes::read(&directory.output(run.start.run, name))?));
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

    /// Returns all records of the ensemble; an error with the reasons if no run can be evaluated.
    fn records(mut self, options: &EvaluateOptions) -> anyhow::Result<Vec<EvaluateRecord>> {
        if self.paths.is_empty() {
            bail!("{}", no_run_error(&self.head));
        }
        let Self { head, paths } = &mut self;
        let tables = Tables::new(&head.ensemble, paths);
        let spread = tables.spread();
        let bootstrap = Bootstrap { resamples: options.resamples, seed: options.seed };
        let accuracy = tables.accuracy().into_iter().map(EvaluateRecord::Accuracy);
        let decisions = tables.decisions(bootstrap).into_iter().map(EvaluateRecord::Decisions);
        let agreement = tables.agreement().into_iter().map(EvaluateRecord::Agreement);
        let evaluated: Vec<EvaluateRecord> = accuracy.chain(decisions).chain(agreement).collect();
        self.head.paths = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        self.head.centre_bps = spread.map(|s| s.0);
        self.head.sigma_ln = spread.map(|s| s.1);
        let head = std::iter::once(EvaluateRecord::Ensemble(self.head));
        Ok(head.chain(self.paths.into_iter().map(EvaluateRecord::Path)).chain(evaluated).collect())
    }
}

/// Finds the flow of this name and its path.
fn transfer<'a>(scenario: &'a Scenario, name: &str) -> anyhow::Result<Transfer<'a>> {
    let tcp = || scenario.flows.iter().filter(|f| f.transport == Transport::Tcp);
    let Some(flow) = tcp().find(|f| f.name == name) else {
        let known = tcp().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has: {known}") };
        bail!("the experiment has no TCP flow `{name}` ({known}); select one with --transfer");
    };
    let path = truth::Path::of(scenario, flow.from, flow.to).context("the transfer has no path")?;
    Ok(Transfer { scenario, flow, path })
}

fn no_run_error(head: &Ensemble) -> String {
    let reasons = [
        (head.invalid, "not valid (--include-invalid includes them)"),
        (head.unfinished, "interrupted"),
        (head.without_transfer, "without a throughput of the transfer"),
        (head.without_estimates, "without records of `longhaul estimate --json` for the path of the transfer"),
    ];
    let reasons: String =
        reasons.iter().filter(|(n, _)| *n > 0).map(|(n, reason)| format!(", {reason}: {n}")).collect();
    format!("{} has no run to evaluate; runs in total: {}{reasons}", head.ensemble, head.runs)
}
