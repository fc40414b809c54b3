//! Text of `longhaul history`.

use std::io::{self, Write};

use results::Direction;
use results::history::{HistoryEntry, HistoryExpectation};

use super::chart;
use super::format::{between, day, full, minute, route, short};
use super::records::{HistoryReport, PathHistory, Subject};
use crate::columns::Columns;
use crate::sheet::Sheet;
use crate::summary::{bytes, nanos, rate};

/// Maximum number of entries in the table: the latest.
const ENTRIES_MAX: usize = 20;

/// Writes a table of the paths, or for a single host the expectation, a chart and the latest entries of each path.
///
/// # Errors
/// Errors of the writer.
pub fn write_history(out: &mut impl Write, report: &HistoryReport) -> io::Result<()> {
    let mut sheet = Sheet::new(out);
    if report.start.as_ref().is_none_or(|start| start.host.is_none()) {
        return paths(&mut sheet, report);
    }
    for (i, path) in report.paths.iter().enumerate() {
        if i > 0 {
            sheet.blank()?;
        }
        path_details(&mut sheet, path)?;
    }
    Ok(())
}

fn paths(sheet: &mut Sheet<'_, impl Write>, report: &HistoryReport) -> io::Result<()> {
    let all = &report.paths;
    let host = |p: &PathHistory| p.path.hosts.first().unwrap_or(&p.path.remote).clone();
    let mut columns = Columns::new(all.iter().map(host), 20);
    let direction = |p: &PathHistory| match p.path.direction {
        Direction::Up => "to",
        Direction::Down => "from",
    };
    columns.text("", "dir", all.iter().map(|p| Some(direction(p).to_owned())));
    columns.text("", "far", all.iter().map(|p| Some(p.path.remote.clone())));
    columns.text("", "local", all.iter().map(|p| Some(p.path.local.clone())));
    columns.number("", "expected", all.iter().map(|p| p.foremost().map(|e| rate(e.rate_bps))));
    columns.text("", "of", all.iter().map(|p| p.foremost().map(|e| short(e.quantity).to_owned())));
    columns.text("", "last", all.iter().map(|p| Some(day(p.path.last_utc_s))));
    columns.number("", "entries", all.iter().map(|p| Some(p.path.entries.to_string())));
    columns.text("", "first", all.iter().map(|p| Some(day(p.path.first_utc_s))));
    table(sheet, &columns)
}

/// Writes a table, and lists the columns that do not fit.
fn table(sheet: &mut Sheet<'_, impl Write>, columns: &Columns) -> io::Result<()> {
    let left_out = columns.write(sheet)?;
    if left_out.is_empty() { Ok(()) } else { sheet.item("not shown", &left_out.join(", ")) }
}

fn path_details(sheet: &mut Sheet<'_, impl Write>, path: &PathHistory) -> io::Result<()> {
    let about = &path.path;
    sheet.heading(&format!("Path {}", route(about)))?;
    let entries = if about.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", about.entries) };
    sheet.item("known", &format!("{entries}, {} to {} UTC", minute(about.first_utc_s), minute(about.last_utc_s)))?;
    if about.hosts.len() > 1 {
        sheet.item("names", &about.hosts.join(", "))?;
    }
    expected(sheet, path)?;
    if let Some(subject) = path.subjects().into_iter().next() {
        plot(sheet, path, subject)?;
    }
    latest(sheet, &path.entries)
}

fn expected(sheet: &mut Sheet<'_, impl Write>, path: &PathHistory) -> io::Result<()> {
    sheet.blank()?;
    let all: Vec<&HistoryExpectation> = path.subjects().into_iter().filter_map(|s| path.expectation(s)).collect();
    if all.is_empty() {
        return sheet.item("expected", "none: the entries do not allow a prediction");
    }
    let mut columns = Columns::new(all.iter().map(|e| short(e.quantity).to_owned()), 20);
    columns.number("", "now", all.iter().map(|e| Some(rate(e.rate_bps))));
    columns.text("", "between", all.iter().map(|e| Some(between(e.low_bps, e.high_bps))));
    columns.text("", "by", all.iter().map(|e| Some(e.predictor.clone())));
    columns.number("", "values", all.iter().map(|e| Some(e.samples.to_string())));
    columns.text("", "level since", all.iter().map(|e| e.shifts_utc_s.last().map(|at| day(*at))));
    table(sheet, &columns)
}

fn plot(sheet: &mut Sheet<'_, impl Write>, path: &PathHistory, subject: Subject) -> io::Result<()> {
    let points: Vec<(f64, f64)> = path.entries_of(subject).map(|e| (e.at_utc_s, e.rate_bps as f64)).collect();
    let shifts = path.expectation(subject).map_or(&[][..], |e| &e.shifts_utc_s);
    let Some(rows) = chart::rows(&points, shifts) else { return Ok(()) };
    let top = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let legend = if shifts.is_empty() { "" } else { "; | a new level" };
    sheet.blank()?;
    sheet.line(&format!("  {}{legend}", full(subject)))?;
    for (i, row) in rows.iter().enumerate() {
        let scale = match i {
            0 => rate(top as u64),
            _ if i + 1 == rows.len() => "0".to_owned(),
            _ => String::new(),
        };
        sheet.line(&format!("  {scale:>11} {row}"))?;
    }
    let (first, last) = (points.first().map_or(0.0, |p| p.0), points.last().map_or(0.0, |p| p.0));
    sheet.line(&format!("  {:11} {:<45}{:>45}", "", minute(first), minute(last)))
}

fn latest(sheet: &mut Sheet<'_, impl Write>, entries: &[HistoryEntry]) -> io::Result<()> {
    let all: Vec<&HistoryEntry> = entries.iter().rev().take(ENTRIES_MAX).collect();
    if all.is_empty() {
        return Ok(());
    }
    sheet.blank()?;
    let mut columns = Columns::new(all.iter().map(|e| minute(e.at_utc_s)), 16);
    columns.text("", "by", all.iter().map(|e| Some(e.source.text().to_owned())));
    columns.text("", "method", all.iter().map(|e| Some(e.method.clone())));
    columns.text("", "of", all.iter().map(|e| Some(short(e.quantity).to_owned())));
    columns.number("", "rate", all.iter().map(|e| Some(rate(e.rate_bps))));
    columns.text("", "between", all.iter().map(|e| Some(between(e.low_bps, e.high_bps))));
    columns.number("", "round trip", all.iter().map(|e| e.round_trip_ns.map(nanos)));
    columns.number("", "bytes", all.iter().map(|e| Some(bytes(e.bytes))));
    table(sheet, &columns)?;
    let more = entries.len() - all.len();
    if more == 0 { Ok(()) } else { sheet.line(&format!("  and {more} older; use --json or --report for all")) }
}
