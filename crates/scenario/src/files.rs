//! Files that an experiment refers to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use link::{Trace, TraceError};

use crate::problem::{Fault, Problem};
use crate::quantity;
use crate::section::Item;

/// Returns the text of a file, or the reason why it cannot be read.
pub(crate) type Read<'a> = &'a dyn Fn(&Path) -> Result<String, String>;

/// Cache of the files read, so that a sweep reads each file once.
pub(crate) struct Files<'a> {
    /// The directory of the experiment file.
    directory: PathBuf,
    read: Read<'a>,
    traces: RefCell<BTreeMap<PathBuf, Option<Arc<Trace>>>>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(experiment: &Path, read: Read<'a>) -> Self {
        let directory = experiment.parent().map(Path::to_path_buf).unwrap_or_default();
        Self { directory, read, traces: RefCell::default() }
    }

    /// The trace that `item` names; `None` after an error has been reported.
    pub(crate) fn trace(&self, item: &Item<'_>) -> Option<Arc<Trace>> {
        let path = self.directory.join(item.read(quantity::text)?);
        if let Some(known) = self.traces.borrow().get(&path) {
            return known.clone();
        }
        let trace = self.load(item, &path);
        self.traces.borrow_mut().insert(path, trace.clone());
        trace
    }

    fn load(&self, item: &Item<'_>, path: &Path) -> Option<Arc<Trace>> {
        let text = match (self.read)(path) {
            Ok(text) => text,
            Err(why) => {
                let message = format!("cannot read the trace {}: {why}", path.display());
                item.complain(Fault::new(message, "paths are relative to the experiment file"));
                return None;
            }
        };
        match parse(&text) {
            Ok(trace) => Some(Arc::new(trace)),
            Err((line, message)) => {
                item.report.push(Problem {
                    file: path.display().to_string(),
                    line,
                    column: None,
                    key: String::new(),
                    message,
                    hint: format!("it is the {}", item.key),
                });
                None
            }
        }
    }
}

/// Parses a trace. An error has its line number, if one line is at fault, and a message.
fn parse(text: &str) -> Result<Trace, (Option<usize>, String)> {
    Trace::parse(text).map_err(|error| {
        let message = error.to_string();
        let (TraceError::NotANumber { line, .. }
        | TraceError::EmptyLine { line }
        | TraceError::Decreasing { line, .. }) = error
        else {
            return (None, message);
        };
        // The position of the error already contains the line number.
        let short = message.strip_prefix(&format!("line {line}: ")).unwrap_or(&message).to_owned();
        (Some(line), short)
    })
}
