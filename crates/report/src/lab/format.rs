//! Formatting of names and numbers of an experiment, in ASCII as in [`crate::summary`].

use results::lab::{Drops, Estimate, KeyValue};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::summary::{finite, nanos, rate};

/// Label of a sweep point from the values that distinguish it: `loss 0.001, cubic`.
pub(super) fn point_label(values: &[KeyValue]) -> String {
    values.iter().map(|v| value_label(values, v)).collect::<Vec<_>>().join(", ")
}

/// One value of a point with the distinguishing part of its key; the name of a congestion control has no key.
pub(super) fn value_label(values: &[KeyValue], of: &KeyValue) -> String {
    match short_key(values, &of.key) {
        "congestion_control" => of.value.clone(),
        key => format!("{key} {}", of.value),
    }
}

/// The shortest ending of a dotted key, in parts, that no other key of the point has.
pub(super) fn short_key<'a>(values: &[KeyValue], key: &'a str) -> &'a str {
    let other_keys = || values.iter().map(|v| v.key.as_str()).filter(|k| *k != key);
    let ends_with =
        |k: &str, tail: &str| k.strip_suffix(tail).is_some_and(|head| head.is_empty() || head.ends_with('.'));
    let tails = key.rmatch_indices('.').map(|(at, _)| &key[at + 1..]);
    tails.into_iter().find(|tail| !other_keys().any(|k| ends_with(k, tail))).unwrap_or(key)
}

/// One direction of a link: `path: a -> b`.
pub(super) fn link_label(link: &str, from: &str, to: &str) -> String {
    format!("{link}: {from} -> {to}")
}

/// ASCII as a page shows it.
pub(super) fn arrow(text: &str) -> String {
    text.replace(" -> ", " \u{2192} ").replace(" +/- ", " \u{b1} ")
}

/// A time in seconds since 1970 as `2026-03-01T12:00:00Z`.
pub(super) fn utc(seconds: f64) -> String {
    // The format ends with the year 9999.
    let whole = finite(seconds).clamp(0.0, 253_402_300_799.0) as i64;
    let text = OffsetDateTime::from_unix_timestamp(whole).ok().and_then(|t| t.format(&Rfc3339).ok());
    text.unwrap_or_else(|| "unknown".to_owned())
}

/// A time span in seconds with its unit.
pub(super) fn span(seconds: f64) -> String {
    nanos((finite(seconds).max(0.0) * 1e9).round() as u64)
}

/// Name of a metric of the summary.
pub(super) fn metric_name(metric: &str) -> String {
    let Some((subject, quantity)) = metric.rsplit_once('.') else { return metric.to_owned() };
    let quantity = match quantity {
        "throughput_bps" => "goodput",
        "steady_bps" => "steady goodput",
        "retransmits" => "retransmitted",
        "rtt_min_s" => "RTT, minimum",
        "rtt_mean_s" => "RTT, mean",
        "rtt_p50_s" => "RTT, median",
        "rtt_p95_s" => "RTT, 95 %",
        "block_rtt_min_s" => "block round trip, minimum",
        "block_rtt_mean_s" => "block round trip, mean",
        "block_rtt_p50_s" => "block round trip, median",
        "block_rtt_p95_s" => "block round trip, 95 %",
        "incomplete" => "not completed",
        "completion_p50_s" => "completion, median",
        "completion_p95_s" => "completion, 95 %",
        "completion_p99_s" => "completion, 99 %",
        "wait_p50_s" => "waiting time, median",
        "wait_p95_s" => "waiting time, 95 %",
        "wait_p99_s" => "waiting time, 99 %",
        "dropped" => "packets dropped",
        "slowdown_p50" => "slowdown, median",
        "slowdown_p99" => "slowdown, 99 %",
        "settled_s" => "settled after",
        "variation_1s" => "variation in 1 s",
        "variation_100ms" => "variation in 100 ms",
        "window_ratio" => "window / throughput",
        "goodput_bps" => "goodput",
        "flows_bps" => "goodput of the flows",
        "mice_bps" => "goodput of small transfers",
        "jain" => "Jain's fairness index",
        "route_changes" => "route changes",
        "unanswered_link_changes" => "link changes without a route change",
        "reroute_latency_s" => "reroute latency, median",
        other => other,
    };
    if subject == "run" {
        return format!("all traffic: {quantity}");
    }
    let subject =
        ["flow.", "mice.", "bin.", "link.", "overlay."].iter().find_map(|p| subject.strip_prefix(p)).unwrap_or(subject);
    // `path.forward` is shown as `path forward`.
    format!("{}: {quantity}", subject.replace('.', " "))
}

/// A value of a metric, without the unit at the end of its name.
pub(super) fn metric_value(metric: &str, value: f64) -> String {
    if !(value * 1e9).is_finite() {
        return "-".to_owned();
    }
    if metric.ends_with("_bps") {
        rate(value.max(0.0).round() as u64)
    } else if metric.ends_with("_s") {
        span(value)
    } else if metric.ends_with("utilisation") || metric.contains(".variation_") {
        format!("{:.1} %", value * 100.0)
    } else {
        plain(value)
    }
}

/// Formats integers without decimals, other numbers with four significant digits.
fn plain(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let decimals = (3 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    format!("{value:.decimals$}")
}

/// Mean, half the confidence interval and number of runs: `94.30 +/- 1.20 Mb/s (4 runs)`.
pub(super) fn estimate(metric: &str, e: &Estimate) -> String {
    format!("{} ({} run{})", spread(metric, e), e.runs, if e.runs == 1 { "" } else { "s" })
}

/// Mean and half the confidence interval in one unit: `94.30 +/- 1.20 Mb/s`.
///
/// The half width has the decimals of the mean and is rounded up, so that the interval never appears too narrow.
pub(super) fn spread(metric: &str, e: &Estimate) -> String {
    let mean = metric_value(metric, e.mean);
    let Some(half) = e.half_width.map(|w| finite(w).max(0.0)) else { return mean };
    let (digits, unit) = mean.split_once(' ').unwrap_or((&mean, ""));
    let Some(size) = unit_size(unit) else { return format!("{mean} +/- {}", metric_value(metric, half)) };
    let decimals = digits.split_once('.').map_or(0, |(_, d)| d.len());
    let grid = 10_f64.powi(decimals as i32);
    // A margin prevents rounding errors from moving values that are already on the grid.
    let up = (half / size * grid - 1e-6).ceil().abs() / grid;
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    format!("{digits} +/- {up:.decimals$}{unit}")
}

/// Size in base units of a unit that [`metric_value`] writes.
fn unit_size(unit: &str) -> Option<f64> {
    let sizes = [
        ("", 1.0),
        ("%", 0.01),
        ("ns", 1e-9),
        ("us", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("b/s", 1.0),
        ("kb/s", 1e3),
        ("Mb/s", 1e6),
        ("Gb/s", 1e9),
        ("Tb/s", 1e12),
    ];
    sizes.into_iter().find(|(name, _)| *name == unit).map(|(_, size)| size)
}

/// `1 run`, `3 runs`.
pub(super) fn run_count_text(points: u32, repetitions: u32, selected: Option<u32>) -> String {
    let times = |n: u32, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    let all = match (points, repetitions) {
        (1, n) => times(n, "run"),
        (p, 1) => times(p, "point"),
        (p, n) => format!("{} x {}", times(p, "point"), times(n, "repetition")),
    };
    match selected {
        None => all,
        Some(n) => format!("{all}, of which {}", times(n, "run")),
    }
}

/// Causes of drops by their names in the records, with their counts.
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
            ("bin.web.10-100kB.slowdown_p99", 5.6115, "web 10-100kB: slowdown, 99 %", "5.612"),
            ("flow.a.variation_100ms", 0.0213, "a: variation in 100 ms", "2.1 %"),
            ("run.goodput_bps", 45e6, "all traffic: goodput", "45.00 Mb/s"),
            ("run.jain", 0.59719, "all traffic: Jain's fairness index", "0.5972"),
            ("fairness", f64::NAN, "fairness", "-"),
            ("link.path.forward.utilisation", 1e308, "path forward: utilisation", "-"),
        ] {
            assert_eq!((metric_name(metric).as_str(), metric_value(metric, value).as_str()), (name, text));
        }
    }

    #[test]
    fn an_estimate_includes_its_number_of_runs() {
        let metric = "flow.a.throughput_bps";
        let several = Estimate { mean: 94.3e6, half_width: Some(1.2e6), runs: 4 };
        assert_eq!(estimate(metric, &several), "94.30 +/- 1.20 Mb/s (4 runs)");
        let one = Estimate { mean: 94.3e6, half_width: None, runs: 1 };
        assert_eq!(estimate(metric, &one), "94.30 Mb/s (1 run)");
    }

    #[test]
    fn an_interval_has_the_unit_of_its_mean_and_is_never_shown_narrower() {
        let of = |mean, half| Estimate { mean, half_width: Some(half), runs: 3 };
        for (metric, e, text) in [
            ("flow.a.throughput_bps", of(37.59e6, 100.0), "37.59 +/- 0.01 Mb/s"),
            ("flow.a.throughput_bps", of(999.6e6, 1.5e9), "999.6 +/- 1500.0 Mb/s"),
            ("mice.web.completion_p50_s", of(0.2515, 0.0123), "251.5 +/- 12.3 ms"),
            ("link.x.forward.utilisation", of(0.5, 0.0101), "50.0 +/- 1.1 %"),
            ("link.x.forward.dropped", of(12.0, 3.2), "12 +/- 4"),
            ("link.x.forward.wait_p95_s", of(0.0, 0.0), "0 +/- 0 ns"),
        ] {
            assert_eq!(spread(metric, &e), text);
        }
    }

    #[test]
    fn a_point_is_labelled_by_its_distinguishing_values() {
        let kv = |key: &str, value: &str| KeyValue { key: key.to_owned(), value: value.to_owned() };
        let control = kv("flows.flow.congestion_control", "reno");
        assert_eq!(point_label(&[kv("links.path.forward.loss", "1e-3"), control.clone()]), "loss 1e-3, reno");
        // Two keys with the same ending keep the part that differs.
        assert_eq!(
            point_label(&[kv("links.a.loss", "0"), kv("links.b.loss", "1e-2"), control]),
            "a.loss 0, b.loss 1e-2, reno"
        );
        let two = [kv("flows.a.congestion_control", "reno"), kv("flows.b.congestion_control", "bbr")];
        assert_eq!(point_label(&two), "a.congestion_control reno, b.congestion_control bbr");
        assert_eq!(point_label(&[kv("duration", "5s")]), "duration 5s");
    }

    #[test]
    fn the_number_of_runs_has_the_right_plural() {
        let all = [(1, 1), (1, 5), (4, 1), (2, 3)].map(|(p, n)| run_count_text(p, n, None));
        assert_eq!(all, ["1 run", "5 runs", "4 points", "2 points x 3 repetitions"]);
        assert_eq!(run_count_text(4, 2, Some(1)), "4 points x 2 repetitions, of which 1 run");
    }

    #[test]
    fn every_number_has_a_valid_date() {
        assert_eq!(utc(1_772_366_400.0), "2026-03-01T12:00:00Z");
        for odd in [f64::NAN, -1.0, f64::MAX] {
            assert!(utc(odd).ends_with('Z'));
        }
    }
}
