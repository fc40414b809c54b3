//! Comparison of several experiments, such as variants, with one column for each.

use std::collections::BTreeSet;
use std::io::{self, Write};

use results::lab::{Estimate, PointSummary, RouteChange};
use serde::Serialize;

use super::data::{RunData, of_flows};
use super::format::{arrow, metric_name, metric_value, point_label};
use super::records::{ExperimentVerdict, LabReport, RunRecords};
use super::tables::{Table, rank, subject};
use super::{bars, points};
use crate::html::document::{Parts, write_document};
use crate::html::markup::Html;

const PARTS: Parts = Parts {
    script: concat!(include_str!("../../assets/charts.js"), include_str!("../../assets/timelines.js")),
    style: include_str!("../../assets/lab.css"),
};

/// Maximum number of flows whose metrics are not folded.
const FLOWS_OPEN_MAX: usize = 8;

/// Maximum number of experiments with a time line.
const TIME_LINES_MAX: usize = 12;

/// A point of an experiment.
pub(super) struct Column<'a> {
    pub(super) name: String,
    report: &'a LabReport,
    pub(super) point: &'a PointSummary,
}

/// Writes the page that compares experiments, each with a unique name. The first one is the reference of the
/// comparison.
///
/// # Errors
/// Errors of the writer.
pub fn write_lab_comparison(mut out: impl Write, reports: &[(String, LabReport)], title: &str) -> io::Result<()> {
    let mut h = Html::new();
    h.raw("<header><h1>").text(title).raw("</h1><p class=\"hint\">");
    h.text(reports.len()).raw(" emulated experiments side by side.</p></header>");
    experiments(&mut h, reports);
    let columns = columns(reports);
    let metrics: BTreeSet<&String> = columns.iter().flat_map(|c| c.point.metrics.keys()).collect();
    let of = |prefix: &str| {
        let mut some: Vec<&String> = metrics.iter().copied().filter(|m| m.starts_with(prefix)).collect();
        some.sort_by_key(|m| (subject(m), rank(m)));
        some
    };
    let flows = of("flow.");
    bars::section(&mut h, &flows, &columns);
    let lines = time_lines(reports);
    time_line_section(&mut h, &lines);
    h.raw("<section><h2>Means</h2><p class=\"hint\">Mean and half the 95 % confidence interval (Student's t) over the valid runs; below ");
    h.raw("it the ratio to the first column, and to the published value where there is one.</p>");
    let are_many = flows.iter().filter(|m| m.ends_with(".throughput_bps")).count() > FLOWS_OPEN_MAX;
    section(&mut h, "All traffic", &of("run."), &columns, true);
    section(&mut h, "Small transfers", &of("mice."), &columns, true);
    section(&mut h, "Small transfers by size", &of("bin."), &columns, true);
    section(&mut h, "Flows", &flows, &columns, !are_many);
    section(&mut h, "Overlay", &of("overlay."), &columns, true);
    section(&mut h, "Links", &of("link."), &columns, true);
    h.raw("</section>");
    sources(&mut h, reports);
    h.raw("<footer><p>longhaul ").text(env!("CARGO_PKG_VERSION")).raw("</p></footer>");
    write_document(&mut out, title, PARTS, &h, &lines)
}

/// One run of an experiment, over time.
#[derive(Debug, Serialize)]
struct TimeLine<'a> {
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    run: &'a RunRecords,
    #[serde(flatten)]
    data: &'a RunData,
}

/// Time lines of the first valid run of each experiment, if one of them has an overlay: losses, throughput, route
/// changes.
fn time_lines(reports: &[(String, LabReport)]) -> Vec<TimeLine<'_>> {
    let has_overlay = |r: &RunRecords| r.end.as_ref().is_some_and(|end| !end.route_changes.is_empty());
    if !reports.iter().any(|(_, report)| report.runs.iter().any(has_overlay)) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (name, report) in reports {
        let charted = report.runs.iter().filter(|r| r.charts.is_some());
        let charted = charted.min_by_key(|r| (r.is_valid() != Some(true), r.rank()));
        if let Some((run, data)) = charted.and_then(|r| Some((r, r.charts.as_ref()?))) {
            lines.push(TimeLine { name: format!("{name}: {}", report.run_label(run)), run, data });
        }
    }
    lines.truncate(TIME_LINES_MAX);
    lines
}

fn time_line_section(h: &mut Html, lines: &[TimeLine<'_>]) {
    if lines.is_empty() {
        return;
    }
    h.raw("<section><h2>Over time</h2><p class=\"hint\">One run of each, the first valid one. Dashed vertical lines are changes by the schedule, ");
    h.raw("route changes of an overlay, or the planned end; hover for their text. Losses: share of the offered packets that a link lost at random.</p>");
    for (i, line) in lines.iter().enumerate() {
        h.element("h3", &line.name);
        for id in ["throughput", "losses"] {
            h.raw("<section class=\"chart\" id=\"")
                .raw(id)
                .raw("-")
                .text(i)
                .raw("\"><div class=\"canvas\"></div></section>");
        }
        route_changes(h, line.run);
    }
    h.raw("</section>");
}

/// Route changes of an overlay for paths of flows, with the time since the last change by the schedule.
fn route_changes(h: &mut Html, run: &RunRecords) {
    let Some(end) = &run.end else { return };
    let all: Vec<&RouteChange> = of_flows(&run.start, &end.route_changes).collect();
    if all.is_empty() {
        return;
    }
    let seconds = |s: f64| Some(format!("{s:.2} s"));
    let changed_before = |w: &RouteChange| {
        let before = run.start.changes.iter().map(|c| c.at_s).filter(|at| *at <= w.at_s);
        before.max_by(f64::total_cmp)
    };
    let mut t = Table::new(&all);
    t.column("at", |w| seconds(w.at_s));
    t.column("after last change", |w| seconds(w.at_s - changed_before(w)?));
    t.column("node", |w| Some(w.member.clone()));
    t.column("destination", |w| Some(w.destination.clone()));
    t.column("route", |w| w.to.clone());
    t.column("previous route", |w| w.from.clone());
    t.column("reason", |w| Some(w.reason.clone()));
    h.element("h4", "Route changes");
    t.write(h);
}

fn columns(reports: &[(String, LabReport)]) -> Vec<Column<'_>> {
    let mut all = Vec::new();
    for (name, report) in reports {
        for point in report.summary.iter().flat_map(|s| &s.points) {
            let label = point_label(&point.values);
            let name = if label.is_empty() { name.clone() } else { format!("{name}: {label}") };
            all.push(Column { name, report, point });
        }
    }
    all
}

/// Table of the experiments and their verdicts.
fn experiments(h: &mut Html, reports: &[(String, LabReport)]) {
    let mut t = Table::new(reports);
    t.column("file", |(name, _)| Some(name.clone()));
    t.column("experiment", |(_, r)| Some(r.experiment.name.clone()));
    t.column("variant", |(_, r)| r.experiment.variant.clone());
    t.column("changed", |(_, r)| {
        let changes: Vec<String> = r.experiment.overrides.iter().map(|o| format!("{} = {}", o.key, o.value)).collect();
        (!changes.is_empty()).then(|| changes.join(", "))
    });
    t.column("verdict", |(_, r)| {
        Some(match r.standing() {
            ExperimentVerdict::Valid => "VALID".to_owned(),
            ExperimentVerdict::Invalid(reasons) => format!("INVALID\n{}", first_of(&reasons)),
            ExperimentVerdict::Unfinished => "UNFINISHED".to_owned(),
        })
    });
    t.column("valid runs", |(_, r)| r.summary.as_ref().map(|s| format!("{} of {}", s.valid_runs, s.runs)));
    t.column("seed", |(_, r)| Some(r.experiment.seed.to_string()));
    t.column("length", |(_, r)| r.runs.first().map(|run| super::format::span(run.start.duration_s)));
    t.column("longhaul", |(_, r)| Some(r.experiment.version.clone()));
    h.raw("<section><h2>Experiments</h2>");
    t.write(h);
    h.raw("</section>");
}

/// First reason of an invalid verdict; the page of each experiment lists all.
fn first_of(reasons: &[String]) -> String {
    match reasons {
        [] => String::new(),
        [only] => only.clone(),
        [first, more @ ..] => format!("{first}; and {} more", more.len()),
    }
}

fn section(h: &mut Html, heading: &'static str, metrics: &[&String], columns: &[Column<'_>], is_open: bool) {
    if metrics.is_empty() {
        return;
    }
    let mut t = Table::new(metrics);
    t.column("metric", |m| Some(metric_name(m)));
    for column in columns {
        t.column(column.name.clone(), |m| cell(m, column, columns.first()));
    }
    h.raw(if is_open { "<details open><summary>" } else { "<details><summary>" }).text(heading).raw("</summary>");
    t.write(h);
    h.raw("</details>");
}

fn cell(metric: &str, column: &Column<'_>, first: Option<&Column<'_>>) -> Option<String> {
    let of = |c: &Column<'_>| c.point.metrics.get(metric).copied();
    let here = of(column)?;
    let ratio = |other: f64| metric_value("ratio", here.mean / other);
    let mut below = Vec::new();
    if let Some(Estimate { mean, .. }) = first.filter(|f| !std::ptr::eq(f.point, column.point)).and_then(of)
        && mean != 0.0
    {
        below.push(format!("{} of the first", ratio(mean)));
    }
    if let Some(p) = column.report.experiment.published.iter().find(|p| p.metric == metric && p.value != 0.0) {
        below.push(format!("{} of the published {}", ratio(p.value), metric_value(metric, p.value)));
    }
    let value = arrow(&points::cell(column.point, metric, &here));
    Some(if below.is_empty() { value } else { format!("{value}\n{}", below.join("; ")) })
}

/// Sources of the published values.
fn sources(h: &mut Html, reports: &[(String, LabReport)]) {
    let all: Vec<_> =
        reports.iter().flat_map(|(name, r)| r.experiment.published.iter().map(move |p| (name, p))).collect();
    if all.is_empty() {
        return;
    }
    let mut t = Table::new(&all);
    t.column("file", |(name, _)| Some((*name).clone()));
    t.column("metric", |(_, p)| Some(metric_name(&p.metric)));
    t.column("published", |(_, p)| Some(metric_value(&p.metric, p.value)));
    t.column("source", |(_, p)| Some(p.source.clone()));
    h.raw("<section><h2>Published values</h2>");
    t.write(h);
    h.raw("</section>");
}
