//! The page of a history: one file that needs no network and no server.

use std::io::{self, Write};

use results::history::{HistoryEntry, HistoryExpectation};
use serde::Serialize;

use super::format::{between, full, is_on_calendar, minute, route};
use super::records::{HistoryReport, PathHistory, Subject};
use crate::html::document::{Parts, write_document};
use crate::html::markup::Html;
use crate::summary::{bytes, nanos, printable, rate};

const PARTS: Parts = Parts {
    script: concat!(include_str!("../../assets/charts.js"), include_str!("../../assets/history.js")),
    style: include_str!("../../assets/history.css"),
};

/// Maximum number of paths with charts in the page: those used last.
const DRAWN_MAX: usize = 16;

/// Maximum number of entries in the table of a path: the latest.
const ENTRIES_MAX: usize = 200;

/// Writes the page: expectations, charts of the values over time, and a table of the values of each path.
///
/// # Errors
/// Errors of the writer.
pub fn write_history_html(mut out: impl Write, report: &HistoryReport, title: &str) -> io::Result<()> {
    let mut h = Html::new();
    let mut charts = Vec::new();
    header(&mut h, report, title);
    for (i, path) in report.paths.iter().enumerate() {
        h.raw("<section><h2>Path ").text(route(&path.path)).raw("</h2>");
        expected(&mut h, path);
        if i < DRAWN_MAX {
            for subject in path.subjects() {
                let chart = chart(charts.len(), path, subject, report.now_s());
                place(&mut h, &chart, subject);
                charts.push(chart);
            }
        } else {
            h.classed("p", "hint", "Not drawn: too many paths were used more recently.");
        }
        entries(&mut h, &path.entries);
        h.raw("</section>");
    }
    footer(&mut h, report);
    write_document(&mut out, title, PARTS, &h, &PageData { charts })
}

fn header(h: &mut Html, report: &HistoryReport, title: &str) {
    h.raw("<header>").element("h1", title);
    if let Some(start) = &report.start {
        h.raw("<p class=\"hint\">").text(minute(start.at_utc_s)).raw(" UTC");
        if let Some(since) = start.since_utc_s {
            h.raw(", entries since ").text(minute(since));
        }
        h.raw("</p>");
    }
    h.raw("<noscript><p class=\"hint\">The charts need JavaScript; the tables do not.</p></noscript></header>");
}

fn expected(h: &mut Html, path: &PathHistory) {
    h.raw("<h3>Expected now</h3>");
    let all: Vec<&HistoryExpectation> = path.subjects().into_iter().filter_map(|s| path.expectation(s)).collect();
    if all.is_empty() {
        h.classed("p", "hint", "None: the entries do not allow a prediction.");
        return;
    }
    h.table_head(["", "rate", "between", "by", "values", "level since"]);
    for e in all {
        let since = e.shifts_utc_s.last().map_or_else(|| "\u{2013}".to_owned(), |at| minute(*at));
        let cells =
            [rate(e.rate_bps), between(e.low_bps, e.high_bps), printable(&e.predictor), e.samples.to_string(), since];
        h.table_row(full((e.quantity, e.layer)), cells);
    }
    h.table_foot();
}

fn place(h: &mut Html, chart: &Chart, subject: Subject) {
    h.raw("<section class=\"chart\" id=\"").text(&chart.id).raw("\"><h3>").text(full(subject)).raw("</h3>");
    h.raw("<p class=\"hint\">Points: measured values with their intervals. Band: values expected just before");
    h.raw(if chart.shifts_s.is_empty() { ".</p>" } else { ". Dashed: the first value of a new level.</p>" });
    h.raw("<div class=\"canvas\"></div></section>");
}

fn entries(h: &mut Html, entries: &[HistoryEntry]) {
    h.raw("<details><summary>").text(format_args!("Entries ({})", entries.len())).raw("</summary>");
    h.table_head(["UTC", "host", "by", "method", "of", "rate", "between", "expected", "round trip", "bytes"]);
    for e in entries.iter().rev().take(ENTRIES_MAX) {
        let expected = e.expected_bps.map_or_else(|| "\u{2013}".to_owned(), rate);
        let cells = [
            printable(&e.host),
            e.source.text().to_owned(),
            printable(&e.method),
            e.quantity.text().to_owned(),
            rate(e.rate_bps),
            between(e.low_bps, e.high_bps),
            expected,
            e.round_trip_ns.map_or_else(|| "\u{2013}".to_owned(), nanos),
            bytes(e.bytes),
        ];
        h.table_row(minute(e.at_utc_s), cells);
    }
    h.table_foot();
    if entries.len() > ENTRIES_MAX {
        h.classed("p", "hint", format_args!("and {} older; use --json for all", entries.len() - ENTRIES_MAX));
    }
    h.raw("</details>");
}

fn footer(h: &mut Html, report: &HistoryReport) {
    h.raw("<footer><p><b>What the numbers mean.</b> A path is two addresses and a direction. Expected values follow from the ");
    h.raw("values since the last level shift, by the predictor with the smallest error so far (He, Dovrolis, Ammar 2005); its interval holds ");
    h.raw("four of five values, and widens with the age of the last one. Times are UTC.</p><p>longhaul ");
    h.text(env!("CARGO_PKG_VERSION"));
    if let Some(start) = &report.start {
        h.raw(", records of ").text(printable(&start.schema));
    }
    h.raw(". Charts: uPlot 1.6.32, MIT licence.</p></footer>");
}

#[derive(Debug, Serialize)]
struct PageData {
    charts: Vec<Chart>,
}

/// One quantity of one path.
#[derive(Debug, Serialize)]
struct Chart {
    id: String,
    methods: Vec<Series>,
    /// Expectations just before each value, followed by the current one.
    expected: Series,
    shifts_s: Vec<f64>,
}

/// Rates with their intervals at times that rise.
#[derive(Debug, Default, Serialize)]
struct Series {
    label: String,
    t: Vec<f64>,
    v: Vec<u64>,
    low: Vec<u64>,
    high: Vec<u64>,
}

impl Series {
    fn new(label: &str) -> Self {
        Self { label: printable(label), ..Self::default() }
    }

    /// Keeps the last of several values at one time, because a chart has one position for each time.
    fn push(&mut self, at_s: f64, [rate, low, high]: [u64; 3]) {
        if self.t.last() == Some(&at_s) {
            self.t.pop();
            for values in [&mut self.v, &mut self.low, &mut self.high] {
                values.pop();
            }
        }
        self.t.push(at_s);
        self.v.push(rate);
        self.low.push(low);
        self.high.push(high);
    }
}

fn chart(number: usize, path: &PathHistory, subject: Subject, now_s: f64) -> Chart {
    let mut methods: Vec<Series> = Vec::new();
    let mut expected = Series::new("expected");
    for e in path.entries_of(subject).filter(|e| is_on_calendar(e.at_utc_s)) {
        let label = printable(&e.method);
        let place = methods.iter().position(|m| m.label == label).unwrap_or(methods.len());
        if place == methods.len() {
            methods.push(Series::new(&label));
        }
        if let Some(method) = methods.get_mut(place) {
            method.push(e.at_utc_s, [e.rate_bps, e.low_bps, e.high_bps]);
        }
        if let (Some(rate), Some(low), Some(high)) = (e.expected_bps, e.expected_low_bps, e.expected_high_bps) {
            expected.push(e.at_utc_s, [rate, low, high]);
        }
    }
    let mut shifts_s = Vec::new();
    if let Some(now) = path.expectation(subject) {
        if expected.t.last().is_none_or(|last| *last <= now_s) {
            expected.push(now_s, [now.rate_bps, now.low_bps, now.high_bps]);
        }
        shifts_s.clone_from(&now.shifts_utc_s);
    }
    Chart { id: format!("chart-{number}"), methods, expected, shifts_s }
}
