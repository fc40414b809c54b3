//! `longhaul history` on an archive with known content.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use archive::{Archive, Entry, PathKey};
use common::{longhaul, text};
use results::Direction;
use results::estimate::{Layer, Quantity};
use results::history::{HistoryEntry, HistoryExpectation, HistoryRecord, HistorySource};
use tempfile::TempDir;

const DAY: f64 = 86_400.0;
const MB: u64 = 1_000_000;

/// User id of the unprivileged user on every Linux.
const NOBODY_ID: u32 = 65_534;

/// Archive in a temporary directory.
struct KnownHistory {
    directory: TempDir,
    file: PathBuf,
    now_s: f64,
}

impl KnownHistory {
    /// Creates an archive with one test per day for twenty days, the last one a day ago: about 90 Mb/s on the first
    /// twelve days and about 45 Mb/s since. It also has an estimate and a score of a week ago, and one test on a path
    /// from another address to the same host.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("data/history.sqlite");
        let now_s = kernel::utc_seconds().0 as f64;
        let known = Self { directory, file, now_s };
        let test = |days_ago: u32, rate_bps: u64| known.entry(days_ago, rate_bps);
        let mut all: Vec<Entry> = (0..12).map(|i| test(20 - i, (90 + u64::from(i % 3)) * MB)).collect();
        all.extend((0..8).map(|i| test(8 - i, (45 + u64::from(i % 3)) * MB)));
        all.push(Entry {
            source: HistorySource::Estimate,
            method: "two-rates".to_owned(),
            quantity: Quantity::AvailableBandwidth,
            layer: Layer::Ip,
            ..test(7, 60 * MB)
        });
        all.push(Entry { source: HistorySource::Estimate, method: "loss".to_owned(), ..test(7, 900 * MB) });
        let elsewhere = PathKey::new("192.0.2.7".parse().unwrap(), "203.0.113.9".parse().unwrap(), Direction::Down);
        all.push(Entry { path: elsewhere, host: "alias".to_owned(), ..test(40, 500 * MB) });
        Archive::open(&known.file).unwrap().add(&all).unwrap();
        known
    }

    fn entry(&self, days_ago: u32, rate_bps: u64) -> Entry {
        Entry {
            at_s: self.now_s - f64::from(days_ago) * DAY,
            host: "far.example.net".to_owned(),
            path: PathKey::new("192.0.2.7".parse().unwrap(), "198.51.100.3".parse().unwrap(), Direction::Up),
            source: HistorySource::Test,
            method: "cubic".to_owned(),
            quantity: Quantity::BulkTransferCapacity,
            layer: Layer::Payload,
            rate_bps,
            low_bps: rate_bps - MB,
            high_bps: rate_bps + MB,
            round_trip_ns: Some(20_000_000),
            bytes: 100 * MB,
        }
    }

    fn query(&self, arguments: &[&str]) -> Output {
        query(&self.file, arguments)
    }

    fn records(&self, arguments: &[&str]) -> Vec<HistoryRecord> {
        let out = self.query(&[arguments, &["--json"]].concat());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        text(&out.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

fn command(file: &Path, arguments: &[&str]) -> Command {
    let mut command = longhaul();
    command.env("LONGHAUL_HISTORY", file).arg("history").args(arguments);
    command
}

fn query(file: &Path, arguments: &[&str]) -> Output {
    command(file, arguments).output().unwrap()
}

fn entries(records: &[HistoryRecord]) -> Vec<&HistoryEntry> {
    records.iter().filter_map(|r| if let HistoryRecord::Entry(e) = r { Some(e) } else { None }).collect()
}

fn expectations(records: &[HistoryRecord]) -> Vec<&HistoryExpectation> {
    records.iter().filter_map(|r| if let HistoryRecord::Expectation(e) = r { Some(e) } else { None }).collect()
}

fn assert_reports(out: &Output, status: i32, parts: &[&str]) {
    let message = text(if status == 0 { &out.stdout } else { &out.stderr });
    assert_eq!(out.status.code(), Some(status), "{message}");
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn without_a_host_all_paths_are_listed_in_a_table() {
    let known = KnownHistory::new();
    let message = text(&known.query(&[]).stdout);
    let rows: Vec<&str> = message.lines().filter(|l| l.contains("192.0.2.7")).collect();
    assert_eq!(rows.len(), 2, "{message}");
    // The path used last is first: it has 22 entries, the other path one.
    for part in ["far.example.net", "to", "198.51.100.3", "22", "transfer"] {
        assert!(rows[0].contains(part), "`{part}` is not in: {message}");
    }
    for part in ["alias", "from", "203.0.113.9", "500.0 Mb/s"] {
        assert!(rows[1].contains(part), "`{part}` is not in: {message}");
    }
    let records = known.records(&[]);
    assert!(matches!(&records[0], HistoryRecord::Start(start) if start.host.is_none()));
    assert!(entries(&records).is_empty() && expectations(&records).len() == 3);
}

#[test]
fn the_expectation_follows_the_current_level() {
    let known = KnownHistory::new();
    let records = known.records(&["192.0.2.7"]);
    let all = expectations(&records);
    let [transfer, available, elsewhere] = all[..] else { panic!("{all:?}") };
    assert_eq!((transfer.quantity, transfer.samples), (Quantity::BulkTransferCapacity, 8));
    // The rates since the shift are 45, 46 and 47 Mb/s, and a trend may add 1 Mb/s; the mean of all tests would be 72
    // Mb/s.
    assert!((44 * MB..=48 * MB).contains(&transfer.rate_bps), "{transfer:?}");
    assert!(transfer.low_bps <= transfer.rate_bps && transfer.rate_bps <= transfer.high_bps);
    // The first test at the new level was eight days ago; the duration of this test adds to its age.
    let shift = transfer.since_shift_s.unwrap() / DAY;
    assert!((8.0..8.1).contains(&shift), "{shift}");
    assert_eq!(transfer.shifts_utc_s, [known.now_s - 8.0 * DAY]);
    assert_eq!((available.layer, available.rate_bps, available.samples), (Layer::Ip, 60 * MB, 1));
    assert_eq!((elsewhere.path, elsewhere.rate_bps), (2, 500 * MB));
    // Each entry has the expectation before its measurement: none for the first entry, the old level for the first at
    // the new level.
    let tests: Vec<_> = entries(&records).into_iter().filter(|e| e.path == 1 && e.method == "cubic").collect();
    assert_eq!((tests.len(), tests[0].expected_bps), (20, None));
    assert!(tests[12].rate_bps == 45 * MB && tests[12].expected_bps.unwrap() >= 90 * MB, "{:?}", tests[12]);
    assert!(tests[19].expected_bps.unwrap() <= 48 * MB, "{:?}", tests[19]);
    assert!(
        entries(&records).iter().any(|e| e.method == "loss" && e.expected_bps.is_none()),
        "a score is listed without an expectation"
    );
}

#[test]
fn the_history_of_a_host_is_shown_as_text() {
    let known = KnownHistory::new();
    let host = known.query(&["FAR.example.net"]);
    assert_reports(&host, 0, &["to far.example.net (192.0.2.7) from 198.51.100.3", "22 entries", "level since", "by"]);
    let message = text(&host.stdout);
    assert!(message.contains("and 2 older") && message.matches(" o").count() > 5, "{message}");
    assert!(message.lines().all(|l| l.chars().count() <= 110), "{message}");
    let by_address = text(&known.query(&["192.0.2.7"]).stdout);
    assert_eq!((by_address.matches("-- Path").count(), message.matches("-- Path").count()), (2, 1), "{by_address}");
}

#[test]
fn filters_limit_the_entries_but_not_the_expectation() {
    let known = KnownHistory::new();
    let complete = known.records(&["far.example.net"]);
    let filtered = known.records(&["far.example.net", "--since", "3.5d", "--quantity", "bulk-transfer-capacity"]);
    assert_eq!(entries(&filtered).len(), 3);
    let (complete, filtered) = (expectations(&complete)[0], expectations(&filtered)[0]);
    assert_eq!((complete.rate_bps, complete.samples), (filtered.rate_bps, filtered.samples));
    assert_reports(&known.query(&["far.example.net", "--since", "1h"]), 1, &["--since"]);
    assert_reports(&known.query(&["far.example.net", "--quantity", "capacity"]), 1, &["--quantity"]);
}

#[test]
fn records_match_their_schema_and_the_page_is_self_contained() {
    let known = KnownHistory::new();
    let directory = known.directory.path();
    let (json, page) = (directory.join("h.jsonl"), directory.join("h.html"));
    let arguments = ["192.0.2.7", &format!("--json={}", json.display()), "--report", &page.display().to_string()];
    assert_reports(&known.query(&arguments), 0, &["-- Path"]);
    let schema = include_str!("../../../docs/schema/longhaul.history-2.schema.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let written = std::fs::read_to_string(&json).unwrap();
    // 29 records: a start, two paths, 23 entries, three expectations.
    assert_eq!(written.lines().count(), 29);
    for line in written.lines() {
        let value = serde_json::from_str(line).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?} in {line}");
    }
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && !html.contains("src=\"http"), "the page must be self-contained");
    assert!(html.contains("bulk transfer capacity") && html.contains("Expected now"));
    let generated = known.directory.path().join("schema");
    let out = longhaul().args(["generate", "schema"]).arg(&generated).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let made = std::fs::read_to_string(generated.join("longhaul.history-2.schema.json")).unwrap();
    assert_eq!(made, schema, "the records changed: `make man` writes the schema, `make docs` the reference");
}

#[test]
fn a_host_can_be_deleted_from_the_history() {
    let known = KnownHistory::new();
    let other = Entry {
        path: PathKey::new("192.0.2.8".parse().unwrap(), "198.51.100.3".parse().unwrap(), Direction::Up),
        host: "other".to_owned(),
        ..known.entry(1, MB)
    };
    Archive::open(&known.file).unwrap().add(&[other]).unwrap();
    assert_reports(&known.query(&["192.0.2.7", "--forget"]), 0, &["deleted 23 entries of 2 paths"]);
    assert_reports(&known.query(&["far.example.net"]), 1, &["far.example.net"]);
    assert_reports(&known.query(&["192.0.2.7", "--forget"]), 1, &["192.0.2.7"]);
    assert_reports(&known.query(&["other", "--forget"]), 0, &["deleted 1 entry of 1 path"]);
    assert_reports(&known.query(&[]), 1, &["has no entry"]);
}

#[test]
fn a_missing_history_has_exit_status_1() {
    let known = KnownHistory::new();
    assert_reports(&known.query(&["elsewhere.example.net"]), 1, &["elsewhere.example.net", "lists the known paths"]);
    let absent = known.directory.path().join("absent/history.sqlite");
    assert_reports(&query(&absent, &[]), 1, &["does not exist yet", &absent.display().to_string()]);
    assert!(!absent.parent().unwrap().exists(), "a query must not create the directory");
    assert_reports(&query(Path::new("off"), &[]), 1, &["LONGHAUL_HISTORY", "off"]);
}

#[test]
fn the_history_is_in_the_users_data_directory() {
    let known = KnownHistory::new();
    let place = known.directory.path().join("longhaul");
    std::fs::create_dir(&place).unwrap();
    std::fs::copy(&known.file, place.join("history.sqlite")).unwrap();
    let mut command = longhaul();
    command.env_remove("LONGHAUL_HISTORY").env("XDG_DATA_HOME", known.directory.path()).arg("history");
    assert_reports(&command.output().unwrap(), 0, &["far.example.net"]);
    let mut homeless = longhaul();
    homeless.env_remove("LONGHAUL_HISTORY").env_remove("XDG_DATA_HOME").env_remove("HOME").arg("history");
    assert_reports(&homeless.output().unwrap(), 2, &["LONGHAUL_HISTORY"]);
}

#[test]
fn invalid_input_has_exit_status_2() {
    let known = KnownHistory::new();
    let nonsense = known.directory.path().join("nonsense");
    std::fs::write(&nonsense, "no database, just some text\n").unwrap();
    assert_reports(&query(&nonsense, &[]), 2, &["nonsense", "is not a history of longhaul"]);
    assert_reports(&query(known.directory.path(), &[]), 2, &["cannot open"]);
    assert_reports(&known.query(&["far.example.net", "--since", "soon"]), 2, &["--since"]);
    assert_reports(&known.query(&["far.example.net", "--report", "/nonexistent/h.html"]), 2, &["/nonexistent/h.html"]);
    assert_reports(&known.query(&["far.example.net", "--json=/nonexistent/h.jsonl"]), 2, &["/nonexistent/h.jsonl"]);
    assert_reports(&known.query(&["--forget"]), 2, &["HOST"]);
    assert_reports(&known.query(&["far.example.net", "--forget", "--since", "1d"]), 2, &["cannot be used with"]);
}

#[test]
fn a_read_only_history_is_shown_and_not_changed() {
    let known = KnownHistory::new();
    let data = known.file.parent().unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(&known.file, 0o444);
    mode(data, 0o555);
    mode(known.directory.path(), 0o755);
    let is_root = std::fs::metadata(&known.file).unwrap().uid() == 0;
    let query = |arguments: &[&str]| {
        let mut command = command(&known.file, arguments);
        if is_root {
            // Permissions do not apply to root.
            command.uid(NOBODY_ID).gid(NOBODY_ID).current_dir("/");
        }
        command.output().unwrap()
    };
    assert_reports(&query(&[]), 0, &["far.example.net"]);
    assert_reports(&query(&["far.example.net", "--forget"]), 2, &["is not writable", "permissions"]);
    // The temporary directory must be removable.
    mode(data, 0o755);
}
