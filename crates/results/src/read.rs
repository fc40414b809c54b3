use std::io::BufRead;

use crate::{Record, SCHEMA};

/// A result file that could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The source failed.
    #[error("reading results: {0}")]
    Io(#[from] std::io::Error),
    /// A line is not a record.
    #[error("line {line}: not a longhaul record: {source}")]
    Line {
        /// Line number from 1.
        line: usize,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A newer or foreign format.
    #[error("line {line}: format `{found}` is not `{SCHEMA}`")]
    Schema {
        /// Line number from 1.
        line: usize,
        /// The format named there.
        found: String,
    },
    /// There is no record at all.
    #[error("no records")]
    Empty,
}

/// Reads JSON Lines; empty lines are skipped, anything else that is not a record is an error that names its line.
///
/// # Errors
/// See [`ReadError`].
pub fn read_records(source: impl BufRead) -> Result<Vec<Record>, ReadError> {
    let mut records = Vec::new();
    for (i, line) in source.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let record: Record = serde_json::from_str(&line).map_err(|source| ReadError::Line { line: i + 1, source })?;
        if let Record::Start(s) = &record
            && s.schema != SCHEMA
        {
            return Err(ReadError::Schema { line: i + 1, found: s.schema.clone() });
        }
        records.push(record);
    }
    if records.is_empty() { Err(ReadError::Empty) } else { Ok(records) }
}
