//! The archive itself.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, ToSql, TransactionBehavior, params};

use crate::entry::{Entry, Filter, PathKey, PathSummary};
use crate::error::ArchiveError;
use crate::place::Place;
use crate::rows::{self, COLUMNS, count, key, with_columns, word};
use crate::schema::{self, Format, VERSION};

/// Entries kept of a path by one method of one quantity; the first written go. A thousand are years of daily tests, and more
/// than predictors look back.
pub const ENTRIES_MAX: u32 = 1000;

/// How long to wait for another process; writing an entry takes milliseconds, on a slow disk some hundred.
const PATIENCE: Duration = Duration::from_secs(5);

/// First bytes of every SQLite database (sqlite.org/fileformat2.html, section 1.3).
const HEADER: &[u8] = b"SQLite format 3\0";

/// An open archive.
#[derive(Debug)]
pub struct Archive {
    connection: Connection,
    file: PathBuf,
}

impl Archive {
    /// Where the archive of this user is.
    pub fn default_path() -> Place {
        Place::from_environment(|name| std::env::var_os(name))
    }

    /// Opens the archive of this user and creates it if necessary; `None` where it is disabled or has no place.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_default() -> Result<Option<Self>, ArchiveError> {
        match Self::default_path() {
            Place::File(file) => Self::open(&file).map(Some),
            Place::Off | Place::NoHome => Ok(None),
        }
    }

    /// Opens an archive for reading and adding; creates it with permissions for its owner only if it does not exist.
    ///
    /// # Errors
    /// The file cannot be made or opened, is something else, or has a newer format.
    pub fn open(file: &Path) -> Result<Self, ArchiveError> {
        // Absolute: for SQLite `:memory:` is no file.
        let file = std::path::absolute(file).map_err(|source| ArchiveError::Make { path: file.to_owned(), source })?;
        make(&file).map_err(|source| ArchiveError::Make { path: file.clone(), source })?;
        let mut archive = Self::connect(file)?;
        if archive.format()? != Format::Ours(VERSION) {
            archive.prepare()?;
        }
        Ok(archive)
    }

    /// Opens an archive if it is there; `None` if it is not, or holds nothing yet.
    ///
    /// # Errors
    /// It cannot be opened, is something else, or has a newer format.
    pub fn open_existing(file: &Path) -> Result<Option<Self>, ArchiveError> {
        // What else keeps it from being opened is for SQLite to say.
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

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn connect(file: PathBuf) -> Result<Self, ArchiveError> {
        if is_other_than_sqlite(&file) {
            return Err(ArchiveError::Foreign { path: file });
        }
        // A file that may only be read is opened for reading. One user of the connection, so no lock of its own.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags).map_err(|e| ArchiveError::of(&file, e))?;
        let archive = Self { connection, file };
        archive.connection.busy_timeout(PATIENCE).map_err(|e| archive.error(e))?;
        // What is forgotten is overwritten: names of hosts tell where somebody has been.
        archive.connection.pragma_update(None, "secure_delete", true).map_err(|e| archive.error(e))?;
        Ok(archive)
    }

    fn format(&self) -> Result<Format, ArchiveError> {
        let path = self.file.clone();
        // At one moment: another process may be about to make the tables.
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

    /// Adds entries, all or none, and lets go those that are more than [`ENTRIES_MAX`] of a path, quantity and method.
    ///
    /// # Errors
    /// It cannot be written; there is no room; another process is at it and does not end.
    pub fn add(&mut self, entries: &[Entry]) -> Result<(), ArchiveError> {
        add(&mut self.connection, entries).map_err(|e| ArchiveError::of(&self.file, e))
    }

    /// The entries that fit, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn entries(&self, filter: &Filter) -> Result<Vec<Entry>, ArchiveError> {
        let sql = format!("SELECT {COLUMNS} FROM entry WHERE {FITS} ORDER BY at_s, id");
        self.select(&sql, filter, rows::entry).map_err(|e| self.error(e))
    }

    /// The paths of the entries that fit, the one used last first.
    ///
    /// # Errors
    /// Those of [`Self::entries`].
    pub fn paths(&self, filter: &Filter) -> Result<Vec<PathSummary>, ArchiveError> {
        let sql = format!(
            "SELECT far, local, direction, COUNT(*), MIN(at_s), MAX(at_s) FROM entry WHERE {FITS} \
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
        // An address has many spellings and a name one, apart from capitals and the dot of the root.
        let host = filter.host.as_deref().map(|host| host.strip_suffix('.').unwrap_or(host));
        let address = host.and_then(|h| h.parse::<std::net::IpAddr>().ok()).map(|a| a.to_canonical().to_string());
        let values: [&dyn ToSql; 8] = [
            &far,
            &local,
            &direction,
            &filter.quantity.as_ref().map(word),
            &filter.layer.as_ref().map(word),
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

/// SQL condition for a [`Filter`], whose parts are the values of [`Archive::select`].
const FITS: &str = "(?1 IS NULL OR (far = ?1 AND local = ?2 AND direction = ?3)) \
     AND (?4 IS NULL OR quantity = ?4) \
     AND (?5 IS NULL OR layer = ?5) \
     AND (?6 IS NULL OR at_s >= ?6) \
     AND (?7 IS NULL OR (far, local, direction) IN \
         (SELECT far, local, direction FROM entry WHERE RTRIM(host, '.') = ?7 COLLATE NOCASE OR far = ?8))";

/// Makes file and directories where they are missing, with no rights for others (the specification of XDG asks that of directories).
fn make(file: &Path) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    // SQLite would make the file with the rights that are usual, and gives its journal those of the file.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether the file holds what is no database. SQLite takes a file that is shorter than its header for an empty one, and writes
/// over it. What cannot be read is left to SQLite to judge.
fn is_other_than_sqlite(file: &Path) -> bool {
    let mut begin = Vec::new();
    let read = fs::File::open(file).and_then(|f| f.take(HEADER.len() as u64).read_to_end(&mut begin));
    read.is_ok() && !begin.is_empty() && begin != HEADER
}

fn add(connection: &mut Connection, entries: &[Entry]) -> rusqlite::Result<()> {
    // At once for writing: two that have begun to read would wait for each other in vain.
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
            trim.execute(params![far, local, direction, word(&entry.quantity), entry.method, ENTRIES_MAX])?;
        }
    }
    transaction.commit()
}
