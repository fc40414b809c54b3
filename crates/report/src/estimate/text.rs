//! Text of `longhaul estimate`.

use std::io::{self, Write};

use results::Direction;
use results::estimate::{
    EstimateRecord, EstimateResult, EstimateStart, Expected, Layer, PredictionBound, Quantity, RateInterval,
    Similarity, TransferPrediction,
};

use crate::model::span;
use crate::summary::{bytes, nanos, rate};

/// Writes records as they come, a table of the methods and one of the predictions.
#[derive(Debug, Default)]
pub struct EstimateText {
    in_estimates: bool,
    in_predictions: bool,
}

impl EstimateText {
    /// Writes one record.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&mut self, record: &EstimateRecord, out: &mut impl Write) -> io::Result<()> {
        match record {
            EstimateRecord::Start(start) => head(start, out),
            EstimateRecord::Expected(expected) => expectation(expected, out),
            EstimateRecord::Estimate(result) => {
                if !std::mem::replace(&mut self.in_estimates, true) {
                    writeln!(
                        out,
                        "\n{:<14} {:<26} {:>11}   {:<25} {:>9} {:>9}",
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

fn head(start: &EstimateStart, out: &mut impl Write) -> io::Result<()> {
    let way = match start.direction {
        Direction::Up => "to",
        Direction::Down => "from",
    };
    write!(
        out,
        "Path {way} {} ({}), round trip {}, packets of {} B",
        start.host,
        start.address,
        nanos(start.round_trip_ns),
        start.mtu_bytes
    )?;
    match start.budget_bytes {
        Some(budget) => writeln!(out, ", at most {}", bytes(budget))?,
        None => writeln!(out)?,
    }
    start.notes.iter().try_for_each(|note| writeln!(out, "  note: {note}"))
}

fn expectation(e: &Expected, out: &mut impl Write) -> io::Result<()> {
    let of = e
        .congestion_control
        .as_ref()
        .map_or_else(|| e.quantity.text().to_owned(), |control| format!("goodput of a {control} transfer"));
    let measured = if e.samples == 1 { "1 measurement".to_owned() } else { format!("{} measurements", e.samples) };
    let [value, low, high] = [e.rate_bps, e.low_bps, e.high_bps].map(rate);
    writeln!(out, "  before: {of} {value} ({low} to {high}), from {measured}")
}

fn row(result: &EstimateResult, out: &mut impl Write) -> io::Result<()> {
    let name = if result.faithful { format!("{}-2002", result.method) } else { result.method.clone() };
    let (value, between) = result.estimate.as_ref().map_or_else(|| ("-".to_owned(), "-".to_owned()), cells);
    let quantity = words(result.quantity, result.layer);
    let (cost, time) = (bytes(result.bytes), span(result.elapsed_ns));
    writeln!(out, "{name:<14} {quantity:<26} {value:>11}   {between:<25} {cost:>9} {time:>9}")?;
    for also in &result.also {
        let (value, between) = cells(also);
        writeln!(out, "{:<14} {:<26} {value:>11}   {between}", "", words(also.quantity, result.layer))?;
    }
    if let Some(squeezed) = &result.squeezed {
        let label = squeezed.label.map_or("not told", Similarity::text);
        writeln!(out, "{:<14} label: {label} (score {})", "", squeezed.score)?;
    }
    for trouble in &result.troubles {
        writeln!(out, "{:<14} note: {}", "", trouble.text())?;
    }
    result.error.as_ref().map_or(Ok(()), |e| writeln!(out, "{:<14} broken off: {e}", ""))
}

fn words(quantity: Quantity, layer: Layer) -> String {
    match layer {
        Layer::Ip => quantity.text().to_owned(),
        Layer::Payload => "goodput of a transfer".to_owned(),
    }
}

fn cells(told: &RateInterval) -> (String, String) {
    let between = if told.low_bps == told.high_bps {
        String::new()
    } else {
        format!("{} and {}", rate(told.low_bps), rate(told.high_bps))
    };
    (rate(told.rate_bps), between)
}

fn predicted(p: &TransferPrediction, out: &mut impl Write) -> io::Result<()> {
    let bound = match p.bound {
        PredictionBound::Link => "the link",
        PredictionBound::Window => "the window",
        PredictionBound::Loss => "loss",
    };
    write!(
        out,
        "A {} transfer gets {} ({} to {}), held by {bound}",
        p.congestion_control,
        rate(p.goodput_bps),
        rate(p.low_bps),
        rate(p.high_bps)
    )?;
    match p.earlier_transfers {
        Some(1) => write!(out, ", with 1 earlier transfer")?,
        Some(n) => write!(out, ", with {n} earlier transfers")?,
        None => {}
    }
    let (Some(size), Some(time)) = (p.bytes, p.completion_ns) else { return writeln!(out) };
    let least = p.completion_low_ns.unwrap_or(time);
    let most = p.completion_high_ns.map_or_else(|| "without end".to_owned(), span);
    writeln!(out, "; {} take {} ({} to {most})", bytes(size), span(time), span(least))
}
