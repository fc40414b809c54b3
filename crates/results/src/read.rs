use std::io::{BufRead, Read};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::estimate::{ESTIMATE_SCHEMA, EstimateRecord};
use crate::lab::{LAB_SCHEMA, LabRecord};
use crate::trace::{TRACE_SCHEMA, TraceRecord};
use crate::{Record, SCHEMA};

/// Maximum length of a record in bytes. The largest records, those of a test with 128 streams, have some megabytes;
/// a damaged or compressed file can have lines that no memory holds.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

/// Error of reading a result file.
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
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// The file has another format or another version of this format.
    #[error("line {line}: cannot read the format `{found}`; this version of longhaul reads `{expected}`")]
    Schema {
        /// Line number from 1.
        line: usize,
        /// Format of the file.
        found: String,
        /// Supported format.
        expected: &'static str,
    },
    /// A line is longer than any record.
    #[error("line {line}: longer than {} MiB, the maximum of a record", LINE_BYTES_MAX >> 20)]
    Long {
        /// Line number from 1.
        line: usize,
    },
    /// The file has no records.
    #[error("no records")]
    Empty,
}

/// Reads the records of a test with [`TestReader`].
///
/// # Errors
/// See [`ReadError`].
pub fn read_records(source: impl BufRead) -> Result<Vec<Record>, ReadError> {
    let records = TestReader::new(source).collect::<Result<Vec<_>, _>>()?;
    if records.is_empty() { Err(ReadError::Empty) } else { Ok(records) }
}

/// Content of a lab's result file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LabFile {
    /// Records in the order of the file.
    pub records: Vec<LabRecord>,
    /// Whether the last line is incomplete because the writer was stopped; that line is not in `records`.
    pub is_torn: bool,
    /// Number of records of unknown kinds, from a later version of the same major number; they are not in `records`.
    pub unknown: u64,
}

/// Record types that are read line by line.
pub trait Streamed: DeserializeOwned {
    /// Name and version of the format.
    const SCHEMA: &'static str;
    /// Known kinds of records.
    const KINDS: &'static [&'static str];

    /// Returns the format that the record names; `None` if the record names none.
    fn schema(&self) -> Option<&str>;
}

impl Streamed for Record {
    const SCHEMA: &'static str = SCHEMA;
    const KINDS: &'static [&'static str] = &["start", "interval", "end"];

    fn schema(&self) -> Option<&str> {
        if let Self::Start(s) = self { Some(&s.schema) } else { None }
    }
}

impl Streamed for LabRecord {
    const SCHEMA: &'static str = LAB_SCHEMA;
    const KINDS: &'static [&'static str] =
        &["experiment", "run", "link", "flow", "transfer", "engine", "run_end", "summary"];

    fn schema(&self) -> Option<&str> {
        if let Self::Experiment(e) = self { Some(&e.schema) } else { None }
    }
}

impl Streamed for TraceRecord {
    const SCHEMA: &'static str = TRACE_SCHEMA;
    const KINDS: &'static [&'static str] = &["start", "flow", "sample", "end"];

    fn schema(&self) -> Option<&str> {
        if let Self::Start(s) = self { Some(&s.schema) } else { None }
    }
}

impl Streamed for EstimateRecord {
    const SCHEMA: &'static str = ESTIMATE_SCHEMA;
    const KINDS: &'static [&'static str] = &["start", "expected", "estimate", "prediction"];

    fn schema(&self) -> Option<&str> {
        if let Self::Start(s) = self { Some(&s.schema) } else { None }
    }
}

/// Reads the records of a test.
pub type TestReader<R> = Reader<R, Record>;
/// Reads the records of an emulated experiment.
pub type LabReader<R> = Reader<R, LabRecord>;
/// Reads the records of `longhaul trace`.
pub type TraceReader<R> = Reader<R, TraceRecord>;
/// Reads the records of `longhaul estimate`.
pub type EstimateReader<R> = Reader<R, EstimateRecord>;

/// Fields of a line that identify its record.
#[derive(Deserialize)]
struct RecordLabel {
    record: String,
    schema: Option<String>,
}

/// Reads JSON Lines one by one, also from a file that is being written or whose writer was killed.
///
/// Empty lines and a byte order mark are skipped. An incomplete last line after a record is skipped and sets
/// [`is_torn`](Self::is_torn); [`unknown`](Self::unknown) counts records of unknown kinds. Any other line that is not a
/// record is an error with its line number, and the last item.
#[derive(Debug)]
pub struct Reader<R, T> {
    source: R,
    bytes: Vec<u8>,
    line: usize,
    /// Number of records so far, of all kinds.
    records: u64,
    unknown: u64,
    is_torn: bool,
    is_finished: bool,
    of: PhantomData<T>,
}

impl<R: BufRead, T: Streamed> Reader<R, T> {
    /// Reads from `source`.
    pub const fn new(source: R) -> Self {
        Self {
            source,
            bytes: Vec::new(),
            line: 0,
            records: 0,
            unknown: 0,
            is_torn: false,
            is_finished: false,
            of: PhantomData,
        }
    }

    /// Whether the last line was incomplete because the writer was stopped.
    pub const fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Number of records so far of unknown kinds, from a later version of the same major number.
    pub const fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Reads the next record; `None` at the end.
    fn advance(&mut self) -> Result<Option<T>, ReadError> {
        loop {
            self.bytes.clear();
            if self.source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.bytes)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if self.bytes.len() as u64 == LINE_BYTES_MAX {
                return Err(ReadError::Long { line: self.line });
            }
            let text = if self.line == 1 { without_mark(&self.bytes) } else { &self.bytes };
            if text.trim_ascii().is_empty() {
                continue;
            }
            let found = parse_line(text, self.line);
            if let Err(ReadError::Line { .. }) = &found
                && self.records > 0
                && !text.ends_with(b"\n")
            {
                self.is_torn = true;
                continue;
            }
            self.records += 1;
            match found? {
                Some(record) => return Ok(Some(record)),
                None => self.unknown += 1,
            }
        }
    }
}

impl<R: BufRead, T: Streamed> Iterator for Reader<R, T> {
    type Item = Result<T, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_finished {
            return None;
        }
        let next = self.advance().transpose();
        self.is_finished = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Removes the byte order mark that some programs write before the first line of a UTF-8 file.
pub fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Reads a whole result file of the lab with [`LabReader`].
///
/// # Errors
/// See [`ReadError`].
pub fn read_lab_records(source: impl BufRead) -> Result<LabFile, ReadError> {
    let mut reader = LabReader::new(source);
    let records = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    if records.is_empty() {
        return Err(ReadError::Empty);
    }
    Ok(LabFile { records, is_torn: reader.is_torn, unknown: reader.unknown })
}

/// Whether a line is a record of the lab, by its kind, which no test uses.
pub fn is_lab_record(line: &[u8]) -> bool {
    serde_json::from_slice::<RecordLabel>(line).is_ok_and(|label| LabRecord::KINDS.contains(&label.record.as_str()))
}

/// Whether a line is the first record of a trace.
pub fn is_trace_record(line: &[u8]) -> bool {
    is_first_of(TRACE_SCHEMA, line)
}

/// Whether a line is the first record of `longhaul estimate`.
pub fn is_estimate_record(line: &[u8]) -> bool {
    is_first_of(ESTIMATE_SCHEMA, line)
}

/// Whether a line names this format in any version.
fn is_first_of(schema: &str, line: &[u8]) -> bool {
    let name = schema.split_once('/').map_or(schema, |(name, _)| name);
    let of_trace = |schema: &str| schema.split_once('/').is_some_and(|(found, _)| found == name);
    serde_json::from_slice::<RecordLabel>(line).is_ok_and(|label| label.schema.as_deref().is_some_and(of_trace))
}

/// Parses parse_line line; `None` for an unknown kind.
fn parse_line<T: Streamed>(bytes: &[u8], line: usize) -> Result<Option<T>, ReadError> {
    let foreign = |found: String| ReadError::Schema { line, found, expected: T::SCHEMA };
    match serde_json::from_slice::<T>(bytes) {
        Ok(record) => match record.schema().filter(|found| *found != T::SCHEMA) {
            Some(found) => Err(foreign(found.to_owned())),
            None => Ok(Some(record)),
        },
        // The kind distinguishes a record of a later version from a broken parse_line.
        Err(source) => match serde_json::from_slice::<RecordLabel>(bytes) {
            Ok(RecordLabel { schema: Some(found), .. }) if found != T::SCHEMA => Err(foreign(found)),
            Ok(label) if !T::KINDS.contains(&label.record.as_str()) => Ok(None),
            _ => Err(ReadError::Line { line, source }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: &str = r#"{"record":"engine","run":0,"start_s":0.0,"end_s":0.1,"worker_cpu":[0.5],"held_bytes":7}"#;

    fn read(text: &str) -> Result<LabFile, ReadError> {
        read_lab_records(text.as_bytes())
    }

    #[test]
    fn a_file_with_an_incomplete_last_line_is_read_up_to_it() {
        let whole = format!("{ENGINE}\n\n{ENGINE}\n");
        assert_eq!(read(&whole).unwrap().records.len(), 2);
        assert!(!read(&whole).unwrap().is_torn);
        for cut in 1..ENGINE.len() {
            let file = read(&format!("{ENGINE}\n{}", &ENGINE[..cut])).unwrap();
            assert_eq!((file.records.len(), file.is_torn), (1, true), "{cut}");
        }
        // Only the newline is missing: the record is complete.
        let file = read(&format!("{ENGINE}\n{ENGINE}")).unwrap();
        assert_eq!((file.records.len(), file.is_torn), (2, false));
    }

    #[test]
    fn an_incomplete_first_line_is_an_error() {
        assert!(matches!(read(&ENGINE[..20]).unwrap_err(), ReadError::Line { line: 1, .. }));
    }

    #[test]
    fn a_byte_order_mark_is_skipped_before_the_first_line_only() {
        assert_eq!(read(&format!("\u{feff}{ENGINE}\n{ENGINE}\n")).unwrap().records.len(), 2);
        assert!(matches!(read(&format!("{ENGINE}\n\u{feff}{ENGINE}\n")).unwrap_err(), ReadError::Line { line: 2, .. }));
    }

    #[test]
    fn records_of_the_lab_are_recognised() {
        assert!(is_lab_record(ENGINE.as_bytes()) && is_lab_record(b" {\"record\":\"experiment\"}\n"));
        for other in [&b""[..], b"hello", b"{}", b"{\"record\":\"start\"}", b"{\"record\":\"engine\""] {
            assert!(!is_lab_record(other), "{other:?}");
        }
    }

    #[test]
    fn a_last_line_that_ends_within_a_character_is_incomplete() {
        let mut bytes = format!("{ENGINE}\n").into_bytes();
        bytes.extend_from_slice(b"{\"record\":\"flow\",\"flow\":\"\xc3");
        let file = read_lab_records(bytes.as_slice()).unwrap();
        assert_eq!((file.records.len(), file.is_torn), (1, true));
    }

    #[test]
    fn a_line_without_an_end_is_an_error_and_not_an_allocation() {
        let endless = std::io::BufReader::new(std::io::repeat(b' '));
        assert!(matches!(read_lab_records(endless).unwrap_err(), ReadError::Long { line: 1 }));
    }

    #[test]
    fn a_broken_line_in_the_middle_is_an_error_with_its_number() {
        let error = read(&format!("{ENGINE}\n{}\n{ENGINE}\n", &ENGINE[..20])).unwrap_err();
        assert!(error.to_string().starts_with("line 2: not a longhaul record"), "{error}");
        let known_but_wrong = read("{\"record\":\"engine\",\"run\":\"x\"}\n").unwrap_err();
        assert!(matches!(known_but_wrong, ReadError::Line { line: 1, .. }));
    }

    #[test]
    fn a_kind_of_a_later_version_is_counted_and_skipped() {
        let file = read(&format!("{ENGINE}\n{{\"record\":\"queue_trace\",\"run\":0}}\n")).unwrap();
        assert_eq!((file.records.len(), file.unknown, file.is_torn), (1, 1, false));
    }

    #[test]
    fn the_records_of_a_test_are_refused_by_their_format() {
        let error = read("{\"record\":\"start\",\"schema\":\"longhaul.test/2\"}\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1: cannot read the format `longhaul.test/2`; this version of longhaul reads `longhaul.lab/2`"
        );
        assert!(matches!(read("").unwrap_err(), ReadError::Empty));
    }

    #[test]
    fn every_kind_of_the_schema_is_known() {
        let of = |schema: schemars::Schema| -> Vec<String> {
            let schema = serde_json::to_value(schema).unwrap();
            let kinds = schema["oneOf"].as_array().unwrap().iter();
            kinds.map(|v| v["properties"]["record"]["const"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(of(schemars::schema_for!(Record)), Record::KINDS);
        assert_eq!(of(schemars::schema_for!(LabRecord)), LabRecord::KINDS);
        assert_eq!(of(schemars::schema_for!(TraceRecord)), TraceRecord::KINDS);
        assert_eq!(of(schemars::schema_for!(EstimateRecord)), EstimateRecord::KINDS);
    }
}
