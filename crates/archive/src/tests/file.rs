//! Tests of the states of the file.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::*;
use crate::{ArchiveError, Filter, Place};

fn count(archive: &Archive) -> usize {
    archive.entries(&Filter::default()).unwrap().len()
}

/// Error text for the user, which must contain the path of the file.
fn text_of(error: &ArchiveError, file: &Path) -> String {
    let text = error.to_string();
    assert!(text.contains(&file.display().to_string()), "{text}");
    text
}

#[test]
fn directory_and_file_have_permissions_for_their_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("data/longhaul");
    let file = inner.join("history.sqlite");
    Archive::open(&file).unwrap().add(&[entry(1.0, 1)]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&inner), mode(inner.parent().unwrap()), mode(&file)), (0o700, 0o700, 0o600));
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "no journal remains");
}

#[test]
fn reading_creates_no_file() {
    let place = TestFile::new();
    assert!(Archive::open_existing(&place.file).unwrap().is_none());
    assert!(!place.file.exists());
    // An empty file remains of a process that was killed before its first write.
    fs::write(&place.file, "").unwrap();
    assert!(Archive::open_existing(&place.file).unwrap().is_none());
    place.open().add(&[entry(1.0, 1)]).unwrap();
    assert_eq!(count(&Archive::open_existing(&place.file).unwrap().unwrap()), 1);
}

#[test]
fn a_foreign_file_is_not_changed() {
    let text = TestFile::new();
    // Contents shorter and longer than the header of a database, which has 100 bytes.
    for content in ["x", &"no database ".repeat(1000)] {
        fs::write(&text.file, content).unwrap();
        for error in [Archive::open(&text.file).unwrap_err(), Archive::open_existing(&text.file).unwrap_err()] {
            assert!(matches!(error, ArchiveError::Foreign { .. }), "{error:?}");
            assert!(text_of(&error, &text.file).contains("move it away"));
        }
        assert_eq!(fs::read_to_string(&text.file).unwrap(), content);
    }
    let other = TestFile::new();
    Connection::open(&other.file).unwrap().execute_batch("CREATE TABLE bookmark (url TEXT)").unwrap();
    let error = Archive::open(&other.file).unwrap_err();
    assert!(matches!(error, ArchiveError::Foreign { .. }), "{error:?}");
}

#[test]
fn a_newer_format_is_refused_and_not_changed() {
    let place = TestFile::new();
    let mut archive = place.open();
    archive.add(&[entry(1.0, 1)]).unwrap();
    archive.connection().pragma_update(None, "user_version", 2).unwrap();
    drop(archive);
    let before = fs::read(&place.file).unwrap();
    let error = Archive::open(&place.file).unwrap_err();
    assert!(matches!(error, ArchiveError::Newer { found: 2, known: 1, .. }), "{error:?}");
    assert!(text_of(&error, &place.file).contains("format 2"));
    assert_eq!(fs::read(&place.file).unwrap(), before);
}

#[test]
fn two_writers_at_once_lose_nothing() {
    let place = TestFile::new();
    // Both writers find an empty file.
    std::thread::scope(|scope| {
        for writer in 0..2_u32 {
            let place = &place;
            scope.spawn(move || {
                let mut archive = place.open();
                for i in 0..40 {
                    archive.add(&[entry(i.into(), u64::from(writer)), entry(i.into(), u64::from(writer))]).unwrap();
                }
            });
        }
    });
    assert_eq!(count(&place.open()), 160);
}

#[test]
fn a_persistent_lock_is_reported() {
    let place = TestFile::new();
    let (holder, mut archive) = (place.open(), place.open());
    holder.connection().execute_batch("BEGIN IMMEDIATE").unwrap();
    archive.connection().busy_timeout(Duration::ZERO).unwrap();
    let error = archive.add(&[entry(1.0, 1)]).unwrap_err();
    assert!(matches!(error, ArchiveError::Busy { .. }), "{error:?}");
    assert!(text_of(&error, &place.file).contains("another process"));
    holder.connection().execute_batch("ROLLBACK").unwrap();
    archive.add(&[entry(1.0, 1)]).unwrap();
}

#[test]
fn a_writer_killed_in_a_transaction_changes_nothing() {
    let place = TestFile::new();
    let mut archive = place.open();
    let first: Vec<Entry> = (0..500).map(|i| entry(i.into(), 1)).collect();
    archive.add(&first).unwrap();
    let settled = fs::read(&place.file).unwrap();
    // A small cache makes SQLite write to the file before the transaction ends.
    archive
        .connection()
        .execute_batch("PRAGMA cache_size = 5; BEGIN IMMEDIATE; UPDATE entry SET rate_bps = 2")
        .unwrap();
    // Copy of the files on disk at the time of the simulated kill.
    let (after, name) = (place.directory.path().join("after"), "history.sqlite");
    fs::create_dir(&after).unwrap();
    for file in [name.to_owned(), format!("{name}-journal")] {
        fs::copy(place.directory.path().join(&file), after.join(&file)).unwrap();
    }
    let torn = after.join(name);
    assert_ne!(fs::read(&torn).unwrap(), settled, "the transaction is incomplete");
    let mut reopened = Archive::open(&torn).unwrap();
    assert_eq!(reopened.entries(&Filter::default()).unwrap(), first);
    reopened.add(&[entry(1000.0, 3)]).unwrap();
    assert_eq!(count(&reopened), 501);
    // Closing the connection without a commit also rolls the transaction back.
    drop(archive);
    assert_eq!(place.open().entries(&Filter::default()).unwrap(), first);
}

#[test]
fn nothing_is_added_to_a_full_file() {
    let place = TestFile::new();
    let mut archive = place.open();
    archive.add(&[entry(1.0, 1)]).unwrap();
    // SQLite reports SQLITE_FULL here as well as for a full disk.
    let pages: i64 = archive.connection().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    archive.connection().pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    let many: Vec<Entry> = (0..500).map(|i| entry(i.into(), 2)).collect();
    let error = archive.add(&many).unwrap_err();
    assert!(matches!(error, ArchiveError::Full { .. }), "{error:?}");
    assert!(text_of(&error, &place.file).contains("no space left"));
    assert_eq!(count(&archive), 1);
}

#[test]
fn the_error_names_a_directory_that_cannot_be_created() {
    // Not even root can create a directory there.
    let file = Path::new("/proc/longhaul/history.sqlite");
    let error = Archive::open(file).unwrap_err();
    assert!(matches!(error, ArchiveError::Make { .. }), "{error:?}");
    assert!(text_of(&error, file).contains("LONGHAUL_HISTORY"));
    let directory = tempfile::tempdir().unwrap();
    let error = Archive::open_existing(directory.path()).unwrap_err();
    assert!(matches!(error, ArchiveError::Open { .. }), "{error:?}");
    text_of(&error, directory.path());
}

#[test]
fn invalid_rows_are_reported_as_damage() {
    let place = TestFile::new();
    let mut archive = place.open();
    for change in ["direction = 'sideways'", "far = 'nowhere'", "quantity = ''"] {
        archive.forget(&entry(1.0, 1).path).unwrap();
        archive.add(&[entry(1.0, 1)]).unwrap();
        archive.connection().execute_batch(&format!("UPDATE entry SET {change}")).unwrap();
        let error = archive.entries(&Filter::default()).unwrap_err();
        assert!(matches!(error, ArchiveError::Damaged { .. }), "{change}: {error:?}");
        assert!(text_of(&error, &place.file).contains("damaged"));
        archive.connection().execute_batch("DELETE FROM entry").unwrap();
    }
}

#[test]
fn the_environment_selects_the_location() {
    let place = |variables: &[(&str, &str)]| {
        let found = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        Place::from_environment(found)
    };
    let file = |path: &str| Place::File(path.into());
    let home = ("HOME", "/h");
    assert_eq!(place(&[home]), file("/h/.local/share/longhaul/history.sqlite"));
    assert_eq!(place(&[home, ("XDG_DATA_HOME", "/data")]), file("/data/longhaul/history.sqlite"));
    assert_eq!(place(&[home, ("XDG_DATA_HOME", "data")]), place(&[home]), "a relative path is ignored");
    assert_eq!(place(&[home, ("XDG_DATA_HOME", "/data"), ("LONGHAUL_HISTORY", "x.db")]), file("x.db"));
    assert_eq!(place(&[home, ("LONGHAUL_HISTORY", "")]), place(&[home]));
    assert_eq!(place(&[home, ("LONGHAUL_HISTORY", "off")]), Place::Off);
    assert_eq!(place(&[]), Place::NoHome);
    assert_eq!(place(&[("HOME", "")]), Place::NoHome);
}
