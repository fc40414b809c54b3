//! The file of what the route control is told and decides.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use route::{Begin, Record};
use serde::Serialize;
use units::Bytes;

use crate::OverlayError;

/// A record that is being written. What goes wrong with it is said once, and ends the record, not the member: a record with a gap is none.
pub(crate) struct RecordFile {
    path: PathBuf,
    /// Nothing: it has ended.
    file: Option<File>,
    /// Lines that were added since the last time that it was written.
    pending: Vec<u8>,
    written: u64,
    most: Bytes,
}

impl RecordFile {
    /// Begins one. What an earlier run left there is kept beside it, with `.1` at its end: a member that died is started again at once, and that
    /// record is the one that tells why.
    pub(crate) fn create(path: &Path, begin: &Begin, most: Bytes) -> Result<Self, OverlayError> {
        let what = || format!("the record of decisions {}", path.display());
        keep_earlier(path)?;
        let file = kernel::create_private(path).map_err(OverlayError::io(what()))?;
        let mut record = Self { path: path.to_owned(), file: None, pending: Vec::new(), written: 0, most };
        record.push(begin);
        (&file).write_all(&record.pending).map_err(|e| {
            let _ = fs::remove_file(path);
            OverlayError::io(what())(e)
        })?;
        record.written = record.pending.len() as u64;
        record.pending.clear();
        record.file = Some(file);
        Ok(record)
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, record: &Record) {
        if self.file.is_some() {
            self.push(record);
        }
    }

    fn push(&mut self, line: &impl Serialize) {
        // Into memory, of values that all have a text.
        let _ = serde_json::to_writer(&mut self.pending, line);
        self.pending.push(b'\n');
    }

    /// Writes what was added, all of it or nothing.
    pub(crate) fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        if self.pending.is_empty() {
            return;
        }
        let is_full = self.written + self.pending.len() as u64 > self.most.as_u64();
        if is_full {
            self.pending.clear();
            let _ = serde_json::to_writer(&mut self.pending, &Record::Full { bytes: self.most.as_u64() });
            self.pending.push(b'\n');
        }
        let done = file.write_all(&self.pending);
        self.written += self.pending.len() as u64;
        self.pending.clear();
        let path = self.path.display();
        if let Err(e) = done {
            tracing::warn!("the record of decisions {path} ends here, as it cannot be written; all else goes on: {e}");
            self.file = None;
        } else if is_full {
            tracing::warn!(
                "the decision log {path} has reached {} (`decision_log_size`) and ends here; the member continues",
                self.most
            );
            self.file = None;
        }
    }
}

/// Looks whether a record can be there: nothing is, or nothing but an earlier one.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let is_record = || {
        let mut line = String::new();
        let read = File::open(path).and_then(|file| BufReader::new(file).read_line(&mut line));
        read.is_ok() && Begin::parse(&line).is_ok()
    };
    if found.is_file() && (found.len() == 0 || is_record()) {
        return Ok(());
    }
    let rest = "exists and is not a decision log; set `decision_log` to another name";
    Err(format!("{} {rest}", path.display()))
}

/// Renames an earlier record, and refuses to touch anything else.
fn keep_earlier(path: &Path) -> Result<(), OverlayError> {
    let what = || format!("the record of decisions {}", path.display());
    let found = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(OverlayError::io(what()))?,
    };
    if found.is_file() && found.len() == 0 {
        // Of a start that could write nothing. The one before it says more.
        return fs::remove_file(path).map_err(OverlayError::io(what()));
    }
    check(path).map_err(OverlayError::Refused)?;
    let mut earlier = path.as_os_str().to_owned();
    earlier.push(".1");
    fs::rename(path, earlier).map_err(OverlayError::io(what()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use route::{Event, Member, Policy, Recorder};
    use units::Instant;

    fn begin() -> Begin {
        Recorder::new(Member(7), Policy::default(), true).unwrap().begin()
    }

    fn tick(ms: u64) -> Record {
        Record::Input(Event::Timeout { at: Instant::from_nanos(ms * 1_000_000) })
    }

    #[test]
    fn a_record_ends_at_its_size_and_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("decisions");
        let mut record = RecordFile::create(&path, &begin(), Bytes::new(10_000)).unwrap();
        for ms in 0..1000 {
            record.add(&tick(ms));
            record.flush();
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!((9_000..10_100).contains(&text.len()), "{}", text.len());
        assert!(text.ends_with("{\"full\":{\"bytes\":10000}}\n"), "{text}");
        assert_eq!(Begin::parse(text.lines().next().unwrap()), Ok(begin()));
        assert!(text.lines().skip(1).all(|l| serde_json::from_str::<Record>(l).is_ok()));
    }

    #[test]
    fn a_disk_that_is_full_ends_the_record_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut record = RecordFile::create(&directory.path().join("decisions"), &begin(), Bytes::new(10_000)).unwrap();
        record.file = Some(File::options().write(true).open("/dev/full").unwrap());
        for ms in 0..100 {
            record.add(&tick(ms));
            record.flush();
        }
        assert!(record.file.is_none() && record.pending.is_empty(), "and nothing gathers in memory");
    }

    #[test]
    fn what_a_start_left_that_could_write_nothing_takes_the_place_of_no_record() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("decisions");
        let mut record = RecordFile::create(&path, &begin(), Bytes::new(10_000)).unwrap();
        record.add(&tick(1));
        record.flush();
        let before = fs::read(&path).unwrap();
        fs::rename(&path, directory.path().join("decisions.1")).unwrap();
        File::create(&path).unwrap();
        RecordFile::create(&path, &begin(), Bytes::new(10_000)).unwrap();
        assert_eq!(fs::read(directory.path().join("decisions.1")).unwrap(), before);
    }

    #[test]
    fn an_earlier_record_is_kept_and_nothing_else_is_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("decisions");
        for _ in 0..3 {
            let mut record = RecordFile::create(&path, &begin(), Bytes::new(10_000)).unwrap();
            record.add(&tick(1));
            record.flush();
        }
        assert_eq!(fs::read(&path).unwrap(), fs::read(directory.path().join("decisions.1")).unwrap());
        let other = directory.path().join("node.toml");
        fs::write(&other, "key = \"west.key\"\n").unwrap();
        for taken in [other.as_path(), directory.path()] {
            let refused = RecordFile::create(taken, &begin(), Bytes::new(10_000)).err().unwrap().to_string();
            assert!(refused.contains("is not a decision log"), "{refused}");
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "key = \"west.key\"\n");
    }
}
