//! Parsers of quantities on the command line. `clap` prefixes their errors with the option and its value.

use std::ops::RangeInclusive;
use std::time::Duration;

use units::{Bytes, ParseQuantityError, Rate, nanos};

/// Range of a size above zero without an upper bound, in bytes.
pub(crate) const NONZERO_SIZE: RangeInclusive<u64> = 1..=u64::MAX;

/// Minimum of a time that must not be zero: 1 ns.
pub(crate) const NONZERO_TIME_MIN: Duration = Duration::from_nanos(1);

/// Parses a rate above zero.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    match text.parse().map_err(message)? {
        Rate::ZERO => Err("the rate must be 1b/s or more".to_owned()),
        rate => Ok(rate),
    }
}

/// Returns a parser of rates of at least `min`.
pub(crate) fn rate_from(min: Rate) -> impl Fn(&str) -> Result<Rate, String> + Clone {
    move |text| match text.parse::<Rate>().map_err(message)? {
        rate if rate >= min => Ok(rate),
        _ => Err(format!("the rate must be {}b/s or more", min.as_bps())),
    }
}

/// Returns a parser of sizes within `range`, in bytes.
pub(crate) fn bytes(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Bytes, String> + Clone {
    move |text| {
        let bytes: Bytes = text.parse().map_err(message)?;
        let (min, max) = (range.start(), range.end());
        match *max {
            _ if range.contains(&bytes.as_u64()) => Ok(bytes),
            u64::MAX if *min == 1 => Err("the size must be above zero".to_owned()),
            u64::MAX => Err(format!("the size must be {min} bytes or more")),
            max => Err(format!("the size must be {min} to {max} bytes")),
        }
    }
}

/// Parses a time, which may be zero.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(message)
}

/// Returns a parser of times of at least `min`; a number without a unit is in seconds, as in the same options of
/// iperf3.
pub(crate) fn seconds_from(min: Duration) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| at_least(min, units::parse_seconds(text).map_err(message)?)
}

fn at_least(min: Duration, time: Duration) -> Result<Duration, String> {
    match min {
        _ if time >= min => Ok(time),
        NONZERO_TIME_MIN => Err("the time must be above zero".to_owned()),
        min => Err(format!("the time must be {} or more", written(min))),
    }
}

/// Returns a parser that checks a quantity and keeps its text, for the parser of experiment files.
pub(crate) fn as_written<T>(read: fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |text| read(text).map(|_| text.to_owned())
}

/// Formats a time in the syntax of the command line.
fn written(time: Duration) -> String {
    let ns = nanos(time);
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let (divisor, unit) = units.into_iter().find(|(divisor, _)| ns.is_multiple_of(*divisor)).unwrap_or((1, "ns"));
    format!("{}{unit}", ns / divisor)
}

#[expect(clippy::needless_pass_by_value, reason = "signature required by map_err")]
fn message(error: ParseQuantityError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn an_error_states_the_allowed_range() {
        assert_eq!(rate("0").unwrap_err(), "the rate must be 1b/s or more");
        assert_eq!(rate_from(Rate::from_bps(200))("0").unwrap_err(), "the rate must be 200b/s or more");
        assert_eq!(rate("10").unwrap_err(), "10 has no unit; write 10Mb/s, 10kb/s or 10b/s");
        assert_eq!(bytes(88..=32_767)("40").unwrap_err(), "the size must be 88 to 32767 bytes");
        assert_eq!(bytes(NONZERO_SIZE)("0").unwrap_err(), "the size must be above zero");
        assert_eq!(time("1").unwrap_err(), "1 has no unit; write 1ms or 1s");
        assert_eq!(seconds_from(10 * MS)("0").unwrap_err(), "the time must be 10ms or more");
        assert_eq!(seconds_from(NONZERO_TIME_MIN)("0").unwrap_err(), "the time must be above zero");
        assert_eq!(seconds_from(10 * MS)("0.5"), Ok(500 * MS));
        assert_eq!(time("0"), Ok(Duration::ZERO));
    }
}
