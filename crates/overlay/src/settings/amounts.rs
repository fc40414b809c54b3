//! Quantities with units.

use std::time::Duration;

use toml::Value;
use units::{Bytes, ParseQuantityError, Rate};

/// Reads an optional rate.
pub(super) fn rate(written: Option<Value>, key: &str) -> Result<Option<Rate>, String> {
    amount(written, (key, "10Mb/s"), str::parse)
}

/// Reads an optional duration.
pub(super) fn time(written: Option<Value>, key: &str) -> Result<Option<Duration>, String> {
    amount(written, (key, "10s"), units::parse_duration)
}

/// Reads an optional size.
pub(super) fn size(written: Option<Value>, key: &str) -> Result<Option<Bytes>, String> {
    amount(written, (key, "100MB"), str::parse)
}

/// Reads a text with a unit. A plain number is rejected, as its unit is unknown.
fn amount<T>(
    written: Option<Value>,
    (key, example): (&str, &str),
    read: impl Fn(&str) -> Result<T, ParseQuantityError>,
) -> Result<Option<T>, String> {
    let Some(written) = written else { return Ok(None) };
    let Some(text) = written.as_str() else {
        return Err(format!(
            "`{key}` = {written} is not a text with a unit; write, for example, `{key} = \"{example}\"`"
        ));
    };
    read(text).map(Some).map_err(|e| format!("`{key}`: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_a_text_with_a_unit() {
        assert_eq!(time(Some("3s".into()), "hold_down"), Ok(Some(Duration::from_secs(3))));
        assert_eq!(rate(None, "capacity"), Ok(None));
        let refused = time(Some(10.into()), "hold_down").unwrap_err();
        assert_eq!(refused, "`hold_down` = 10 is not a text with a unit; write, for example, `hold_down = \"10s\"`");
        let refused = rate(Some(1_000_000.into()), "relay_rate").unwrap_err();
        assert!(
            refused.starts_with("`relay_rate` = 1000000 is not a text ") && refused.contains("10Mb/s"),
            "{refused}"
        );
        assert!(size(Some("much".into()), "decision_log_size").unwrap_err().starts_with("`decision_log_size`: `much`"));
    }
}
