//! Formats the replies of a member as text.

use std::fmt::Write as _;

use overlay::Settings;
use serde_json::Value;
use units::{Bytes, Rate};

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn float(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("-")
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Number of peers with its noun.
pub(super) fn peers(count: usize) -> String {
    counted(count as u64, "peer")
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Describes the actions of `overlay up` for --dry-run.
pub(super) fn plan(settings: &Settings) -> String {
    let list = |items: Vec<String>| items.join(", ");
    let mut out = format!(
        "member {} ({})\nlistens on {}\ncreates the device {} with {}, MTU {}, queues: {}\n",
        settings.identity.public().member(),
        settings.identity.public(),
        settings.listen,
        settings.device,
        list(settings.addresses.iter().map(ToString::to_string).collect()),
        settings.mtu,
        settings.queues(),
    );
    if !settings.subnets.is_empty() {
        let _ = writeln!(out, "serves {}", list(settings.subnets.iter().map(ToString::to_string).collect()));
    }
    let rules = settings.rules();
    let model = serde_json::to_value(rules.model).unwrap_or_default();
    let _ = writeln!(
        out,
        "{} to each destination, switch margin {} %, hold-down {:.1} s, predictor {}{}",
        if rules.max_paths == 1 { "one path".to_owned() } else { format!("up to {} paths", rules.max_paths) },
        100.0 * rules.margin,
        rules.hold_down.as_secs_f64(),
        text(&model, "name"),
        settings.congestion_control.as_ref().map_or_else(String::new, |name| format!(" ({name})")),
    );
    for m in settings.members.get().values() {
        let subnets = list(m.subnets.iter().map(ToString::to_string).collect());
        let endpoint = m
            .endpoint
            .as_ref()
            .map_or_else(|| "connects to this member".to_owned(), |e| format!("is contacted at {e}"));
        let routes = if subnets.is_empty() {
            "has no `subnets`, so no traffic is sent to it".to_owned()
        } else {
            format!("{subnets} are routed to the device")
        };
        let _ = writeln!(out, "{} {endpoint}; {routes}", m.name);
    }
    out
}

/// Describes the changes of a reload.
pub(super) fn reloaded(answer: &Value) -> String {
    let names = |key| list(answer, key).filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let mut out = String::new();
    for (key, label) in [
        ("added", "added"),
        ("changed", "changed"),
        ("removed", "removed"),
        ("refused", "keys rejected"),
        ("not_refused", "keys no longer rejected"),
    ] {
        let names = names(key);
        if !names.is_empty() {
            let _ = writeln!(out, "{label}: {names}");
        }
    }
    if answer.get("certificate").and_then(Value::as_bool) == Some(true) {
        let until = answer.get("certified_until_utc_s").and_then(Value::as_u64);
        let until =
            until.map_or_else(|| "removed".to_owned(), |s| format!("replaced, valid until {}", measure::utc_at(s, 0)));
        let _ = writeln!(out, "certificate: {until}");
    }
    if out.is_empty() {
        out.push_str("peers and certificate are unchanged\n");
    }
    let restored = answer.get("restored").unwrap_or(&Value::Null);
    let restored = list(restored, "addresses").chain(list(restored, "routes")).filter_map(Value::as_str);
    let restored = restored.collect::<Vec<_>>().join(", ");
    if !restored.is_empty() {
        let _ = writeln!(out, "restored addresses and routes that were missing on this host: {restored}");
    }
    let later = names("at_next_start");
    if !later.is_empty() {
        let _ = writeln!(out, "changed keys that need a restart: {later}");
    }
    out
}

pub(super) fn status(answer: &Value) -> String {
    let mut out = format!(
        "member {:08x} on {}, up {:.0} s\n\n{:<16} {:<5} {:>10} {:>10} {:>11} {:>9} {:>9} {:>10} {:>10}  route\n",
        number(answer, "member"),
        text(answer, "device"),
        float(answer, "running_s"),
        "peer",
        "link",
        "rtt",
        "queue",
        "capacity",
        "tx loss",
        "rx loss",
        "sent",
        "received",
    );
    for member in list(answer, "members") {
        let link = member.get("link").unwrap_or(&Value::Null);
        let up = link.get("up").and_then(Value::as_bool).unwrap_or(false);
        let ms = |key: &str| {
            link.get(key).and_then(Value::as_f64).map_or_else(|| "-".to_owned(), |us| format!("{:.2} ms", us / 1e3))
        };
        let percent = |key: &str| {
            link.get(key)
                .and_then(Value::as_f64)
                .map_or_else(|| "-".to_owned(), |share| format!("{:.2}%", 100.0 * share))
        };
        let _ = writeln!(
            out,
            "{:<16} {:<5} {:>10} {:>10} {:>11} {:>9} {:>9} {:>10} {:>10}  {}",
            text(member, "name"),
            if up { "up" } else { "down" },
            ms("rtt_us"),
            ms("queueing_delay_us"),
            link.get("tx_capacity_bps")
                .and_then(Value::as_u64)
                .map_or_else(|| "-".to_owned(), |c| Rate::from_bps(c).to_string()),
            percent("tx_loss"),
            percent("rx_loss"),
            Bytes::new(number(link, "tx_bytes")).to_string(),
            Bytes::new(number(link, "rx_bytes")).to_string(),
            routes_to(member),
        );
    }
    out.push_str(&metrics(answer));
    out.push_str(&tunnel(answer));
    let counters = answer.get("counters").and_then(Value::as_object).into_iter().flatten();
    let notable: Vec<String> = counters
        .filter(|(k, v)| !ROUTINE_COUNTERS.contains(&k.as_str()) && v.as_u64() != Some(0))
        .map(|(k, v)| format!("{k} {v}"))
        .collect();
    if !notable.is_empty() {
        let _ = writeln!(out, "\ncounters to check: {}", notable.join(", "));
    }
    out
}

/// Defects of the tunnel device, addresses and routes of this host, one per line.
fn tunnel(answer: &Value) -> String {
    let Some(tunnel) = answer.get("tunnel") else { return String::new() };
    let device = text(answer, "device");
    let mut out = String::new();
    if tunnel.get("up").and_then(Value::as_bool) == Some(false) {
        let _ = writeln!(out, "\nthe tunnel device {device} is down: packets to peers are rejected");
    }
    for (key, what) in [("missing_addresses", "address"), ("missing_routes", "route to")] {
        let missing: Vec<&str> = list(tunnel, key).filter_map(Value::as_str).collect();
        if !missing.is_empty() {
            let _ = writeln!(out, "{device} has no {what} {}", missing.join(", "));
        }
    }
    for route in list(tunnel, "other_routes") {
        let (subnet, via) = (text(route, "subnet"), text(route, "device"));
        let _ =
            writeln!(out, "another route of this host sends traffic for {subnet} over {via} instead of the overlay");
    }
    out
}

/// Age and confidence of the metrics of each link, and the rates of its probes and gossip.
fn metrics(answer: &Value) -> String {
    let mut out = format!(
        "\n{:<16} {:>9} {:>9} {:>13} {:>15} {:>11} {:>11} {:>11}\n",
        "peer", "tx age", "rx age", "tx confidence", "rx confidence", "probes", "probe limit", "gossip"
    );
    for member in list(answer, "members") {
        let link = member.get("link").unwrap_or(&Value::Null);
        let shown = |key: &str, unit: &str| {
            let value = link.get(key).and_then(Value::as_f64);
            value.map_or_else(|| "-".to_owned(), |x| format!("{x:.2}{unit}"))
        };
        let _ = writeln!(
            out,
            "{:<16} {:>9} {:>9} {:>13} {:>15} {:>11} {:>11} {:>11}",
            text(member, "name"),
            shown("tx_age_s", " s"),
            shown("rx_age_s", " s"),
            shown("tx_confidence", ""),
            shown("rx_confidence", ""),
            Rate::from_bps(number(link, "probe_bps")).to_string(),
            Rate::from_bps(number(link, "probe_budget_bps")).to_string(),
            Rate::from_bps(number(link, "gossip_bps")).to_string(),
        );
    }
    let [gossip, limit] = ["gossip_bps", "gossip_budget_bps"].map(|key| Rate::from_bps(number(answer, key)));
    let _ = writeln!(out, "gossip with all peers: {gossip}, limit {limit}");
    out
}

/// Counters of normal operation, which `status` does not list.
const ROUTINE_COUNTERS: [&str; 8] = [
    "packets_in",
    "bytes_in",
    "packets_out",
    "bytes_out",
    "frames_sealed",
    "frames_opened",
    "frames_relayed",
    "bytes_relayed",
];

/// Routes to a peer in one line.
fn routes_to(member: &Value) -> String {
    let routes: Vec<String> = list(member, "routes")
        .map(|route| {
            let predicted = route.get("predicted_bps").and_then(Value::as_u64);
            let predicted = predicted.map_or_else(|| "rate unknown".to_owned(), |bps| Rate::from_bps(bps).to_string());
            format!("{} {:.0} % ({predicted})", relays(route), 100.0 * float(route, "weight"))
        })
        .collect();
    if routes.is_empty() { "none".to_owned() } else { routes.join("; ") }
}

/// Relays of a path.
fn relays(path: &Value) -> String {
    let relays: Vec<&str> = list(path, "relays").filter_map(Value::as_str).collect();
    if relays.is_empty() { "direct".to_owned() } else { format!("via {}", relays.join(", ")) }
}

pub(super) fn routes(answer: &Value) -> String {
    let mut out = String::new();
    for route in list(answer, "routes") {
        let subnets: Vec<&str> = list(route, "subnets").filter_map(Value::as_str).collect();
        let _ = writeln!(out, "{:<16} {:<30} {}", text(route, "name"), subnets.join(", "), routes_to(route));
    }
    out
}

pub(super) fn flows(answer: &Value) -> String {
    let mut out = format!(
        "{:<16} {:>8} {:>10} {:>11} {:>10} {:>9}  path\n",
        "peer", "flows", "elephants", "throughput", "rtt", "loss"
    );
    for path in list(answer, "paths") {
        let known = |key: &str, shown: fn(f64) -> String| {
            path.get(key).and_then(Value::as_f64).map_or_else(|| "-".to_owned(), shown)
        };
        let _ = writeln!(
            out,
            "{:<16} {:>8} {:>10} {:>11} {:>10} {:>9}  {}",
            text(path, "name"),
            number(path, "flows"),
            number(path, "elephants"),
            Rate::from_bps(number(path, "throughput_bps")).to_string(),
            known("rtt_us", |us| format!("{:.2} ms", us / 1e3)),
            known("loss", |share| format!("{:.2}%", 100.0 * share)),
            relays(path),
        );
    }
    let _ = writeln!(
        out,
        "{}, {} of them elephants; {} not tracked (table full)",
        counted(number(answer, "active"), "active flow"),
        number(answer, "elephants"),
        number(answer, "unremembered")
    );
    out
}

pub(super) fn why(answer: &Value) -> String {
    format!("{}\n", text(answer, "text").trim_end())
}

/// The event log as JSON Lines.
pub(super) fn event_lines(answer: &Value) -> String {
    list(answer, "events").map(|e| format!("{e}\n")).collect()
}

/// The event log as a table: UTC and text.
pub(super) fn events(answer: &Value) -> String {
    let line = |e: &Value| format!("{}  {}\n", utc(float(e, "utc_s")), text(e, "text"));
    list(answer, "events").map(line).collect()
}

/// `2026-11-28 10:46:29.125`, from seconds since 1970 UTC.
fn utc(seconds: f64) -> String {
    let Ok(t) = time::OffsetDateTime::from_unix_timestamp_nanos((seconds * 1e9) as i128) else { return String::new() };
    let (date, (h, m, s, ms)) = (t.date(), t.to_hms_milli());
    format!("{date} {h:02}:{m:02}:{s:02}.{ms:03}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flows_have_a_line_for_each_path() {
        let answer = json!({
            "active": 10, "elephants": 2, "unremembered": 0,
            "paths": [
                { "name": "east", "relays": [], "flows": 7, "elephants": 0, "loss": null, "rtt_us": null },
                {
                    "name": "east", "relays": ["north", "south"], "flows": 3, "elephants": 2,
                    "throughput_bps": 47_250_000, "loss": 0.0471, "rtt_us": 20_020,
                },
            ],
        });
        let expected = "peer                flows  elephants  throughput        rtt      loss  path\n\
                        east                    7          0       0 b/s          -         -  direct\n\
                        east                    3          2  47.25 Mb/s   20.02 ms     4.71%  via north, south\n\
                        10 active flows, 2 of them elephants; 0 not tracked (table full)\n";
        assert_eq!(flows(&answer), expected);
    }

    #[test]
    fn status_shows_age_confidence_and_cost_of_metrics() {
        let link = json!({
            "tx_age_s": 0.021, "rx_age_s": 0.004, "tx_confidence": 1.0, "rx_confidence": 0.5,
            "probe_bps": 86_200, "probe_budget_bps": 100_000, "gossip_bps": 15_500,
        });
        let routes = json!([{ "relays": [], "weight": 1.0, "predicted_bps": null }]);
        let members = json!([{ "name": "east", "link": link, "routes": routes }, { "name": "west", "link": {} }]);
        let answer = json!({ "members": members, "gossip_bps": 31_000, "gossip_budget_bps": 1_000_000 });
        let shown = status(&answer);
        assert!(shown.contains("direct 100 % (rate unknown)"), "{shown}");
        let lines: Vec<Vec<&str>> =
            shown.lines().skip_while(|l| !l.contains("tx age")).map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(
            lines[1],
            "east 0.02 s 0.00 s 1.00 0.50 86.20 kb/s 100.0 kb/s 15.50 kb/s".split(' ').collect::<Vec<_>>()
        );
        assert_eq!(lines[2][..5], ["west", "-", "-", "-", "-"], "a peer without metrics");
        assert_eq!(lines[3].join(" "), "gossip with all peers: 31.00 kb/s, limit 1.000 Mb/s");
    }
}
