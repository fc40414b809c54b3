//! Where records go: the terminal, a pipe, files.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;

use anyhow::Context as _;
use report::trace::{TraceCsv, TraceReport, TraceText, TraceView, write_trace_summary};
use results::trace::TraceRecord;

use super::cli::TraceOptions;
use crate::output::{is_standard, json_line, open, write_trace_page};
use crate::whole_file::WholeFile;

/// Least time between two frames of the view.
const FRAME_S: f64 = 0.1;

/// Everything that was asked for.
pub(super) struct Sinks {
    text: Option<TraceText<io::Stdout>>,
    view: Option<TraceView>,
    /// When the view was drawn last.
    drawn_s: f64,
    json: Option<Box<dyn Write>>,
    csv: Option<TraceCsv<Box<dyn Write>>>,
    page: Option<WholeFile>,
    /// For the page, and for what is left on the terminal when the view has gone.
    report: TraceReport,
}

impl Sinks {
    /// Opens all before the trace begins, so that a wrong path costs none. The view comes with [`Self::show`].
    pub(super) fn open(options: &TraceOptions) -> anyhow::Result<Self> {
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

    /// Takes the terminal, or prints lines where there is none; nothing where standard output is that of a file format.
    pub(super) fn show(&mut self, options: &TraceOptions) -> anyhow::Result<()> {
        if is_standard(options.json.as_deref()) || is_standard(options.csv.as_deref()) {
            return Ok(());
        }
        let is_terminal = io::stdout().is_terminal()
            && io::stderr().is_terminal()
            && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        if is_terminal && !options.lines {
            self.view = Some(TraceView::new().context("cannot take the terminal; --lines does without")?);
        } else {
            self.text = Some(TraceText::new(io::stdout()));
        }
        Ok(())
    }

    /// Whether the user pressed a key that ends the view.
    pub(super) fn is_quit(&self) -> bool {
        // A terminal that can no longer be read is no wish to stop; the next frame shows the failure.
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

    /// Whole lines for whoever reads along; a new frame.
    pub(super) fn flush(&mut self, seconds: f64) -> io::Result<()> {
        self.text.as_mut().map_or(Ok(()), TraceText::flush)?;
        self.json.as_mut().map_or(Ok(()), |out| out.flush())?;
        self.csv.as_mut().map_or(Ok(()), TraceCsv::flush)?;
        let Some(view) = &mut self.view else { return Ok(()) };
        if seconds - self.drawn_s < FRAME_S {
            return Ok(());
        }
        self.drawn_s = seconds;
        view.draw(seconds)
    }

    /// Gives the terminal back, leaves a summary on it, and writes the page.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        if let Some(view) = self.view.take() {
            view.finish()?;
            write_trace_summary(&mut io::stdout(), &self.report)?;
        }
        if let Some(place) = self.page {
            write_trace_page(place, &self.report, "longhaul trace")?;
        }
        Ok(())
    }
}

/// Many records a second: [`Sinks::flush`] says when they leave.
fn buffered(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    Ok(Box::new(BufWriter::new(open(path)?)))
}
