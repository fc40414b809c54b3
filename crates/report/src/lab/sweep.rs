//! Plot over a sweep: assigns each mean to a point of a curve.

use std::collections::BTreeSet;

use results::lab::{Estimate, LabMetric, LabPlot, ModelCurve, PointSummary};
use serde::Serialize;
use units::{Bytes, Rate, parse_duration};

use super::format::{point_label, short_key, value_label};
use super::records::LabReport;

/// Maximum number of curves in a chart.
const CURVES_MAX: usize = 24;

/// A plot as the page's script draws it.
#[derive(Debug, Serialize)]
pub(super) struct SweepPlot {
    pub(super) x_name: String,
    /// Complete key of the x axis.
    x_key: String,
    /// Unit of the x values: `s`, `b/s`, `B` or nothing.
    x_unit: &'static str,
    /// Texts of x values that are not numbers; the x values are then their indices.
    x_texts: Vec<String>,
    pub(super) y_name: &'static str,
    /// Unit of the y values: `b/s`, `s` or `1`.
    y_unit: &'static str,
    is_log: bool,
    pub(super) curves: Vec<Curve>,
    models: Vec<Model>,
    /// Parts left out of the plot, with reasons.
    pub(super) left_out: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Curve {
    pub(super) label: String,
    pub(super) points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Point {
    x: f64,
    y: f64,
    half_width: Option<f64>,
    runs: u32,
}

#[derive(Debug, Serialize)]
struct Model {
    label: String,
    x: Vec<f64>,
    y: Vec<f64>,
}

/// The plot of the experiment file, or goodput over the first value of the sweep; `None` without a sweep or means.
pub(super) fn plot(report: &LabReport) -> Option<SweepPlot> {
    let points = &report.summary.as_ref()?.points;
    if points.len() < 2 {
        return None;
    }
    let requested = match &report.experiment.plot {
        Some(plot) => plot.clone(),
        None => default_plot(points)?,
    };
    let (scale, xs) = scale(points, &requested.x);
    let is_text = !scale.texts.is_empty();
    let subjects: BTreeSet<_> = points.iter().flat_map(|p| values(p, requested.y)).filter_map(|(s, _)| s).collect();
    let mut plot = SweepPlot {
        x_name: points.first().map_or(requested.x.as_str(), |p| short_key(&p.values, &requested.x)).to_owned(),
        x_key: requested.x.clone(),
        x_unit: scale.unit,
        x_texts: scale.texts,
        y_name: y_name(requested.y),
        y_unit: y_unit(requested.y),
        is_log: requested.log,
        curves: Vec::new(),
        models: models(&requested, is_text),
        left_out: Vec::new(),
    };
    if is_text && !requested.models.is_empty() {
        plot.left_out.push("the formulas (they need numbers on the x axis)".to_owned());
    }
    for (point, x) in points.iter().zip(xs) {
        let Some(x) = x else {
            plot.left_out.push(format!("{} (no value of {})", point_label(&point.values), requested.x));
            continue;
        };
        let found = values(point, requested.y);
        if found.is_empty() {
            plot.left_out.push(format!("{} (no valid run)", point_label(&point.values)));
        }
        for (subject, e) in found {
            plot.add(label(point, &requested, subject, subjects.len() == 1), x, e);
        }
    }
    if plot.curves.len() > CURVES_MAX {
        plot.left_out.push(format!("{} further curves; the table has them", plot.curves.len() - CURVES_MAX));
        plot.curves.truncate(CURVES_MAX);
    }
    plot.curves.iter_mut().for_each(|c| c.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    Some(plot)
}

impl SweepPlot {
    pub(super) const fn has_models(&self) -> bool {
        !self.models.is_empty()
    }

    fn add(&mut self, label: String, x: f64, e: &Estimate) {
        if !e.mean.is_finite() {
            return;
        }
        let point = Point { x, y: e.mean, half_width: e.half_width.filter(|w| w.is_finite()), runs: e.runs };
        match self.curves.iter_mut().find(|c| c.label == label) {
            Some(curve) => curve.points.push(point),
            None => self.curves.push(Curve { label, points: vec![point] }),
        }
    }
}

fn default_plot(points: &[PointSummary]) -> Option<LabPlot> {
    let x = points.iter().flat_map(|p| &p.values).next()?.key.clone();
    Some(LabPlot { x, y: LabMetric::Throughput, series: None, log: false, models: Vec::new() })
}

const fn y_name(y: LabMetric) -> &'static str {
    match y {
        LabMetric::Throughput => "goodput",
        LabMetric::Completion => "median completion of small transfers",
        LabMetric::QueueDelay => "95th percentile of the waiting time, longest queue",
        LabMetric::Utilisation => "utilisation of the busiest link",
    }
}

const fn y_unit(y: LabMetric) -> &'static str {
    match y {
        LabMetric::Throughput => "b/s",
        LabMetric::Completion | LabMetric::QueueDelay => "s",
        LabMetric::Utilisation => "1",
    }
}

/// Means of a point for a plot of `y`, each with the name of its subject; without a name if there is only one.
fn values(point: &PointSummary, y: LabMetric) -> Vec<(Option<&str>, &Estimate)> {
    let of = |prefix: &'static str, suffix: &'static str| {
        point.metrics.iter().filter_map(move |(k, e)| {
            let subject = k.strip_prefix(prefix)?.strip_suffix(suffix)?;
            Some((subject, e))
        })
    };
    let largest = |suffix: &'static str| {
        let all = of("link.", suffix).map(|(_, e)| e);
        all.max_by(|a, b| a.mean.total_cmp(&b.mean)).map(|e| (None, e)).into_iter().collect()
    };
    match y {
        LabMetric::Throughput => of("flow.", ".throughput_bps").map(|(s, e)| (Some(s), e)).collect(),
        LabMetric::Completion => of("mice.", ".completion_p50_s").map(|(s, e)| (Some(s), e)).collect(),
        LabMetric::QueueDelay => largest(".wait_p95_s"),
        LabMetric::Utilisation => largest(".utilisation"),
    }
}

/// Identifies the curve of a value: all values of the point except that of the x axis, and the flow if there are
/// several.
fn label(point: &PointSummary, plot: &LabPlot, subject: Option<&str>, is_only: bool) -> String {
    let is_series = |key: &str| plot.series.as_deref() == Some(key);
    let mut parts: Vec<String> = Vec::new();
    for v in point.values.iter().filter(|v| v.key != plot.x) {
        parts.push(if is_series(&v.key) { v.value.clone() } else { value_label(&point.values, v) });
    }
    parts.extend(subject.filter(|_| !is_only || parts.is_empty()).map(str::to_owned));
    if parts.is_empty() { y_name(plot.y).to_owned() } else { parts.join(", ") }
}

/// Formulas use base units, and indices of texts have none.
fn models(plot: &LabPlot, is_text: bool) -> Vec<Model> {
    let of = |m: &ModelCurve| Model { label: m.name.clone(), x: m.x.clone(), y: m.y.clone() };
    if is_text { Vec::new() } else { plot.models.iter().map(of).collect() }
}

struct Scale {
    unit: &'static str,
    texts: Vec<String>,
}

/// Positions on the x axis: the values if all have one unit, otherwise one index per text.
fn scale(points: &[PointSummary], key: &str) -> (Scale, Vec<Option<f64>>) {
    let texts: Vec<Option<&str>> =
        points.iter().map(|p| p.values.iter().find(|v| v.key == key).map(|v| v.value.as_str())).collect();
    let read: Vec<Option<(f64, &'static str)>> = texts.iter().map(|t| t.and_then(quantity)).collect();
    let unit = read.iter().flatten().map(|(_, unit)| *unit).next();
    let is_one_kind = texts.iter().zip(&read).all(|(t, r)| t.is_none() || r.map(|r| Some(r.1) == unit) == Some(true));
    if let (true, Some(unit)) = (is_one_kind, unit) {
        return (Scale { unit, texts: Vec::new() }, read.into_iter().map(|r| r.map(|(v, _)| v)).collect());
    }
    let mut places: Vec<String> = Vec::new();
    let place = |t: Option<&str>| {
        let t = t?;
        let at = places.iter().position(|p| p == t).unwrap_or_else(|| {
            places.push(t.to_owned());
            places.len() - 1
        });
        Some(at as f64)
    };
    let xs = texts.into_iter().map(place).collect();
    (Scale { unit: "", texts: places }, xs)
}

/// Value of an experiment file in base units, with its unit.
fn quantity(text: &str) -> Option<(f64, &'static str)> {
    let text = text.trim();
    if let Ok(v) = text.parse::<f64>() {
        return v.is_finite().then_some((v, ""));
    }
    if let Some(p) = text.strip_suffix('%') {
        return p.trim().parse::<f64>().ok().filter(|p| p.is_finite()).map(|p| (p / 100.0, ""));
    }
    if let Ok(d) = parse_duration(text) {
        return Some((d.as_secs_f64(), "s"));
    }
    if text.ends_with('B') {
        return text.parse::<Bytes>().ok().map(|b| (b.as_u64() as f64, "B"));
    }
    text.parse::<Rate>().ok().map(|r| (r.as_bps() as f64, "b/s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_written() {
        for (text, expected) in [
            ("0.001", Some((0.001, ""))),
            ("1e-3", Some((0.001, ""))),
            ("5 %", Some((0.05, ""))),
            ("187ms", Some((0.187, "s"))),
            ("100Mb/s", Some((1e8, "b/s"))),
            ("10G", Some((1e10, "b/s"))),
            ("64KiB", Some((65_536.0, "B"))),
            ("cubic", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(quantity(text), expected, "{text}");
        }
    }
}
