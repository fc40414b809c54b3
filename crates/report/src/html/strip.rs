//! Limits of the transfer over time: a coloured strip with the evidence.

use results::Limit;

use super::Series;
use super::axis::time_axis;
use super::markup::Html;
use crate::pairing::Row;
use crate::summary::{limit_name, limit_remedy, percent, seconds};

/// Maximum number of spans in the list below a strip; the strip shows all.
const SPANS_LISTED_MAX: usize = 100;

/// Neighbouring intervals with one limit.
struct Span<'a> {
    limit: Limit,
    start_s: f64,
    end_s: f64,
    /// Mean share of time for which the evidence applied.
    share: f64,
    intervals: u32,
    /// Evidence of the interval with the largest share.
    evidence: &'a str,
    best: f64,
}

pub(crate) fn section(h: &mut Html, series: &[Series<'_>], end_s: f64) {
    if series.iter().all(|s| s.track.limits.is_empty()) {
        return;
    }
    h.raw("<section><h2>What limited the transfer</h2>");
    legend(h, series);
    for s in series.iter().filter(|s| !s.track.limits.is_empty()) {
        if series.len() > 1 {
            s.heading(h);
        }
        let spans = spans(&s.track.rows);
        strip(h, &spans, end_s);
        sentence(h, &s.track.limits);
        list(h, &spans);
    }
    h.raw("</section>");
}

/// Style class of a limit, which has its own colour.
const fn class(limit: Limit) -> &'static str {
    match limit {
        Limit::ReceiveWindow => "l-rwnd",
        Limit::SendBuffer => "l-sndbuf",
        Limit::Bottleneck => "l-path",
        Limit::Loss => "l-loss",
        Limit::CongestionWindow => "l-cwnd",
        Limit::Pacing => "l-pacing",
        Limit::Application => "l-app",
        Limit::ReceiverApplication => "l-rapp",
        Limit::SenderCpu => "l-scpu",
        Limit::ReceiverCpu => "l-rcpu",
        Limit::Disk => "l-disk",
        Limit::PathMtu | Limit::Unknown => "l-none",
    }
}

fn legend(h: &mut Html, series: &[Series<'_>]) {
    let mut limits: Vec<Limit> = series.iter().flat_map(|s| &s.track.limits).map(|(l, _)| *l).collect();
    limits.extend(series.iter().flat_map(|s| &s.track.rows).filter_map(Row::limit).map(|v| v.limit));
    limits.sort_unstable();
    limits.dedup();
    h.raw("<p class=\"legend\">");
    for l in limits {
        h.raw("<span><i class=\"").raw(class(l)).raw("\"></i>").text(limit_name(l)).raw("</span>");
    }
    h.raw("</p>");
}

fn spans(rows: &[Row]) -> Vec<Span<'_>> {
    let mut spans: Vec<Span<'_>> = Vec::new();
    for row in rows {
        let Some(v) = row.limit() else { continue };
        let (start_s, end_s, share) = (row.start_s(), row.end_s(), crate::summary::finite(v.share));
        match spans.last_mut() {
            // Ends of two intervals may differ by the scheduling of their timers.
            Some(last) if last.limit == v.limit && start_s - last.end_s < 0.5 * (end_s - start_s) => {
                last.end_s = end_s;
                last.share = (last.share * f64::from(last.intervals) + share) / f64::from(last.intervals + 1);
                last.intervals += 1;
                if share > last.best {
                    (last.best, last.evidence) = (share, &v.evidence);
                }
            }
            _ => spans.push(Span {
                limit: v.limit,
                start_s,
                end_s,
                share,
                intervals: 1,
                evidence: &v.evidence,
                best: share,
            }),
        }
    }
    spans
}

fn strip(h: &mut Html, spans: &[Span<'_>], end_s: f64) {
    if spans.is_empty() || end_s <= 0.0 {
        return;
    }
    h.raw("<div class=\"strip\">");
    for s in spans {
        let width = (s.end_s - s.start_s).max(0.0) / end_s * 100.0;
        h.raw("<div class=\"").raw(class(s.limit)).raw("\" style=\"left:").number(s.start_s / end_s * 100.0);
        h.raw("%;width:").number(width).raw("%\" title=\"");
        h.text(format_args!("{} to {}: ", seconds(s.start_s), seconds(s.end_s))).text(limit_name(s.limit));
        h.text(format_args!(" ({})\n", percent(s.share))).text(s.evidence).raw("\">");
        // The width of the name; narrower spans are identified by the legend and the hover text.
        if width > limit_name(s.limit).len() as f64 * 0.9 {
            h.classed("span", "wide", limit_name(s.limit));
        }
        h.raw("</div>");
    }
    h.raw("</div>");
    time_axis(h, end_s);
}

fn sentence(h: &mut Html, limits: &[(Limit, f64)]) {
    let text: Vec<String> = limits.iter().map(|(l, s)| format!("{} {}", limit_name(*l), percent(*s))).collect();
    h.raw("<p>Share of the intervals: ").text(text.join(", ")).raw(".");
    if let Some(remedy) = limits.first().and_then(|(l, _)| limit_remedy(*l)) {
        h.raw(" ").text(limits.first().map_or("", |(l, _)| limit_name(*l))).raw(": ").text(remedy).raw(".");
    }
    h.raw("</p>");
}

fn list(h: &mut Html, spans: &[Span<'_>]) {
    if spans.is_empty() {
        return;
    }
    h.raw("<details><summary>Evidence</summary><div class=\"scroll\"><table class=\"words\"><thead><tr><th>from</th>");
    h.raw("<th>to</th><th>limit</th><th>share of time</th><th>evidence</th></tr></thead><tbody>");
    for s in spans.iter().take(SPANS_LISTED_MAX) {
        h.raw("<tr>").element("td", seconds(s.start_s)).element("td", seconds(s.end_s));
        h.element("td", limit_name(s.limit)).element("td", percent(s.share)).element("td", s.evidence).raw("</tr>");
    }
    h.raw("</tbody></table></div>");
    if spans.len() > SPANS_LISTED_MAX {
        h.raw("<p class=\"hint\">").text(format_args!("and {} more", spans.len() - SPANS_LISTED_MAX)).raw("</p>");
    }
    h.raw("</details>");
}
