//! Files that a user names: opened without waiting for the other end of a FIFO, and read up to a limit.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Reads the text of a regular file of at most `max` bytes. A symbolic link is followed.
///
/// # Errors
/// It is a directory, a FIFO, a device or a socket, is larger or is no UTF-8 (`InvalidData`), or it cannot be read.
pub fn read_regular(path: &Path, max: u64) -> io::Result<String> {
    let (file, _) = open_regular(path, 0)?;
    read_at_most(file, max)
}

/// Reads text up to its end, at most `max` bytes of it.
///
/// # Errors
/// There is more (`InvalidData`), it is no UTF-8, or it cannot be read.
pub fn read_at_most(source: impl Read, max: u64) -> io::Result<String> {
    let mut text = String::new();
    source.take(max.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is larger than {max} bytes")));
    }
    Ok(text)
}

/// Opens a file for writing with `options`. A FIFO that no process reads is an error, not a wait.
///
/// # Errors
/// No process reads the FIFO ([`has_no_reader`]), or it cannot be opened.
pub fn open_writer(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    let file = options.custom_flags(flags | libc::O_NONBLOCK).open(path)?;
    // Writes wait for the reader, as usual.
    set_blocking(file.as_raw_fd())?;
    Ok(file)
}

/// Whether [`open_writer`] failed because no process reads the FIFO.
pub fn has_no_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}

/// Opens a regular file for reading.
pub(crate) fn open_regular(path: &Path, flags: i32) -> io::Result<(File, Metadata)> {
    // Without O_NONBLOCK opening a FIFO would wait for its writer.
    let file = OpenOptions::new().read(true).custom_flags(flags | libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    match kind(&metadata) {
        None => Ok((file, metadata)),
        Some(kind) => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is {kind}, not a regular file"))),
    }
}

/// Type of a file that is not regular.
fn kind(metadata: &Metadata) -> Option<&'static str> {
    let file = metadata.file_type();
    match () {
        () if file.is_file() => None,
        () if file.is_dir() => Some("a directory"),
        () if file.is_fifo() => Some("a FIFO"),
        () if file.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

fn set_blocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: fcntl with F_GETFL takes an open descriptor and no pointer.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fcntl with F_SETFL takes an open descriptor and a number.
    match unsafe { libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use super::*;
    use crate::append_private;

    fn fifo(at: &Path) {
        assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
    }

    #[test]
    fn only_a_regular_file_within_the_limit_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("a"), "1234").unwrap();
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        fifo(&at("fifo"));
        assert_eq!(read_regular(&at("a"), 4).unwrap(), "1234");
        assert_eq!(read_regular(&at("link"), 4).unwrap(), "1234");
        let refused = |path: &Path| read_regular(path, 3).unwrap_err().to_string();
        assert_eq!(refused(&at("a")), "it is larger than 3 bytes");
        assert_eq!(refused(&at("fifo")), "it is a FIFO, not a regular file");
        assert_eq!(refused(directory.path()), "it is a directory, not a regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "it is a device, not a regular file");
        // A file of procfs has the length 0.
        assert!(!read_regular(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
    }

    #[test]
    fn a_fifo_without_a_reader_is_an_error_and_one_with_a_reader_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        fifo(&path);
        assert!(has_no_reader(&append_private(&path).unwrap_err()));
        assert!(has_no_reader(&open_writer(&path, OpenOptions::new().write(true), 0).unwrap_err()));
        let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let mut writer = append_private(&path).unwrap();
        writer.write_all(b"1\n").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "1\n");
    }
}
