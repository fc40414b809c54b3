//! Where the archive is.

use std::ffi::OsString;
use std::path::PathBuf;

/// Environment variable that names the file, or switches the history off.
pub const VARIABLE: &str = "LONGHAUL_HISTORY";

/// Where the archive of this user is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this file, which need not be there yet.
    File(PathBuf),
    /// Nowhere, by the user's wish: [`VARIABLE`] is `off`.
    Off,
    /// No file: the user has no home directory.
    NoHome,
}

impl Place {
    /// Asks the environment: [`VARIABLE`], else the directory for data of the XDG Base Directory Specification 0.8, which has
    /// relative paths ignored.
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
