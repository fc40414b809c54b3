//! Output of the records to standard output, as text or JSON Lines.

use std::io;

use report::tune::TuneText;
use results::tune::TuneRecord;

use crate::output::{is_terminal, json_line};
use crate::standard_output::{StandardOutput, standard_output};

/// Writes records; a failure is reported at the end, so that it never prevents reverting a change.
pub(super) struct Output {
    text: Option<TuneText<StandardOutput>>,
    failure: Option<io::Error>,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        let has_colour = is_terminal(&io::stdout()) && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { text: (!json).then(|| TuneText::new(standard_output(), has_colour)), failure: None }
    }

    pub(super) fn record(&mut self, record: &TuneRecord) {
        let written = match &mut self.text {
            Some(text) => text.record(record),
            None => json_line(&mut standard_output(), record),
        };
        if let Err(e) = written {
            self.failure.get_or_insert(e);
        }
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.failure.map_or(Ok(()), |e| Err(e.into()))
    }
}
