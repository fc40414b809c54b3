//! Where the records go: a table, JSON Lines, a page, or several of them.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use report::estimate::EstimateText;
use results::estimate::EstimateRecord;

use super::cli::EstimateOptions;
use crate::output::{is_standard, json_line, open, write_estimate_page};
use crate::whole_file::WholeFile;

pub(super) struct Output {
    text: Option<EstimateText>,
    json: Option<Box<dyn Write>>,
    page: Option<Page>,
}

/// A page in the making: some dozen records.
struct Page {
    place: WholeFile,
    records: Vec<EstimateRecord>,
}

impl Page {
    /// A place that cannot be written is told before the probes.
    fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { place: WholeFile::open(path)?, records: Vec::new() })
    }
}

impl Output {
    pub(super) fn open(options: &EstimateOptions) -> anyhow::Result<Self> {
        let json = options.json.as_deref().map(open).transpose()?;
        let text = !is_standard(options.json.as_deref());
        let page = options.report.as_deref().map(Page::open).transpose()?;
        Ok(Self { text: text.then(EstimateText::default), json, page })
    }

    /// Written at once: a method may take minutes.
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
        write_estimate_page(page.place, &page.records, "longhaul estimate")
    }
}
