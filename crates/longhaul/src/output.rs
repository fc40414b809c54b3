//! Outputs of the records: terminal, pipe, files. A sink that fails is closed and reported at the end; it stops neither
//! the test nor the other sinks.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Seek, Stdout, Write};
use std::path::Path;

use anyhow::{Context, bail};
use report::history::HistoryReport;
use report::lab::LabReport;
use report::trace::TraceReport;
use report::{CsvReport, LiveView, Run, TextReport, ThrulayReport};
use results::estimate::EstimateRecord;
use results::evaluate::EvaluateRecord;
use results::{LabReader, ReadError, Record, Streamed, TestReader, TraceReader, read_records};
use serde::Serialize;

use crate::cli::{Format, TestOptions};
use crate::named::Named;
use crate::record_file::RecordFile;
use crate::standard_output;
use crate::target::check_distinct;
use crate::whole_file::WholeFile;

enum Sink {
    Live(Box<Live>),
    Text(Box<TextReport<Stdout>>),
    /// Text report without intervals.
    Summary(Box<TextReport<Stdout>>),
    Json(Box<dyn Write>),
    /// Single JSON document.
    Document(Document),
    Csv(Box<CsvReport<Box<dyn Write>>>),
    Thrulay(Box<ThrulayReport<Stdout>>),
    Page(Page),
}

/// Live view, followed by the text report with all intervals when the view closes.
struct Live {
    /// Opened at the first record; until then Ctrl-C is an ordinary signal.
    view: Option<LiveView>,
    /// Report in a temporary file, so that memory does not grow with the length of the test.
    text: TextReport<BufWriter<File>>,
}

/// JSON document `{"records":[...]}`, with the key `error` if the test fails. It is written record by record and is
/// complete when the test ends.
#[derive(Default)]
struct Document {
    is_open: bool,
}

/// Report page. The records are in a temporary file, so that memory does not grow with the length of the test.
struct Page {
    spool: BufWriter<File>,
    target: WholeFile,
    title: Option<String>,
}

pub(crate) struct Outputs {
    sinks: Vec<(String, Option<Sink>)>,
    failures: Vec<String>,
    stops: usize,
}

impl Outputs {
    /// Opens all outputs before the test starts, so that a wrong path fails early.
    pub(crate) fn open(options: &TestOptions) -> anyhow::Result<Self> {
        check_distinct(&[
            ("--json", options.json.as_deref()),
            ("--csv", options.csv.as_deref()),
            ("--report", options.report.as_deref()),
            ("--file", options.file.as_deref()),
        ])?;
        let mut sinks = Vec::new();
        let (json, csv) = (is_standard(options.json.as_deref()), is_standard(options.csv.as_deref()));
        let formats = [json, csv, options.json_document, options.format != Format::Auto];
        if formats.iter().filter(|f| **f).count() > 1 {
            bail!("--format, --json, -J and --csv cannot share standard output; write to a file: --json=FILE");
        }
        if options.json_document {
            sinks.push((standard_output::NAME.to_owned(), Some(Sink::Document(Document::default()))));
        } else if !json && !csv {
            sinks.push((standard_output::NAME.to_owned(), Some(standard(options)?)));
        }
        if let Some(path) = &options.json {
            sinks.push((output_name(path), Some(Sink::Json(open(path)?))));
        }
        if let Some(path) = &options.csv {
            sinks.push((output_name(path), Some(Sink::Csv(Box::new(CsvReport::new(open(path)?))))));
        }
        if let Some(path) = &options.report {
            sinks.push((output_name(path), Some(Sink::Page(Page::open(path, options.title.clone())?))));
        }
        Ok(Self { sinks, failures: Vec::new(), stops: 0 })
    }

    /// Number of stop requests by the user: keys in the live view, and a closed pipe.
    pub(crate) fn stops(&mut self) -> usize {
        for (_, slot) in &mut self.sinks {
            if let Some(Sink::Live(live)) = slot
                && let Some(view) = &mut live.view
            {
                // A terminal that cannot be read does not stop the test; the next record reports the failure.
                self.stops += usize::from(view.poll_quit().unwrap_or(false));
            }
        }
        self.stops
    }

    pub(crate) fn record(&mut self, record: &Record) {
        for (name, slot) in &mut self.sinks {
            let Some(sink) = slot else { continue };
            if let Err(e) = sink.record(record) {
                let broken_pipe = e.kind() == io::ErrorKind::BrokenPipe;
                *slot = None;
                if broken_pipe {
                    // The reader has closed the pipe, so the test stops.
                    self.stops += 1;
                } else {
                    self.failures.push(described(&anyhow::Error::from(e).context(format!("cannot write {name}"))));
                }
            }
        }
    }

    /// Completes the remaining sinks and reports all failed ones. `failure` is the reason if the test failed.
    pub(crate) fn finish(mut self, failure: Option<&str>) -> anyhow::Result<()> {
        for (name, slot) in self.sinks {
            let Some(sink) = slot else { continue };
            if let Err(e) = sink.finish(failure)
                && !is_broken_pipe(&e)
            {
                self.failures.push(described(&e.context(format!("cannot write {name}"))));
            }
        }
        if self.failures.is_empty() { Ok(()) } else { bail!("{}", self.failures.join("; ")) }
    }
}

/// Returns to the start of the line and clears it (ECMA-48, EL).
pub(crate) const CLEAR_LINE: &str = "\r\x1b[K";

/// Whether a stream is a terminal that understands control sequences.
pub(crate) fn is_terminal(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

fn standard(options: &TestOptions) -> anyhow::Result<Sink> {
    let terminal = io::stdout().is_terminal() && is_terminal(&io::stderr());
    Ok(match options.format {
        Format::Auto | Format::Text if options.quiet => Sink::Summary(Box::new(TextReport::new(io::stdout()))),
        Format::Auto if terminal => {
            let spool = tempfile::tempfile().context("cannot create a temporary file for the report")?;
            Sink::Live(Box::new(Live { view: None, text: TextReport::new(BufWriter::new(spool)) }))
        }
        Format::Auto | Format::Text => Sink::Text(Box::new(TextReport::new(io::stdout()))),
        Format::Json => Sink::Json(Box::new(io::stdout())),
        Format::Csv => Sink::Csv(Box::new(CsvReport::new(Box::new(io::stdout())))),
        Format::Thrulay => Sink::Thrulay(Box::new(ThrulayReport::new(io::stdout(), options.verbose))),
    })
}

/// Whether the path is `-`, which means standard output.
pub(crate) fn is_standard(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// Name of an output in messages.
pub(crate) fn output_name(path: &Path) -> String {
    if is_standard(Some(path)) { standard_output::NAME.to_owned() } else { path.display().to_string() }
}

/// An error with its causes. Many errors already end with the text of their cause, and some causes begin with the text
/// of their context; neither is repeated.
pub(crate) fn described(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if parts.iter().any(|part| part.contains(&cause)) {
            continue;
        }
        if parts.last().is_some_and(|context| cause.starts_with(context.as_str())) {
            parts.pop();
        }
        parts.push(cause);
    }
    parts.join(": ")
}

/// Opens the file, which keeps its content until the first record, or returns standard output for `-`.
pub(crate) fn open(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if is_standard(Some(path)) {
        return Ok(Box::new(Named::new(output_name(path), io::stdout())));
    }
    Ok(Box::new(Named::new(output_name(path), RecordFile::open(path)?)))
}

/// As [`open`], for a command that does not end before its work is done: when the reader of standard output is gone,
/// the rest is discarded.
pub(crate) fn open_until_done(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if is_standard(Some(path)) { Ok(Box::new(standard_output::standard_output())) } else { open(path) }
}

/// Writes one record as a JSON line.
pub(crate) fn json_line(out: &mut dyn Write, record: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    // One unbuffered write per line, so that a reader of the pipe gets each record at once and whole.
    out.write_all(&line)
}

impl Sink {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        match self {
            Self::Live(live) => {
                live.text.record(record)?;
                if live.view.is_none() {
                    live.view = Some(LiveView::new()?);
                }
                if let Some(view) = &mut live.view {
                    view.record(record);
                    view.draw()?;
                }
            }
            Self::Text(out) => out.record(record)?,
            Self::Summary(_) if matches!(record, Record::Interval(_)) => {}
            Self::Summary(out) => out.record(record)?,
            Self::Document(document) => document.record(record)?,
            Self::Json(out) => json_line(out, record)?,
            Self::Csv(out) => out.record(record)?,
            Self::Thrulay(out) => out.record(record)?,
            Self::Page(page) => json_line(&mut page.spool, record)?,
        }
        Ok(())
    }

    fn finish(self, failure: Option<&str>) -> anyhow::Result<()> {
        match self {
            Self::Live(live) => {
                live.view.map_or(Ok(()), LiveView::finish)?;
                let mut text = live.text;
                // A failed test has no last record.
                text.drain()?;
                let mut spool = text.into_inner().into_inner().map_err(io::IntoInnerError::into_error)?;
                spool.rewind()?;
                io::copy(&mut spool, &mut io::stdout())?;
            }
            Self::Document(document) => document.finish(failure)?,
            Self::Json(mut out) => out.flush()?,
            Self::Page(page) => page.finish()?,
            Self::Text(_) | Self::Summary(_) | Self::Csv(_) | Self::Thrulay(_) => {}
        }
        Ok(())
    }
}

impl Document {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        let mut text = if self.is_open { b",\n".to_vec() } else { b"{\"records\":[\n".to_vec() };
        serde_json::to_writer(&mut text, record)?;
        self.is_open = true;
        io::stdout().write_all(&text)
    }

    fn finish(self, failure: Option<&str>) -> io::Result<()> {
        let mut text = if self.is_open { "\n]" } else { "{\"records\":[]" }.to_owned();
        if let Some(failure) = failure {
            text += &format!(",\"error\":{}", serde_json::Value::from(failure));
        }
        text += "}\n";
        io::stdout().write_all(text.as_bytes())
    }
}

impl Page {
    fn open(path: &Path, title: Option<String>) -> anyhow::Result<Self> {
        let spool = tempfile::tempfile().context("cannot create a temporary file for the records")?;
        Ok(Self { spool: BufWriter::new(spool), target: WholeFile::open(path)?, title })
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.spool.flush()?;
        let mut spool = self.spool.into_inner().map_err(io::IntoInnerError::into_error)?;
        spool.rewind()?;
        let records = read_records(BufReader::new(spool))?;
        let title = self.title.unwrap_or_else(|| "longhaul test".to_owned());
        let run = Run::from_records(&title, records)?;
        write_page(self.target, &[run], &title)
    }
}

/// Writes the page of tests.
pub(crate) fn write_page(target: WholeFile, runs: &[Run], title: &str) -> anyhow::Result<()> {
    target.write(&mut |out| report::write_html(out, runs, title))
}

/// Writes the page of an emulated experiment.
pub(crate) fn write_lab_page(path: &Path, report: &LabReport, title: &str) -> anyhow::Result<()> {
    WholeFile::open(path)?.write(&mut |out| report::lab::write_lab_html(out, report, title))
}

/// Writes the page that compares emulated experiments.
pub(crate) fn write_lab_comparison_page(
    path: &Path,
    reports: &[(String, LabReport)],
    title: &str,
) -> anyhow::Result<()> {
    WholeFile::open(path)?.write(&mut |out| report::lab::write_lab_comparison(out, reports, title))
}

/// Writes the page of a trace.
pub(crate) fn write_trace_page(target: WholeFile, report: &TraceReport, title: &str) -> anyhow::Result<()> {
    target.write(&mut |out| report::trace::write_trace_html(out, report, title))
}

/// Writes the page of an estimate.
pub(crate) fn write_estimate_page(target: WholeFile, records: &[EstimateRecord], title: &str) -> anyhow::Result<()> {
    target.write(&mut |out| report::estimate::write_estimate_html(out, records, title))
}

/// Writes the page of an evaluation.
pub(crate) fn write_evaluation_page(target: WholeFile, records: &[EvaluateRecord], title: &str) -> anyhow::Result<()> {
    target.write(&mut |out| report::evaluate::write_evaluation_html(out, records, title))
}

/// Writes the page of a history.
pub(crate) fn write_history_page(target: WholeFile, report: &HistoryReport, title: &str) -> anyhow::Result<()> {
    target.write(&mut |out| report::history::write_history_html(out, report, title))
}

/// Reads the records of an emulated experiment, with a warning on standard error if the file is incomplete.
pub(crate) fn read_lab(source: impl BufRead, name: &str) -> anyhow::Result<LabReport> {
    let mut reader = LabReader::new(source);
    let records = reader.by_ref().map(|r| r.map_err(anyhow::Error::from));
    let report = LabReport::try_from_records(records).with_context(|| name.to_owned())?;
    warn_of_gaps(&reader, name);
    Ok(report)
}

/// Reads the records of a trace, with a warning on standard error if the file is incomplete.
pub(crate) fn read_trace(source: impl BufRead, name: &str) -> anyhow::Result<TraceReport> {
    let mut reader = TraceReader::new(source);
    let mut report = TraceReport::default();
    for record in reader.by_ref() {
        report.record(&record.with_context(|| name.to_owned())?);
    }
    warn_of_gaps(&reader, name);
    Ok(report)
}

/// Reads the records of tests, with a warning on standard error if the file is incomplete.
pub(crate) fn read_tests(source: impl BufRead, name: &str) -> anyhow::Result<Vec<Record>> {
    let mut reader = TestReader::new(source);
    let records = reader.by_ref().collect::<Result<Vec<_>, _>>().with_context(|| name.to_owned())?;
    warn_of_gaps(&reader, name);
    if records.is_empty() { Err(ReadError::Empty).with_context(|| name.to_owned()) } else { Ok(records) }
}

/// Warns on standard error of an incomplete last line and of skipped records.
pub(crate) fn warn_of_gaps<R: BufRead, T: Streamed>(reader: &results::Reader<R, T>, name: &str) {
    if reader.is_torn() {
        print_message(&format!("{name}: the last line is incomplete and ignored; the writer was interrupted"));
    }
    let unknown = reader.unknown();
    if unknown > 0 {
        let records = if unknown == 1 { "1 record".to_owned() } else { format!("{unknown} records") };
        let version = env!("CARGO_PKG_VERSION");
        print_message(&format!("{name}: skipped {records} of a kind unknown to longhaul {version}"));
    }
}

#[allow(clippy::print_stderr, reason = "messages for the user, separate from the results on standard output")]
pub(crate) fn print_message(text: &str) {
    eprintln!("{}", report::summary::printable_lines(text));
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn an_error_repeats_neither_its_cause_nor_its_context() {
        let full = || anyhow!("no space left");
        for (error, text) in [
            (full().context("cannot write a"), "cannot write a: no space left"),
            (full().context("cannot write a: no space left"), "cannot write a: no space left"),
            (anyhow!("cannot write a: no space left").context("cannot write a"), "cannot write a: no space left"),
            (full().context("cannot write a").context("cannot write a"), "cannot write a: no space left"),
            (full().context("cannot write b").context("test"), "test: cannot write b: no space left"),
        ] {
            assert_eq!(described(&error), text);
        }
    }
}
