//! File of records that keeps its earlier content until the first record, so that a run that fails before it loses
//! nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;

use crate::target;

/// Opened file of records.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: File,
    /// Whether the file still has its earlier content.
    is_old: bool,
}

impl RecordFile {
    /// Opens the file early, so that an unwritable path fails before the work. It is created if it does not exist.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        let opened = target::open(path, options.write(true).create(true).truncate(false));
        let file = opened.with_context(|| format!("cannot write {}", path.display()))?;
        let is_old = file.metadata().is_ok_and(|m| m.is_file());
        Ok(Self { file, is_old })
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.is_old {
            self.file.set_len(0)?;
            self.is_old = false;
        }
        Ok(())
    }
}

impl Write for RecordFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_earlier_content_stays_until_the_first_record() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("old");
        fs::write(&path, "a longer earlier record\n").unwrap();
        let mut file = RecordFile::open(&path).unwrap();
        file.flush().unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a longer earlier record\n");
        let mut file = RecordFile::open(&path).unwrap();
        file.write_all(b"1\n").unwrap();
        file.write_all(b"2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n");
        RecordFile::open(Path::new("/dev/null")).unwrap().write_all(b"1\n").unwrap();
    }
}
