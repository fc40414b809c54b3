//! `longhaul report`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, stdin};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use flate2::bufread::MultiGzDecoder;
use report::Run;
use report::lab::LabReport;
use report::trace::TraceReport;
use results::{LINE_BYTES_MAX, Record, is_lab_record, is_trace_record, without_mark};

use crate::cli::ReportOptions;
use crate::foreign;
use crate::output::{
    read_lab, read_tests, read_trace, write_lab_comparison_page, write_lab_page, write_page, write_trace_page,
};
use crate::target::check_not_input;
use crate::whole_file::WholeFile;

/// First bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Contents of a result file.
enum Loaded {
    Tests(Vec<Run>),
    Lab(Box<LabReport>),
    Trace(Box<TraceReport>),
}

pub(crate) fn run(options: &ReportOptions) -> anyhow::Result<ExitCode> {
    check_not_input(&options.output, options.files.iter().map(AsRef::as_ref))?;
    let mut runs = Vec::new();
    let mut labs: Vec<(&Path, LabReport)> = Vec::new();
    let mut test = None;
    for path in &options.files {
        match load(path)? {
            Loaded::Tests(more) => {
                runs.extend(more);
                test.get_or_insert(path);
            }
            Loaded::Lab(report) => labs.push((path, *report)),
            Loaded::Trace(report) => {
                let [_] = options.files.as_slice() else {
                    bail!("{} is a trace, which has its own page; pass it without other files", path.display());
                };
                let title = options.title.as_deref().unwrap_or("longhaul trace");
                write_trace_page(WholeFile::open(&options.output)?, &report, title)?;
                return Ok(ExitCode::SUCCESS);
            }
        }
        if let (Some((lab, _)), Some(test)) = (labs.first(), test) {
            let (lab, test) = (lab.display(), test.display());
            bail!("{lab} holds an emulated experiment and {test} a test; write a separate page for each");
        }
    }
    match labs.as_slice() {
        [] => {}
        [(_, report)] => {
            let title = options.title.as_deref().unwrap_or_else(|| report.name());
            write_lab_page(&options.output, report, title)?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {
            let title = options.title.as_deref().unwrap_or("Experiments side by side");
            let engines: BTreeSet<&str> = labs.iter().map(|(_, r)| r.engine().text()).collect();
            let is_mixed = engines.len() > 1;
            let name = |path, r: &LabReport| match is_mixed {
                true => format!("{} ({})", lab_name(path), r.engine().text()),
                false => lab_name(path),
            };
            let named: Vec<(String, LabReport)> = labs.into_iter().map(|(path, r)| (name(path, &r), r)).collect();
            write_lab_comparison_page(&options.output, &named, title)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    let title = options.title.clone().unwrap_or_else(|| "longhaul report".to_owned());
    write_page(WholeFile::open(&options.output)?, &runs, &title)?;
    Ok(ExitCode::SUCCESS)
}

/// Loads the records of an emulated experiment.
pub(crate) fn load_lab(path: &Path) -> anyhow::Result<LabReport> {
    match load(path)? {
        Loaded::Lab(report) => Ok(*report),
        Loaded::Tests(_) | Loaded::Trace(_) => bail!("{} does not hold an experiment of the lab", path.display()),
    }
}

/// Name of an experiment: that of its directory if the file is `records.jsonl`, else that of the file.
pub(crate) fn lab_name(path: &Path) -> String {
    let directory = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let stem = stem(path).unwrap_or_else(|| "experiment".to_owned());
    directory.filter(|_| stem == "records").unwrap_or(stem)
}

/// Name of a file without `.gz` and without the extension before it.
fn stem(path: &Path) -> Option<String> {
    let plain = if path.extension().is_some_and(|e| e == "gz") { path.with_extension("") } else { path.to_owned() };
    plain.file_stem().map(|s| s.to_string_lossy().into_owned())
}

fn load(path: &Path) -> anyhow::Result<Loaded> {
    if path == Path::new("-") {
        return load_compressed(stdin().lock(), path);
    }
    if path.is_dir() {
        bail!("{0} is a directory; name a file in it, such as {0}/records.jsonl", path.display());
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    load_compressed(BufReader::new(file), path)
}

/// Loads a file, also one that gzip compressed.
fn load_compressed(mut source: impl BufRead, path: &Path) -> anyhow::Result<Loaded> {
    if source.fill_buf().with_context(|| path.display().to_string())?.starts_with(&GZIP) {
        return load_from(BufReader::new(MultiGzDecoder::new(source)), path);
    }
    load_from(source, path)
}

fn load_from(mut source: impl BufRead, path: &Path) -> anyhow::Result<Loaded> {
    let name = path.display().to_string();
    if let Some(description) = foreign::recognise(source.fill_buf().with_context(|| name.clone())?) {
        bail!("{name}: {description}");
    }
    let mut first = Vec::new();
    // Standard input cannot be read twice, so the first lines are put back before the rest.
    // A line that is cut here is too long for the readers as well, which report it.
    let mut lines = source.by_ref().take(LINE_BYTES_MAX);
    while first.trim_ascii().is_empty() && lines.read_until(b'\n', &mut first).with_context(|| name.clone())? > 0 {}
    let text = without_mark(&first).trim_ascii();
    if let Some(description) = foreign::recognise_command(text) {
        bail!("{name}: {description}; `longhaul report` reads the records of test, lab and trace");
    }
    let (is_lab, is_trace) = (is_lab_record(text), is_trace_record(text));
    let whole = Cursor::new(first).chain(source);
    if is_lab {
        return Ok(Loaded::Lab(Box::new(read_lab(whole, &name)?)));
    }
    if is_trace {
        return Ok(Loaded::Trace(Box::new(read_trace(whole, &name)?)));
    }
    Ok(Loaded::Tests(tests(read_tests(whole, &name)?, path)?))
}

/// Splits the records of a file into tests, one per start record.
fn tests(records: Vec<Record>, path: &Path) -> anyhow::Result<Vec<Run>> {
    let mut tests: Vec<Vec<Record>> = Vec::new();
    for record in records {
        if matches!(record, Record::Start(_)) || tests.is_empty() {
            tests.push(Vec::new());
        }
        if let Some(test) = tests.last_mut() {
            test.push(record);
        }
    }
    let stem = stem(path).unwrap_or_else(|| "run".to_owned());
    let many = tests.len() > 1;
    tests
        .into_iter()
        .enumerate()
        .map(|(i, test)| {
            let name = if many { format!("{stem} {}", i + 1) } else { stem.clone() };
            Run::from_records(&name, test).with_context(|| path.display().to_string())
        })
        .collect()
}
