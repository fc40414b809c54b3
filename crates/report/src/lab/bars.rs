//! Goodput of flows side by side, one bar per experiment.

use results::lab::Estimate;

use super::compare::Column;
use super::format::{arrow, metric_name, spread};
use crate::html::markup::Html;

/// Maximum number of flows with bars.
const FLOWS_MAX: usize = 12;

/// Bars of the goodput of each flow, one for each point of each experiment, with one scale for each flow.
pub(super) fn section(h: &mut Html, metrics: &[&String], columns: &[Column<'_>]) {
    let drawn: Vec<&&String> = metrics.iter().filter(|m| m.ends_with(".throughput_bps")).take(FLOWS_MAX).collect();
    if drawn.is_empty() || columns.len() < 2 {
        return;
    }
    h.raw("<section class=\"means\"><h2>Goodput side by side</h2><p class=\"hint\">Means over the valid runs; the thin line is the 95 % ");
    h.raw("confidence interval, which a single run does not have.</p>");
    for metric in drawn {
        let of = |c: &Column<'_>| c.point.metrics.get(*metric).copied();
        let high = |e: Estimate| e.mean + e.half_width.unwrap_or(0.0);
        let max = columns.iter().filter_map(of).map(high).fold(0.0, f64::max);
        h.element("h3", metric_name(metric));
        for column in columns {
            bar(h, metric, &column.name, of(column), max);
        }
    }
    h.raw("</section>");
}

fn bar(h: &mut Html, metric: &str, name: &str, value: Option<Estimate>, max: f64) {
    let share = |x: f64| if max > 0.0 { (x / max * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    h.raw("<div class=\"barline\"><span class=\"name\">").text(name).raw("</span><div class=\"bar\">");
    if let Some(e) = value {
        h.raw("<i style=\"width:").number(share(e.mean)).raw("%\"></i>");
        if let Some(half) = e.half_width {
            let (low, high) = (share(e.mean - half), share(e.mean + half));
            h.raw("<b style=\"left:").number(low).raw("%;width:").number(high - low).raw("%\"></b>");
        }
    }
    let text = value.map_or_else(|| "no valid run".to_owned(), |e| arrow(&spread(metric, &e)));
    h.raw("</div><span class=\"sum\">").text(text).raw("</span></div>");
}
