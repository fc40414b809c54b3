//! Where the records go: a table, JSON Lines, or both.

use std::io::{self, Write};

use anyhow::Context;
use report::estimate::EstimateText;
use results::estimate::EstimateRecord;

use super::cli::EstimateOptions;
use crate::output::{is_standard, json_line, open};

pub(super) struct Output {
    text: Option<EstimateText>,
    json: Option<Box<dyn Write>>,
}

impl Output {
    pub(super) fn open(options: &EstimateOptions) -> anyhow::Result<Self> {
        let json = options.json.as_deref().map(open).transpose()?;
        let text = !is_standard(options.json.as_deref());
        Ok(Self { text: text.then(EstimateText::default), json })
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
        Ok(())
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.json.as_mut().map_or(Ok(()), |json| json.flush()).context("cannot write the records")
    }
}
