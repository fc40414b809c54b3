//! Readers of single values. A quantity is text with a unit; a bare number is ambiguous.

use std::ops::RangeInclusive;
use std::time::Duration;

use units::{Bytes, Rate, parse_duration};

use crate::problem::{Fault, known_names};
use crate::tree::{Kind, Value};

/// Maximum delay of a link. With a round trip of twice this a handshake still succeeds (Linux gives up after 127 s,
/// `tcp_syn_retries` of 6).
const DELAY_MAX: Duration = Duration::from_secs(60);

/// Maximum rate: above it even a jumbo frame takes less than a nanosecond, the resolution of time.
const RATE_MAX: Rate = Rate::from_bps(100_000_000_000_000);

pub(crate) fn text(value: &Value) -> Result<String, Fault> {
    value.kind.as_text().map(str::to_owned).ok_or_else(|| expected(&value.kind, "a text", "write it in quotes"))
}

pub(crate) fn boolean(value: &Value) -> Result<bool, Fault> {
    if let Kind::Boolean(b) = value.kind {
        Ok(b)
    } else {
        Err(expected(&value.kind, "true or false", "write it without quotes"))
    }
}

/// Reads a whole number within a range.
pub(crate) fn whole(range: RangeInclusive<i64>) -> impl Fn(&Value) -> Result<i64, Fault> {
    move |value| {
        let hint = || format!("write a whole number from {} to {}", range.start(), range.end());
        let Kind::Integer(n) = value.kind else { return Err(expected(&value.kind, "a whole number", &hint())) };
        if range.contains(&n) { Ok(n) } else { Err(Fault::new(format!("{n} is out of range"), hint())) }
    }
}

/// Reads a whole number within a range of `u32`.
pub(crate) fn whole_u32(range: RangeInclusive<u32>) -> impl Fn(&Value) -> Result<u32, Fault> {
    move |value| {
        let n = whole(i64::from(*range.start())..=i64::from(*range.end()))(value)?;
        u32::try_from(n).map_err(|_| Fault::new(format!("{n} is out of range"), ""))
    }
}

/// Reads one of a few names.
pub(crate) fn name<T: Copy>(names: &'static [(&'static str, T)]) -> impl Fn(&Value) -> Result<T, Fault> {
    move |value| {
        let given = text(value)?;
        names.iter().find(|(name, _)| *name == given).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            Fault::new(format!("`{given}` is not a known value"), known_names(&given, &known, ""))
        })
    }
}

/// Reads a rate above zero.
pub(crate) fn rate(value: &Value) -> Result<Rate, Fault> {
    match rate_or_zero(value)? {
        Rate::ZERO => Err(Fault::new("a rate of zero carries nothing", "write a rate above zero")),
        rate => Ok(rate),
    }
}

/// Reads a rate.
pub(crate) fn rate_or_zero(value: &Value) -> Result<Rate, Fault> {
    let text = with_unit(value, "a rate", "10Mb/s", &["Mb/s", "kb/s"])?;
    let rate: Rate = text.parse().map_err(|e: units::ParseQuantityError| Fault::new(e.to_string(), RATE_HINT))?;
    if rate > RATE_MAX {
        return Err(Fault::new(
            format!("{} is above the maximum rate", crate::describe::rate(rate)),
            "at most 100Tb/s",
        ));
    }
    Ok(rate)
}

const RATE_HINT: &str = "write a rate in bits per second, such as \"10Mb/s\"";

pub(crate) fn duration(value: &Value) -> Result<Duration, Fault> {
    let text = with_unit(value, "a time", "10ms", &["ms", "s"])?;
    parse_duration(&text).map_err(|e| Fault::new(e.to_string(), "write a time such as \"93.5ms\" or \"120s\""))
}

pub(crate) fn positive_duration(value: &Value) -> Result<Duration, Fault> {
    match duration(value)? {
        Duration::ZERO => Err(Fault::new("a time of zero is not allowed", "write a time above zero")),
        time => Ok(time),
    }
}

/// Reads the delay of a link, or its variation.
pub(crate) fn delay(value: &Value) -> Result<Duration, Fault> {
    let delay = duration(value)?;
    if delay > DELAY_MAX {
        let hint = "write at most 60s: beyond it a TCP handshake gives up";
        return Err(Fault::new(format!("a delay of {} is too long", crate::describe::duration(delay)), hint));
    }
    Ok(delay)
}

/// Reads an amount of data above zero.
pub(crate) fn bytes(value: &Value) -> Result<Bytes, Fault> {
    let text = with_unit(value, "an amount of data", "64KiB", &["B", "kB"])?;
    let bytes: Bytes = text.parse().map_err(|e: units::ParseQuantityError| {
        Fault::new(e.to_string(), "write bytes, such as \"24MB\" or \"64KiB\"")
    })?;
    if bytes == Bytes::ZERO {
        return Err(Fault::new("zero bytes are not allowed", "write an amount above zero"));
    }
    Ok(bytes)
}

/// Reads an amount of data within a range.
pub(crate) fn bytes_in(range: RangeInclusive<u64>) -> impl Fn(&Value) -> Result<Bytes, Fault> {
    move |value| {
        let n = bytes(value)?;
        if range.contains(&n.as_u64()) {
            return Ok(n);
        }
        let hint = format!("write {} to {} bytes", range.start(), range.end());
        Err(Fault::new(format!("{} B is out of range", n.as_u64()), hint))
    }
}

/// Reads a probability: `0.001`, or `"0.1%"`.
pub(crate) fn probability(value: &Value) -> Result<f64, Fault> {
    let p = match &value.kind {
        Kind::Integer(n) => *n as f64,
        Kind::Float(n, _) => *n,
        Kind::Text(text) => percentage(text)?,
        other @ (Kind::Boolean(_) | Kind::Date(_) | Kind::Array(_) | Kind::Table(_)) => {
            return Err(expected(other, "a probability", PROBABILITY_HINT));
        }
    };
    if (0.0..=1.0).contains(&p) {
        // Removes the sign of a negative zero, which would be printed.
        return Ok(p.abs());
    }
    Err(Fault::new(format!("{} is not a probability", value.kind.plain()), PROBABILITY_HINT))
}

const PROBABILITY_HINT: &str = "write a number from 0 to 1, or a percentage such as \"0.1%\"";

fn percentage(text: &str) -> Result<f64, Fault> {
    let bad = || Fault::new(format!("`{text}` is not a probability"), PROBABILITY_HINT);
    let (number, divisor) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    if number.is_finite() { Ok(number / divisor) } else { Err(bad()) }
}

/// Checks a name that must be valid in a file name, a host name and a dotted key.
pub(crate) fn check_name(name: &str) -> Result<(), Fault> {
    let letter = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let allowed = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !letter || !allowed || name.len() > 63 {
        let hint = "use letters, digits, - and _, a letter first, at most 63 of them";
        return Err(Fault::new(format!("`{name}` is not a valid name"), hint));
    }
    Ok(())
}

/// Reads a value that the kernel or a program receives as text.
pub(crate) fn as_text(value: &Value) -> Result<String, Fault> {
    match &value.kind {
        Kind::Boolean(b) => Ok(u8::from(*b).to_string()),
        Kind::Text(_) | Kind::Integer(_) | Kind::Float(..) => Ok(value.kind.plain()),
        other @ (Kind::Date(_) | Kind::Array(_) | Kind::Table(_)) => {
            Err(expected(other, "a text", "write a text or a number"))
        }
    }
}

/// Reads a quantity as text. A number alone is rejected with the likely units.
fn with_unit(value: &Value, what: &str, example: &str, likely: &[&str; 2]) -> Result<String, Fault> {
    let hint = |example: &str| format!("write it as text with its unit, such as {example}");
    let plain = value.kind.plain();
    match &value.kind {
        Kind::Text(_) | Kind::Integer(_) | Kind::Float(..) => match plain.trim().parse::<f64>() {
            // Zero is zero in every unit.
            Ok(n) if n != 0.0 => {
                let meant = likely.map(|unit| format!("\"{}{unit}\"", plain.trim())).join(" or ");
                Err(Fault::new(format!("{plain} has no unit"), hint(&meant)))
            }
            Ok(_) => Ok("0".to_owned()),
            Err(_) => Ok(plain),
        },
        other @ (Kind::Boolean(_) | Kind::Date(_) | Kind::Array(_) | Kind::Table(_)) => {
            Err(expected(other, what, &hint(&format!("\"{example}\""))))
        }
    }
}

fn expected(found: &Kind, wanted: &str, hint: &str) -> Fault {
    Fault::new(format!("is {}, not {wanted}", found.noun()), hint)
}
