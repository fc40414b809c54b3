//! The frame of the page: head, verdict, places of the charts, foot.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use results::Transport;
use sha2::{Digest, Sha256};

use super::data::ChartData;
use super::markup::{Html, script_json};
use super::{Run, Series, verdict};
use crate::summary::{self, bytes, nanos, percent, rate};

const UPLOT_SCRIPT: &str = include_str!("../../assets/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../../assets/uPlot.LICENSE");
const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");

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

/// The few numbers that most readers come for.
fn cards(h: &mut Html, s: &Series<'_>) {
    let t = s.track;
    let mut cards: Vec<(&'static str, String, String)> = Vec::new();
    if let Some(bps) = t.throughput_bps {
        let of = t.summary.as_ref().map_or_else(String::new, |d| bytes(d.receiver.bytes));
        cards.push(("goodput", rate(bps), of));
    }
    if let Some(d) = &t.block_rtt {
        cards.push(("block RTT, median", nanos(d.p50_ns), format!("95 %: {}", nanos(d.p95_ns))));
    }
    if let Some(ns) = s.run.start.baseline_rtt_ns {
        cards.push(("idle RTT", nanos(ns), "before the load".to_owned()));
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
    h.raw("<p class=\"controls\"></p><div class=\"canvas\"></div></section>");
    h.raw("<section class=\"chart\" id=\"delay\"><h2>Delay over time</h2><p class=\"hint\">");
    if series.iter().any(|s| s.run.start.plan.transport == Transport::Tcp) {
        h.raw("Block round trips hold the sender's own socket buffer; the kernel's round trips begin below it.");
    } else {
        h.raw("One-way delay of the datagrams; the truth lies within the bound of the clocks.");
    }
    h.raw("</p><p class=\"controls\"></p><div class=\"canvas\"></div></section>");
    h.raw("<div class=\"pair\"><section class=\"chart\" id=\"histogram\"><h2>Block RTT: histogram</h2>");
    h.raw("<div class=\"canvas\"></div></section><section class=\"chart\" id=\"cdf\"><h2>Block RTT: distribution</h2>");
    h.raw("<div class=\"canvas\"></div></section></div>");
}

pub(crate) fn footer(h: &mut Html, runs: &[Run]) {
    h.raw("<footer><p>longhaul ").text(env!("CARGO_PKG_VERSION")).raw(", from ");
    h.text(runs.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(", "));
    h.raw(". Delay quantiles are good to 0.1 %. Charts: uPlot 1.6.32, MIT licence.</p></footer>");
}

/// The source expression of a content security policy that allows exactly this inline script.
fn script_hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script.as_bytes())))
}

pub(crate) fn write_document(out: &mut impl Write, title: &str, body: &Html, data: &ChartData) -> io::Result<()> {
    // The MIT licence asks that its text goes with every copy.
    let library = format!("/*\n{UPLOT_LICENSE}\n*/\n{UPLOT_SCRIPT}");
    let hashes = format!("{} {}", script_hash(&library), script_hash(SCRIPT));
    let mut head = Html::new();
    head.element("title", title);
    let data = script_json(data).map_err(io::Error::other)?;
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; \
         form-action 'none'; style-src 'unsafe-inline'; script-src {hashes}\">"
    )?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(out, "<meta name=\"color-scheme\" content=\"light dark\">{}", head.as_str())?;
    writeln!(out, "<style>{UPLOT_STYLE}\n{STYLE}</style></head><body>")?;
    writeln!(out, "{}", body.as_str())?;
    writeln!(out, "<script type=\"application/json\" id=\"data\">{data}</script>")?;
    writeln!(out, "<script>{library}</script>\n<script>{SCRIPT}</script>\n</body></html>")?;
    out.flush()
}
