//! Location of the archive.

use std::ffi::OsString;
use std::path::PathBuf;

/// Environment variable with the path of the file, or `off` to disable the history.
pub const VARIABLE: &str = "LONGHAUL_HISTORY";

/// Location of the user's archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Path of the file, which need not exist.
    File(PathBuf),
    /// The user has disabled the history: [`VARIABLE`] is `off`.
    Off,
    /// The user has no home directory.
    NoHome,
}

impl Place {
    /// Determines the location from the environment: [`VARIABLE`], else the data directory of the XDG Base Directory
    /// Specification 0.8, which requires that relative paths are ignored.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let given = |name| variable(name).filter(|value| !value.is_empty());
        if let Some(file) = given(VARIABLE) {
            return if file == "off" { Self::Off } else { Self::File(file.into()) };
        }
        let data = given("XDG_DATA_HOME").map(PathBuf::from).filter(|directory| directory.is_absolute());
        let home = || given("HOME").map(|home| PathBuf::from(home).join(".local/share"));
        let directory = data.or_else(home);
        directory.map_or(Self::NoHome, |directory| Self::File(directory.join("longhaul/history.sqlite")))
    }
}
