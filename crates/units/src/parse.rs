//! The text that people write for quantities: a number, blanks if wanted, and a unit.
//!
//! The grammar is one for command lines, experiment files, policies and overlay settings. Prefixes are powers of ten in either
//! case (`k` or `K` to `t` or `T`), binary ones (`Ki` to `Ti`) exist for bytes only. A number without a unit is bytes
//! where an amount of data is wanted; a rate or a time must say what it is in, because every trade has another habit.

use core::time::Duration;

/// A quantity that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// There is no number at the start.
    #[error("`{0}` does not start with a number")]
    Number(String),
    /// The unit after the number is not one of those expected.
    #[error("`{text}` has an unknown unit; expected {expected}")]
    Unit {
        /// The given text.
        text: String,
        /// The units that are understood.
        expected: &'static str,
    },
    /// A number alone, which could be in any of several units.
    #[error("{number} has no unit; write {}", written(number, likely))]
    NoUnit {
        /// The given number.
        number: String,
        /// The units that are likely meant.
        likely: &'static [&'static str],
    },
    /// Negative, or larger than the type holds.
    #[error("`{0}` is out of range")]
    Range(String),
}

impl ParseQuantityError {
    pub(crate) fn unit(text: &str, expected: &'static str) -> Self {
        Self::Unit { text: text.to_owned(), expected }
    }
}

/// `100ms or 100s`
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

/// A number without a unit; zero is zero in every unit.
pub(crate) fn bare(s: &str, number: f64, likely: &'static [&'static str]) -> Result<u64, ParseQuantityError> {
    if number == 0.0 { Ok(0) } else { Err(ParseQuantityError::NoUnit { number: s.trim().to_owned(), likely }) }
}

/// The factor of an SI prefix; `None` for what is none. Of the small ones (milli) no rate or amount of data is written.
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
    // 2^63 is exactly representable and far above any rate or volume that a host can count.
    if value.is_finite() && (0.0..9.223_372_036_854_775e18).contains(&value) {
        Ok(value.round() as u64)
    } else {
        Err(ParseQuantityError::Range(text.to_owned()))
    }
}

/// Reads a time span: `100ns`, `20us`, `187ms`, `10s`, `2m` or `2min`, `1h`, `30d`, `8w`. A number alone is refused, but
/// for zero: some programs take it for seconds, others for milliseconds.
///
/// # Errors
/// No number, no unit or an unknown one, or more than 2^63 ns (292 years).
pub fn parse_duration(s: &str) -> Result<Duration, ParseQuantityError> {
    let (number, unit) = split_quantity(s)?;
    let ns = match unit {
        "" => return bare(s, number, &["ms", "s"]).map(Duration::from_nanos),
        "ns" => 1.0,
        // The micro sign and the Greek letter, which look the same.
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

/// As [`parse_duration`], with a number alone as seconds: for the times that iperf3 has in seconds, too.
///
/// # Errors
/// As [`parse_duration`].
pub fn parse_seconds(s: &str) -> Result<Duration, ParseQuantityError> {
    match split_quantity(s)? {
        (number, "") => to_u64(s, number * 1e9).map(Duration::from_nanos),
        _ => parse_duration(s),
    }
}

/// `1234567` and `B` give `1.235 MB`: four significant digits, SI prefix.
pub(crate) fn with_prefix(value: u64, unit: &str) -> String {
    if value < 1000 {
        return format!("{value} {unit}");
    }
    let prefixes = ["k", "M", "G", "T", "P", "E"];
    let mut scaled = value as f64 / 1e3;
    let mut index = 0;
    // 999.95 would print as "1000.0"; step up before rounding does.
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
    fn times_read_as_people_write_them() {
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
    fn a_time_without_a_unit_is_refused_with_what_could_be_meant() {
        let refused = |text| parse_duration(text).unwrap_err().to_string();
        assert_eq!(refused("100"), "100 has no unit; write 100ms or 100s");
        assert_eq!(refused(" 0.1 "), "0.1 has no unit; write 0.1ms or 0.1s");
        assert_eq!(refused("10 parsecs"), "`10 parsecs` has an unknown unit; expected ns, us, ms, s, m, h, d or w");
    }

    #[test]
    fn seconds_need_no_unit_where_they_are_the_habit() {
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
