//! Outputs of the records: a table, JSON Lines and a page, in any combination.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use report::estimate::EstimateText;
use results::estimate::EstimateRecord;

use super::cli::EstimateOptions;
use crate::output::{is_standard, json_line, open_until_done, output_name, write_estimate_page};
use crate::standard_output::{StandardOutput, standard_output};
use crate::target::check_distinct;
use crate::whole_file::WholeFile;

pub(super) struct Output {
    text: Option<(EstimateText, StandardOutput)>,
    /// Name and writer of the records.
    json: Option<(String, Box<dyn Write>)>,
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
        let opened = |path| Ok::<_, anyhow::Error>((output_name(path), open_until_done(path)?));
        let json = options.json.as_deref().map(opened).transpose()?;
        let text = !is_standard(options.json.as_deref());
        let page = options.report.as_deref().map(Page::open).transpose()?;
        Ok(Self { text: text.then(|| (EstimateText::default(), standard_output())), json, page })
    }

    /// Writes a record at once, because a method may take minutes.
    pub(super) fn record(&mut self, record: &EstimateRecord) -> anyhow::Result<()> {
        if let Some((name, json)) = &mut self.json {
            json_line(json, record).and_then(|()| json.flush()).with_context(|| format!("cannot write {name}"))?;
        }
        if let Some((text, out)) = &mut self.text {
            text.write(record, out).and_then(|()| out.flush())?;
        }
        if let Some(page) = &mut self.page {
            page.records.push(record.clone());
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        if let Some((name, json)) = &mut self.json {
            json.flush().with_context(|| format!("cannot write {name}"))?;
        }
        let Some(page) = self.page else { return Ok(()) };
        write_estimate_page(page.target, &page.records, "longhaul estimate")
    }
}
