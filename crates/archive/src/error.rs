//! Errors of the history file, each with its remedy.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::place::VARIABLE;

/// Reason why the archive cannot be used. Each error names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The directory or file could not be created.
    #[error(
        "cannot create the history {}: {source}; set {VARIABLE} to a writable path, or to `off`",
        path.display()
    )]
    Make {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file could not be opened.
    #[error("cannot open the history {}: {source}; check its permissions, or set {VARIABLE} to another file", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The file is not a history.
    #[error("{} is not a history of longhaul; move it away, or set {VARIABLE} to another file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file has the format of a later version of longhaul.
    #[error(
        "the history {} has format {found}; this version reads formats up to {known}: use the version that wrote it, or \
         set {VARIABLE} to another file",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its format.
        found: i64,
        /// Latest version that this crate reads.
        known: i64,
    },
    /// Another process held the write lock beyond the timeout.
    #[error("the history {} is locked by another process; try again when that process has ended", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file is readable but not writable.
    #[error(
        "the history {} is not writable; check the permissions of the file and its directory, or set {VARIABLE} to another file",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("no space left for the history {}; nothing was added: free some space, or set {VARIABLE} to `off`", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The content is damaged.
    #[error("the history {} is damaged ({what}); move it away to start a new one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// Any other error of SQLite.
    #[error("the history {}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
}

impl ArchiveError {
    /// Converts an error of SQLite about a file.
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
