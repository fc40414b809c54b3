//! `longhaul overlay replay`: repeats the decisions of a decision log and compares them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use route::{Begin, Decision, Difference, Record, Replay};

use super::cli::ReplayOptions;
use crate::standard_output::standard_output;

/// Maximum length of a line in bytes, far above that of any valid line.
const LINE_BYTES_MAX: u64 = 1 << 20;

pub(super) fn run(options: &ReplayOptions) -> anyhow::Result<ExitCode> {
    let (replay, is_cut) = replay(&options.file)?;
    let shown = if options.json { format!("{}\n", json(&replay, is_cut)) } else { text(&replay, is_cut) };
    write!(standard_output(), "{shown}")?;
    Ok(ExitCode::from(u8::from(replay.different() > 0)))
}

/// Replays a file; also returns whether its last line is incomplete.
fn replay(path: &Path) -> anyhow::Result<(Replay, bool)> {
    let name = path.display();
    let mut reader = BufReader::new(File::open(path).with_context(|| format!("reading {name}"))?);
    let Some(first) = next_line(&mut reader).with_context(|| format!("reading {name}"))? else {
        bail!("{name} is empty");
    };
    let start = Begin::parse(&String::from_utf8_lossy(&first)).with_context(|| name.to_string())?;
    let mut replay = Replay::new(start).with_context(|| format!("{name}: invalid policy in line 1"))?;
    let mut number = 1_u64;
    while let Some(line) = next_line(&mut reader).with_context(|| format!("reading {name}"))? {
        number += 1;
        match serde_json::from_slice::<Record>(&line) {
            Ok(record) => replay.handle(&record),
            // The writer includes the line end in each write, so a crash has cut this line.
            Err(_) if line.last() != Some(&b'\n') && (line.len() as u64) < LINE_BYTES_MAX => return Ok((replay, true)),
            Err(e) => bail!("{name}, line {number}: invalid record, cannot replay the rest: {e}"),
        }
    }
    Ok((replay, false))
}

/// Reads the next line with its end; `None` at the end of the file.
fn next_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}

fn json(replay: &Replay, is_cut: bool) -> serde_json::Value {
    serde_json::json!({
        "events": replay.events(), "same": replay.same(), "different": replay.different(), "first": replay.first(),
        "cut": is_cut, "full": replay.is_full(), "missing_at_end": replay.ahead(),
    })
}

fn text(replay: &Replay, is_cut: bool) -> String {
    let events = counted(replay.events(), "event", "events");
    let mut out = format!("{events}, {} equal to the log", counted(replay.same(), "decision", "decisions"));
    if let Some(first) = replay.first() {
        let _ = writeln!(out, ", {} different; the first one, after event {}:", replay.different(), first.event);
        difference(&mut out, first);
    } else {
        out.push('\n');
    }
    if is_cut {
        out.push_str("the last line is incomplete, as after a crash, and ignored\n");
    }
    if replay.ahead() > 0 {
        let missing = counted(replay.ahead() as u64, "decision", "decisions");
        let _ = writeln!(out, "the log ends before {missing} that its last event leads to");
    }
    if replay.is_full() {
        out.push_str("the log reached its maximum size (`decision_log_size`); later events are missing\n");
    }
    out
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn difference(out: &mut String, first: &Difference) {
    let record = |value: &dyn Fn() -> serde_json::Result<String>| value().unwrap_or_else(|e| e.to_string());
    if let Some(input) = &first.input {
        let _ = writeln!(out, "input     {}", record(&|| serde_json::to_string(input)));
    }
    let mut decision = |source: &str, decision: Option<&Decision>| match decision {
        None => drop(writeln!(out, "{source}  no decision")),
        Some(d) => drop(writeln!(out, "{source}  {d}\n  inputs  {}", record(&|| serde_json::to_string(&d.inputs)))),
    };
    decision("recorded", first.recorded.as_ref());
    decision("replayed", first.replayed.as_ref());
}
