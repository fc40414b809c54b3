//! Outputs of the records: a table, JSON Lines and a page, in any combination.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use report::estimate::EstimateText;
use results::estimate::EstimateRecord;

use super::cli::EstimateOptions;
use crate::output::{is_standard, json_line, open, write_estimate_page};
use crate::target::check_distinct;
use crate::whole_file::WholeFile;

pub(super) struct Output {
    text: Option<EstimateText>,
    json: Option<Box<dyn Write>>,
    page: Option<Page>,
}

/// Report page with its records, a few dozen.
struct Page {
    target: WholeFile,
    records: Vec<EstimateRecord>,
}

impl Page {
    /// Opens the target early, so that an unwritable path fails before the probes.
    fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { target: WholeFile::open(path)?, records: Vec::new() })
    }
}

impl Output {
    pub(super) fn open(options: &EstimateOptions) -> anyhow::Result<Self> {
        check_distinct(&[("--json", options.json.as_deref()), ("--report", options.report.as_deref())])?;
        let json = options.json.as_deref().map(open).transpose()?;
        let text = !is_standard(options.json.as_deref());
        let page = options.report.as_deref().map(Page::open).transpose()?;
        Ok(Self { text: text.then(EstimateText::default), json, page })
    }

    /// Writes a record at once, because a method may take minutes.
    pub(super) fn record(&mut self, record: &EstimateRecord) -> anyhow::Result<()> {
        if let Some(json) = &mut self.json {
            json_line(json, record).and_then(|()| json.flush()).context("cannot write the records")?;
        }
        if let Some(text) = &mut self.text {
            let mut out = io::stdout();
            text.write(record, &mut out).and_then(|()| out.flush())?;
        }
        if let Some(page) = &mut self.page {
            page.records.push(record.clone());
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.json.as_mut().map_or(Ok(()), |json| json.flush()).context("cannot write the records")?;
        let Some(page) = self.page else { return Ok(()) };
        write_estimate_page(page.target, &page.records, "longhaul estimate")
    }
}
