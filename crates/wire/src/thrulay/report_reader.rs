//! Parses a server's UDP report, of any release and verbosity.

use super::N_REORDERING_MAX;

/// Maximum number of quantiles that are kept: one for each whole percentage.
const QUANTILES_MAX: usize = 101;

/// Maximum number of bytes of a report that are read; thrulay's own with all quantiles and 100 reordering lines has
/// below 4 KiB.
pub const REPORT_BYTES_MAX: usize = 64 * 1024;

/// A reported value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reported {
    /// A finite number in the unit of its field.
    Value(f64),
    /// `inf`: the quantile falls on packets that were lost.
    Infinite,
    /// `nan`: not defined.
    Undefined,
}

/// A server's report; values that its text lacks are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadReport {
    /// Median one-way delay in milliseconds, raw difference of two clocks.
    pub delay_ms: Option<Reported>,
    /// Loss in per cent of the packets sent.
    pub loss_percent: Option<Reported>,
    /// Spread of the delay quartiles in milliseconds.
    pub jitter_ms: Option<Reported>,
    /// Duplicates in per cent of the packets received.
    pub duplication_percent: Option<Reported>,
    /// 1-reordered packets in per cent.
    pub reordering_percent: Option<Reported>,
    /// Receive buffer of the server's UDP socket in bytes (verbose).
    pub buffer_bytes: Option<u64>,
    /// Packets proposed (verbose).
    pub proposed: Option<u64>,
    /// Packets that the client reported as sent (verbose).
    pub sent: Option<u64>,
    /// Packets received, duplicates included (verbose).
    pub received: Option<u64>,
    /// Packets received, duplicates not counted (verbose).
    pub unique: Option<u64>,
    /// Delay quantiles in milliseconds, by their percentage (verbose).
    pub quantiles_ms: Vec<(u8, Reported)>,
    /// Element n-1: n-reordered packets in per cent (verbose), at most [`N_REORDERING_MAX`].
    pub n_reordering_percent: Vec<f64>,
}

/// Parses a report or the part of it that arrived; at most [`REPORT_BYTES_MAX`] bytes are read.
///
/// Unknown lines are skipped, so there is no invalid report, only an empty one.
pub fn read_report(bytes: &[u8]) -> ReadReport {
    let seen = bytes.get(..REPORT_BYTES_MAX).unwrap_or(bytes);
    let text = String::from_utf8_lossy(seen);
    let mut report = ReadReport::default();
    for line in text.lines() {
        let line = line.trim();
        if !report.read_metric(line) && !report.read_count(line) {
            report.read_detail(line);
        }
    }
    report
}

impl ReadReport {
    /// Parses lines like `Delay: 1.234ms`.
    fn read_metric(&mut self, line: &str) -> bool {
        let Some((label, value)) = line.split_once(':') else { return false };
        let (field, unit) = match label {
            "Delay" => (&mut self.delay_ms, "ms"),
            "Loss" => (&mut self.loss_percent, "%"),
            "Jitter" => (&mut self.jitter_ms, "ms"),
            "Duplication" => (&mut self.duplication_percent, "%"),
            "Reordering" => (&mut self.reordering_percent, "%"),
            _ => return false,
        };
        *field = number(value, unit).or(*field);
        true
    }

    /// Parses the verbose lines with counts.
    fn read_count(&mut self, line: &str) -> bool {
        let fields = [
            (&mut self.buffer_bytes, "Server used UDP buffer size of ", " bytes"),
            (&mut self.proposed, "Client proposed sending ", " packets"),
            (&mut self.sent, "Client said it sent ", " packets"),
            (&mut self.received, "Server received ", " total packets"),
            (&mut self.unique, "Server received ", " unique packets"),
        ];
        for (field, before, after) in fields {
            if let Some(count) = line.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)) {
                *field = count.trim().parse().ok().or(*field);
                return true;
            }
        }
        false
    }

    /// Parses `25th: 1.234ms` and `1-reordering = 0.5%`.
    fn read_detail(&mut self, line: &str) {
        if let Some((percent, value)) = line.split_once("th:")
            && let (Ok(percent @ 0..=100), Some(value)) = (percent.trim().parse::<u8>(), number(value, "ms"))
            && self.quantiles_ms.len() < QUANTILES_MAX
        {
            self.quantiles_ms.push((percent, value));
        } else if let Some((n, value)) = line.split_once("-reordering =")
            && n.trim().parse() == Ok(self.n_reordering_percent.len() + 1)
            && self.n_reordering_percent.len() < N_REORDERING_MAX
            && let Some(Reported::Value(value)) = number(value, "%")
        {
            self.n_reordering_percent.push(value);
        }
    }
}

/// Parses a number as C's `printf` writes it, with its unit.
fn number(text: &str, unit: &str) -> Option<Reported> {
    let text = text.trim();
    let text = text.strip_suffix(unit).unwrap_or(text).trim();
    // `f64` parses every spelling of printf: inf, infinity, nan in any case, with a sign. printf does not write
    // nan(0x..) here.
    let value: f64 = text.parse().ok()?;
    Some(match value {
        v if v.is_nan() => Reported::Undefined,
        v if v.is_infinite() => Reported::Infinite,
        v => Reported::Value(v),
    })
}
