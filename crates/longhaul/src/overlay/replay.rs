//! A record of a member's decisions, decided anew.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use route::{Begin, Decision, Difference, Record, Replay};

use super::cli::ReplayOptions;

/// No line of a record is nearly as long: what is longer is something else.
const LONGEST_LINE: u64 = 1 << 20;

pub(super) fn run(options: &ReplayOptions) -> anyhow::Result<ExitCode> {
    let (replay, is_cut) = replay(&options.file)?;
    let shown = if options.json { format!("{}\n", json(&replay, is_cut)) } else { text(&replay, is_cut) };
    write!(io::stdout(), "{shown}")?;
    Ok(ExitCode::from(u8::from(replay.different() > 0)))
}

/// Replays a file; and whether its last line is cut.
fn replay(path: &Path) -> anyhow::Result<(Replay, bool)> {
    let name = path.display();
    let mut reader = BufReader::new(File::open(path).with_context(|| format!("reading {name}"))?);
    let Some(first) = next_line(&mut reader).with_context(|| format!("reading {name}"))? else {
        bail!("{name} is empty");
    };
    let begin = Begin::parse(&String::from_utf8_lossy(&first)).with_context(|| name.to_string())?;
    let mut replay = Replay::new(begin).with_context(|| format!("{name}: the policy in its first line"))?;
    let mut number = 1_u64;
    while let Some(line) = next_line(&mut reader).with_context(|| format!("reading {name}"))? {
        number += 1;
        match serde_json::from_slice::<Record>(&line) {
            Ok(record) => replay.handle(&record),
            // The end of a line is written with it: this one is what a crash left.
            Err(_) if line.last() != Some(&b'\n') && (line.len() as u64) < LONGEST_LINE => return Ok((replay, true)),
            Err(e) => bail!("{name}, line {number}: no line of a record, so what follows cannot be replayed: {e}"),
        }
    }
    Ok((replay, false))
}

/// The next line with its end; nothing: there is none.
fn next_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}

fn json(replay: &Replay, is_cut: bool) -> serde_json::Value {
    serde_json::json!({
        "events": replay.events(), "same": replay.same(), "different": replay.different(), "first": replay.first(),
        "cut": is_cut, "full": replay.is_full(), "missing_at_end": replay.ahead(),
    })
}

fn text(replay: &Replay, is_cut: bool) -> String {
    let mut out = format!("{} events, {} decisions as recorded", replay.events(), replay.same());
    if let Some(first) = replay.first() {
        let _ = writeln!(out, ", {} not; the first of these, after event {}:", replay.different(), first.event);
        difference(&mut out, first);
    } else {
        out.push('\n');
    }
    if is_cut {
        out.push_str("the last line is cut, as by a crash, and was passed over\n");
    }
    if replay.ahead() > 0 {
        let _ = writeln!(out, "the record ends before {} decisions that its last event leads to", replay.ahead());
    }
    if replay.is_full() {
        out.push_str("the record was full (`record_size`): what came later is not in it\n");
    }
    out
}

fn difference(out: &mut String, first: &Difference) {
    let record = |value: &dyn Fn() -> serde_json::Result<String>| value().unwrap_or_else(|e| e.to_string());
    if let Some(told) = &first.told {
        let _ = writeln!(out, "told      {}", record(&|| serde_json::to_string(told)));
    }
    let mut decision = |whose: &str, decision: Option<&Decision>| match decision {
        None => drop(writeln!(out, "{whose}  nothing")),
        Some(d) => drop(writeln!(out, "{whose}  {d}\n  inputs  {}", record(&|| serde_json::to_string(&d.inputs)))),
    };
    decision("recorded", first.recorded.as_ref());
    decision("replayed", first.replayed.as_ref());
}
