//! The event log file.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// The event log. Write errors, for example of a full disk, lose events and do not end the member.
pub(super) struct EventFile<W> {
    file: W,
    /// Whether the last write failed.
    has_failed: bool,
}

impl<W: Write> EventFile<W> {
    pub(super) fn new(file: W) -> Self {
        Self { file, has_failed: false }
    }

    /// Writes an event; false: it is lost.
    pub(super) fn write(&mut self, event: &str) -> bool {
        // A failed write may have left a partial line.
        let separator = if self.has_failed { "\n" } else { "" };
        let written = self.file.write_all(format!("{separator}{event}\n").as_bytes());
        match &written {
            Err(e) if !self.has_failed => tracing::warn!("cannot write the event log, events are lost: {e}"),
            Ok(()) if self.has_failed => tracing::warn!("the event log can be written again"),
            Err(_) | Ok(()) => {}
        }
        self.has_failed = written.is_err();
        !self.has_failed
    }
}

/// Checks that a path is free or an event log, so that events are never added to another file.
pub(super) fn check(path: &Path) -> Result<(), String> {
    // The user who starts the member selects the target of its standard streams, which may be a file with other lines.
    if let Some(stream) = kernel::duplicate_standard_stream(path) {
        return stream.map(drop).map_err(|e| format!("{}: {e}; set `event_log` to a file", path.display()));
    }
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    // Any user with write permission in the directory can create a link to another file. A link to a device is allowed.
    if is_link && std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return Err(format!("{} is a link to a file; set `event_log` to the name of the file itself", path.display()));
    }
    if is_event_log(path) {
        return Ok(());
    }
    Err(format!("{} exists and is not an event log; set `event_log` to another name", path.display()))
}

/// Whether the path is free, or holds events.
fn is_event_log(path: &Path) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return true };
    // A FIFO or a terminal has no contents to protect.
    if !found.is_file() || found.len() == 0 {
        return !found.is_dir();
    }
    let mut first = [0];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    // The file may be writable only. The first byte suffices, as a full disk may have truncated the first line.
    read.map_or_else(|e| e.kind() == ErrorKind::PermissionDenied, |()| first == *b"{")
}

/// Opens the event log for appending; on an error logs a warning and returns `None`.
pub(super) fn open(path: &Path) -> Option<EventFile<File>> {
    let file = kernel::duplicate_standard_stream(path).unwrap_or_else(|| kernel::append_private(path));
    let warn = |e: &std::io::Error| {
        let path = path.display();
        match kernel::has_no_reader(e) {
            true => tracing::warn!("no process reads the FIFO {path} (`event_log`), so events are not written to it"),
            false => tracing::warn!("cannot open the event log {path}, events are lost: {e}"),
        }
    };
    file.inspect_err(warn).ok().map(EventFile::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_without_a_reader_does_not_block_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(check(&path), Ok(()));
        assert!(open(&path).is_none());
    }

    /// A disk with limited free space.
    struct Disk {
        free: usize,
        contents: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let n = bytes.len().min(self.free);
            self.free -= n;
            self.contents.extend(&bytes[..n]);
            if n == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(n) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn events_are_appended_only_to_an_event_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events");
        assert!(is_event_log(&path) && !is_event_log(directory.path()));
        for (text, expected) in [
            ("", true),
            ("{\"event\":\"left\"}\n", true),
            ("{\"n\"\n{\"event\":\"left\"}\n", true),
            ("ed25519 AAAA\n", false),
            ("key = 7\n", false),
            ("7\n", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(is_event_log(&path), expected, "{text}");
        }
        std::fs::write(&path, "{\"event\":\"left\"}\n").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(check(&path).is_ok() && check(&link).unwrap_err().contains("link to a file"));
        assert!(check(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn lines_after_a_full_disk_are_complete() {
        let mut file = EventFile::new(Disk { free: 12, contents: Vec::new() });
        assert_eq!([r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#].map(|e| file.write(e)), [true, false, false]);
        file.file.free = 100;
        assert_eq!([r#"{"n":4}"#, r#"{"n":5}"#].map(|e| file.write(e)), [true, true]);
        let text = String::from_utf8(file.file.contents).unwrap();
        assert_eq!(text, "{\"n\":1}\n{\"n\"\n{\"n\":4}\n{\"n\":5}\n");
    }
}
