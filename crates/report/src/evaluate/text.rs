//! Tables as text.

use std::io::{self, Write};

use results::evaluate::{EvaluateRecord, MethodAccuracy, MethodDecisions, RatioSummary};

use super::view::{View, interval, ratio, views};
use crate::model::span;
use crate::sheet::Sheet;
use crate::summary::{bytes, percent, printable};

/// Maximum number of methods in the table of agreement.
const METHODS_MAX: usize = 15;

/// Writes the tables of each ensemble.
///
/// # Errors
/// Errors of the writer.
pub fn write_evaluation(records: &[EvaluateRecord], out: &mut impl Write) -> io::Result<()> {
    let (_, views) = views(records);
    for view in &views {
        let mut sheet = Sheet::new(out);
        sheet.heading(&view.head.ensemble)?;
        if !view.head.about.is_empty() {
            sheet.item("shows", &view.head.about)?;
        }
        for (n, sentence) in view.sentences().iter().enumerate() {
            sheet.item(if n == 0 { "runs" } else { "" }, sentence)?;
        }
        accuracy(view, out)?;
        for (pairs, rows) in view.decision_tables() {
            writeln!(out, "\nShare of correct choices, {pairs}, by allowed variation; below it the 95 % interval")?;
            decisions(&rows, out)?;
        }
        agreement(view, out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn accuracy(view: &View<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nEstimate over truth, for the quantity of each method")?;
    writeln!(out, "{:<22} {:<26} {:>7} {RATIOS} {:>8} {:>8}", "method", "of", "answers", "bytes", "time")?;
    for a in &view.accuracy {
        let answered = format!("{}/{}", a.answered, a.attempted);
        let (cost, time) = (bytes(a.bytes), span(a.elapsed_ns));
        let of = a.quantity.text();
        writeln!(out, "{:<22} {of:<26} {answered:>7} {} {cost:>8} {time:>8}", name(a), ratios(a.to_truth.as_ref()))?;
    }
    writeln!(out, "\nEstimate, as payload, over the transfer's throughput\n{:<22} {RATIOS}", "method")?;
    view.accuracy.iter().try_for_each(|a| writeln!(out, "{:<22} {}", name(a), ratios(a.to_transfer.as_ref())))
}

const RATIOS: &str = "  10 % median   90 % 15 %off   x 2";

fn ratios(summary: Option<&RatioSummary>) -> String {
    let of = |value: fn(&RatioSummary) -> Option<f64>| ratio(summary.and_then(value));
    let share = |value: fn(&RatioSummary) -> f64| summary.map_or_else(|| "-".to_owned(), |s| percent(value(s)));
    format!(
        "{:>6} {:>6} {:>6} {:>7} {:>5}",
        of(|s| s.p10),
        of(|s| s.p50),
        of(|s| s.p90),
        share(|s| s.within_15_percent),
        share(|s| s.within_factor_2)
    )
}

fn name(a: &MethodAccuracy) -> String {
    printable(&a.method)
}

fn decisions(rows: &[&MethodDecisions], out: &mut impl Write) -> io::Result<()> {
    write!(out, "{:<22} {:>6}", "method", "pairs")?;
    for rate in rows.first().iter().flat_map(|d| &d.rates) {
        write!(out, " {:>9.2}", rate.variation)?;
    }
    writeln!(out)?;
    for d in rows {
        write!(out, "{:<22} {:>6}", printable(&d.method), d.pairs)?;
        d.rates.iter().try_for_each(|r| write!(out, " {:>9.3}", r.share))?;
        writeln!(out)?;
        if d.rates.iter().any(|r| r.low.is_some()) {
            write!(out, "{:<29}", "")?;
            d.rates.iter().try_for_each(|r| write!(out, " {:>9}", interval(r)))?;
            writeln!(out)?;
        }
    }
    Ok(())
}

fn agreement(view: &View<'_>, out: &mut impl Write) -> io::Result<()> {
    let names = view.agreeing();
    let Some(first) = view.agreement.first() else { return Ok(()) };
    writeln!(out, "\nShare of pairs on which both are right or both wrong, variation {:.2}", first.variation)?;
    let shown = names.get(..names.len().min(METHODS_MAX)).unwrap_or_default();
    write!(out, "{:<27}", "")?;
    (1..=shown.len()).try_for_each(|n| write!(out, " {n:>4}"))?;
    writeln!(out)?;
    for (n, row) in (1..).zip(shown) {
        write!(out, "{n:>2} {:<24}", printable(row))?;
        for column in shown {
            let share = view.agreement_of(row, column).map_or_else(|| "-".to_owned(), |s| format!("{s:.2}"));
            write!(out, " {share:>4}")?;
        }
        writeln!(out)?;
    }
    match names.len() - shown.len() {
        0 => Ok(()),
        more => writeln!(out, "and {more} more, in the records and on the page"),
    }
}
