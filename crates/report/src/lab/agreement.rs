//! Agreement of experiments with a reference, metric by metric, within tolerances.

use std::io::{self, Write};

use results::lab::{Estimate, KeyValue, PointSummary};

use super::format::{metric_name, metric_value, point_label, spread};
use super::records::LabReport;
use crate::columns::Columns;
use crate::sheet::Sheet;

/// Maximum width of a metric's name.
const NAME_WIDTH_MAX: usize = 34;

/// Permitted difference of two means: the larger of a share of the reference and an amount in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Share of the reference.
    pub share: f64,
    /// Amount in the unit of the metric.
    pub amount: f64,
}

/// Result of the comparison of one metric at one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// The difference is within the tolerance.
    Within,
    /// The difference is larger than the tolerance.
    Differs,
    /// The 95 % interval of the difference reaches over the tolerance: more runs are needed.
    Unknown,
}

impl Agreement {
    /// Name for readers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Differs => "differs",
            Self::Unknown => "not known",
        }
    }
}

/// Comparison of one metric at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Values of the sweep at the point.
    pub point: Vec<KeyValue>,
    /// Name of the metric in the summary.
    pub metric: String,
    /// Mean of the reference.
    pub reference: Estimate,
    /// Mean of the compared experiment.
    pub compared: Estimate,
    /// Permitted difference.
    pub tolerance: Tolerance,
    /// Result.
    pub agreement: Agreement,
}

/// Suffixes of the metrics that are compared, with their tolerances: share of the reference, and amount.
///
/// Rates repeat to 0.2 % in a lab, and round trips to the time of one offloaded packet; losses come in bursts.
const TOLERANCES: [(&str, f64, f64); 16] = [
    ("goodput_bps", 0.05, 0.0),
    ("flows_bps", 0.05, 0.0),
    ("mice_bps", 0.05, 0.0),
    ("throughput_bps", 0.05, 0.0),
    ("steady_bps", 0.05, 0.0),
    (".rtt_min_s", 0.01, 1e-4),
    (".rtt_mean_s", 0.05, 1e-4),
    ("completion_p50_s", 0.05, 1e-3),
    ("completion_p99_s", 0.15, 1e-3),
    ("slowdown_p50", 0.05, 0.01),
    ("slowdown_p99", 0.15, 0.01),
    ("wait_p50_s", 0.05, 1e-3),
    ("wait_p95_s", 0.05, 1e-3),
    ("utilisation", 0.05, 0.005),
    ("dropped", 0.2, 3.0),
    ("jain", 0.05, 0.0),
];

/// Compares the means of two experiments at the points and for the metrics that both have and that have a tolerance.
pub fn compare(reference: &LabReport, compared: &LabReport) -> Vec<Comparison> {
    let points = reference.points().iter().filter_map(|p| {
        let other = compared.points().iter().find(|o| o.values == p.values)?;
        Some((p, other))
    });
    points.flat_map(|(a, b)| of_point(a, b)).collect()
}

fn of_point(reference: &PointSummary, compared: &PointSummary) -> Vec<Comparison> {
    let metrics = reference.metrics.iter().filter_map(|(metric, a)| {
        let (_, share, amount) = TOLERANCES.iter().find(|(suffix, ..)| metric.ends_with(suffix))?;
        let b = compared.metrics.get(metric)?;
        let tolerance = Tolerance { share: *share, amount: *amount };
        Some(Comparison {
            point: reference.values.clone(),
            metric: metric.clone(),
            reference: *a,
            compared: *b,
            tolerance,
            agreement: agreement(a, b, tolerance),
        })
    });
    metrics.collect()
}

/// Judges a difference by its 95 % interval, for which the half widths of both means add in squares. A single run has
/// no interval and counts as exact.
fn agreement(reference: &Estimate, compared: &Estimate, tolerance: Tolerance) -> Agreement {
    let allowed = (tolerance.share * reference.mean.abs()).max(tolerance.amount);
    let difference = (compared.mean - reference.mean).abs();
    let half = reference.half_width.unwrap_or(0.0).hypot(compared.half_width.unwrap_or(0.0));
    if difference + half <= allowed {
        Agreement::Within
    } else if difference - half > allowed {
        Agreement::Differs
    } else {
        Agreement::Unknown
    }
}

/// Writes the comparison with each experiment as a table, and a line with the counts. `names` are those of the
/// reference and the compared experiment.
///
/// # Errors
/// Errors of the writer.
pub fn write_agreement(
    mut out: impl Write,
    names: [&str; 2],
    reports: [&LabReport; 2],
    all: &[Comparison],
) -> io::Result<()> {
    let mut sheet = Sheet::new(&mut out);
    sheet.heading(&format!("{} beside {}", names[1], names[0]))?;
    let [reference, compared] = reports.map(|r| r.engine().text());
    sheet.item("reference", &format!("{} ({reference})", names[0]))?;
    sheet.item("compared", &format!("{} ({compared})", names[1]))?;
    for group in all.chunk_by(|a, b| a.point == b.point) {
        sheet.blank()?;
        if let Some(first) = group.first().filter(|c| !c.point.is_empty()) {
            sheet.line(&format!("  {}", point_label(&first.point)))?;
        }
        let mut table = Columns::new(group.iter().map(|c| metric_name(&c.metric)), NAME_WIDTH_MAX);
        table.text("", "verdict", group.iter().map(|c| Some(c.agreement.name().to_owned())));
        table.number("", "change", group.iter().map(|c| Some(difference(c))));
        table.number("", "limit", group.iter().map(|c| Some(tolerance(c))));
        table.number("", "reference", group.iter().map(|c| Some(spread(&c.metric, &c.reference))));
        table.number("", "compared", group.iter().map(|c| Some(spread(&c.metric, &c.compared))));
        table.write(&mut sheet)?;
    }
    let count = |agreement| all.iter().filter(|c| c.agreement == agreement).count();
    sheet.blank()?;
    sheet.line(&format!(
        "{} of {} metrics within their tolerance, {} differ, {} not known",
        count(Agreement::Within),
        all.len(),
        count(Agreement::Differs),
        count(Agreement::Unknown)
    ))
}

/// Difference in per cent of the reference, or in the metric's unit beside a reference of zero.
fn difference(c: &Comparison) -> String {
    let difference = c.compared.mean - c.reference.mean;
    if c.reference.mean == 0.0 {
        return metric_value(&c.metric, difference);
    }
    let per_cent = difference / c.reference.mean.abs() * 100.0;
    if per_cent.is_finite() { format!("{per_cent:+.1} %") } else { "-".to_owned() }
}

/// The tolerance in the form that applies.
fn tolerance(c: &Comparison) -> String {
    let by_share = c.tolerance.share * c.reference.mean.abs();
    if by_share >= c.tolerance.amount {
        format!("{:.0} %", c.tolerance.share * 100.0)
    } else {
        metric_value(&c.metric, c.tolerance.amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half_width: Option<f64>) -> Estimate {
        Estimate { mean, half_width, runs: if half_width.is_some() { 5 } else { 1 } }
    }

    /// A tolerance of 5 % of 100.
    #[test]
    fn the_interval_of_the_difference_decides() {
        let tolerance = Tolerance { share: 0.05, amount: 0.0 };
        let judge = |mean, half: Option<f64>| agreement(&estimate(100.0, half), &estimate(mean, half), tolerance);
        assert_eq!(judge(104.9, None), Agreement::Within);
        assert_eq!(judge(105.1, None), Agreement::Differs);
        // Half widths of 3 and 4 give one of 5 for the difference.
        let wide = |mean| agreement(&estimate(100.0, Some(3.0)), &estimate(mean, Some(4.0)), tolerance);
        assert_eq!(wide(100.0), Agreement::Within);
        assert_eq!(
            [wide(101.0), wide(109.0), wide(111.0)],
            [Agreement::Unknown, Agreement::Unknown, Agreement::Differs]
        );
    }

    #[test]
    fn an_amount_holds_for_small_values() {
        let tolerance = Tolerance { share: 0.2, amount: 3.0 };
        let judge = |a, b| agreement(&estimate(a, None), &estimate(b, None), tolerance);
        assert_eq!(
            [judge(0.0, 3.0), judge(0.0, 4.0), judge(100.0, 119.0)],
            [Agreement::Within, Agreement::Differs, Agreement::Within]
        );
    }
}
