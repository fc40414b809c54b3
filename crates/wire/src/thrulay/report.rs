//! The text with which a server ends a UDP test (reference 1.6).

use core::fmt::Write as _;

use units::Bytes;

/// Maximum number of n-reordering lines in a report.
pub const N_REORDERING_MAX: usize = 100;

/// Quantiles of the one-way delay: the raw difference of two clocks, so that negative values occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayQuantiles {
    /// Smallest.
    pub p0_ns: i64,
    /// Lower quartile.
    pub p25_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// Upper quartile.
    pub p75_ns: i64,
    /// 95th percentile.
    pub p95_ns: i64,
}

/// A server's results at the end of a UDP test.
#[derive(Debug, Clone, PartialEq)]
pub struct UdpReport {
    /// Receive buffer of the UDP socket.
    pub buffer: Bytes,
    /// Packets that the client proposed to send.
    pub proposed: u64,
    /// Packets that the client reported as sent.
    pub sent: u64,
    /// Packets received, duplicates included.
    pub received: u64,
    /// Copies of packets already received, at most `received`.
    pub duplicates: u64,
    /// One-way delay; absent when nothing was received.
    pub delay: Option<DelayQuantiles>,
    /// Element n-1 counts packets that are n-reordered (RFC 4737 §5.4); the first [`N_REORDERING_MAX`] are shown.
    pub n_reordering: Vec<u64>,
}

impl UdpReport {
    /// Packets received, duplicates not counted.
    pub fn unique(&self) -> u64 {
        self.received.saturating_sub(self.duplicates)
    }

    /// Packets lost in per cent of those sent; zero when more arrived than were announced.
    pub fn loss_percent(&self) -> f64 {
        percent(self.sent.saturating_sub(self.unique()), self.sent.max(1))
    }

    /// Encodes the text, with counts and quantiles when `verbose`.
    ///
    /// Above 50 % loss the delay is `inf`: the median packet did not arrive. The jitter, the spread of the quartiles,
    /// is `inf` from 25 % loss and `nan` above 75 %. An undefined value is `nan`, as C prints it.
    pub fn encode(&self, verbose: bool) -> String {
        let mut text = String::new();
        if verbose {
            self.write_counts(&mut text);
        }
        line(&mut text, "Delay:\t\t ", self.delay_ms(), "ms");
        if verbose {
            self.write_quantiles(&mut text);
        }
        line(&mut text, "Loss:\t\t ", self.loss_percent(), "%");
        line(&mut text, "Jitter:\t\t ", self.jitter_ms(), "ms");
        line(&mut text, "Duplication:\t ", percent(self.duplicates, self.received), "%");
        line(&mut text, "Reordering:\t ", self.reordering_percent(1), "%");
        if verbose {
            self.write_reordering(&mut text);
        }
        text
    }

    fn delay_ms(&self) -> f64 {
        if self.loss_percent() > 50.0 { f64::INFINITY } else { self.delay.map_or(f64::NAN, |d| ms(d.p50_ns)) }
    }

    fn jitter_ms(&self) -> f64 {
        match self.loss_percent() {
            loss if loss > 75.0 => f64::NAN,
            loss if loss >= 25.0 => f64::INFINITY,
            _ => self.delay.map_or(f64::NAN, |d| ms(d.p75_ns) - ms(d.p25_ns)),
        }
    }

    /// Packets that are n-reordered, in per cent of the unique ones.
    fn reordering_percent(&self, n: usize) -> f64 {
        percent(self.n_reordering.get(n - 1).copied().unwrap_or(0), self.unique().max(1))
    }

    fn write_counts(&self, text: &mut String) {
        // Writing to a String cannot fail, so the results are dropped here and below.
        let _ = writeln!(text, "Server used UDP buffer size of {} bytes", self.buffer.as_u64());
        let _ = writeln!(text, "Client proposed sending {} packets", self.proposed);
        let _ = writeln!(text, "Client said it sent {} packets", self.sent);
        let _ = writeln!(text, "Server received {} total packets", self.received);
        let _ = writeln!(text, "Server received {} unique packets", self.unique());
    }

    fn write_quantiles(&self, text: &mut String) {
        text.push_str("\tDelay quantiles (ignoring clock offset):\n");
        let quantile = |pick: fn(DelayQuantiles) -> i64| self.delay.map_or(f64::NAN, |d| ms(pick(d)));
        for (name, value) in [
            ("  0th", quantile(|d| d.p0_ns)),
            (" 25th", quantile(|d| d.p25_ns)),
            (" 50th", quantile(|d| d.p50_ns)),
            (" 75th", quantile(|d| d.p75_ns)),
            (" 95th", quantile(|d| d.p95_ns)),
        ] {
            let _ = writeln!(text, "\t{name}: {:>8}ms", three_places(value));
        }
    }

    fn write_reordering(&self, text: &mut String) {
        let shown = self.n_reordering.iter().take(N_REORDERING_MAX).take_while(|&&count| count > 0).count();
        for n in 1..=shown {
            let _ = writeln!(text, "\t{n}-reordering = {}%", three_places(self.reordering_percent(n)));
        }
        let _ = match shown {
            0 => writeln!(text, "\tno reordering"),
            N_REORDERING_MAX => writeln!(text, "\tonly up to {N_REORDERING_MAX}-reordering is handled"),
            n => writeln!(text, "\tno {}-reordering", n + 1),
        };
    }
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

/// Share in per cent; NaN when `whole` is zero.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// Formats like C's `%.3f`, which writes `nan` and `inf` in lower case.
fn three_places(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:.3}") }
}

fn line(text: &mut String, label: &str, value: f64, unit: &str) {
    let _ = writeln!(text, "{label}{}{unit}", three_places(value));
}

#[cfg(test)]
mod tests;
