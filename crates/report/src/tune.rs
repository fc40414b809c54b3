//! Text of `longhaul tune`: a table of settings, changes, and their effect.

use std::io::{self, Write};

use results::Direction;
use results::lab::Estimate;
use results::tune::{
    ChangeOutcome, Comparison, Judgement, TuneChange, TuneCommand, TunePair, TuneRecord, TuneRow, TuneStart,
    TuneSummary, TuneVerdict,
};

use crate::summary::{bytes, nanos, printable, rate};

/// Maximum line width in columns.
const WIDTH: usize = 118;
/// Widths of the table's columns: name; value found, value recommended.
const KEY_WIDTH: usize = 42;
const VALUE_WIDTH: usize = 27;
/// Indentation of the explanation of a setting.
const INDENT: usize = 6;

/// Writes the records of `longhaul tune` as plain lines, at most 118 columns wide.
#[derive(Debug)]
pub struct TuneText<W> {
    out: W,
    has_colour: bool,
    command: Option<TuneCommand>,
    listed: bool,
}

impl<W: Write> TuneText<W> {
    /// Writes to `out`, with colours (ECMA-48, SGR) if wished.
    pub const fn new(out: W, has_colour: bool) -> Self {
        Self { out, has_colour, command: None, listed: false }
    }

    /// Prints the lines that `record` completes.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn record(&mut self, record: &TuneRecord) -> io::Result<()> {
        match record {
            TuneRecord::Start(start) => {
                self.command = Some(start.command);
                self.start(start)
            }
            TuneRecord::Row(row) => self.row(row),
            TuneRecord::Change(change) => self.change(change),
            TuneRecord::Pair(pair) => self.pair(pair),
            TuneRecord::Summary(summary) => self.summary(summary),
            TuneRecord::Verdict(verdict) => self.verdict(verdict),
        }
    }

    fn start(&mut self, start: &TuneStart) -> io::Result<()> {
        let place = if start.is_host { "the host's network" } else { "a separate network namespace" };
        let (name, kernel) = (printable(&start.host.hostname), printable(&start.host.kernel));
        writeln!(self.out, "{name}, Linux {kernel}, {place}")?;
        if let Some(path) = &start.path {
            let device = path.device.as_deref().map_or_else(|| "no device".to_owned(), printable);
            writeln!(
                self.out,
                "path: {} ({}), round trip {} ({}): {} in flight; {device}",
                rate(path.rate_bps),
                printable(&path.rate_from),
                nanos(path.rtt_ns),
                printable(&path.rtt_from),
                bytes(path.bdp_bytes),
            )?;
        }
        Ok(())
    }

    fn row(&mut self, row: &TuneRow) -> io::Result<()> {
        if !self.listed {
            self.listed = true;
            writeln!(
                self.out,
                "\n{:<KEY_WIDTH$} {:<VALUE_WIDTH$} {:<VALUE_WIDTH$} verdict",
                "setting", "found", "advised"
            )?;
        }
        let found = row.found.as_deref().unwrap_or("-");
        let recommended = row.advised.as_deref().unwrap_or("as it is");
        let columns = [(row.key.as_str(), KEY_WIDTH), (found, VALUE_WIDTH), (recommended, VALUE_WIDTH)];
        let line: String = columns.iter().map(|(text, width)| format!("{} ", cell(text, *width))).collect();
        let (label, colour) = judgement(row.judgement);
        writeln!(self.out, "{line}{}", self.coloured(label, colour))?;
        if found.chars().count() > VALUE_WIDTH {
            self.wrapped(&format!("Found: {found}"))?;
        }
        let mut text = row.why.clone();
        if let Some(effect) = &row.effect {
            text += &format!(" Effect: {effect}.");
        }
        text += &format!(" [{}]", row.source);
        self.wrapped(&text)?;
        if let Some(paper) = &row.paper_2014 {
            let verb = if paper.differs { "outdated" } else { "still valid" };
            self.wrapped(&format!("2014: {}; {verb}: {}", paper.advised, paper.why))?;
        }
        Ok(())
    }

    fn summary(&mut self, summary: &TuneSummary) -> io::Result<()> {
        writeln!(self.out)?;
        let TuneSummary { to_change, applicable, of_host, unknown } = summary;
        if to_change + of_host == 0 {
            writeln!(self.out, "No change is recommended for this path.")?;
        } else {
            let settings = if *to_change == 1 { "1 setting".to_owned() } else { format!("{to_change} settings") };
            writeln!(self.out, "{settings} should change; `longhaul tune apply` changes {applicable} of them.")?;
        }
        if *of_host > 0 {
            writeln!(self.out, "{of_host} more should change and belong to the host.")?;
        }
        if *unknown > 0 {
            writeln!(self.out, "{unknown} cannot be read or evaluated here.")?;
        }
        Ok(())
    }

    fn change(&mut self, change: &TuneChange) -> io::Result<()> {
        let (label, colour) = outcome(change.outcome);
        let key = printable(&change.key);
        let label = self.coloured(label, colour);
        let values = [&change.before, &change.after].map(|v| v.as_deref().map(printable));
        match (values, change.outcome) {
            ([Some(before), Some(after)], ChangeOutcome::Restored) => {
                writeln!(self.out, "{label} {key}: {after} -> {before}")?;
            }
            ([Some(before), Some(_)], ChangeOutcome::AsBefore) => writeln!(self.out, "{label} {key}: {before}")?,
            ([Some(before), Some(after)], ChangeOutcome::Planned | ChangeOutcome::Applied | ChangeOutcome::Failed) => {
                writeln!(self.out, "{label} {key}: {before} -> {after}")?;
            }
            _ => writeln!(self.out, "{label} {key}")?,
        }
        change.note.as_deref().map_or(Ok(()), |note| self.wrapped(note))
    }

    fn pair(&mut self, pair: &TunePair) -> io::Result<()> {
        let order = if pair.with_first { "with first" } else { "without first" };
        writeln!(
            self.out,
            "pair {:>3} ({order:<13}): without {:>11}, with {:>11}, difference {:>12}",
            pair.pair,
            rate(pair.without_bps),
            rate(pair.with_bps),
            signed(pair.difference_bps as f64),
        )
    }

    fn verdict(&mut self, verdict: &TuneVerdict) -> io::Result<()> {
        let (label, colour) = comparison(verdict.comparison);
        let label = self.coloured(label, colour);
        writeln!(self.out, "\nverdict: {label}")?;
        let direction = match verdict.direction {
            Direction::Up => "from this host",
            Direction::Down => "to this host",
        };
        let text = format!(
            "Compared: goodput of tests of {} {direction}, {} at the other end, without and with {}. Settings of the \
             other end were not changed.",
            nanos(verdict.test_ns),
            verdict.target,
            if verdict.keys.is_empty() { "any change".to_owned() } else { verdict.keys.join(", ") },
        );
        self.wrapped(&text)?;
        if let (Some(without), Some(with)) = (&verdict.without_bps, &verdict.with_bps) {
            self.wrapped(&format!("Without: {}. With: {}.", mean(without), mean(with)))?;
        }
        if let Some(difference) = &verdict.difference_bps {
            let half = difference.half_width.map_or_else(|| "no interval".to_owned(), |h| format!("+- {}", plain(h)));
            let text = format!(
                "Paired difference: {} {half} (95 % confidence, Student's t, {} pairs).",
                signed(difference.mean),
                difference.runs
            );
            self.wrapped(&text)?;
        }
        if verdict.interrupted {
            self.wrapped("Interrupted before all pairs were measured; all settings are restored.")?;
        }
        Ok(())
    }

    fn coloured(&self, label: &str, colour: u8) -> String {
        if self.has_colour && colour != 0 { format!("\x1b[{colour}m{label}\x1b[0m") } else { label.to_owned() }
    }

    fn wrapped(&mut self, text: &str) -> io::Result<()> {
        let text = printable(text);
        let mut line = String::new();
        for word in text.split_whitespace() {
            let width = INDENT + line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && width > WIDTH {
                writeln!(self.out, "{:INDENT$}{line}", "")?;
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        writeln!(self.out, "{:INDENT$}{line}", "")
    }
}

/// Pads or truncates a text to this width.
fn cell(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= width {
        return format!("{text:<width$}");
    }
    let kept: String = text.chars().take(width.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Colours as of ECMA-48, SGR: 31 red, 32 green, 33 yellow; 0 none.
const fn judgement(judgement: Judgement) -> (&'static str, u8) {
    match judgement {
        Judgement::Good => ("good", 32),
        Judgement::Change => ("change", 33),
        Judgement::BelongsToHost => ("belongs to the host", 33),
        Judgement::Unknown => ("unknown", 0),
        Judgement::CannotBeRead => ("cannot be read", 0),
    }
}

const fn outcome(outcome: ChangeOutcome) -> (&'static str, u8) {
    match outcome {
        ChangeOutcome::Planned => ("would change", 0),
        ChangeOutcome::Applied => ("changed", 32),
        ChangeOutcome::Restored => ("restored", 32),
        ChangeOutcome::AsBefore => ("restored", 0),
        ChangeOutcome::LeftAlone => ("kept", 33),
        ChangeOutcome::Failed => ("failed", 31),
        ChangeOutcome::FileWritten => ("written", 32),
        ChangeOutcome::FileRemoved => ("removed", 32),
    }
}

const fn comparison(comparison: Comparison) -> (&'static str, u8) {
    match comparison {
        Comparison::Better => ("better", 32),
        Comparison::Worse => ("worse", 31),
        Comparison::NoDifference => ("no difference seen", 33),
        Comparison::NothingToChange => ("no change recommended, so no test was run", 0),
        Comparison::TooFew => ("too few pairs to decide", 33),
    }
}

fn mean(estimate: &Estimate) -> String {
    let half = estimate.half_width.map_or_else(String::new, |h| format!(" +- {}", plain(h)));
    format!("{}{half}", plain(estimate.mean))
}

fn plain(bps: f64) -> String {
    rate(bps.abs().round() as u64)
}

fn signed(bps: f64) -> String {
    format!("{}{}", if bps < 0.0 { '-' } else { '+' }, plain(bps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(found: &str) -> TuneRecord {
        TuneRecord::Row(TuneRow {
            key: "net.ipv4.tcp_rmem".to_owned(),
            found: Some(found.to_owned()),
            advised: None,
            judgement: Judgement::Good,
            why: "word ".repeat(60),
            source: "a book".to_owned(),
            effect: None,
            limit_bps: None,
            paper_2014: None,
            applicable: false,
        })
    }

    fn shown(records: &[TuneRecord], has_colour: bool) -> String {
        let mut out = Vec::new();
        let mut text = TuneText::new(&mut out, has_colour);
        records.iter().for_each(|r| text.record(r).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_fits_and_a_long_value_is_complete_below_its_row() {
        let long = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17";
        let text = shown(&[row(long)], false);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("0,1,2,3,4,5,6,7,8,9,10,1...") && text.contains(&format!("Found: {long}")), "{text}");
        assert!(text.contains("as it is") && text.contains("[a book]"));
    }

    #[test]
    fn control_characters_of_records_are_removed() {
        let text = shown(&[row("a\x1b[2Jb")], true);
        assert_eq!(text.matches('\x1b').count(), 2, "one word, coloured and back: {text:?}");
        assert!(!shown(&[row("4096")], false).contains('\x1b'));
    }

    #[test]
    fn a_value_left_alone_is_not_shown_as_changed() {
        let change = TuneChange {
            key: "net.ipv4.tcp_rmem".to_owned(),
            before: Some("1 2 3".to_owned()),
            after: Some("1 2 9".to_owned()),
            outcome: ChangeOutcome::LeftAlone,
            note: Some("it holds `1 2 5`, which longhaul did not set".to_owned()),
        };
        let text = shown(&[TuneRecord::Change(change)], false);
        assert_eq!(text, "kept net.ipv4.tcp_rmem\n      it holds `1 2 5`, which longhaul did not set\n");
    }
}
