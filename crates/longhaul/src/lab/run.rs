//! `longhaul lab run`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use kernel::Shutdown;
use lab::Selection;
use report::lab::{LabProgress, LabText};
use results::lab::{LabEngine, LabRecord, Verdict};
use scenario::Experiment;
use units::Instant;

use super::cli::{PointList, RunOptions};
use super::{NEGATIVE_RESULT, gain_privilege, own_program, plan, read_experiment, virtual_time};
use crate::input::read_text;
use crate::named::Named;
use crate::output::{CLEAR_LINE, is_terminal, json_line, print_message, read_lab, write_lab_page};
use crate::standard_output::{StandardOutput, standard_output};

pub(crate) fn run(options: &RunOptions) -> anyhow::Result<ExitCode> {
    let experiment = read_experiment(&options.file, &options.set, options.variant.as_deref(), options.repeat)?;
    if options.dry_run {
        plan::show(&experiment, &mut standard_output())?;
        return Ok(ExitCode::SUCCESS);
    }
    let points = options.points.as_ref().map(|list| selected(list, experiment.scenarios.len())).transpose()?;
    let selection = Selection { points, shard: options.shard };
    if options.list {
        plan::list(&experiment, &selection, options.json, &mut standard_output())?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = experiment.scenarios.first().map_or("experiment", |s| s.name.as_str());
    let directory = options.out.clone().unwrap_or_else(|| lab::default_directory(name));
    if options.is_virtual {
        if let Some(control) = lab::control_that_needs_bpf(&experiment.scenarios) {
            bail!(
                "{}: the congestion control {control} is a BPF program, which the guest kernel cannot load; run the \
                 experiment without --virtual",
                options.file.display()
            );
        }
        return virtual_time::run(None, &[directory], std::slice::from_ref(&options.file));
    }
    let privilege = match options.is_simulated {
        true => prepare_simulation(&experiment, &options.file)?,
        false => gain_privilege()?.to_string(),
    };
    let records = create_directory(&directory)?;
    fs::copy(&options.file, directory.join("experiment.toml")).context("cannot copy the experiment file")?;
    let lab_options = lab::Options {
        program: own_program()?,
        directory: directory.clone(),
        overrides: options.set.clone(),
        privilege,
        engine: engine(options.is_simulated, virtual_time::is_guest()),
        workers: options.workers.map(usize::from),
        attempts: options.attempts,
        selection,
    };
    let mut sink = Sink::new(&records)?;
    let mut observe = |record: &LabRecord| sink.take(record);
    let outcome = if options.is_simulated {
        let jobs = options.jobs.map_or_else(kernel::cpus, usize::from);
        lab::run_simulated(&experiment, &lab_options, jobs, &mut observe, &Shutdown::requests)
    } else {
        lab::run_experiment(&experiment, &lab_options, &mut observe, &Shutdown::requests)
    };
    sink.finish()?;
    // The page is also written after a failure, from the records so far.
    let page = write_page(&records, &directory, name);
    let summary = outcome?;
    print_message(&format!("report: {}\nrecords: {}", page?.display(), records.display()));
    let valid = summary.verdict == Verdict::Valid;
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(NEGATIVE_RESULT) })
}

/// The numbers of a list, all of them below the number of points.
fn selected(list: &PointList, count: usize) -> anyhow::Result<BTreeSet<u32>> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    if let Some(range) = list.0.iter().find(|range| *range.end() >= count) {
        bail!(
            "--points: there is no point {}; the experiment has the points 0 to {}",
            range.end(),
            count.saturating_sub(1)
        );
    }
    Ok(list.0.iter().cloned().flatten().collect())
}

const fn engine(is_simulated: bool, is_guest: bool) -> LabEngine {
    match (is_simulated, is_guest) {
        (true, _) => LabEngine::Simulator,
        (false, true) => LabEngine::VirtualKernel,
        (false, false) => LabEngine::Kernel,
    }
}

/// Checks that the simulator has all parts of the experiment. Returns the privilege that it needs, for the records.
fn prepare_simulation(experiment: &Experiment, file: &Path) -> anyhow::Result<String> {
    let text = read_text(file)?;
    lab::check_simulated(experiment, &text).map_err(|problems| anyhow::anyhow!(problems.annotated()))?;
    Shutdown::install().context("cannot handle signals")?;
    Ok("none needed".to_owned())
}

/// Creates the directory and returns the path of the records; fails if the directory holds results of another
/// experiment.
pub(super) fn create_directory(directory: &Path) -> anyhow::Result<PathBuf> {
    let records = directory.join("records.jsonl");
    if records.exists() {
        bail!("{} holds the results of another experiment; select another directory with --out", directory.display());
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot create the directory {}", directory.display()))?;
    Ok(records)
}

/// Outputs of the records: the file and the terminal.
pub(super) struct Sink {
    file: Named<BufWriter<File>>,
    text: LabText<StandardOutput>,
    progress: Option<LabProgress>,
    start: Instant,
    failure: Option<io::Error>,
}

impl Sink {
    pub(super) fn new(records: &Path) -> anyhow::Result<Self> {
        let file = File::create(records).with_context(|| format!("cannot write {}", records.display()))?;
        Ok(Self {
            file: Named::new(records.display().to_string(), BufWriter::new(file)),
            text: LabText::new(standard_output()),
            progress: is_terminal(&io::stderr()).then(LabProgress::new),
            start: kernel::now(),
            failure: None,
        })
    }

    pub(super) fn take(&mut self, record: &LabRecord) {
        let shown = self.write(record).and_then(|()| self.show(record));
        if let Err(e) = shown {
            self.failure.get_or_insert(e);
        }
    }

    fn write(&mut self, record: &LabRecord) -> io::Result<()> {
        json_line(&mut self.file, record)?;
        // Flush at every interval, so that a crash loses at most one.
        if matches!(record, LabRecord::Engine(_) | LabRecord::RunEnd(_)) {
            self.file.flush()?;
        }
        Ok(())
    }

    fn show(&mut self, record: &LabRecord) -> io::Result<()> {
        let Some(progress) = &mut self.progress else { return self.text.record(record) };
        progress.record(record, kernel::now().saturating_since(self.start));
        match record {
            LabRecord::Run(_) | LabRecord::Engine(_) => {
                write!(io::stderr(), "{CLEAR_LINE}{}", progress.line(terminal_width()))?;
                self.text.record(record)
            }
            LabRecord::Link(_) | LabRecord::Flow(_) | LabRecord::Transfer(_) => Ok(()),
            LabRecord::Experiment(_) | LabRecord::RunEnd(_) | LabRecord::Summary(_) => {
                write!(io::stderr(), "{CLEAR_LINE}")?;
                self.text.record(record)
            }
        }
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        if self.progress.is_some() {
            write!(io::stderr(), "{CLEAR_LINE}")?;
        }
        self.file.flush()?;
        match self.failure {
            // Standard error shows the progress; its end is no fault of the experiment.
            Some(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
            _ => Ok(()),
        }
    }
}

/// Number of columns of the terminal [default: 80].
fn terminal_width() -> usize {
    report::terminal_columns().unwrap_or(80)
}

pub(super) fn write_page(records: &Path, directory: &Path, title: &str) -> anyhow::Result<PathBuf> {
    let file = File::open(records).with_context(|| format!("cannot read {}", records.display()))?;
    let report = read_lab(BufReader::new(file), &records.display().to_string())?;
    let page = directory.join("report.html");
    write_lab_page(&page, &report, title)?;
    Ok(page)
}
