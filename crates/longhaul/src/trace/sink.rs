//! Outputs of the records: terminal, pipe, files.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;

use anyhow::Context as _;
use report::trace::{TraceCsv, TraceReport, TraceText, TraceView, write_trace_summary};
use results::trace::TraceRecord;

use super::cli::TraceOptions;
use crate::named::Named;
use crate::output::{is_standard, is_terminal, json_line, open, write_trace_page};
use crate::standard_output::{self, standard_output};
use crate::target::check_distinct;
use crate::whole_file::WholeFile;

/// Minimum time between two frames of the view, in seconds.
const FRAME_INTERVAL_S_MIN: f64 = 0.1;

/// Selected outputs.
pub(super) struct Sinks {
    text: Option<TraceText<Named<io::Stdout>>>,
    view: Option<TraceView>,
    /// Time of the last frame, in seconds since the start.
    drawn_s: f64,
    json: Option<Box<dyn Write>>,
    csv: Option<TraceCsv<Box<dyn Write>>>,
    page: Option<WholeFile>,
    /// Input of the page and of the summary that follows the view.
    report: TraceReport,
}

impl Sinks {
    /// Opens the files before the trace starts, so that a wrong path fails early. [`Self::show`] opens the view.
    pub(super) fn open(options: &TraceOptions) -> anyhow::Result<Self> {
        check_distinct(&[
            ("--json", options.json.as_deref()),
            ("--csv", options.csv.as_deref()),
            ("--report", options.report.as_deref()),
        ])?;
        let (json, csv) = (is_standard(options.json.as_deref()), is_standard(options.csv.as_deref()));
        let taken = [json, csv, options.lines];
        anyhow::ensure!(
            taken.iter().filter(|t| **t).count() <= 1,
            "--lines, --json and --csv cannot share standard output; give a file: --json=FILE"
        );
        let csv = options.csv.as_deref().map(buffered).transpose()?.map(TraceCsv::new);
        let page = options.report.as_deref().map(WholeFile::open);
        Ok(Self {
            text: None,
            view: None,
            drawn_s: f64::NEG_INFINITY,
            json: options.json.as_deref().map(buffered).transpose()?,
            csv,
            page: page.transpose()?,
            report: TraceReport::default(),
        })
    }

    /// Opens the view on a terminal, or line output elsewhere; neither if JSON or CSV uses standard output.
    pub(super) fn show(&mut self, options: &TraceOptions) -> anyhow::Result<()> {
        if is_standard(options.json.as_deref()) || is_standard(options.csv.as_deref()) {
            return Ok(());
        }
        if io::stdout().is_terminal() && is_terminal(&io::stderr()) && !options.lines {
            self.view = Some(TraceView::new().context("cannot open the view on the terminal; use --lines")?);
        } else {
            self.text = Some(TraceText::new(Named::new(standard_output::NAME.to_owned(), io::stdout())));
        }
        Ok(())
    }

    /// Whether the user pressed a key that ends the view.
    pub(super) fn is_quit(&self) -> bool {
        // A terminal that cannot be read does not end the trace; the next frame reports the failure.
        self.view.as_ref().is_some_and(|v| v.poll_quit().unwrap_or(false))
    }

    pub(super) fn record(&mut self, record: &TraceRecord) -> io::Result<()> {
        if let Some(text) = &mut self.text {
            text.record(record)?;
        }
        if let Some(view) = &mut self.view {
            view.record(record);
        }
        if let Some(out) = &mut self.json {
            json_line(out, record)?;
        }
        if let Some(csv) = &mut self.csv {
            csv.record(record)?;
        }
        if self.view.is_some() || self.page.is_some() {
            self.report.record(record);
        }
        Ok(())
    }

    /// Flushes the outputs, and draws a frame if one is due.
    pub(super) fn flush(&mut self, seconds: f64) -> io::Result<()> {
        self.text.as_mut().map_or(Ok(()), TraceText::flush)?;
        self.json.as_mut().map_or(Ok(()), |out| out.flush())?;
        self.csv.as_mut().map_or(Ok(()), TraceCsv::flush)?;
        let Some(view) = &mut self.view else { return Ok(()) };
        if seconds - self.drawn_s < FRAME_INTERVAL_S_MIN {
            return Ok(());
        }
        self.drawn_s = seconds;
        view.draw(seconds)
    }

    /// Closes the view, prints a summary after it, and writes the page.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        if let Some(view) = self.view.take() {
            view.finish()?;
            write_trace_summary(&mut standard_output(), &self.report)?;
        }
        if let Some(place) = self.page {
            write_trace_page(place, &self.report, "longhaul trace")?;
        }
        Ok(())
    }
}

/// Opens a buffered output; [`Sinks::flush`] flushes it.
fn buffered(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    Ok(Box::new(BufWriter::new(open(path)?)))
}
