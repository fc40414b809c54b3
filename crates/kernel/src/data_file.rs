//! A file on a disk as the source or the sink of a transfer, bypassing the page cache.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{KernelError, Op};

/// A file that is read or written at the speed of its disk: pages leave the page cache as soon as they have been
/// used.
#[derive(Debug)]
pub struct DataFile {
    file: File,
    path: PathBuf,
    size: u64,
}

impl DataFile {
    /// Opens a regular file or a block device for reading.
    ///
    /// # Errors
    /// The file cannot be opened, is of another kind, or is empty.
    pub fn source(path: &Path) -> Result<Self, KernelError> {
        let error = |e| KernelError::new(Op::ReadFile, path.display(), e);
        // Without O_NONBLOCK opening a FIFO would block the caller.
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(error)?;
        let kind = file.metadata().map_err(error)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(error(invalid("neither a regular file nor a block device")));
        }
        let size = file.seek(SeekFrom::End(0)).map_err(error)?;
        if size == 0 {
            return Err(error(invalid("the file is empty")));
        }
        let file = Self { file, path: path.to_owned(), size };
        file.drop_pages(0, 0);
        Ok(file)
    }

    /// Creates an unlinked file for writing, so that nothing of it stays on the disk; or opens a character device
    /// such as /dev/null.
    ///
    /// # Errors
    /// A file of that name exists, or the file cannot be created.
    pub fn sink(path: &Path) -> Result<Self, KernelError> {
        let error = |e| KernelError::new(Op::WriteFile, path.display(), e);
        let is_device = path.metadata().is_ok_and(|m| m.file_type().is_char_device());
        let file = if is_device {
            OpenOptions::new().write(true).open(path).map_err(error)?
        } else {
            let file = crate::create_private(path).map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => error(invalid("the file exists; give the name of a new file")),
                _ => error(e),
            })?;
            std::fs::remove_file(path).map_err(error)?;
            file
        };
        Ok(Self { file, path: path.to_owned(), size: 0 })
    }

    /// Size in bytes when the file was opened; zero for a sink.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buffer` with the content from `offset` on.
    ///
    /// # Errors
    /// The disk fails, or the file was truncated.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), KernelError> {
        let read = self.file.read_exact_at(buffer, offset);
        self.drop_pages(offset, buffer.len() as u64);
        read.map_err(|e| KernelError::new(Op::ReadFile, self.path.display(), e))
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// The disk fails or is full.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<(), KernelError> {
        self.file.write_all_at(data, offset).map_err(|e| KernelError::new(Op::WriteFile, self.path.display(), e))
    }

    /// Waits until `len` bytes from `offset` on have been written to the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub fn settle(&self, offset: u64, len: u64) -> Result<(), KernelError> {
        let (at, span) = (offset as libc::off64_t, len as libc::off64_t);
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: the descriptor is open; the call takes numbers only.
        let rc = unsafe { libc::sync_file_range(self.file.as_raw_fd(), at, span, flags) };
        if rc != 0 {
            let e = io::Error::last_os_error();
            // Devices and pipes have no pages to write back.
            if !matches!(e.raw_os_error(), Some(libc::ESPIPE | libc::EINVAL)) {
                return Err(KernelError::new(Op::WriteFile, self.path.display(), e));
            }
        }
        self.drop_pages(offset, len);
        Ok(())
    }

    /// Drops pages from the page cache, as a hint to the kernel; a `len` of zero means up to the end.
    fn drop_pages(&self, offset: u64, len: u64) {
        let (at, span) = (offset as libc::off_t, len as libc::off_t);
        // SAFETY: the descriptor is open; the call takes numbers only.
        let _ = unsafe { libc::posix_fadvise(self.file.as_raw_fd(), at, span, libc::POSIX_FADV_DONTNEED) };
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_with_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        let text = |path: &Path| DataFile::source(path).unwrap_err().to_string();
        assert!(text(&path).contains("No such file"), "{}", text(&path));
        std::fs::write(&path, b"").unwrap();
        assert!(text(&path).ends_with("the file is empty"), "{}", text(&path));
        assert!(text(directory.path()).contains("neither a regular file nor"), "{}", text(directory.path()));
        std::fs::write(&path, b"0123456789").unwrap();
        let file = DataFile::source(&path).unwrap();
        let mut part = [0; 4];
        file.read_at(&mut part, 3).unwrap();
        assert_eq!((&part, file.size()), (b"3456", 10));
        assert!(file.read_at(&mut part, 8).is_err(), "beyond the end");
    }

    #[test]
    fn a_sink_replaces_nothing_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, b"precious").unwrap();
        let refused = DataFile::sink(&path).unwrap_err().to_string();
        assert!(refused.contains("the file exists"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
        let file = DataFile::sink(&path).unwrap();
        file.write_at(&[7; 10_000], 5).unwrap();
        file.settle(0, 10_005).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        DataFile::sink(Path::new("/dev/null")).unwrap().write_at(b"x", 1 << 40).unwrap();
    }
}
