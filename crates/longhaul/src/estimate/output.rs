//! Where the records go: a table, JSON Lines, or both.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use report::estimate::EstimateText;
use results::estimate::EstimateRecord;

use super::cli::EstimateOptions;

pub(super) struct Output {
    text: Option<EstimateText>,
    json: Option<Box<dyn Write>>,
}

impl Output {
    pub(super) fn open(options: &EstimateOptions) -> anyhow::Result<Self> {
        let json: Option<Box<dyn Write>> = match &options.json {
            None => None,
            Some(path) if path == Path::new("-") => Some(Box::new(io::stdout())),
            Some(path) => {
                Some(Box::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
            }
        };
        let text = options.json.as_deref().is_none_or(|p| p != Path::new("-"));
        Ok(Self { text: text.then(EstimateText::default), json })
    }

    /// Written at once: a method may take minutes.
    pub(super) fn record(&mut self, record: &EstimateRecord) -> anyhow::Result<()> {
        if let Some(json) = &mut self.json {
            let mut line = serde_json::to_vec(record)?;
            line.push(b'\n');
            json.write_all(&line).and_then(|()| json.flush()).context("cannot write the records")?;
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
