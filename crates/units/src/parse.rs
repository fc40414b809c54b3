//! The text that people write for quantities: a number, blanks if wanted, and a unit.
//!
//! The grammar is one for command lines, experiment files, policies and overlay settings. Prefixes are powers of ten in
//! either case (`k` or `K` to `t` or `T`), binary ones (`Ki` to `Ti`) exist for bytes only. A number without a unit is
//! bytes where an amount of data is wanted; a rate or a time must say what it is in, because every trade has another
//! habit.

use core::time::Duration;

/// Reason why a quantity cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// There is no number at the start.
    #[error("`{0}` does not start with a number")]
    Number(String),
    /// The unit after the number is unknown.
    #[error("`{text}` has an unknown unit; expected {expected}")]
    Unit {
        /// The given text.
        text: String,
        /// The valid units.
        expected: &'static str,
    },
    /// The number has no unit, and several units are possible.
    #[error("{number} has no unit; write {}", written(number, likely))]
    NoUnit {
        /// The given number.
        number: String,
        /// The likely units.
        likely: &'static [&'static str],
    },
    /// The number is negative or exceeds the type.
    #[error("`{0}` is out of range")]
    Range(String),
}

impl ParseQuantityError {
    pub(crate) fn unit(text: &str, expected: &'static str) -> Self {
        Self::Unit { text: text.to_owned(), expected }
    }
}

/// Formats suggestions: `100ms or 100s`.
fn written(number: &str, likely: &[&str]) -> String {
    let mut text = String::new();
    for (i, unit) in likely.iter().enumerate() {
        text += match i {
            0 => "",
            i if i + 1 == likely.len() => " or ",
            _ => ", ",
        };
        text += number;
        text += unit;
    }
    text
}

/// Splits `12.5 Mb/s` into `12.5` and `Mb/s`.
pub(crate) fn split_quantity(s: &str) -> Result<(f64, &str), ParseQuantityError> {
    let s = s.trim();
    let end = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
    let (number, unit) = s.split_at(end);
    let number: f64 = number.parse().map_err(|_| ParseQuantityError::Number(s.to_owned()))?;
    Ok((number, unit.trim()))
}

/// Converts a number without a unit, which is valid only for zero.
pub(crate) fn bare(s: &str, number: f64, likely: &'static [&'static str]) -> Result<u64, ParseQuantityError> {
    if number == 0.0 { Ok(0) } else { Err(ParseQuantityError::NoUnit { number: s.trim().to_owned(), likely }) }
}

/// Factor of an SI prefix; `None` for other text. Small prefixes (milli) are not valid for rates and amounts of data.
pub(crate) fn prefix(text: &str) -> Option<f64> {
    match text {
        "" => Some(1.0),
        "k" | "K" => Some(1e3),
        "m" | "M" => Some(1e6),
        "g" | "G" => Some(1e9),
        "t" | "T" => Some(1e12),
        _ => None,
    }
}

pub(crate) fn to_u64(text: &str, value: f64) -> Result<u64, ParseQuantityError> {
    // 2^63 is exactly representable and exceeds any rate or volume of a host.
    if value.is_finite() && (0.0..9.223_372_036_854_775e18).contains(&value) {
        Ok(value.round() as u64)
    } else {
        Err(ParseQuantityError::Range(text.to_owned()))
    }
}

/// Parses a time span: `100ns`, `20us`, `187ms`, `10s`, `2m` or `2min`, `1h`, `30d`, `8w`. A number without a unit is
/// invalid except zero, because some programs interpret it as seconds and others as milliseconds.
///
/// # Errors
/// No number, no unit or an unknown one, or more than 2^63 ns (292 years).
pub fn parse_duration(s: &str) -> Result<Duration, ParseQuantityError> {
    let (number, unit) = split_quantity(s)?;
    let ns = match unit {
        "" => return bare(s, number, &["ms", "s"]).map(Duration::from_nanos),
        "ns" => 1.0,
        // The micro sign and the Greek letter look alike.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "d" => 86_400e9,
        "w" => 604_800e9,
        _ => return Err(ParseQuantityError::unit(s, "ns, us, ms, s, m, h, d or w")),
    };
    to_u64(s, number * ns).map(Duration::from_nanos)
}

/// Parses a time span like [`parse_duration`], but interprets a number without a unit as seconds, like iperf3.
///
/// # Errors
/// As [`parse_duration`].
pub fn parse_seconds(s: &str) -> Result<Duration, ParseQuantityError> {
    match split_quantity(s)? {
        (number, "") => to_u64(s, number * 1e9).map(Duration::from_nanos),
        _ => parse_duration(s),
    }
}

/// Formats four significant digits with an SI prefix: `1234567` and `B` give `1.235 MB`.
pub(crate) fn with_prefix(value: u64, unit: &str) -> String {
    if value < 1000 {
        return format!("{value} {unit}");
    }
    let prefixes = ["k", "M", "G", "T", "P", "E"];
    let mut scaled = value as f64 / 1e3;
    let mut index = 0;
    // Larger values would round to "1000.0", so the next prefix applies.
    while scaled >= 999.95 && index + 1 < prefixes.len() {
        scaled /= 1e3;
        index += 1;
    }
    let decimals = if scaled < 9.9995 {
        3
    } else if scaled < 99.995 {
        2
    } else {
        1
    };
    format!("{scaled:.decimals$} {}{unit}", prefixes[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_in_common_notations() {
        for (text, ns) in [
            ("100ns", 100),
            ("20us", 20_000),
            ("20\u{b5}s", 20_000),
            ("20\u{3bc}s", 20_000),
            ("187ms", 187_000_000),
            ("0.5s", 500_000_000),
            (" 93.5 ms ", 93_500_000),
            ("2m", 120_000_000_000),
            ("2min", 120_000_000_000),
            ("12h", 43_200_000_000_000),
            ("30d", 2_592_000_000_000_000),
            ("8w", 4_838_400_000_000_000),
            ("0.5d", 43_200_000_000_000),
            ("0", 0),
            ("0.0", 0),
        ] {
            assert_eq!(parse_duration(text).map(|d| d.as_nanos()), Ok(ns), "{text}");
        }
        for bad in ["", "s", "-1s", "10 parsecs", "30 days", "10S", "10M", "1,5s", "1e3s", "1000000w", "nan", "inf"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_without_a_unit_is_refused_with_suggestions() {
        let refused = |text| parse_duration(text).unwrap_err().to_string();
        assert_eq!(refused("100"), "100 has no unit; write 100ms or 100s");
        assert_eq!(refused(" 0.1 "), "0.1 has no unit; write 0.1ms or 0.1s");
        assert_eq!(refused("10 parsecs"), "`10 parsecs` has an unknown unit; expected ns, us, ms, s, m, h, d or w");
    }

    #[test]
    fn seconds_need_no_unit_in_iperf3_options() {
        assert_eq!(parse_seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_seconds("0.1"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_seconds("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_seconds("2w"), parse_duration("2w"));
        assert!(parse_seconds("10x").is_err() && parse_seconds("99999999999999").is_err());
    }

    #[test]
    fn rounding_never_prints_a_thousand() {
        assert_eq!(with_prefix(999_960, "b/s"), "1.000 Mb/s");
        assert_eq!(with_prefix(999_940, "b/s"), "999.9 kb/s");
    }
}
