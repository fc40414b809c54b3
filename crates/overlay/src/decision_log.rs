//! The decision log: the inputs and decisions of the route control, for replay.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use route::{Begin, Record};
use serde::Serialize;
use units::Bytes;

use crate::OverlayError;

/// A decision log that is being written. An error ends the log with a warning and leaves the member running; a log with
/// a gap could not be replayed.
pub(crate) struct RecordFile {
    path: PathBuf,
    /// `None`: the log has ended.
    file: Option<File>,
    /// Lines added since the last flush.
    pending: Vec<u8>,
    /// Written bytes.
    written: u64,
    /// Maximum size.
    max: Bytes,
}

impl RecordFile {
    /// Creates a log. The log of the previous run is kept with the suffix `.1`, as it may explain a crash that led to
    /// this start.
    pub(crate) fn create(path: &Path, begin: &Begin, max: Bytes) -> Result<Self, OverlayError> {
        let what = || format!("the decision log {}", path.display());
        keep_previous(path)?;
        let file = kernel::create_private(path).map_err(OverlayError::io(what()))?;
        let mut record = Self { path: path.to_owned(), file: None, pending: Vec::new(), written: 0, max };
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

    /// Adds a line to the pending ones.
    pub(crate) fn add(&mut self, record: &Record) {
        if self.file.is_some() {
            self.push(record);
        }
    }

    fn push(&mut self, line: &impl Serialize) {
        // Serialization into memory cannot fail for these types.
        let _ = serde_json::to_writer(&mut self.pending, line);
        self.pending.push(b'\n');
    }

    /// Writes the pending lines. At the maximum size, it writes a final line in their place.
    pub(crate) fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        if self.pending.is_empty() {
            return;
        }
        let is_full = self.written + self.pending.len() as u64 > self.max.as_u64();
        if is_full {
            self.pending.clear();
            let _ = serde_json::to_writer(&mut self.pending, &Record::Full { bytes: self.max.as_u64() });
            self.pending.push(b'\n');
        }
        let done = file.write_all(&self.pending);
        self.written += self.pending.len() as u64;
        self.pending.clear();
        let path = self.path.display();
        if let Err(e) = done {
            tracing::warn!("cannot write the decision log {path}, which ends here; the member continues: {e}");
            self.file = None;
        } else if is_full {
            tracing::warn!(
                "the decision log {path} has reached {} (`decision_log_size`) and ends here; the member continues",
                self.max
            );
            self.file = None;
        }
    }
}

/// Checks that a path is free or holds a decision log.
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
    Err(format!("{} exists and is not a decision log; set `decision_log` to another name", path.display()))
}

/// Renames the log of the previous run, and no other file.
fn keep_previous(path: &Path) -> Result<(), OverlayError> {
    let what = || format!("the decision log {}", path.display());
    let found = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(OverlayError::io(what()))?,
    };
    if found.is_file() && found.len() == 0 {
        // An empty log of a start with a full disk must not replace the log before it.
        return fs::remove_file(path).map_err(OverlayError::io(what()));
    }
    check(path).map_err(OverlayError::Refused)?;
    let mut previous = path.as_os_str().to_owned();
    previous.push(".1");
    fs::rename(path, previous).map_err(OverlayError::io(what()))
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
    fn a_log_ends_at_its_maximum_size_with_a_final_line() {
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
    fn a_full_disk_ends_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let mut record = RecordFile::create(&directory.path().join("decisions"), &begin(), Bytes::new(10_000)).unwrap();
        record.file = Some(File::options().write(true).open("/dev/full").unwrap());
        for ms in 0..100 {
            record.add(&tick(ms));
            record.flush();
        }
        assert!(record.file.is_none() && record.pending.is_empty(), "no lines accumulate in memory");
    }

    #[test]
    fn an_empty_log_does_not_replace_the_previous_one() {
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
    fn the_previous_log_is_kept_and_other_files_are_rejected() {
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
        for existing in [other.as_path(), directory.path()] {
            let error = RecordFile::create(existing, &begin(), Bytes::new(10_000)).err().unwrap().to_string();
            assert!(error.contains("is not a decision log"), "{error}");
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "key = \"west.key\"\n");
    }
}
