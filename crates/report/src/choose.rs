//! Text of `longhaul choose`.

use std::io::{self, Write};

use results::choose::{Candidate, ChooseRecord, Decision};

use crate::summary::{bytes, nanos, rate};

/// Writes the candidates, best first, and the decision.
///
/// # Errors
/// Errors of the writer.
pub fn write_choice(records: &[ChooseRecord], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<32} {:>19}   {:<25} {:>7} {:>10} {:>9}",
        "candidate", "goodput", "between", "best", "round trip", "bytes"
    )?;
    for record in records {
        match record {
            ChooseRecord::Start(_) => {}
            ChooseRecord::Candidate(c) => row(c, out)?,
            ChooseRecord::Decision(d) => decision(d, out)?,
        }
    }
    Ok(())
}

fn row(c: &Candidate, out: &mut impl Write) -> io::Result<()> {
    let none = || "-".to_owned();
    let between = c.low_bps.zip(c.high_bps).map_or_else(none, |(l, h)| format!("{} and {}", rate(l), rate(h)));
    writeln!(
        out,
        "{:<32} {:>19}   {between:<25} {:>5.1} % {:>10} {:>9}",
        c.name,
        c.goodput_bps
            .map_or_else(none, |bps| c.bound.map_or_else(|| rate(bps), |b| format!("{} {}", b.text(), rate(bps)))),
        c.probability * 100.0,
        c.round_trip_ns.map_or_else(none, nanos),
        bytes(c.bytes)
    )?;
    c.error.as_ref().map_or(Ok(()), |e| writeln!(out, "{:<32} note: {e}", ""))
}

fn decision(d: &Decision, out: &mut impl Write) -> io::Result<()> {
    let cost = format!("{} of probes in {}", bytes(d.bytes), nanos(d.elapsed_ns));
    match &d.best {
        None => writeln!(out, "\nNo candidate returned a result ({cost})")?,
        Some(best) => {
            let label = if d.decided { "Best" } else { "Undecided; most probable" };
            writeln!(out, "\n{label}: {best} ({cost}); expected loss if wrong {:.1} %", d.expected_loss * 100.0)?;
        }
    }
    d.caveats.iter().try_for_each(|caveat| writeln!(out, "note: {caveat}"))
}
