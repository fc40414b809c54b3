//! Output of a synthetic history.

use results::Direction;
use results::estimate::{Layer, Quantity};
use results::history::{
    HISTORY_SCHEMA, HistoryEntry, HistoryExpectation, HistoryPath, HistoryRecord, HistorySource, HistoryStart,
};

use super::{HistoryReport, write_history, write_history_html};

const DAY: f64 = 86_400.0;
/// 2026-11-01 12:00 UTC (`date -d`).
const START: f64 = 1_793_534_400.0;

fn start(host: Option<&str>) -> HistoryRecord {
    HistoryRecord::Start(HistoryStart {
        schema: HISTORY_SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        time_utc: "2026-11-21T12:00:00Z".to_owned(),
        at_utc_s: START + 20.0 * DAY,
        file: "history.sqlite".to_owned(),
        host: host.map(str::to_owned),
        since_utc_s: None,
        quantity: None,
    })
}

fn path(number: u32, far: &str, local: &str, direction: Direction) -> HistoryRecord {
    HistoryRecord::Path(HistoryPath {
        path: number,
        remote: far.to_owned(),
        local: local.to_owned(),
        direction,
        hosts: vec!["far.example.net".to_owned()],
        entries: 20,
        first_utc_s: START,
        last_utc_s: START + 19.0 * DAY,
    })
}

fn entry(day: u32, method: &str, quantity: Quantity, rate_bps: u64) -> HistoryEntry {
    let layer = if quantity == Quantity::BulkTransferCapacity { Layer::Payload } else { Layer::Ip };
    HistoryEntry {
        path: 1,
        at_utc_s: START + f64::from(day) * DAY,
        host: "far.example.net".to_owned(),
        source: HistorySource::Test,
        method: method.to_owned(),
        quantity,
        layer,
        rate_bps,
        low_bps: rate_bps / 10 * 9,
        high_bps: rate_bps / 10 * 11,
        round_trip_ns: Some(20_000_000),
        bytes: 1_000_000,
        expected_bps: (day > 0).then_some(90_000_000),
        expected_low_bps: (day > 0).then_some(80_000_000),
        expected_high_bps: (day > 0).then_some(100_000_000),
    }
}

/// 90 Mb/s for ten days, then 45; an estimate on the sixteenth day.
fn history(method: &str) -> Vec<HistoryRecord> {
    let mut all = vec![start(Some("far.example.net")), path(1, "192.0.2.7", "198.51.100.3", Direction::Up)];
    for day in 0..20 {
        let rate = if day < 10 { 90_000_000 } else { 45_000_000 };
        all.push(HistoryRecord::Entry(entry(day, method, Quantity::BulkTransferCapacity, rate)));
    }
    all.push(HistoryRecord::Entry(entry(16, "pathrate", Quantity::Capacity, 100_000_000)));
    all.push(HistoryRecord::Expectation(HistoryExpectation {
        path: 1,
        quantity: Quantity::BulkTransferCapacity,
        layer: Layer::Payload,
        rate_bps: 45_000_000,
        low_bps: 44_000_000,
        high_bps: 46_000_000,
        predictor: "moving average of 10".to_owned(),
        samples: 10,
        since_shift_s: Some(10.0 * DAY),
        shifts_utc_s: vec![START + 10.0 * DAY],
    }));
    all
}

fn text(records: Vec<HistoryRecord>) -> String {
    let mut out = Vec::new();
    write_history(&mut out, &HistoryReport::from_records(records)).unwrap();
    String::from_utf8(out).unwrap()
}

fn page(records: Vec<HistoryRecord>) -> String {
    let mut out = Vec::new();
    write_history_html(&mut out, &HistoryReport::from_records(records), "a history").unwrap();
    let page = String::from_utf8(out).unwrap();
    if let Ok(directory) = std::env::var("LONGHAUL_REPORT_DIR") {
        std::fs::write(format!("{directory}/history.html"), &page).unwrap();
    }
    page
}

#[test]
fn a_path_as_text() {
    insta::assert_snapshot!(text(history("cubic")));
}

#[test]
fn paths_as_a_table() {
    let mut all = history("cubic");
    all[0] = start(None);
    all.insert(1, path(2, "2001:db8:1234:5678:9abc:def0:1234:5678", "2001:db8::1", Direction::Down));
    all.retain(|r| !matches!(r, HistoryRecord::Entry(_)));
    insta::assert_snapshot!(text(all));
}

#[test]
fn no_line_is_wider_than_the_page_and_no_text_moves_the_cursor() {
    let mut all = history("an\u{1b}[2J odd method");
    if let HistoryRecord::Path(path) = &mut all[1] {
        path.hosts = vec!["h\u{1b}".repeat(70), "i".repeat(300)];
        path.remote = "2001:db8:1234:5678:9abc:def0:1234:5678".to_owned();
        path.local = path.remote.clone();
    }
    let output = text(all);
    assert!(output.lines().all(|l| l.chars().count() <= 110), "{output}");
    assert!(!output.contains('\u{1b}'));
}

#[test]
fn the_page_has_values_expectations_and_shifts_and_no_markup_of_a_record() {
    let page = page(history("cubic<script>"));
    assert!(!page.contains("cubic<script>") && page.contains("cubic&lt;script&gt;"));
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let charts = data["charts"].as_array().unwrap();
    assert_eq!(charts.len(), 2, "one for each quantity");
    let transfer = &charts[0];
    let [method, expected] = [&transfer["methods"][0], &transfer["expected"]];
    assert_eq!((method["t"].as_array().unwrap().len(), &method["v"][10]), (20, &45_000_000.into()));
    assert_eq!((&method["low"][0], &method["high"][0]), (&81_000_000.into(), &99_000_000.into()));
    // No expectation before the first value, one before each of the others, and the current one.
    assert_eq!((expected["t"].as_array().unwrap().len(), &expected["v"][19]), (20, &45_000_000.into()));
    assert_eq!(transfer["shifts_s"][0], START + 10.0 * DAY);
    assert_eq!(charts[1]["methods"][0]["label"], "pathrate");
}

#[test]
fn a_chart_has_the_last_of_several_values_at_one_time() {
    let mut all = history("cubic");
    all.push(HistoryRecord::Entry(entry(19, "cubic", Quantity::BulkTransferCapacity, 7)));
    // This value has no date.
    all.push(HistoryRecord::Entry(HistoryEntry {
        at_utc_s: 1e300,
        ..entry(0, "cubic", Quantity::BulkTransferCapacity, 8)
    }));
    let page = page(all);
    assert!(page.contains("45000000,7]") && !page.contains("7,8]"));
}

#[test]
fn incomplete_records_make_a_page_and_a_text() {
    for n in 0..3 {
        page(history("cubic").into_iter().take(n).collect());
        text(history("cubic").into_iter().take(n).collect());
    }
    // Entries of a path without a record of the path.
    assert!(
        !page(history("orphan").into_iter().filter(|r| !matches!(r, HistoryRecord::Path(_))).collect())
            .contains("orphan")
    );
}
