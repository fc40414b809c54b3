//! A member's answers as text.

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

/// What `overlay up` would do.
pub(super) fn plan(settings: &Settings) -> String {
    let list = |items: Vec<String>| items.join(", ");
    let mut out = format!(
        "member {} ({})\nreceives at {}\nmakes the device {} with {}, MTU {}\n",
        settings.identity.public().member(),
        settings.identity.public(),
        settings.listen,
        settings.device,
        list(settings.addresses.iter().map(ToString::to_string).collect()),
        settings.mtu,
    );
    for m in settings.members.get().values() {
        let subnets = list(m.subnets.iter().map(ToString::to_string).collect());
        let endpoint = m.endpoint.map_or_else(|| "is waited for".to_owned(), |e| format!("is called at {e}"));
        let _ = writeln!(out, "{} {endpoint}; routes {subnets} to the device", m.name);
    }
    out
}

pub(super) fn status(answer: &Value) -> String {
    let mut out = format!(
        "member {:08x} on {}, up {:.0} s\n\n{:<16} {:<5} {:>10} {:>10} {:>11} {:>9} {:>9} {:>10} {:>10}  way\n",
        number(answer, "member"),
        text(answer, "device"),
        float(answer, "running_s"),
        "member",
        "link",
        "rtt",
        "queue",
        "capacity",
        "loss to",
        "loss from",
        "sent",
        "received",
    );
    for member in list(answer, "members") {
        let link = member.get("link").unwrap_or(&Value::Null);
        let up = link.get("up").and_then(Value::as_bool).unwrap_or(false);
        let ms = |key: &str| {
            link.get(key).and_then(Value::as_f64).map_or_else(|| "-".to_owned(), |us| format!("{:.2} ms", us / 1e3))
        };
        let _ = writeln!(
            out,
            "{:<16} {:<5} {:>10} {:>10} {:>11} {:>8.2}% {:>8.2}% {:>10} {:>10}  {}",
            text(member, "name"),
            if up { "up" } else { "down" },
            ms("rtt_us"),
            ms("queued_us"),
            link.get("capacity_to_bps")
                .and_then(Value::as_u64)
                .map_or_else(|| "-".to_owned(), |c| Rate::from_bps(c).to_string()),
            100.0 * float(link, "loss_to"),
            100.0 * float(link, "loss_from"),
            Bytes::new(number(link, "bytes_to")).to_string(),
            Bytes::new(number(link, "bytes_from")).to_string(),
            ways(member),
        );
    }
    let unusual = answer.get("counters").and_then(Value::as_object).into_iter().flatten();
    let worth_a_look: Vec<String> = unusual
        .filter(|(k, v)| !FINE.contains(&k.as_str()) && v.as_u64() != Some(0))
        .map(|(k, v)| format!("{k} {v}"))
        .collect();
    if !worth_a_look.is_empty() {
        let _ = writeln!(out, "\nworth a look: {}", worth_a_look.join(", "));
    }
    out
}

/// Counters of what goes well.
const FINE: [&str; 8] = [
    "packets_in",
    "bytes_in",
    "packets_out",
    "bytes_out",
    "frames_sealed",
    "frames_opened",
    "frames_relayed",
    "bytes_relayed",
];

/// The ways to a member in one line.
fn ways(member: &Value) -> String {
    let ways: Vec<String> = list(member, "ways")
        .map(|way| {
            let relays: Vec<&str> = list(way, "relays").filter_map(Value::as_str).collect();
            let path = if relays.is_empty() { "direct".to_owned() } else { format!("via {}", relays.join(", ")) };
            format!("{path} {:.0} % ({})", 100.0 * float(way, "weight"), Rate::from_bps(number(way, "predicted_bps")))
        })
        .collect();
    if ways.is_empty() { "none".to_owned() } else { ways.join("; ") }
}

pub(super) fn routes(answer: &Value) -> String {
    let mut out = String::new();
    for route in list(answer, "routes") {
        let subnets: Vec<&str> = list(route, "subnets").filter_map(Value::as_str).collect();
        let _ = writeln!(out, "{:<16} {:<30} {}", text(route, "name"), subnets.join(", "), ways(route));
    }
    out
}

pub(super) fn flows(answer: &Value) -> String {
    format!(
        "{} active flows, {} of them elephants; {} were too many to remember\n",
        number(answer, "active"),
        number(answer, "elephants"),
        number(answer, "unremembered")
    )
}

pub(super) fn why(answer: &Value) -> String {
    format!("{}: {}\n", text(answer, "name"), text(answer, "text").trim_end())
}

pub(super) fn events(answer: &Value) -> String {
    list(answer, "events").map(|e| format!("{e}\n")).collect()
}
