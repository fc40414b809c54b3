use core::fmt;
use std::time::Duration;

use units::{Instant, Rate, nanos};

/// Bytes of one delivery opportunity: mahimahi's packet size, which is an MTU of 1500 plus 4 bytes of TUN packet
/// information.
pub(crate) const OPPORTUNITY_BYTES: u32 = 1504;
/// Bytes per packet that mahimahi counts in addition to the IP bytes: the TUN packet information.
pub(crate) const TRACE_OVERHEAD_BYTES: u32 = 4;
/// Maximum number of opportunities computed from rates: 1 Gb/s for 10 minutes, 400 MB.
const OPPORTUNITIES_MAX: usize = 50_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Delivery opportunities of a varying link, in mahimahi's format.
///
/// Each line of the text has one whole number: the time in milliseconds since the start of an opportunity to send 1504
/// bytes. The numbers do not decrease; a number occurs once per opportunity in its millisecond. The trace loops with
/// the last number as its period, so that a first opportunity at 0 coincides with the last one of the previous period
/// (mahimahi `link_queue.cc`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds from the start to each opportunity, not decreasing. The list is not empty, and its last entry is
    /// not 0.
    opportunities_ms: Vec<u64>,
}

/// A trace that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not a number.
    #[error(
        "line {line}: `{text}` is not a whole number of milliseconds; a trace has one such number a line and nothing else"
    )]
    NotANumber {
        /// Line number, from 1.
        line: usize,
        /// The text of the line, shortened.
        text: String,
    },
    /// A line is empty.
    #[error("line {line} is empty; a trace has one number of milliseconds a line")]
    EmptyLine {
        /// Line number, from 1.
        line: usize,
    },
    /// The times decrease.
    #[error("line {line}: {ms} ms comes after {before_ms} ms; the numbers must not decrease")]
    Decreasing {
        /// Line number, from 1.
        line: usize,
        /// Number in the line.
        ms: u64,
        /// Number in the line before.
        before_ms: u64,
    },
    /// The trace has no opportunity.
    #[error("the trace has no delivery opportunity")]
    Empty,
    /// All opportunities are at 0 ms.
    #[error("the last number is 0 ms; it is the length of the trace and must be larger")]
    NoLength,
    /// The last rate is zero.
    #[error(
        "the rates end with 0 b/s; a trace ends with its last delivery opportunity and cannot hold silence after it"
    )]
    EndsSilent,
    /// The rates give too many opportunities.
    #[error("the rates give more than {OPPORTUNITIES_MAX} delivery opportunities; use a shorter trace, it loops")]
    TooLong,
}

impl Trace {
    /// Parses mahimahi's format.
    ///
    /// # Errors
    ///
    /// A line is invalid; the error names the line.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut opportunities_ms: Vec<u64> = Vec::new();
        for (i, content) in text.lines().enumerate() {
            let line = i + 1;
            if content.trim().is_empty() {
                return Err(TraceError::EmptyLine { line });
            }
            // `parse` alone would accept a sign.
            let digits = content.bytes().all(|b| b.is_ascii_digit());
            let ms = content
                .parse()
                .ok()
                .filter(|_| digits)
                .ok_or_else(|| TraceError::NotANumber { line, text: content.chars().take(40).collect() })?;
            if let Some(&before_ms) = opportunities_ms.last()
                && ms < before_ms
            {
                return Err(TraceError::Decreasing { line, ms, before_ms });
            }
            opportunities_ms.push(ms);
        }
        Self::checked(opportunities_ms)
    }

    /// Trace of a constant rate, counted on IP bytes plus 4. See [`Self::of_rates`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::of_rates`].
    pub fn of_constant(rate: Rate, length: Duration) -> Result<Self, TraceError> {
        Self::of_rates(&[(rate, length)])
    }

    /// Trace of consecutive rates, each with its duration; counted on IP bytes plus 4.
    ///
    /// An opportunity is placed at the first whole millisecond at which the rates have accumulated 1504 bytes, so that
    /// a period never exceeds the rates. The period ends with the last opportunity. It is shorter than the sum of the
    /// durations by less than the time of one more opportunity.
    ///
    /// # Errors
    ///
    /// The durations are too short for one opportunity, the last rate is zero, or the number of opportunities exceeds
    /// the limit.
    pub fn of_rates(rates: &[(Rate, Duration)]) -> Result<Self, TraceError> {
        // In units of bits times 10^9, a rate in b/s accumulates its number each nanosecond, without fractions.
        let price = u128::from(OPPORTUNITY_BYTES) * 8 * 1_000_000_000;
        let mut opportunities_ms = Vec::new();
        let (mut start_ns, mut earned) = (0u128, 0u128);
        for (rate, length) in rates {
            let (rate, length_ns) = (u128::from(rate.as_bps()), length.as_nanos());
            let total = earned.saturating_add(rate.saturating_mul(length_ns));
            let count = total / price;
            if count.saturating_add(opportunities_ms.len() as u128) > OPPORTUNITIES_MAX as u128 {
                return Err(TraceError::TooLong);
            }
            for k in 1..=count {
                let at_ns = start_ns + (k * price - earned).div_ceil(rate);
                let at_ms = at_ns.div_ceil(u128::from(NS_PER_MS));
                opportunities_ms.push(u64::try_from(at_ms).unwrap_or(u64::MAX));
            }
            earned = total % price;
            start_ns = start_ns.saturating_add(length_ns);
        }
        if rates.iter().rev().find(|(_, length)| !length.is_zero()).is_some_and(|(rate, _)| *rate == Rate::ZERO) {
            return Err(TraceError::EndsSilent);
        }
        Self::checked(opportunities_ms)
    }

    /// Number of opportunities in one period.
    pub fn opportunities(&self) -> usize {
        self.opportunities_ms.len()
    }

    /// Time after which the trace restarts.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// Mean rate, counted on IP bytes plus 4, rounded down.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.opportunities_ms.len() as u128 * u128::from(OPPORTUNITY_BYTES) * 8;
        let bps = bits * 1000 / u128::from(self.period_ms());
        Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    fn checked(opportunities_ms: Vec<u64>) -> Result<Self, TraceError> {
        match opportunities_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoLength),
            Some(_) => Ok(Self { opportunities_ms }),
        }
    }

    fn period_ms(&self) -> u64 {
        // `checked` excludes 0.
        self.opportunities_ms.last().copied().unwrap_or(1)
    }

    /// Number of opportunities at or before `now` for a trace that starts at `origin`. This is also the number of the
    /// first later opportunity.
    pub(crate) fn opportunities_until(&self, origin: Instant, now: Instant) -> u64 {
        // The first whole millisecond after `now`; it lies in the milliseconds 1..=period of a period.
        let ms = nanos(now.saturating_since(origin)) / NS_PER_MS + 1;
        let round = (ms - 1) / self.period_ms();
        let within = ms - round * self.period_ms();
        let before = self.opportunities_ms.partition_point(|at| *at < within) as u64;
        round.saturating_mul(self.opportunities_ms.len() as u64).saturating_add(before)
    }

    /// Time of opportunity `number`, counted over all periods from 0.
    pub(crate) fn at(&self, origin: Instant, number: u64) -> Instant {
        let length = self.opportunities_ms.len() as u64;
        let (round, within) = (number / length, (number % length) as usize);
        let ms = round.saturating_mul(self.period_ms()).saturating_add(self.opportunities_ms[within]);
        Instant::from_nanos(origin.as_nanos().saturating_add(ms.saturating_mul(NS_PER_MS)))
    }
}

impl fmt::Display for Trace {
    /// Formats the trace in mahimahi's format, the input of [`Trace::parse`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.opportunities_ms.iter().try_for_each(|ms| writeln!(f, "{ms}"))
    }
}

#[cfg(test)]
mod tests;
