//! The file of events.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// The file of events. That it cannot be written, on a full disk for instance, ends no tunnel.
pub(super) struct EventFile<W> {
    file: W,
    fails: bool,
}

impl<W: Write> EventFile<W> {
    pub(super) fn new(file: W) -> Self {
        Self { file, fails: false }
    }

    /// Says whether the event is in the file.
    pub(super) fn write(&mut self, event: &str) -> bool {
        // A failure may have left a piece of a line.
        let begin = if self.fails { "\n" } else { "" };
        let written = self.file.write_all(format!("{begin}{event}\n").as_bytes());
        match &written {
            Err(e) if !self.fails => tracing::warn!("events are lost, as their file cannot be written: {e}"),
            Ok(()) if self.fails => tracing::warn!("the file of events can be written again"),
            Err(_) | Ok(()) => {}
        }
        self.fails = written.is_err();
        !self.fails
    }
}

/// Looks whether events can be there: lines are added to no other file.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
    // Who may write to the directory could have made it; `/dev/stdout` is one, too, which leads to no file.
    if is_link && std::fs::metadata(path).is_ok_and(|there| there.is_file()) {
        return Err(format!("{} is a link to a file; set `event_log` to the name of the file itself", path.display()));
    }
    if is_ours(path) {
        return Ok(());
    }
    Err(format!("{} exists and has no events in it; set `event_log` to another name", path.display()))
}

/// Whether what is there are events, or nothing.
fn is_ours(path: &Path) -> bool {
    let Ok(there) = std::fs::metadata(path) else { return true };
    // A pipe or a terminal is somebody's to read, and has no lines of its own.
    if !there.is_file() || there.len() == 0 {
        return !there.is_dir();
    }
    let mut first = [0];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    // One that this member may add to and not read; and of the first line a full disk may have taken a piece.
    read.map_or_else(|e| e.kind() == ErrorKind::PermissionDenied, |()| first == *b"{")
}

/// Opens it, to add to what is there; nothing where that cannot be, which is told.
pub(super) fn open(path: &Path) -> Option<EventFile<File>> {
    let open = kernel::append_private(path);
    let tell = |e: &std::io::Error| {
        let path = path.display();
        match kernel::has_no_reader(e) {
            true => tracing::warn!("no process reads the FIFO {path} (`event_log`), so events are not written to it"),
            false => tracing::warn!("events are lost, as their file {path} cannot be had: {e}"),
        }
    };
    open.inspect_err(tell).ok().map(EventFile::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_that_nobody_reads_does_not_stop_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(check(&path), Ok(()));
        assert!(open(&path).is_none());
    }

    /// Takes what fits.
    struct Disk {
        room: usize,
        taken: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let n = bytes.len().min(self.room);
            self.room -= n;
            self.taken.extend(&bytes[..n]);
            if n == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(n) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_added_to_events_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events");
        assert!(is_ours(&path) && !is_ours(directory.path()));
        for (text, ours) in [
            ("", true),
            ("{\"event\":\"left\"}\n", true),
            ("{\"n\"\n{\"event\":\"left\"}\n", true),
            ("ed25519 AAAA\n", false),
            ("key = 7\n", false),
            ("7\n", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(is_ours(&path), ours, "{text}");
        }
        std::fs::write(&path, "{\"event\":\"left\"}\n").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(check(&path).is_ok() && check(&link).unwrap_err().contains("link to a file"));
        assert!(check(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn a_full_disk_costs_events_and_no_more() {
        let mut file = EventFile::new(Disk { room: 12, taken: Vec::new() });
        assert_eq!([r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#].map(|e| file.write(e)), [true, false, false]);
        file.file.room = 100;
        assert_eq!([r#"{"n":4}"#, r#"{"n":5}"#].map(|e| file.write(e)), [true, true]);
        let text = String::from_utf8(file.file.taken).unwrap();
        assert_eq!(text, "{\"n\":1}\n{\"n\"\n{\"n\":4}\n{\"n\":5}\n", "what follows the failure is whole");
    }
}
