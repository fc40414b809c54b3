//! Text of `longhaul model`.

use std::io::{self, Write};

use results::model::{ModelBound, ModelResult, ModelStart};

use crate::summary::{bytes, nanos, rate};

/// Writes the results of the formulas, one per line.
///
/// # Errors
/// Errors of the writer.
pub fn write_models(start: &ModelStart, results: &[ModelResult], out: &mut impl Write) -> io::Result<()> {
    let mut inputs = vec![
        format!("round trip {}", nanos(start.rtt_ns)),
        format!("loss {}", loss(start.loss)),
        format!("segments of {} B", start.mss_bytes),
        format!("timeout {}", nanos(start.timeout_ns)),
        format!("{} segments per ACK", start.segments_per_ack),
    ];
    inputs.extend(start.rate_bps.map(|bps| format!("link {}", rate(bps))));
    inputs.extend(start.window_bytes.map(|b| format!("window {}", bytes(b))));
    inputs.extend(start.bytes.map(|b| format!("transfer of {}", bytes(b))));
    writeln!(out, "{}\n", inputs.join(", "))?;
    let time = start.bytes.map_or("", |_| "         time");
    writeln!(out, "{:<16}  {:>11}  {:>11}{time}  {:<30}  source", "model", "formula", "rate", "of")?;
    for r in results {
        let number = |bps: Option<u64>| bps.map_or_else(|| "-".to_owned(), rate);
        let bound = match r.bound {
            Some(ModelBound::Link) => " (link)",
            Some(ModelBound::Window) => " (window)",
            None => "",
        };
        let time = start
            .bytes
            .map_or_else(String::new, |_| format!("  {:>11}", r.completion_ns.map_or_else(|| "-".to_owned(), span)));
        let about = format!("{}{bound}", r.about);
        writeln!(
            out,
            "{:<16}  {:>11}  {:>11}{time}  {about:<30}  {}",
            r.model,
            number(r.formula_bps),
            number(r.rate_bps),
            r.source
        )?;
    }
    Ok(())
}

/// Formats a loss ratio: as a decimal fraction down to a thousandth, below it with an exponent.
fn loss(ratio: f64) -> String {
    if ratio == 0.0 || ratio >= 1e-3 { format!("{ratio}") } else { format!("{ratio:e}") }
}

/// Formats a time in a suitable unit, up to days.
pub(crate) fn span(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match seconds {
        s if s < 100.0 => nanos(ns),
        s if s < 6000.0 => format!("{:.1} min", s / 60.0),
        s if s < 360_000.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}
