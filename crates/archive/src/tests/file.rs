//! What can happen to the file.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::*;
use crate::{ArchiveError, Filter, Place as Where};

fn count(archive: &Archive) -> usize {
    archive.entries(&Filter::default()).unwrap().len()
}

/// The words for the user: they name the file.
fn text_of(error: &ArchiveError, file: &Path) -> String {
    let text = error.to_string();
    assert!(text.contains(&file.display().to_string()), "{text}");
    text
}

#[test]
fn directory_and_file_are_for_the_user_alone() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("data/longhaul");
    let file = inner.join("history.sqlite");
    Archive::open(&file).unwrap().add(&[entry(1.0, 1)]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&inner), mode(inner.parent().unwrap()), mode(&file)), (0o700, 0o700, 0o600));
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "no journal is left");
}

#[test]
fn looking_makes_no_file() {
    let place = Place::new();
    assert!(Archive::open_existing(&place.file).unwrap().is_none());
    assert!(!place.file.exists());
    // What a process leaves that was killed before it had written anything.
    fs::write(&place.file, "").unwrap();
    assert!(Archive::open_existing(&place.file).unwrap().is_none());
    place.open().add(&[entry(1.0, 1)]).unwrap();
    assert_eq!(count(&Archive::open_existing(&place.file).unwrap().unwrap()), 1);
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let text = Place::new();
    // More and less than the header of a database, which has 100 bytes.
    for content in ["x", &"no database ".repeat(1000)] {
        fs::write(&text.file, content).unwrap();
        for error in [Archive::open(&text.file).unwrap_err(), Archive::open_existing(&text.file).unwrap_err()] {
            assert!(matches!(error, ArchiveError::Foreign { .. }), "{error:?}");
            assert!(text_of(&error, &text.file).contains("move it away"));
        }
        assert_eq!(fs::read_to_string(&text.file).unwrap(), content);
    }
    let other = Place::new();
    Connection::open(&other.file).unwrap().execute_batch("CREATE TABLE bookmark (url TEXT)").unwrap();
    let error = Archive::open(&other.file).unwrap_err();
    assert!(matches!(error, ArchiveError::Foreign { .. }), "{error:?}");
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let place = Place::new();
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
    let place = Place::new();
    // Neither finds the tables made.
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
fn one_that_does_not_let_go_is_told() {
    let place = Place::new();
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
fn a_writer_killed_in_mid_transaction_leaves_what_was_before() {
    let place = Place::new();
    let mut archive = place.open();
    let first: Vec<Entry> = (0..500).map(|i| entry(i.into(), 1)).collect();
    archive.add(&first).unwrap();
    let settled = fs::read(&place.file).unwrap();
    // So little memory that the transaction reaches the file before its end.
    archive
        .connection()
        .execute_batch("PRAGMA cache_size = 5; BEGIN IMMEDIATE; UPDATE entry SET rate_bps = 2")
        .unwrap();
    // What is on disk when the writer is killed now.
    let (after, name) = (place.directory.path().join("after"), "history.sqlite");
    fs::create_dir(&after).unwrap();
    for file in [name.to_owned(), format!("{name}-journal")] {
        fs::copy(place.directory.path().join(&file), after.join(&file)).unwrap();
    }
    let torn = after.join(name);
    assert_ne!(fs::read(&torn).unwrap(), settled, "half written");
    let mut reopened = Archive::open(&torn).unwrap();
    assert_eq!(reopened.entries(&Filter::default()).unwrap(), first);
    reopened.add(&[entry(1000.0, 3)]).unwrap();
    assert_eq!(count(&reopened), 501);
    // One that ends without a word gives up what it had begun, too.
    drop(archive);
    assert_eq!(place.open().entries(&Filter::default()).unwrap(), first);
}

#[test]
fn without_room_nothing_is_added() {
    let place = Place::new();
    let mut archive = place.open();
    archive.add(&[entry(1.0, 1)]).unwrap();
    // SQLite says the same (SQLITE_FULL) when the disk has no room.
    let pages: i64 = archive.connection().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    archive.connection().pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    let many: Vec<Entry> = (0..500).map(|i| entry(i.into(), 2)).collect();
    let error = archive.add(&many).unwrap_err();
    assert!(matches!(error, ArchiveError::Full { .. }), "{error:?}");
    assert!(text_of(&error, &place.file).contains("no space left"));
    assert_eq!(count(&archive), 1);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    // Not even root makes a directory there.
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
fn rows_that_no_longhaul_wrote_are_damage() {
    let place = Place::new();
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
fn the_environment_says_where_it_is() {
    let place = |variables: &[(&str, &str)]| {
        let found = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        Where::from_environment(found)
    };
    let file = |path: &str| Where::File(path.into());
    let home = ("HOME", "/h");
    assert_eq!(place(&[home]), file("/h/.local/share/longhaul/history.sqlite"));
    assert_eq!(place(&[home, ("XDG_DATA_HOME", "/data")]), file("/data/longhaul/history.sqlite"));
    assert_eq!(place(&[home, ("XDG_DATA_HOME", "data")]), place(&[home]), "a relative one is to be ignored");
    assert_eq!(place(&[home, ("XDG_DATA_HOME", "/data"), ("LONGHAUL_HISTORY", "x.db")]), file("x.db"));
    assert_eq!(place(&[home, ("LONGHAUL_HISTORY", "")]), place(&[home]));
    assert_eq!(place(&[home, ("LONGHAUL_HISTORY", "off")]), Where::Off);
    assert_eq!(place(&[]), Where::NoHome);
    assert_eq!(place(&[("HOME", "")]), Where::NoHome);
}
