//! The page of an evaluation: curves of the ratios, and tables.

use std::io::{self, Write};

use results::estimate::Similarity;
use results::evaluate::{EvaluateRecord, JoinedEstimate, MeasuredPath, MethodDecisions, RatioSummary};
use serde::Serialize;

use super::view::{View, interval, ratio, views};
use crate::html::document::{Parts, write_document};
use crate::html::markup::Html;
use crate::model::span;
use crate::summary::{bytes, percent, printable};

const PARTS: Parts = Parts {
    script: concat!(include_str!("../../assets/charts.js"), include_str!("../../assets/evaluate.js")),
    style: include_str!("../../assets/evaluate.css"),
};

/// Writes the page of an evaluation: for each ensemble the distributions of the ratios, accuracy, decisions, agreement.
///
/// # Errors
/// Errors of the writer.
pub fn write_evaluation_html(mut out: impl Write, records: &[EvaluateRecord], title: &str) -> io::Result<()> {
    let (start, views) = views(records);
    let mut h = Html::new();
    h.raw("<header>").element("h1", title).raw("</header>");
    let mut data = PageData { charts: Vec::new() };
    for view in &views {
        h.raw("<section class=\"ensemble\">").element("h2", printable(&view.head.ensemble));
        if !view.head.about.is_empty() {
            h.classed("p", "meta", printable(&view.head.about));
        }
        for sentence in view.sentences() {
            h.classed("p", "meta", sentence);
        }
        curves(&mut h, view, &mut data);
        accuracy(&mut h, view);
        for (pairs, rows) in view.decision_tables() {
            decisions(&mut h, pairs, &rows);
        }
        agreement(&mut h, view);
        paths(&mut h, view);
        h.raw("</section>");
    }
    h.raw("<footer><p>A decision is correct if the path with the higher estimate, times the allowed variation, is at least as fast as the ");
    h.raw("other. Intervals are of 95 %, from measurements drawn again, not from pairs. Rates are of IP bits, those of transfers and goodput ");
    h.raw("of payload.</p><p>longhaul ").text(env!("CARGO_PKG_VERSION"));
    if let Some(start) = start {
        h.raw(", records of ").text(printable(&start.schema)).raw(", compared with the flow ");
        h.text(printable(&start.transfer));
    }
    h.raw(". Charts: uPlot 1.6.32, MIT licence.</p></footer>");
    write_document(&mut out, title, PARTS, &h, &data)
}

#[derive(Debug, Serialize)]
struct PageData {
    charts: Vec<Chart>,
}

/// Distributions of ratios, one curve for each method.
#[derive(Debug, Serialize)]
struct Chart {
    id: String,
    x_name: &'static str,
    curves: Vec<Curve>,
}

/// Ratios in ascending order, each with the share of ratios up to it.
#[derive(Debug, Serialize)]
struct Curve {
    label: String,
    /// Number of the method, which gives it the same style in every chart of the ensemble.
    number: usize,
    x: Vec<f64>,
    y: Vec<f64>,
}

fn curves(h: &mut Html, view: &View<'_>, data: &mut PageData) {
    type Ratio = fn(&MeasuredPath, &JoinedEstimate) -> Option<f64>;
    const TRUTH: (&str, Ratio) = ("estimate / truth", |_, e| Some(e.estimate_bps? as f64 / e.truth_bps? as f64));
    const TRANSFER: (&str, Ratio) = ("estimate / transfer", |p, e| Some(e.payload_bps? as f64 / p.transfer_bps as f64));
    let of_class = |class| view.paths.iter().copied().filter(|p| p.similarity == Some(class)).collect::<Vec<_>>();
    // The last two charts correspond to figure 6-7, for every method.
    let charts = [
        ("Estimate over truth", TRUTH, view.paths.clone()),
        ("Estimate over the transfer's throughput", TRANSFER, view.paths.clone()),
        ("The same, paths tight like narrow", TRANSFER, of_class(Similarity::TightLikeNarrow)),
        ("The same, paths tight unlike narrow", TRANSFER, of_class(Similarity::TightUnlikeNarrow)),
    ];
    h.raw("<noscript><p class=\"hint\">The charts need JavaScript; the tables do not.</p></noscript>");
    for (heading, (x_name, of), paths) in charts {
        let curves: Vec<Curve> = (0..view.accuracy.len()).filter_map(|n| curve(view, &paths, n, of)).collect();
        if curves.is_empty() {
            continue;
        }
        let id = format!("chart-{}", data.charts.len());
        h.raw("<section class=\"chart\" id=\"").text(&id).raw("\"><h3>").raw(heading);
        h.raw("</h3><p class=\"hint\">Share of the paths whose ratio does not exceed the value on the axis. Right of 1, the estimate is too ");
        h.raw("high. Click a name to hide its curve.</p><div class=\"canvas\"></div></section>");
        data.charts.push(Chart { id, x_name, curves });
    }
}

/// Curve of the ratios; `None` without a ratio that fits on a logarithmic axis. The shares include the other ratios.
fn curve(
    view: &View<'_>,
    paths: &[&MeasuredPath],
    number: usize,
    of: fn(&MeasuredPath, &JoinedEstimate) -> Option<f64>,
) -> Option<Curve> {
    let method = &view.accuracy.get(number)?.method;
    let of_path = |p: &&MeasuredPath| of(p, p.estimates.iter().find(|e| e.method == *method)?);
    let mut ratios: Vec<f64> = paths.iter().filter_map(of_path).filter(|r| *r >= 0.0).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let n = ratios.len() as f64;
    let steps = (1..).zip(&ratios).map(|(k, r)| (*r, f64::from(k) / n));
    let (x, y): (Vec<f64>, Vec<f64>) = steps.filter(|(r, _)| *r > 0.0 && r.is_finite()).unzip();
    (!x.is_empty()).then(|| Curve { label: printable(method), number, x, y })
}

fn accuracy(h: &mut Html, view: &View<'_>) {
    let cells = |s: Option<&RatioSummary>| {
        let value = |of: fn(&RatioSummary) -> Option<f64>| ratio(s.and_then(of));
        let share = |of: fn(&RatioSummary) -> f64| s.map_or_else(|| "-".to_owned(), |s| percent(of(s)));
        let quantiles = [value(|s| s.p10), value(|s| s.p50), value(|s| s.p90)];
        quantiles.into_iter().chain([share(|s| s.within_15_percent), share(|s| s.within_factor_2)])
    };
    h.raw("<h3>Estimate over truth</h3>");
    let quantiles = ["10 %", "median", "90 %", "within 15 %", "within a factor of 2"];
    h.table_head([&["method", "of", "answered"], &quantiles[..], &["bytes", "time"]].concat());
    for a in &view.accuracy {
        let front = [a.quantity.text().to_owned(), format!("{} of {}", a.answered, a.attempted)];
        let costs = [bytes(a.bytes), span(a.elapsed_ns)];
        h.table_row(printable(&a.method), front.into_iter().chain(cells(a.to_truth.as_ref())).chain(costs));
    }
    h.table_foot();
    h.raw("<h3>Estimate, as payload, over the transfer's throughput</h3>");
    h.table_head([&["method"], &quantiles[..]].concat());
    view.accuracy.iter().for_each(|a| _ = h.table_row(printable(&a.method), cells(a.to_transfer.as_ref())));
    h.table_foot();
}

fn decisions(h: &mut Html, pairs: &'static str, rows: &[&MethodDecisions]) {
    h.raw("<h3>Correct choices, ").raw(pairs).raw("</h3><p class=\"hint\">By allowed variation.</p>");
    let rates = rows.first().map_or(&[][..], |d| &d.rates);
    let names: Vec<String> = rates.iter().map(|r| format!("{:.2}", r.variation)).collect();
    let names: Vec<&str> = ["method", "pairs"].into_iter().chain(names.iter().map(String::as_str)).collect();
    h.table_head(&names);
    for d in rows {
        h.raw("<tr>").element("th", printable(&d.method)).element("td", d.pairs);
        for r in &d.rates {
            h.raw("<td>").text(format_args!("{:.3}", r.share));
            h.raw(" <small>").text(interval(r)).raw("</small></td>");
        }
        h.raw("</tr>");
    }
    h.table_foot();
}

fn agreement(h: &mut Html, view: &View<'_>) {
    let Some(first) = view.agreement.first() else { return };
    h.raw("<h3>Agreement</h3><p class=\"hint\">Share of the pairs on which both are right or both wrong, allowed variation ");
    h.text(format_args!("{:.2}", first.variation)).raw(".</p>");
    let names = view.agreeing();
    let numbers: Vec<String> = (1..=names.len()).map(|n| n.to_string()).collect();
    let heads: Vec<&str> = std::iter::once("").chain(numbers.iter().map(String::as_str)).collect();
    h.table_head(&heads);
    for (n, name) in (1..).zip(&names) {
        let share = |other: &&str| view.agreement_of(name, other).map_or_else(|| "-".to_owned(), |s| format!("{s:.2}"));
        h.table_row(printable(&format!("{n} {name}")), names.iter().map(share));
    }
    h.table_foot();
}

fn paths(h: &mut Html, view: &View<'_>) {
    h.raw("<details><summary>Each path</summary>");
    let methods: Vec<&str> = view.accuracy.iter().map(|a| a.method.as_str()).collect();
    h.table_head([&["run", "sender", "receiver", "transfer"], methods.as_slice()].concat());
    for p in &view.paths {
        let estimate = |m: &&str| p.estimates.iter().find(|e| e.method == *m).and_then(|e| e.estimate_bps);
        let estimates = methods.iter().map(|m| estimate(m).map_or_else(|| "-".to_owned(), crate::summary::rate));
        let front = [printable(&p.sender), printable(&p.receiver), crate::summary::rate(p.transfer_bps)];
        h.table_row(printable(&format!("{} {}", p.directory, p.run)), front.into_iter().chain(estimates));
    }
    h.table_foot();
    h.raw("</details>");
}
