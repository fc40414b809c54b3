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
        /// What was given.
        text: String,
        /// The units that are understood.
        expected: &'static str,
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

/// Splits `12.5 Mb/s` into `12.5` and `Mb/s`.
pub(crate) fn split_quantity(s: &str) -> Result<(f64, &str), ParseQuantityError> {
    let s = s.trim();
    let end = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
    let (number, unit) = s.split_at(end);
    let number: f64 = number.parse().map_err(|_| ParseQuantityError::Number(s.to_owned()))?;
    Ok((number, unit.trim()))
}

pub(crate) fn to_u64(text: &str, value: f64) -> Result<u64, ParseQuantityError> {
    // 2^63 is exactly representable and far above any rate or volume that a host can count.
    if value.is_finite() && (0.0..9.223_372_036_854_775e18).contains(&value) {
        Ok(value.round() as u64)
    } else {
        Err(ParseQuantityError::Range(text.to_owned()))
    }
}

/// Reads a time span: `10s`, `500ms`, `20us`, `100ns`, `2m`, `1h`; a bare number is seconds.
///
/// # Errors
/// No number, an unknown unit, or more than 2^63 ns.
pub fn parse_duration(s: &str) -> Result<Duration, ParseQuantityError> {
    let (number, unit) = split_quantity(s)?;
    let ns = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(ParseQuantityError::unit(s, "ns, us, ms, s, m or h")),
    };
    to_u64(s, number * ns).map(Duration::from_nanos)
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
    fn durations_take_seconds_by_default() {
        assert_eq!(parse_duration("10").unwrap(), Duration::from_secs(10));
        assert_eq!(parse_duration("187ms").unwrap(), Duration::from_millis(187));
        assert_eq!(parse_duration("0.5s").unwrap(), Duration::from_millis(500));
        assert_eq!(parse_duration("2m").unwrap(), Duration::from_secs(120));
        assert!(parse_duration("10 parsecs").is_err());
    }

    #[test]
    fn rounding_never_prints_a_thousand() {
        assert_eq!(with_prefix(999_960, "b/s"), "1.000 Mb/s");
        assert_eq!(with_prefix(999_940, "b/s"), "999.9 kb/s");
    }
}
