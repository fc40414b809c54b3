//! The parts of a test's page that are not tables: head, verdict, places of the charts, foot.

use results::Transport;

use super::markup::Html;
use super::{Run, Series, verdict};
use crate::summary::{self, nanos, percent, rate, seconds};

pub(crate) fn header(h: &mut Html, runs: &[Run], series: &[Series<'_>], title: &str) {
    h.raw("<header>").element("h1", title);
    for run in runs {
        h.raw("<div class=\"run\">");
        if runs.len() > 1 {
            h.element("h2", run.label());
        }
        let (ending, is_good) = run.ending();
        h.classed("span", if is_good { "badge good" } else { "badge bad" }, ending);
        h.raw("<p class=\"meta\">").text(meta(run)).raw("</p>");
        for track in &run.tracks {
            h.classed("p", "verdict", verdict::sentence(run, track));
        }
        for warning in run.end.iter().flat_map(|e| &e.warnings) {
            h.classed("p", "warning", format_args!("Warning: {warning}"));
        }
        for note in &run.start.notes {
            h.classed("p", "note", format_args!("Note: {note}"));
        }
        h.raw("</div>");
    }
    if let [only] = series {
        cards(h, only);
    }
    h.raw("</header>");
}

fn meta(run: &Run) -> String {
    let s = &run.start;
    let p = &s.plan;
    format!(
        "{}, {} stream{} {}, interval {} \u{b7} {} \u{b7} test {} \u{b7} protocol {}",
        summary::transport_name(p.transport),
        p.streams,
        if p.streams == 1 { "" } else { "s" },
        summary::amount(s),
        nanos(p.interval_ns),
        s.time_utc,
        s.test_id,
        s.protocol
    )
}

/// The most important numbers.
fn cards(h: &mut Html, s: &Series<'_>) {
    let t = s.track;
    let mut cards: Vec<(&'static str, String, String)> = Vec::new();
    if let Some(bps) = t.throughput_bps {
        let of = t.summary.as_ref().map_or_else(String::new, summary::measured);
        cards.push(("goodput", rate(bps), of));
    }
    if let Some(d) = &t.block_rtt {
        cards.push(("block RTT, median", nanos(d.p50_ns), format!("95 %: {}", nanos(d.p95_ns))));
    }
    if let Some(ns) = s.run.start.baseline_rtt_ns {
        cards.push(("idle RTT", nanos(ns), "before the test".to_owned()));
    }
    if let Some(o) = t.summary.as_ref().and_then(|d| d.one_way.as_ref()) {
        let bound = format!("\u{b1} {}", nanos(o.bound_ns));
        cards.push(("one-way delay, median", summary::signed_nanos(o.p50_ns), bound));
    }
    if let Some((limit, share)) = t.limits.first() {
        cards.push(("limited by", summary::limit_name(*limit).to_owned(), format!("{} of the time", percent(*share))));
    }
    if let Some(u) = t.summary.as_ref().and_then(|d| d.udp.as_ref()) {
        cards.push(("datagrams lost", summary::ratio(u.loss_ratio), format!("{} of {}", u.lost, u.sent)));
    } else if let Some(d) = &t.summary {
        let n = d.loss_episode_count;
        let text = format!("{n} loss episode{}", if n == 1 { "" } else { "s" });
        cards.push(("retransmitted", super::tables::retransmits(d).to_string(), text));
    }
    h.raw("<div class=\"cards\">");
    for (name, value, detail) in cards {
        h.raw("<div>").classed("span", "name", name).classed("b", "value", value).classed("span", "detail", detail);
        h.raw("</div>");
    }
    h.raw("</div>");
}

/// Places for the charts; the script fills them and removes those without data.
pub(crate) fn charts(h: &mut Html, series: &[Series<'_>]) {
    if series.iter().all(|s| s.track.rows.is_empty()) {
        h.raw("<section><p class=\"hint\">No intervals were recorded, so there is nothing to draw over time.</p></section>");
    }
    h.raw("<noscript><p class=\"hint\">The charts need JavaScript; bars and tables do not.</p></noscript>");
    h.raw("<section class=\"chart\" id=\"throughput\"><h2>Throughput over time</h2><p class=\"hint\">Bytes that the ");
    h.raw(
        "receiving application read. Ticks at the foot mark retransmissions. Drag to zoom, double-click to reset.</p>",
    );
    h.raw("<p class=\"controls\"></p><div class=\"canvas\"></div>");
    waited(h, series);
    h.raw("</section>");
    h.raw("<section class=\"chart\" id=\"delay\"><h2>Delay over time</h2><p class=\"hint\">");
    if series.iter().any(|s| s.run.start.plan.transport == Transport::Tcp) {
        h.raw("Block round trips hold the sender's own socket buffer; the kernel's round trips start below it.");
    } else {
        h.raw("One-way delay of the datagrams; the true value is within the error bound of the clocks.");
    }
    h.raw("</p><p class=\"controls\"></p><div class=\"canvas\"></div></section>");
    h.raw("<div class=\"pair\"><section class=\"chart\" id=\"histogram\"><h2>Block RTT: histogram</h2>");
    h.raw("<div class=\"canvas\"></div></section><section class=\"chart\" id=\"cdf\"><h2>Block RTT: distribution</h2>");
    h.raw("<div class=\"canvas\"></div></section></div>");
}

/// Lists the intervals whose rate exceeds that of the path because of bytes that waited for a retransmission.
fn waited(h: &mut Html, series: &[Series<'_>]) {
    let rows = series.iter().flat_map(|s| &s.track.rows);
    let noted: Vec<String> = rows
        .filter_map(|r| Some(format!("{} to {} {}", seconds(r.start_s()), seconds(r.end_s()), summary::waited(r)?)))
        .take(INTERVALS_LISTED_MAX)
        .collect();
    if !noted.is_empty() {
        h.raw("<p class=\"hint\">").text(noted.join("; ")).raw(".</p>");
    }
}

/// Maximum number of intervals listed below the chart; the record stream has all.
const INTERVALS_LISTED_MAX: usize = 16;

pub(crate) fn footer(h: &mut Html, runs: &[Run]) {
    h.raw("<footer><p>longhaul ").text(env!("CARGO_PKG_VERSION")).raw(", from ");
    h.text(runs.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(", "));
    h.raw(". Delay quantiles are good to 0.1 %. Charts: uPlot 1.6.32, MIT licence.</p></footer>");
}
