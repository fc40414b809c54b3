//! Converts entries of the archive to records.

use archive::{Archive, ArchiveError, Entry, Filter, PathKey, PathSummary, Replay, replay};
use estimate::history::{Prediction, predict};
use results::estimate::{Layer, Quantity};
use results::history::{HistoryEntry, HistoryExpectation, HistoryPath, HistoryRecord};

/// Query of the history.
pub(super) struct Query<'a> {
    pub(super) archive: &'a Archive,
    pub(super) filter: Filter,
    pub(super) now_s: f64,
    /// Whether to list the entries in addition to the paths.
    pub(super) with_entries: bool,
}

/// Returns the matching paths, each followed by its entries and its expectations.
pub(super) fn records(query: &Query<'_>) -> Result<Vec<HistoryRecord>, ArchiveError> {
    let mut all = Vec::new();
    for (number, summary) in (1..).zip(query.archive.paths(&query.filter)?) {
        all.push(HistoryRecord::Path(path(number, &summary)));
        one(query, number, &summary.path, &mut all)?;
    }
    Ok(all)
}

fn one(query: &Query<'_>, number: u32, path: &PathKey, out: &mut Vec<HistoryRecord>) -> Result<(), ArchiveError> {
    // Expectations use all entries, even those that are not shown.
    let of_path = Filter { path: Some(*path), quantity: query.filter.quantity, ..Filter::default() };
    let known = query.archive.entries(&of_path)?;
    let mut expected: Vec<Option<Prediction>> = vec![None; known.len()];
    let mut expectations = Vec::new();
    for subject in subjects(&known) {
        let of_subject = known.iter().enumerate().filter(|(_, e)| is_value(e, subject));
        let (places, values): (Vec<usize>, Vec<_>) = of_subject.map(|(place, e)| (place, e.value())).unzip();
        let replay = replay(&values);
        for (place, before) in places.iter().zip(&replay.expected) {
            if let Some(slot) = expected.get_mut(*place) {
                *slot = *before;
            }
        }
        if let Some(now) = predict(&values, query.now_s) {
            expectations.push(expectation(number, subject, &now, replay));
        }
    }
    if query.with_entries {
        let since = query.filter.since_s.unwrap_or(f64::NEG_INFINITY);
        let shown = known.iter().zip(&expected).filter(|(e, _)| e.at_s >= since);
        out.extend(shown.map(|(e, before)| HistoryRecord::Entry(entry(number, e, before.as_ref()))));
    }
    out.extend(expectations.into_iter().map(HistoryRecord::Expectation));
    Ok(())
}

/// Quantities and layers of the entries, in the order of their first appearance.
fn subjects(entries: &[Entry]) -> Vec<(Quantity, Layer)> {
    let mut all = Vec::new();
    for subject in entries.iter().map(|e| (e.quantity, e.layer)) {
        if !all.contains(&subject) {
            all.push(subject);
        }
    }
    all
}

fn is_value(entry: &Entry, subject: (Quantity, Layer)) -> bool {
    (entry.quantity, entry.layer) == subject && entry.is_rate()
}

fn path(number: u32, summary: &PathSummary) -> HistoryPath {
    HistoryPath {
        path: number,
        remote: summary.path.far().to_string(),
        local: summary.path.local().to_string(),
        direction: summary.path.direction(),
        hosts: summary.hosts.clone(),
        entries: summary.entries,
        first_utc_s: summary.first_s,
        last_utc_s: summary.last_s,
    }
}

fn entry(number: u32, entry: &Entry, expected: Option<&Prediction>) -> HistoryEntry {
    HistoryEntry {
        path: number,
        at_utc_s: entry.at_s,
        host: entry.host.clone(),
        source: entry.source,
        method: entry.method.clone(),
        quantity: entry.quantity,
        layer: entry.layer,
        rate_bps: entry.rate_bps,
        low_bps: entry.low_bps,
        high_bps: entry.high_bps,
        round_trip_ns: entry.round_trip_ns,
        bytes: entry.bytes,
        expected_bps: expected.map(|p| whole(p.rate_bps)),
        expected_low_bps: expected.map(|p| whole(p.low_bps)),
        expected_high_bps: expected.map(|p| whole(p.high_bps)),
    }
}

fn expectation(
    number: u32,
    (quantity, layer): (Quantity, Layer),
    now: &Prediction,
    replay: Replay,
) -> HistoryExpectation {
    HistoryExpectation {
        path: number,
        quantity,
        layer,
        rate_bps: whole(now.rate_bps),
        low_bps: whole(now.low_bps),
        high_bps: whole(now.high_bps),
        predictor: now.predictor.text().to_owned(),
        samples: now.samples as u64,
        since_shift_s: now.since_shift_s,
        shifts_utc_s: replay.shifts_s,
    }
}

/// Rounds a prediction, which is within 0 and 1e15 b/s.
const fn whole(bps: f64) -> u64 {
    bps.round() as u64
}
