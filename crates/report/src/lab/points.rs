//! Plain-text table of the means of all points.

use std::collections::BTreeSet;
use std::io::{self, Write};

use results::lab::{Estimate, LabMetric, LabPlot, LabSummary, PointSummary};

use super::format::{metric_value, point_label, spread};
use crate::columns::Columns;
use crate::sheet::Sheet;

/// Maximum width of a point's label.
const LABEL_WIDTH_MAX: usize = 48;

/// Column: metric, heading, cells.
type Column = (Option<LabMetric>, [String; 2], Vec<Option<String>>);

/// Writes one row per point. If not all columns fit, those of the plot's metric come first, and the others are listed.
pub(super) fn write<W: Write>(
    sheet: &mut Sheet<'_, W>,
    s: &LabSummary,
    plot: Option<&LabPlot>,
    repetitions: u32,
) -> io::Result<()> {
    let names = s.points.iter().map(|p| if p.values.is_empty() { "mean".to_owned() } else { point_label(&p.values) });
    let mut table = Columns::new(names, LABEL_WIDTH_MAX);
    if repetitions > 1 {
        table.number("valid", "runs", s.points.iter().map(|p| Some(runs(p).to_string())));
    }
    let first = plot.map_or(LabMetric::Throughput, |p| p.y);
    let mut columns = columns(&s.points);
    columns.sort_by_key(|(metric, ..)| *metric != Some(first));
    for (_, [over, head], cells) in columns {
        table.number(&over, &head, cells);
    }
    let left_out = table.write(sheet)?;
    if s.points.iter().any(|p| p.metrics.values().any(|e| e.half_width.is_some())) {
        sheet.item("+/-", "half the 95 % confidence interval of the mean over the valid runs")?;
    }
    if !left_out.is_empty() {
        let subject = match left_out.as_slice() {
            few if few.len() <= 6 => few.join(", "),
            many => format!("{} and {} more", many[..5].join(", "), many.len() - 5),
        };
        let text = format!("{subject}: too wide; see the report page or the record `summary` of the result file");
        sheet.item("not shown", &text)?;
    }
    Ok(())
}

/// Number of valid runs behind the means of a point.
pub(super) fn runs(point: &PointSummary) -> u32 {
    point.metrics.values().map(|e| e.runs).max().unwrap_or(0)
}

fn columns(points: &[PointSummary]) -> Vec<Column> {
    let mut all = Vec::new();
    let cells = |metric: &str| -> Vec<Option<String>> {
        points.iter().map(|p| p.metrics.get(metric).map(|e| cell(p, metric, e))).collect()
    };
    let heads = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
    let each = |metric, prefix: &str, suffix: &str, head: &str| -> Vec<Column> {
        let of = |subject: String| (metric, heads(&subject, head), cells(&format!("{prefix}{subject}{suffix}")));
        subjects(points, prefix, suffix).into_iter().map(of).collect()
    };
    all.extend(each(Some(LabMetric::Throughput), "flow.", ".throughput_bps", "goodput"));
    all.extend(each(Some(LabMetric::Completion), "mice.", ".completion_p50_s", "p50"));
    all.extend(each(None, "mice.", ".completion_p95_s", "p95"));
    for subject in subjects(points, "mice.", ".incomplete") {
        let metric = format!("mice.{subject}.incomplete");
        if points.iter().filter_map(|p| p.metrics.get(&metric)).any(|e| e.mean > 0.0) {
            all.push((None, heads(&subject, "not compl."), cells(&metric)));
        }
    }
    let largest = |suffix: &str| points.iter().map(|p| largest(p, suffix)).collect();
    all.push((Some(LabMetric::Utilisation), heads("busiest", "link"), largest(".utilisation")));
    all.push((Some(LabMetric::QueueDelay), heads("longest", "wait p95"), largest(".wait_p95_s")));
    all.push((None, heads("packets", "dropped"), points.iter().map(dropped).collect()));
    all.push((None, heads("all traffic", "goodput"), cells("run.goodput_bps")));
    all.push((None, heads("all traffic", "Jain's index"), cells("run.jain")));
    all.extend(each(None, "mice.", ".slowdown_p99", "slowdown p99"));
    all
}

/// Names of all metrics with this prefix and suffix at any point.
fn subjects(points: &[PointSummary], prefix: &str, suffix: &str) -> BTreeSet<String> {
    let keys = points.iter().flat_map(|p| p.metrics.keys());
    keys.filter_map(|k| k.strip_prefix(prefix)?.strip_suffix(suffix)).map(str::to_owned).collect()
}

/// The mean, with its number of runs if that is below the number of the point.
pub(super) fn cell(point: &PointSummary, metric: &str, e: &Estimate) -> String {
    let mean = spread(metric, e);
    if e.runs == runs(point) { mean } else { format!("{mean} ({})", e.runs) }
}

fn of_links<'a>(point: &'a PointSummary, suffix: &'a str) -> impl Iterator<Item = (&'a String, &'a Estimate)> {
    point.metrics.iter().filter(move |(k, _)| k.starts_with("link.") && k.ends_with(suffix))
}

fn largest(point: &PointSummary, suffix: &str) -> Option<String> {
    let (metric, e) = of_links(point, suffix).max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))?;
    Some(cell(point, metric, e))
}

/// Drops of all links together, without an interval: those of the means cannot be added.
fn dropped(point: &PointSummary) -> Option<String> {
    let all: Vec<f64> = of_links(point, ".dropped").map(|(_, e)| e.mean).collect();
    (!all.is_empty()).then(|| metric_value("dropped", all.iter().sum()))
}
