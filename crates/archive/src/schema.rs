//! The tables, and their versions.

use rusqlite::{Connection, TransactionBehavior};

/// Migrations from each version to the next; an empty file has version 0.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE entry (
        id INTEGER PRIMARY KEY,
        at_s REAL NOT NULL,
        host TEXT NOT NULL,
        far TEXT NOT NULL,
        local TEXT NOT NULL,
        direction TEXT NOT NULL,
        source TEXT NOT NULL,
        method TEXT NOT NULL,
        quantity TEXT NOT NULL,
        layer TEXT NOT NULL,
        rate_bps INTEGER NOT NULL,
        low_bps INTEGER NOT NULL,
        high_bps INTEGER NOT NULL,
        round_trip_ns INTEGER,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX entry_of_path ON entry (far, local, direction, quantity, method);
"];

/// The version that this crate writes.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;

/// File identifier (`PRAGMA application_id`): "LHhi".
const APPLICATION_ID: i64 = 0x4c48_6869;

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// An empty file without an application id.
    Empty,
    /// A history file with this version, at most [`VERSION`].
    Ours(i64),
    /// A history file with a later version.
    Newer(i64),
    /// A database of another program.
    Foreign,
}

/// Determines the format of the file. The caller holds a transaction, because the function queries the file several
/// times.
pub(crate) fn format(connection: &Connection) -> rusqlite::Result<Format> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let objects = number("SELECT COUNT(*) FROM sqlite_master")?;
    Ok(match (application, version) {
        (0, 0) if objects == 0 => Format::Empty,
        (APPLICATION_ID, version) if version > VERSION => Format::Newer(version),
        (APPLICATION_ID, version) if version > 0 => Format::Ours(version),
        _ => Format::Foreign,
    })
}

/// Migrates an empty or older file to [`VERSION`] in one transaction; files of other programs or later versions are
/// unchanged.
pub(crate) fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // The format is read within the transaction, because another process may have migrated the file.
    let from = match format(&transaction)? {
        Format::Empty => 0,
        Format::Ours(version) => version,
        Format::Newer(_) | Format::Foreign => return Ok(()),
    };
    for step in MIGRATIONS.iter().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
        transaction.execute_batch(step)?;
    }
    transaction.execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}"))?;
    transaction.commit()
}
