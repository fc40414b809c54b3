//! Comparison of several runs with the first one.

use results::{DelaySummary, DirectionSummary};

use super::Series;
use super::markup::Html;
use super::tables::retransmits;
use crate::summary::{finite, nanos, rate, ratio};

/// Relative difference below which no tick is shown, because runs on a real path vary more.
const NOTABLE_SHARE_MIN: f64 = 0.02;

/// One quantity of a series.
struct Metric {
    label: &'static str,
    value: fn(&Series<'_>) -> Option<f64>,
    text: fn(f64) -> String,
    is_better_when_higher: bool,
}

fn of_end(s: &Series<'_>, f: impl Fn(&DirectionSummary) -> Option<f64>) -> Option<f64> {
    s.track.summary.as_ref().and_then(f)
}

fn of_rtt(s: &Series<'_>, f: impl Fn(&DelaySummary) -> u64) -> Option<f64> {
    s.track.block_rtt.as_ref().map(|d| f(d) as f64)
}

fn as_nanos(v: f64) -> String {
    nanos(v as u64)
}

const fn lower(label: &'static str, value: fn(&Series<'_>) -> Option<f64>, text: fn(f64) -> String) -> Metric {
    Metric { label, value, text, is_better_when_higher: false }
}

const METRICS: [Metric; 9] = [
    Metric {
        label: "goodput",
        value: |s| s.track.throughput_bps.map(|n| n as f64),
        text: |v| rate(v as u64),
        is_better_when_higher: true,
    },
    lower("block RTT, median", |s| of_rtt(s, |d| d.p50_ns), as_nanos),
    lower("block RTT, 95 %", |s| of_rtt(s, |d| d.p95_ns), as_nanos),
    lower("block RTT, 99 %", |s| of_rtt(s, |d| d.p99_ns), as_nanos),
    lower("kernel smoothed RTT, median", |s| of_end(s, |d| d.kernel_srtt.as_ref().map(|r| r.p50_ns as f64)), as_nanos),
    lower(
        "retransmitted segments",
        |s| of_end(s, |d| d.udp.is_none().then(|| retransmits(d) as f64)),
        |v| format!("{v:.0}"),
    ),
    lower("datagrams lost", |s| of_end(s, |d| d.udp.as_ref().map(|u| u.loss_ratio)), ratio),
    lower("sender CPU per GB", |s| of_end(s, |d| Some(d.sender.cpu_s_per_gb)), |v| format!("{v:.2} s")),
    lower("receiver CPU per GB", |s| of_end(s, |d| Some(d.receiver.cpu_s_per_gb)), |v| format!("{v:.2} s")),
];

pub(crate) fn section(h: &mut Html, series: &[Series<'_>]) {
    h.raw("<section><h2>Comparison</h2><p class=\"hint\">Differences are to the first column.</p>");
    h.raw("<div class=\"scroll\"><table class=\"grid\"><thead><tr><th></th>");
    for s in series {
        h.raw("<th>");
        s.swatch(h);
        h.text(&s.label).raw("</th>");
    }
    h.raw("</tr></thead><tbody>");
    for m in &METRICS {
        let values: Vec<Option<f64>> = series.iter().map(m.value).map(|v| v.map(finite)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        h.raw("<tr>").element("th", m.label);
        for (i, v) in values.iter().enumerate() {
            h.raw("<td>");
            match v {
                Some(v) => h.text((m.text)(*v)),
                None => h.raw("&ndash;"),
            };
            if let (true, Some(v), Some(Some(first))) = (i > 0, v, values.first()) {
                difference(h, m, *v, *first);
            }
            h.raw("</td>");
        }
        h.raw("</tr>");
    }
    h.raw("</tbody></table></div></section>");
}

fn difference(h: &mut Html, m: &Metric, v: f64, first: f64) {
    if first <= 0.0 {
        return;
    }
    let change = v / first - 1.0;
    let class = if change.abs() < NOTABLE_SHARE_MIN {
        "same"
    } else if (change > 0.0) == m.is_better_when_higher {
        "better"
    } else {
        "worse"
    };
    h.raw(" ").classed("span", class, format_args!("{:+.1} %", change * 100.0));
}
