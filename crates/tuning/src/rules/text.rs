use std::time::Duration;

use units::{Bytes, Rate};

use crate::Path;

/// Numbers of a value, such as the three of tcp_rmem.
pub(super) fn numbers(value: &str) -> Option<Vec<u64>> {
    value.split_whitespace().map(|n| n.parse().ok()).collect()
}

/// Three numbers of a value.
pub(super) fn triple(value: &str) -> Option<[u64; 3]> {
    numbers(value)?.try_into().ok()
}

/// Formats a rate like `123 Mb/s`, with three significant digits.
pub(super) fn rate(rate: Rate) -> String {
    scaled(rate.as_bps() as f64, &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"])
}

/// Formats bytes like `125 MB`.
pub(super) fn bytes(bytes: Bytes) -> String {
    scaled(bytes.as_u64() as f64, &["B", "kB", "MB", "GB", "TB"])
}

/// Formats a time like `100 ms`.
pub(super) fn time(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    if milliseconds < 1e3 {
        format!("{} ms", digits(milliseconds))
    } else {
        format!("{} s", digits(milliseconds / 1e3))
    }
}

/// Formats a path like `1 Gb/s at 100 ms`.
pub(super) fn path(path: &Path) -> String {
    format!("{} at {}", rate(path.rate), time(path.rtt))
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut rest = units.iter();
    let mut unit = rest.next().copied().unwrap_or_default();
    for next in rest {
        if value < 999.5 {
            break;
        }
        value /= 1e3;
        unit = next;
    }
    format!("{} {unit}", digits(value))
}

/// Formats three significant digits without trailing zeros.
fn digits(value: f64) -> String {
    let decimals = match value {
        v if v >= 99.95 || v <= 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        let formatted = |bps| rate(Rate::from_bps(bps));
        assert_eq!(
            [formatted(0), formatted(999), formatted(123_456_789), formatted(1_000_000_000), formatted(1_342_177_280)],
            ["0 b/s", "999 b/s", "123 Mb/s", "1 Gb/s", "1.34 Gb/s"]
        );
        assert_eq!(bytes(Bytes::new(23_375_000)), "23.4 MB");
        assert_eq!(time(Duration::from_micros(12_500)), "12.5 ms");
        assert_eq!(time(Duration::from_millis(1500)), "1.5 s");
    }

    #[test]
    fn a_malformed_value_has_no_numbers() {
        assert_eq!(triple("4096\t131072\t6291456"), Some([4096, 131_072, 6_291_456]));
        assert_eq!(triple("4096 131072"), None);
        assert_eq!(numbers("many"), None);
    }
}
