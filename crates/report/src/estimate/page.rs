//! The page of an estimate: one file that needs no network and no server.

use std::io::{self, Write};

use results::estimate::{EstimateRecord, EstimateResult, Similarity, SqueezedPairsResult};
use serde::Serialize;

use super::gaps::{Drawing, drawings};
use super::text::{bound, completion, expectation, head, name, quantity, rates};
use crate::html::document::{Parts, write_document};
use crate::html::markup::Html;
use crate::model::span;
use crate::summary::{bytes, nanos, printable, rate};

const PARTS: Parts = Parts {
    script: concat!(include_str!("../../assets/charts.js"), include_str!("../../assets/estimate.js")),
    style: include_str!("../../assets/estimate.css"),
};

/// Writes the page of an estimate: results of the methods, predictions of transfers, histograms of squeezed pairs.
///
/// # Errors
/// Errors of the writer.
pub fn write_estimate_html(mut out: impl Write, records: &[EstimateRecord], title: &str) -> io::Result<()> {
    let mut h = Html::new();
    h.raw("<header>").element("h1", title);
    for record in records {
        match record {
            EstimateRecord::Start(start) => {
                h.classed("p", "meta", format!("{}, {} UTC", printable(&head(start)), printable(&start.time_utc)));
                start.notes.iter().for_each(|note| _ = h.classed("p", "hint", printable(note)));
            }
            EstimateRecord::Expected(e) => {
                _ = h.classed("p", "hint", format!("Before: {}", printable(&expectation(e))))
            }
            EstimateRecord::Estimate(_) | EstimateRecord::Prediction(_) => {}
        }
    }
    h.raw("</header>");
    methods(&mut h, records);
    predictions(&mut h, records);
    let data = PageData { charts: squeezed(&mut h, records) };
    h.raw("<footer><p>Rates are of IP bits, those of transfers and predictions of payload. ");
    h.raw("\u{201c}Between\u{201d} is the interval that the method gives.</p><p>longhaul ")
        .text(env!("CARGO_PKG_VERSION"));
    h.raw(". Charts: uPlot 1.6.32, MIT licence.</p></footer>");
    write_document(&mut out, title, PARTS, &h, &data)
}

fn table(h: &mut Html, heading: &'static str, names: &[&str]) {
    h.raw("<section><h2>").raw(heading).raw("</h2>").table_head(names);
}

fn methods(h: &mut Html, records: &[EstimateRecord]) {
    table(h, "Methods", &["method", "of", "rate", "between", "bytes", "time", "notes"]);
    for record in records {
        let EstimateRecord::Estimate(r) = record else { continue };
        let (value, between) = r.estimate.as_ref().map_or_else(|| ("\u{2013}".to_owned(), String::new()), rates);
        let cost = [bytes(r.bytes), span(r.elapsed_ns), notes(r)];
        h.table_row(printable(&name(r)), [quantity(r.quantity, r.layer), value, between].into_iter().chain(cost));
        for also in &r.other_estimates {
            let (value, between) = rates(also);
            h.table_row(
                "",
                [quantity(also.quantity, r.layer), value, between].into_iter().chain([const { String::new() }; 3]),
            );
        }
    }
    h.table_foot().raw("</section>");
}

fn notes(r: &EstimateResult) -> String {
    let label = r.squeezed.as_ref().map(|s| s.label.map_or("unknown", Similarity::text).to_owned());
    let caveats = r.caveats.iter().map(|t| t.text().to_owned());
    let error = r.error.as_ref().map(|e| format!("aborted: {}", printable(e)));
    let control = r.congestion_control.as_ref().map(|c| format!("congestion control: {}", printable(c)));
    control.into_iter().chain(label).chain(caveats).chain(error).collect::<Vec<_>>().join("; ")
}

fn predictions(h: &mut Html, records: &[EstimateRecord]) {
    let all = || records.iter().filter_map(|r| if let EstimateRecord::Prediction(p) = r { Some(p) } else { None });
    if all().next().is_none() {
        return;
    }
    table(h, "A transfer gets", &["congestion control", "goodput", "between", "limited by", "time for its size"]);
    for p in all() {
        let between = format!("{} and {}", rate(p.low_bps), rate(p.high_bps));
        let time = completion(p).unwrap_or_default();
        h.table_row(printable(&p.congestion_control), [rate(p.goodput_bps), between, bound(p.bound).to_owned(), time]);
    }
    h.table_foot().raw("</section>");
}

#[derive(Debug, Serialize)]
struct PageData {
    charts: Vec<Chart>,
}

/// Pairs by received gap.
#[derive(Debug, Serialize)]
struct Chart {
    id: String,
    bin_ns: u64,
    end_ns: u64,
    counts: Vec<u64>,
    marks: Vec<ChartMark>,
}

#[derive(Debug, Serialize)]
struct ChartMark {
    name: &'static str,
    at_ns: u64,
}

fn squeezed(h: &mut Html, records: &[EstimateRecord]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for record in records {
        let EstimateRecord::Estimate(r) = record else { continue };
        let Some(squeezed) = &r.squeezed else { continue };
        let drawings = drawings(squeezed);
        if drawings.is_empty() {
            continue;
        }
        heading(h, squeezed);
        for drawing in &drawings {
            let id = format!("gaps-{}", charts.len());
            place(h, &id, drawing);
            charts.push(chart(id, drawing));
        }
        h.raw("</section>");
    }
    charts
}

fn heading(h: &mut Html, squeezed: &SqueezedPairsResult) {
    let label = squeezed.label.map_or("unknown", Similarity::text);
    h.raw("<section class=\"squeezed\"><h2>Squeezed pairs: ")
        .text(label)
        .raw("</h2><p class=\"hint\">Distances at which the packets of ");
    h.raw("pairs came. <b>sent</b>: at which they left; <b>b2b</b>: in a row on the narrow link; <b>500B</b>, <b>1500B</b>: with a packet of ");
    h.raw("this size between them on the narrow link. Peaks at the same distances in both charts: queues form where the path is slowest. Each ");
    h.raw("chart with its own peaks, around what was sent: they do not, or there are none. Score ")
        .text(squeezed.score);
    h.raw(".</p><noscript><p class=\"hint\">The charts need JavaScript; the tables do not.</p></noscript>");
}

fn place(h: &mut Html, id: &str, drawing: &Drawing<'_>) {
    let gap = nanos(drawing.histogram.sent_gap_ns);
    h.raw("<section class=\"chart\" id=\"").text(id).raw("\"><h3>Sent ").text(gap).raw(" apart, half of ");
    h.raw(drawing.size).raw(" bytes: ").text(drawing.pairs()).raw(" pairs</h3>");
    if drawing.histogram.above_range > 0 {
        let beyond = format!("{} came further apart than the axis reaches.", drawing.histogram.above_range);
        h.classed("p", "hint", beyond);
    }
    h.raw("<div class=\"canvas\"></div></section>");
}

fn chart(id: String, drawing: &Drawing<'_>) -> Chart {
    let histogram = drawing.histogram;
    let bins = usize::try_from(drawing.bins).unwrap_or(usize::MAX);
    Chart {
        id,
        bin_ns: histogram.bin_ns,
        end_ns: drawing.end_ns(),
        counts: histogram.counts.iter().copied().take(bins).collect(),
        marks: drawing.marks.iter().map(|m| ChartMark { name: m.name, at_ns: m.at_ns }).collect(),
    }
}
