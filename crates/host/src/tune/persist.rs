use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tuning::Change;

use super::TuneError;

/// File whose values apply after a restart (sysctl.d(5)).
pub const PERSISTENT: &str = "/etc/sysctl.d/90-longhaul.conf";

/// First line of the file, which identifies it as longhaul's.
const HEAD: &str = "# Written by `longhaul tune apply --persist`; `longhaul tune undo` removes it. Do not edit.";

/// The file for sysctl.d(5).
#[derive(Debug)]
pub struct Persistent(PathBuf);

impl Persistent {
    /// The file at this path; [`PERSISTENT`] except in tests.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether the file exists and was written by longhaul.
    ///
    /// # Errors
    /// Another program wrote it, or it cannot be read.
    pub fn is_ours(&self) -> Result<bool, TuneError> {
        match fs::read_to_string(&self.0) {
            Ok(text) if text.lines().next() == Some(HEAD) => Ok(true),
            Ok(_) => Err(TuneError::ForeignFile(self.0.clone())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(TuneError::file("reading", &self.0)(e)),
        }
    }

    /// Writes the values that longhaul set.
    ///
    /// # Errors
    /// A file of another program exists, or the directory is not writable.
    pub fn write(&self, changes: &[Change]) -> Result<(), TuneError> {
        self.is_ours()?;
        let text = tuning::persistent(HEAD, changes.iter().map(|c| (&c.setting, c.after.as_str())));
        // The file is public, as sysctls are, and systemd-sysctl need not run as root.
        kernel::replace_private(&self.0, text.as_bytes())
            .and_then(|()| fs::set_permissions(&self.0, fs::Permissions::from_mode(0o644)))
            .map_err(TuneError::file("writing", &self.0))
    }

    /// Removes the file if longhaul wrote it; returns whether it existed.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> Result<bool, TuneError> {
        if !self.is_ours().or_else(|e| if matches!(e, TuneError::ForeignFile(_)) { Ok(false) } else { Err(e) })? {
            return Ok(false);
        }
        fs::remove_file(&self.0).map_err(TuneError::file("removing", &self.0))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tuning::Setting;

    fn rmem() -> Change {
        let setting = Setting::Sysctl("net.ipv4.tcp_rmem".to_owned());
        Change { setting, before: "4096 131072 6291456".to_owned(), after: "4096 131072 250003456".to_owned() }
    }

    #[test]
    fn the_file_names_its_owner_and_is_valid_for_sysctl() {
        let directory = tempfile::tempdir().unwrap();
        let file = Persistent::at(directory.path().join("90-longhaul.conf"));
        let queue =
            Change { setting: Setting::QueueLength("eth0".to_owned()), before: "10000".into(), after: "1000".into() };
        file.write(&[rmem(), queue]).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        let (head, rest) = text.split_once('\n').unwrap();
        assert!(head.starts_with("# Written by `longhaul tune apply --persist`"), "{head}");
        assert_eq!(rest, "net.ipv4.tcp_rmem = 4096 131072 250003456\n");
        assert!(file.remove().unwrap());
        assert!(!file.path().exists() && !file.remove().unwrap());
    }

    #[test]
    fn a_file_of_another_program_is_neither_overwritten_nor_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("90-longhaul.conf");
        fs::write(&path, "net.ipv4.tcp_sack = 1\n").unwrap();
        let file = Persistent::at(&path);
        assert!(matches!(file.write(&[rmem()]), Err(TuneError::ForeignFile(_))));
        assert!(!file.remove().unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "net.ipv4.tcp_sack = 1\n");
    }
}
