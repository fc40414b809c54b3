//! Text of `longhaul estimate`.

use std::io::{self, Write};

use results::Direction;
use results::estimate::{
    EstimateRecord, EstimateResult, EstimateStart, Expected, Layer, PredictionBound, Quantity, RateInterval,
    Similarity, TransferPrediction,
};

use super::gaps::{Drawing, drawings};
use crate::model::span;
use crate::summary::{bytes, nanos, printable, rate};

/// Writes records one by one, as a table of the methods and one of the predictions.
#[derive(Debug, Default)]
pub struct EstimateText {
    in_estimates: bool,
    in_predictions: bool,
}

impl EstimateText {
    /// Writes one record.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&mut self, record: &EstimateRecord, out: &mut impl Write) -> io::Result<()> {
        match record {
            EstimateRecord::Start(start) => {
                writeln!(out, "{}", head(start))?;
                start.notes.iter().try_for_each(|note| writeln!(out, "  note: {note}"))
            }
            EstimateRecord::Expected(expected) => writeln!(out, "  before: {}", expectation(expected)),
            EstimateRecord::Estimate(result) => {
                if !std::mem::replace(&mut self.in_estimates, true) {
                    writeln!(
                        out,
                        "\n{:<14} {:<26} {:>19}   {:<25} {:>9} {:>9}",
                        "method", "of", "rate", "between", "bytes", "time"
                    )?;
                }
                row(result, out)
            }
            EstimateRecord::Prediction(prediction) => {
                if !std::mem::replace(&mut self.in_predictions, true) {
                    writeln!(out)?;
                }
                predicted(prediction, out)
            }
        }
    }
}

/// Description of the path.
pub(super) fn head(start: &EstimateStart) -> String {
    let direction = match start.direction {
        Direction::Up => "to",
        Direction::Down => "from",
    };
    let budget = start.budget_bytes.map_or_else(String::new, |budget| format!(", at most {}", bytes(budget)));
    format!(
        "Path {direction} {} ({}), round trip {}, packets of {} B{budget}",
        start.host,
        start.address,
        nanos(start.round_trip_ns),
        start.mtu_bytes
    )
}

/// Description of an expectation from the history.
pub(super) fn expectation(e: &Expected) -> String {
    let of = e
        .congestion_control
        .as_ref()
        .map_or_else(|| e.quantity.text().to_owned(), |control| format!("goodput of a {control} transfer"));
    let measured = if e.samples == 1 { "1 measurement".to_owned() } else { format!("{} measurements", e.samples) };
    let [value, low, high] = [e.rate_bps, e.low_bps, e.high_bps].map(rate);
    format!("{of} {value} ({low} to {high}), from {measured}")
}

/// `pathload`, `pathload-2002`.
pub(super) fn name(result: &EstimateResult) -> String {
    if result.faithful { format!("{}-2002", result.method) } else { result.method.clone() }
}

fn row(result: &EstimateResult, out: &mut impl Write) -> io::Result<()> {
    let name = name(result);
    let (value, between) = result.estimate.as_ref().map_or_else(|| ("-".to_owned(), "-".to_owned()), rates);
    let quantity = quantity(result.quantity, result.layer);
    let (cost, time) = (bytes(result.bytes), span(result.elapsed_ns));
    writeln!(out, "{name:<14} {quantity:<26} {value:>19}   {between:<25} {cost:>9} {time:>9}")?;
    for also in &result.other_estimates {
        let (value, between) = rates(also);
        writeln!(out, "{:<14} {:<26} {value:>19}   {between}", "", self::quantity(also.quantity, result.layer))?;
    }
    if let Some(control) = &result.congestion_control {
        writeln!(out, "{:<14} congestion control: {}", "", printable(control))?;
    }
    if let Some(squeezed) = &result.squeezed {
        let label = squeezed.label.map_or("unknown", Similarity::text);
        writeln!(out, "{:<14} label: {label} (score {})", "", squeezed.score)?;
        drawings(squeezed).iter().try_for_each(|drawing| histogram(drawing, out))?;
    }
    for caveat in &result.caveats {
        writeln!(out, "{:<14} note: {}", "", caveat.text())?;
    }
    result.error.as_ref().map_or(Ok(()), |e| writeln!(out, "{:<14} aborted: {e}", ""))
}

fn histogram(drawing: &Drawing<'_>, out: &mut impl Write) -> io::Result<()> {
    let (gap, size, end) = (nanos(drawing.histogram.sent_gap_ns), drawing.size, nanos(drawing.end_ns()));
    writeln!(
        out,
        "{:<14} {} pairs sent {gap} apart, half of {size} B; received gaps from 0 to {end}",
        "",
        drawing.pairs()
    )?;
    drawing.rows().iter().try_for_each(|row| writeln!(out, "{}", format!("{:<14} {row}", "").trim_end()))?;
    match drawing.histogram.above_range {
        0 => Ok(()),
        beyond => writeln!(out, "{:<14} {beyond} further apart", ""),
    }
}

/// Description of a quantity.
pub(super) fn quantity(quantity: Quantity, layer: Layer) -> String {
    match layer {
        Layer::Ip => quantity.text().to_owned(),
        Layer::Payload => "goodput of a transfer".to_owned(),
    }
}

/// Rate and interval of an estimate; a bound has no interval.
pub(super) fn rates(estimate: &RateInterval) -> (String, String) {
    if let Some(bound) = estimate.bound {
        return (format!("{} {}", bound.text(), rate(estimate.rate_bps)), String::new());
    }
    let between = if estimate.low_bps == estimate.high_bps {
        String::new()
    } else {
        format!("{} and {}", rate(estimate.low_bps), rate(estimate.high_bps))
    };
    (rate(estimate.rate_bps), between)
}

/// Name of the limit of a transfer.
pub(super) const fn bound(bound: PredictionBound) -> &'static str {
    match bound {
        PredictionBound::Link => "the link",
        PredictionBound::Window => "the window",
        PredictionBound::Loss => "loss",
    }
}

/// Predicted duration of the requested transfer.
pub(super) fn completion(p: &TransferPrediction) -> Option<String> {
    let (size, time) = (p.bytes?, p.completion_ns?);
    let min = p.completion_low_ns.unwrap_or(time);
    let max = p.completion_high_ns.map_or_else(|| "unbounded".to_owned(), span);
    Some(format!("{} take {} ({} to {max})", bytes(size), span(time), span(min)))
}

fn predicted(p: &TransferPrediction, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "A {} transfer gets {} ({} to {}), limited by {}",
        p.congestion_control,
        rate(p.goodput_bps),
        rate(p.low_bps),
        rate(p.high_bps),
        bound(p.bound)
    )?;
    match p.earlier_transfers {
        Some(1) => write!(out, ", with 1 earlier transfer")?,
        Some(n) => write!(out, ", with {n} earlier transfers")?,
        None => {}
    }
    match completion(p) {
        Some(time) => writeln!(out, "; {time}"),
        None => writeln!(out),
    }
}
