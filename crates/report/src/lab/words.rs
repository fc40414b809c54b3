//! Names and numbers of an experiment as people read them. ASCII, as in [`crate::summary`].

use results::lab::{Drops, Estimate, KeyValue};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::summary::{finite, nanos, rate};

/// `path.loss = 0.001, flow.cc = cubic`.
pub(super) fn point_label(values: &[KeyValue]) -> String {
    values.iter().map(|v| format!("{} = {}", v.key, v.value)).collect::<Vec<_>>().join(", ")
}

/// One direction of a link: `path: a -> b`.
pub(super) fn link_label(link: &str, from: &str, to: &str) -> String {
    format!("{link}: {from} -> {to}")
}

/// A time in seconds since 1970 as `2026-03-01T12:00:00Z`.
pub(super) fn utc(seconds: f64) -> String {
    // A date of the year 9999 is the last that the format holds.
    let whole = finite(seconds).clamp(0.0, 253_402_300_799.0) as i64;
    let text = OffsetDateTime::from_unix_timestamp(whole).ok().and_then(|t| t.format(&Rfc3339).ok());
    text.unwrap_or_else(|| "unknown".to_owned())
}

/// A span given in seconds, with its unit.
pub(super) fn span(seconds: f64) -> String {
    nanos((finite(seconds).max(0.0) * 1e9).round() as u64)
}

/// What a metric of the summary is called.
pub(super) fn metric_name(metric: &str) -> String {
    let Some((subject, quantity)) = metric.rsplit_once('.') else { return metric.to_owned() };
    let quantity = match quantity {
        "throughput_bps" => "goodput",
        "steady_bps" => "steady goodput",
        "completion_p50_s" => "completion, median",
        "completion_p95_s" => "completion, 95 %",
        "completion_p99_s" => "completion, 99 %",
        "wait_p95_s" => "waiting time, 95 %",
        "dropped" => "packets dropped",
        other => other,
    };
    let subject = ["flow.", "mice.", "link."].iter().find_map(|p| subject.strip_prefix(p)).unwrap_or(subject);
    // `path.forward` reads better as two words.
    format!("{}: {quantity}", subject.replace('.', " "))
}

/// A value of a metric; its unit stands at the end of the name.
pub(super) fn metric_value(metric: &str, value: f64) -> String {
    let value = finite(value);
    if metric.ends_with("_bps") {
        rate(value.max(0.0).round() as u64)
    } else if metric.ends_with("_s") {
        span(value)
    } else if metric.ends_with("utilisation") {
        format!("{:.1} %", value * 100.0)
    } else {
        plain(value)
    }
}

/// Whole numbers whole, others with four significant digits.
fn plain(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let decimals = (3 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    format!("{value:.decimals$}")
}

/// Mean, half the confidence interval and number of runs: `94.30 Mb/s +/- 1.200 Mb/s (4 runs)`.
pub(super) fn estimate(metric: &str, e: &Estimate) -> String {
    let mean = metric_value(metric, e.mean);
    let spread = e.half_width.map_or_else(String::new, |w| format!(" +/- {}", metric_value(metric, w)));
    format!("{mean}{spread} ({} run{})", e.runs, if e.runs == 1 { "" } else { "s" })
}

/// The causes of drops, by the names of the records, with their numbers.
pub(super) const fn causes(d: &Drops) -> [(&'static str, u64); 7] {
    [
        ("queue full", d.queue),
        ("CoDel", d.codel),
        ("loss", d.loss),
        ("listed", d.listed),
        ("outage", d.outage),
        ("MTU", d.mtu),
        ("emulator", d.emulator),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_a_name_and_a_unit() {
        for (metric, value, name, text) in [
            ("flow.elephant.throughput_bps", 94_300_000.4, "elephant: goodput", "94.30 Mb/s"),
            ("mice.web.completion_p50_s", 0.1234, "web: completion, median", "123.4 ms"),
            ("link.path.forward.wait_p95_s", 0.0, "path forward: waiting time, 95 %", "0 ns"),
            ("link.path.forward.utilisation", 0.9934, "path forward: utilisation", "99.3 %"),
            ("link.path.forward.dropped", 12.0, "path forward: packets dropped", "12"),
            ("link.path.forward.dropped", 12.25, "path forward: packets dropped", "12.25"),
            ("fairness", f64::NAN, "fairness", "0"),
        ] {
            assert_eq!((metric_name(metric).as_str(), metric_value(metric, value).as_str()), (name, text));
        }
    }

    #[test]
    fn an_estimate_says_of_how_many_runs_it_is() {
        let metric = "flow.a.throughput_bps";
        let several = Estimate { mean: 94.3e6, half_width: Some(1.2e6), runs: 4 };
        assert_eq!(estimate(metric, &several), "94.30 Mb/s +/- 1.200 Mb/s (4 runs)");
        let one = Estimate { mean: 94.3e6, half_width: None, runs: 1 };
        assert_eq!(estimate(metric, &one), "94.30 Mb/s (1 run)");
    }

    #[test]
    fn dates_are_dates_whatever_the_number() {
        assert_eq!(utc(1_772_366_400.0), "2026-03-01T12:00:00Z");
        for odd in [f64::NAN, -1.0, f64::MAX] {
            assert!(utc(odd).ends_with('Z'));
        }
    }
}
