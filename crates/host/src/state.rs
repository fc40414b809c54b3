//! Directory in which changes to this host are recorded, so that another process can undo them.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The directory of all state of this user: `LONGHAUL_STATE`, else `/run/longhaul` for root, else below
/// `XDG_RUNTIME_DIR`. It does not outlive a restart of the host, as the changes do not.
///
/// The first call decides. A process that enters a user namespace no longer knows its original user, so call this
/// before.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        if let Some(own) = std::env::var_os("LONGHAUL_STATE") {
            // Processes in other working directories must find the same path.
            return std::path::absolute(&own).unwrap_or_else(|_| own.into());
        }
        match (kernel::real_user(), std::env::var_os("XDG_RUNTIME_DIR")) {
            (0, _) => PathBuf::from("/run/longhaul"),
            (_, Some(runtime)) => Path::new(&runtime).join("longhaul"),
            (user, None) => std::env::temp_dir().join(format!("longhaul-{user}")),
        }
    })
}

/// Id of the calling thread's network namespace: the same for all processes in it, and never reused while the machine
/// runs.
///
/// # Errors
/// As of [`kernel::network_cookie`].
pub fn network() -> io::Result<u64> {
    kernel::network_cookie()
}

/// Creates a directory for one kind of state below `base`, which is that of [`directory`] except in tests. No other
/// user can have created or changed its content, as later processes act on it.
///
/// # Errors
/// One of the two directories belongs to another user, is a link, or is writable by other users; or it cannot be
/// created.
pub fn make(base: &Path, kind: &str) -> io::Result<PathBuf> {
    let path = base.join(kind);
    kernel::make_private_directory(base)?;
    kernel::make_private_directory(&path)?;
    Ok(path)
}

/// Finds an existing directory of [`make`]; `None` if it does not exist.
///
/// # Errors
/// As of [`make`].
pub fn find(base: &Path, kind: &str) -> io::Result<Option<PathBuf>> {
    let path = base.join(kind);
    Ok((kernel::check_private_directory(base)? && kernel::check_private_directory(&path)?).then_some(path))
}

/// An exclusive lock; the kernel releases it when the process ends.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Locked until it is closed, which is after the file is removed.
    _file: File,
}

impl Lock {
    /// Takes the lock on `path`, a lock file in a directory of [`make`]; `None` when another process holds it.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = kernel::append_private(path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, path)? => return Ok(Some(Self { path: path.to_owned(), _file: file })),
                // The previous holder has removed the file: a lock on an unlinked file excludes no process.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A leftover file is harmless.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a path leads to an open file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    use super::*;

    #[test]
    fn a_lock_has_one_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = make(directory.path(), "below").unwrap().join("lock");
        let first = Lock::take(&path).unwrap();
        assert!(first.is_some());
        assert!(Lock::take(&path).unwrap().is_none(), "flock(2) applies per open file, and thus within a process");
        drop(first);
        assert!(Lock::take(&path).unwrap().is_some());
        assert!(!path.exists(), "the lock file is removed");
    }

    #[test]
    fn two_contenders_never_both_hold_a_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let holders = AtomicUsize::new(0);
        let contend = || {
            for _ in 0..5_000 {
                if let Some(lock) = Lock::take(&path).unwrap() {
                    assert_eq!(holders.fetch_add(1, SeqCst), 0);
                    holders.fetch_sub(1, SeqCst);
                    drop(lock);
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(contend);
            scope.spawn(contend);
        });
    }
}
