//! Where changes to this host are written down, so that another process can take them back.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folder of all state of this user: `LONGHAUL_STATE`, else `/run/longhaul` for root, else below `XDG_RUNTIME_DIR`. It does not
/// outlive a restart of the host, as the changes do not.
///
/// The first call decides: in a user namespace of its own the process no longer knows whose it is, so call this before.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(own) = std::env::var_os("LONGHAUL_STATE") {
            // Other processes, in other folders, look for the same one.
            return std::path::absolute(&own).unwrap_or_else(|_| own.into());
        }
        match (kernel::real_user(), std::env::var_os("XDG_RUNTIME_DIR")) {
            (0, _) => PathBuf::from("/run/longhaul"),
            (_, Some(runtime)) => Path::new(&runtime).join("longhaul"),
            (user, None) => std::env::temp_dir().join(format!("longhaul-{user}")),
        }
    })
}

/// The number of the calling thread's network namespace: the same for all processes in it, and no other ever has it.
///
/// # Errors
/// As of [`kernel::network_cookie`].
pub fn network() -> io::Result<u64> {
    kernel::network_cookie()
}

/// Makes a directory for one kind of state below `base`, which is that of [`folder`] but for tests. Nobody else can have made or change
/// what is in it: what is noted there is done to this host later.
///
/// # Errors
/// One of the two belongs to somebody else, is a link, or others may write in it; or it cannot be made.
pub fn make(base: &Path, kind: &str) -> io::Result<PathBuf> {
    let path = base.join(kind);
    kernel::make_private_directory(base)?;
    kernel::make_private_directory(&path)?;
    Ok(path)
}

/// As [`make`], but makes nothing: `None` when there is no such directory.
///
/// # Errors
/// As of [`make`].
pub fn find(base: &Path, kind: &str) -> io::Result<Option<PathBuf>> {
    let path = base.join(kind);
    Ok((kernel::check_private_directory(base)? && kernel::check_private_directory(&path)?).then_some(path))
}

/// The sole right to change something; goes with the process that holds it, however that ends.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Locked until it is closed, which is after the file is removed.
    _file: File,
}

impl Lock {
    /// Takes the lock on `path`, a file made for it in a directory of [`make`]; `None` when another process holds it.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = kernel::append_private(path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, path)? => return Ok(Some(Self { path: path.to_owned(), _file: file })),
                // Its holder before has removed it: a lock on what nobody finds keeps nobody out.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Left behind it does no harm.
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
        let folder = tempfile::tempdir().unwrap();
        let path = make(folder.path(), "below").unwrap().join("lock");
        let first = Lock::take(&path).unwrap();
        assert!(first.is_some());
        assert!(Lock::take(&path).unwrap().is_none(), "flock(2) holds for each open file, so also within a process");
        drop(first);
        assert!(Lock::take(&path).unwrap().is_some());
        assert!(!path.exists(), "nothing is left behind");
    }

    #[test]
    fn two_who_contend_for_a_lock_never_both_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
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
