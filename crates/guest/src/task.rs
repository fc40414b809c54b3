use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::GuestError;

/// Environment variable that a program of the guest finds set to `1`.
pub const VARIABLE: &str = "LONGHAUL_VIRTUAL";

/// Directories of the guest that hide those of the host.
const COVERED: [&str; 5] = ["/tmp", "/run", "/dev", "/proc", "/sys"];

/// A command to run in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The program, an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its working directory, an absolute path.
    pub directory: PathBuf,
    /// Its environment, all of it.
    pub environment: Vec<(String, String)>,
    /// Directories of the host that it may write to, absolute paths of existing directories.
    pub writable: Vec<PathBuf>,
    /// Directories of the host that it needs to read, also below /tmp and /run.
    pub readable: Vec<PathBuf>,
}

/// A directory of the host to mount in the guest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mount {
    pub(crate) directory: PathBuf,
    pub(crate) is_writable: bool,
}

impl Task {
    /// Reads a task that [`crate::run`] wrote.
    pub(crate) fn read(file: &Path) -> Result<Self, GuestError> {
        let text = fs::read_to_string(file).map_err(GuestError::host(format!("cannot read {}", file.display())))?;
        serde_json::from_str(&text).map_err(|e| GuestError::Init(format!("{}: {e}", file.display())))
    }

    /// The mounts of the task: outer directories first, each directory once.
    ///
    /// A readable directory needs a mount only where the guest hides the host's, and only outside of the others.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        let mut mounts: Vec<Mount> = Vec::new();
        let mut writable = self.writable.clone();
        writable.sort();
        for directory in writable {
            if !mounts.iter().any(|m| directory.starts_with(&m.directory)) {
                mounts.push(Mount { directory, is_writable: true });
            }
        }
        let program = self.program.parent().map(Path::to_owned);
        let mut readable: Vec<PathBuf> = self.readable.iter().cloned().chain(program).collect();
        readable.push(self.directory.clone());
        readable.sort();
        for directory in readable {
            let is_covered = COVERED.iter().any(|c| directory.starts_with(c));
            if is_covered && !mounts.iter().any(|m| directory.starts_with(&m.directory)) {
                mounts.push(Mount { directory, is_writable: false });
            }
        }
        mounts.sort();
        mounts
    }

    /// Checks what the guest could not do.
    pub(crate) fn check(&self) -> Result<(), GuestError> {
        // A mount there would hide file systems of the guest.
        let is_hidden = |d: &PathBuf| d.parent().is_none() || COVERED[1..].iter().any(|c| d.starts_with(c));
        match self.writable.iter().find(|d| is_hidden(d)) {
            Some(directory) => Err(GuestError::Directory(directory.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(writable: &[&str], readable: &[&str]) -> Task {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect();
        Task {
            program: "/usr/bin/longhaul".into(),
            arguments: Vec::new(),
            directory: "/srv/user".into(),
            environment: Vec::new(),
            writable: paths(writable),
            readable: paths(readable),
        }
    }

    fn mounts(task: &Task) -> Vec<(String, bool)> {
        task.mounts().into_iter().map(|m| (m.directory.display().to_string(), m.is_writable)).collect()
    }

    #[test]
    fn a_directory_inside_a_mounted_one_is_not_mounted_again() {
        let found = mounts(&task(&["/srv/user/out", "/srv/user"], &["/srv/user/files", "/usr/share"]));
        assert_eq!(found, [("/srv/user".to_owned(), true)]);
    }

    #[test]
    fn a_readable_directory_is_mounted_where_the_guest_hides_it() {
        let mut task = task(&["/tmp/out"], &["/tmp/files", "/srv/user/files", "/tmp/out/more"]);
        task.program = "/tmp/build/longhaul".into();
        let expected = [("/tmp/build", false), ("/tmp/files", false), ("/tmp/out", true)];
        assert_eq!(mounts(&task), expected.map(|(d, w)| (d.to_owned(), w)));
    }

    #[test]
    fn the_root_and_the_directories_of_the_guest_are_not_writable() {
        for wrong in ["/", "/run", "/dev/shm/x"] {
            assert!(task(&[wrong], &[]).check().is_err(), "{wrong}");
        }
        assert!(task(&["/tmp/out", "/tmp", "/srv/user"], &[]).check().is_ok());
    }
}
