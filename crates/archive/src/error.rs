//! What can go wrong with the file, and what the user can do.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::place::VARIABLE;

/// Why the archive could not be used. Each names the file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Folder or file could not be made.
    #[error(
        "cannot make the history {}: {source}; set {VARIABLE} to a file that can be made, or to `off`",
        path.display()
    )]
    Make {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file could not be opened.
    #[error("cannot open the history {}: {source}; see to its rights, or set {VARIABLE} to another file", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file is something else.
    #[error("{} is no history of longhaul; move it away, or set {VARIABLE} to another file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A later longhaul has written it.
    #[error(
        "the history {} has format {found}, and this longhaul knows formats up to {known}; use the longhaul that wrote it, or set \
         {VARIABLE} to another file",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its format.
        found: i64,
        /// Latest version that this crate knows.
        known: i64,
    },
    /// Another process is writing and did not end in time.
    #[error("the history {} is in use by another process that does not end; try again when it has", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// It may be read but not written.
    #[error(
        "the history {} cannot be written; see to the rights of the file and of its folder, or set {VARIABLE} to another file",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// There is no room.
    #[error("there is no room for the history {}; nothing was added; make room, or set {VARIABLE} to `off`", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// It does not hold what it should.
    #[error("the history {} is damaged ({what}); move it away, and a new one is begun", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Anything else.
    #[error("the history {}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl ArchiveError {
    /// By what SQLite says of a file.
    pub(crate) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        if let rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..) = source {
            return Self::Damaged { path, what: source.to_string() };
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, what: source.to_string() },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::Open { path, source },
            _ => Self::Sqlite { path, source },
        }
    }
}
