//! The archive.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, ToSql, TransactionBehavior, params};

use crate::entry::{Entry, Filter, PathKey, PathSummary};
use crate::error::ArchiveError;
use crate::place::Place;
use crate::rows::{self, COLUMNS, count, key, record_name, with_columns};
use crate::schema::{self, Format, VERSION};

/// Maximum entries per path, quantity and method; the oldest are removed first. A thousand entries cover years of daily
/// tests and exceed the range of the predictors.
pub const ENTRIES_MAX: u32 = 1000;

/// Maximum wait for the lock of another process. Writing an entry takes milliseconds, on a slow disk some hundred.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// First bytes of every SQLite database (sqlite.org/fileformat2.html, section 1.3).
const SQLITE_HEADER: &[u8] = b"SQLite format 3\0";

/// An open archive.
#[derive(Debug)]
pub struct Archive {
    connection: Connection,
    file: PathBuf,
}

impl Archive {
    /// Location of the user's archive.
    pub fn default_path() -> Place {
        Place::from_environment(|name| std::env::var_os(name))
    }

    /// Opens the user's archive and creates it if necessary; `None` if the history is disabled or the user has no home
    /// directory.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_default() -> Result<Option<Self>, ArchiveError> {
        match Self::default_path() {
            Place::File(file) => Self::open(&file).map(Some),
            Place::Off | Place::NoHome => Ok(None),
        }
    }

    /// Opens an archive for reading and writing. A missing file is created with permissions for its owner only.
    ///
    /// # Errors
    /// The file cannot be created or opened, is not a history, or has a newer format.
    pub fn open(file: &Path) -> Result<Self, ArchiveError> {
        // The path is absolute, because SQLite treats `:memory:` specially.
        let file = std::path::absolute(file).map_err(|source| ArchiveError::Make { path: file.to_owned(), source })?;
        make(&file).map_err(|source| ArchiveError::Make { path: file.clone(), source })?;
        let mut archive = Self::connect(file)?;
        if archive.format()? != Format::Ours(VERSION) {
            archive.prepare()?;
        }
        Ok(archive)
    }

    /// Opens an existing archive; `None` if the file is missing or empty.
    ///
    /// # Errors
    /// The file cannot be opened, is not a history, or has a newer format.
    pub fn open_existing(file: &Path) -> Result<Option<Self>, ArchiveError> {
        // SQLite reports all other errors of the file.
        if fs::metadata(file).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let file = std::path::absolute(file).map_err(|source| ArchiveError::Make { path: file.to_owned(), source })?;
        let mut archive = Self::connect(file)?;
        match archive.format()? {
            Format::Empty => return Ok(None),
            Format::Ours(VERSION) => {}
            Format::Ours(_) | Format::Newer(_) | Format::Foreign => archive.prepare()?,
        }
        Ok(Some(archive))
    }

    /// Path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn connect(file: PathBuf) -> Result<Self, ArchiveError> {
        if is_other_than_sqlite(&file) {
            return Err(ArchiveError::Foreign { path: file });
        }
        // SQLite falls back to read-only for a file without write permission. The connection has a single user and
        // needs no mutex.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags).map_err(|e| ArchiveError::of(&file, e))?;
        let archive = Self { connection, file };
        archive.connection.busy_timeout(LOCK_TIMEOUT).map_err(|e| archive.error(e))?;
        // Deleted entries are overwritten, because host names reveal the user's activity.
        archive.connection.pragma_update(None, "secure_delete", true).map_err(|e| archive.error(e))?;
        Ok(archive)
    }

    fn format(&self) -> Result<Format, ArchiveError> {
        let path = self.file.clone();
        // The transaction gives a consistent view, because another process may be creating the tables.
        let moment = self.connection.unchecked_transaction().map_err(|e| self.error(e))?;
        match schema::format(&moment).map_err(|e| self.error(e))? {
            Format::Newer(found) => Err(ArchiveError::Newer { path, found, known: VERSION }),
            Format::Foreign => Err(ArchiveError::Foreign { path }),
            usable @ (Format::Empty | Format::Ours(_)) => Ok(usable),
        }
    }

    fn prepare(&mut self) -> Result<(), ArchiveError> {
        schema::prepare(&mut self.connection).map_err(|e| ArchiveError::of(&self.file, e))
    }

    /// Adds all entries or none, and removes the oldest beyond [`ENTRIES_MAX`] per path, quantity and method.
    ///
    /// # Errors
    /// The file is not writable, the disk is full, or another process holds the lock beyond the timeout.
    pub fn add(&mut self, entries: &[Entry]) -> Result<(), ArchiveError> {
        add(&mut self.connection, entries).map_err(|e| ArchiveError::of(&self.file, e))
    }

    /// Entries that match the filter, oldest first.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn entries(&self, filter: &Filter) -> Result<Vec<Entry>, ArchiveError> {
        let sql = format!("SELECT {COLUMNS} FROM entry WHERE {FILTER_CONDITION} ORDER BY at_s, id");
        self.select(&sql, filter, rows::entry).map_err(|e| self.error(e))
    }

    /// Paths of the entries that match the filter, most recently used first.
    ///
    /// # Errors
    /// Those of [`Self::entries`].
    pub fn paths(&self, filter: &Filter) -> Result<Vec<PathSummary>, ArchiveError> {
        let sql = format!(
            "SELECT far, local, direction, COUNT(*), MIN(at_s), MAX(at_s) FROM entry WHERE {FILTER_CONDITION} \
             GROUP BY far, local, direction ORDER BY MAX(at_s) DESC, far, local, direction"
        );
        let summary = |row: &Row<'_>| {
            let path = rows::path(row, 0)?;
            let hosts = self.hosts(&path)?;
            Ok(PathSummary { path, hosts, entries: count(row.get(3)?), first_s: row.get(4)?, last_s: row.get(5)? })
        };
        self.select(&sql, filter, summary).map_err(|e| self.error(e))
    }

    fn hosts(&self, path: &PathKey) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare(
            "SELECT host FROM entry WHERE far = ?1 AND local = ?2 AND direction = ?3 \
             GROUP BY host COLLATE NOCASE ORDER BY MAX(at_s) DESC, host",
        )?;
        statement.query_map(key(path), |row| row.get(0))?.collect()
    }

    /// Removes all entries of a path; returns their number.
    ///
    /// # Errors
    /// Those of [`Self::add`].
    pub fn forget(&mut self, path: &PathKey) -> Result<usize, ArchiveError> {
        let sql = "DELETE FROM entry WHERE far = ?1 AND local = ?2 AND direction = ?3";
        self.connection.execute(sql, key(path)).map_err(|e| self.error(e))
    }

    fn select<T>(
        &self,
        sql: &str,
        filter: &Filter,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let [far, local, direction] = filter.path.as_ref().map(key).map_or_else(Default::default, |k| k.map(Some));
        // An address is compared in canonical form. A name is compared without case and without the trailing dot.
        let host = filter.host.as_deref().map(|host| host.strip_suffix('.').unwrap_or(host));
        let address = host.and_then(|h| h.parse::<std::net::IpAddr>().ok()).map(|a| a.to_canonical().to_string());
        let values: [&dyn ToSql; 8] = [
            &far,
            &local,
            &direction,
            &filter.quantity.as_ref().map(record_name),
            &filter.layer.as_ref().map(record_name),
            &filter.since_s,
            &host,
            &address,
        ];
        self.connection.prepare(sql)?.query_map(values, row)?.collect()
    }

    pub(crate) fn error(&self, source: rusqlite::Error) -> ArchiveError {
        ArchiveError::of(&self.file, source)
    }

    #[cfg(test)]
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// SQL condition for a [`Filter`], whose fields are the parameters of [`Archive::select`].
const FILTER_CONDITION: &str = "(?1 IS NULL OR (far = ?1 AND local = ?2 AND direction = ?3)) \
     AND (?4 IS NULL OR quantity = ?4) \
     AND (?5 IS NULL OR layer = ?5) \
     AND (?6 IS NULL OR at_s >= ?6) \
     AND (?7 IS NULL OR (far, local, direction) IN \
         (SELECT far, local, direction FROM entry WHERE RTRIM(host, '.') = ?7 COLLATE NOCASE OR far = ?8))";

/// Creates the missing file and directories without permissions for other users, as the XDG specification requires of
/// directories.
fn make(file: &Path) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    // SQLite would create the file with default permissions; its journal inherits those of the file.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether the file has content that is not a database. SQLite treats a file shorter than its header as empty and
/// overwrites it. Unreadable files are left to SQLite.
fn is_other_than_sqlite(file: &Path) -> bool {
    let mut start = Vec::new();
    let read = fs::File::open(file).and_then(|f| f.take(SQLITE_HEADER.len() as u64).read_to_end(&mut start));
    read.is_ok() && !start.is_empty() && start != SQLITE_HEADER
}

fn add(connection: &mut Connection, entries: &[Entry]) -> rusqlite::Result<()> {
    // An immediate write transaction avoids the deadlock of two processes that both read first.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut insert = transaction.prepare(&format!(
            "INSERT INTO entry ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
        ))?;
        let mut trim = transaction.prepare(
            "DELETE FROM entry WHERE id IN (SELECT id FROM entry WHERE far = ?1 AND local = ?2 AND direction = ?3 \
             AND quantity = ?4 AND method = ?5 ORDER BY id DESC LIMIT -1 OFFSET ?6)",
        )?;
        for entry in entries {
            with_columns(entry, |columns| insert.execute(columns))?;
            let [far, local, direction] = key(&entry.path);
            trim.execute(params![far, local, direction, record_name(&entry.quantity), entry.method, ENTRIES_MAX])?;
        }
    }
    transaction.commit()
}
