//! Delay by stage: stacked bars, in total and over time.

use results::Decomposition;

use super::Series;
use super::axis::{ticks, time_axis};
use super::markup::Html;
use crate::pairing::Row;
use crate::summary::{self, StageQuantile, nanos, percent};

/// Maximum number of columns of the picture over time; neighbours are averaged into one.
const COLUMNS_MAX: usize = 240;

/// Style classes of the stages, in their order.
const STAGE_CLASSES: [&str; 4] = ["s0", "s1", "s2", "s3"];

pub(crate) fn section(h: &mut Html, series: &[Series<'_>], end_s: f64) {
    let found: Vec<(&Series<'_>, &Decomposition)> =
        series.iter().filter_map(|s| s.track.decomposition().map(|d| (s, d))).filter(|(_, d)| is_shown(d)).collect();
    if found.is_empty() {
        return;
    }
    h.raw("<section><h2>Where the delay sits</h2><p class=\"hint\">From kernel time stamps on sampled blocks, in the ");
    h.raw(
        "order in which a block passes. Quantiles of stages do not add up to the quantile of the whole; their shares ",
    );
    h.raw("still tell where it waits.</p>");
    legend(h);
    let widest = found.iter().map(|(_, d)| total(d, StageQuantile::P95).max(total(d, StageQuantile::Median))).max();
    for (s, d) in &found {
        if series.len() > 1 {
            s.heading(h);
        }
        if summary::largest_stage(d).is_none() {
            missing(h, d);
            continue;
        }
        for (name, quantile) in [("median", StageQuantile::Median), ("95 %", StageQuantile::P95)] {
            bar(h, d, name, quantile, widest.unwrap_or(1).max(1) as f64);
        }
        table(h, d);
        over_time(h, &s.track.rows, end_s);
    }
    h.raw("</section>");
}

fn legend(h: &mut Html) {
    h.raw("<p class=\"legend\">");
    for (stage, class) in summary::stages(&Decomposition::default()).iter().zip(STAGE_CLASSES) {
        h.raw("<span><i class=\"").raw(class).raw("\"></i>").text(stage.name).raw("</span>");
    }
    h.raw("</p>");
}

fn total(d: &Decomposition, quantile: StageQuantile) -> u64 {
    summary::stage_nanos(d, quantile).iter().fold(0, |a, b| a.saturating_add(*b))
}

/// One stacked bar, on the scale of the widest bar of the page.
fn bar(h: &mut Html, d: &Decomposition, name: &'static str, quantile: StageQuantile, widest: f64) {
    let all = total(d, quantile);
    h.raw("<div class=\"barline\"><span class=\"name\">").text(name).raw("</span><div class=\"bar\">");
    for ((stage, ns), class) in summary::stages(d).iter().zip(summary::stage_nanos(d, quantile)).zip(STAGE_CLASSES) {
        let width = ns as f64 / widest * 100.0;
        if ns == 0 {
            continue;
        }
        h.raw("<div class=\"").raw(class).raw("\" style=\"width:").number(width).raw("%\" title=\"");
        h.text(stage.name).raw(": ").text(nanos(ns)).raw("\">");
        if width > 12.0 {
            h.text(nanos(ns));
        }
        h.raw("</div>");
    }
    h.raw("</div><span class=\"sum\">").text(nanos(all)).raw("</span></div>");
}

fn table(h: &mut Html, d: &Decomposition) {
    let sum = total(d, StageQuantile::Median).max(1) as f64;
    h.raw(
        "<div class=\"scroll\"><table><thead><tr><th>stage</th><th>median</th><th>share</th><th>95 %</th><th>99 %</th>",
    );
    h.raw("<th>largest</th></tr></thead><tbody>");
    for stage in summary::stages(d) {
        h.raw("<tr>").element("th", stage.name);
        match stage.delay {
            Some(s) => {
                h.element("td", nanos(s.p50_ns)).element("td", percent(s.p50_ns as f64 / sum));
                h.element("td", nanos(s.p95_ns)).element("td", nanos(s.p99_ns)).element("td", nanos(s.max_ns));
            }
            None => {
                h.raw("<td colspan=\"5\" class=\"none\">not measured</td>");
            }
        }
        h.raw("</tr>");
    }
    h.raw("</tbody></table></div>");
    h.raw("<p class=\"hint\">").text(format_args!("{} sampled blocks.", d.samples)).raw("</p>");
    missing(h, d);
}

/// Missing measurements with reasons.
fn missing(h: &mut Html, d: &Decomposition) {
    for missing in &d.missing {
        h.raw("<p class=\"hint\">missing: ").text(missing).raw("</p>");
    }
}

/// Whether there is a stage to draw, or a reason for its absence.
fn is_shown(d: &Decomposition) -> bool {
    summary::largest_stage(d).is_some() || !d.missing.is_empty()
}

/// Medians of neighbouring intervals.
struct Column {
    start_s: f64,
    end_s: f64,
    nanos: [f64; 4],
}

fn columns(rows: &[Row]) -> Vec<Column> {
    let per_column = rows.len().div_ceil(COLUMNS_MAX).max(1);
    rows.chunks(per_column)
        .filter_map(|chunk| {
            let all: Vec<[u64; 4]> = chunk
                .iter()
                .filter_map(Row::decomposition)
                .map(|d| summary::stage_nanos(&d, StageQuantile::Median))
                .collect();
            let n = all.len() as f64;
            let mean = |i: usize| all.iter().map(|stages| stages[i] as f64).sum::<f64>() / n;
            let (start_s, end_s) = (chunk.first()?.start_s(), chunk.last()?.end_s());
            let is_sane = start_s.is_finite() && end_s.is_finite() && start_s <= end_s && start_s >= 0.0;
            (!all.is_empty() && is_sane).then(|| Column { start_s, end_s, nanos: core::array::from_fn(mean) })
        })
        .collect()
}

/// Medians over time as stacked steps. The axes are text beside the picture, so that they do not stretch with it.
fn over_time(h: &mut Html, rows: &[Row], end_s: f64) {
    let columns = columns(rows);
    let top = columns.iter().map(|c| c.nanos.iter().sum::<f64>()).fold(0.0, f64::max);
    if columns.len() < 2 || top <= 0.0 || end_s <= 0.0 {
        return;
    }
    h.raw("<figure class=\"stack\"><figcaption>median of each stage over time</figcaption><div class=\"plot\">");
    h.raw("<div class=\"yaxis\" aria-hidden=\"true\">");
    for t in ticks(top, 4) {
        h.raw("<span style=\"bottom:").number(t / top * 100.0).raw("%\">");
        h.text(if t == 0.0 { "0".to_owned() } else { nanos(t as u64) }).raw("</span>");
    }
    h.raw("</div><svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
    h.raw("delay of each stage over time\">");
    for t in ticks(top, 4) {
        h.raw("<path class=\"grid\" d=\"M0 ").number(100.0 - t / top * 100.0).raw("H1000\"/>");
    }
    for (stage, class) in STAGE_CLASSES.iter().enumerate() {
        h.raw("<path class=\"").raw(class).raw("\" d=\"");
        for c in &columns {
            let below: f64 = c.nanos[..stage].iter().sum();
            let y = |ns: f64| 100.0 - ns / top * 100.0;
            let x = |s: f64| s / end_s * 1000.0;
            h.raw("M").number(x(c.start_s)).raw(" ").number(y(below)).raw("V").number(y(below + c.nanos[stage]));
            h.raw("H").number(x(c.end_s)).raw("V").number(y(below)).raw("Z");
        }
        h.raw("\"/>");
    }
    h.raw("</svg></div>");
    time_axis(h, end_s);
    h.raw("</figure>");
}
