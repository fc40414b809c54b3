//! Formatting of times and names.

use results::Direction;
use results::estimate::{Layer, Quantity};
use results::history::HistoryPath;
use time::OffsetDateTime;

use crate::summary::{printable, rate};

/// Day and minute in UTC, from seconds since 1970: `2026-11-21 22:01`; a dash for a time without a date.
pub(super) fn minute(at_s: f64) -> String {
    let Some(t) = utc(at_s) else { return "-".to_owned() };
    format!("{} {:02}:{:02}", day(at_s), t.hour(), t.minute())
}

/// Day in UTC: `2026-11-21`.
pub(super) fn day(at_s: f64) -> String {
    utc(at_s).map_or_else(|| "-".to_owned(), |t| format!("{:04}-{:02}-{:02}", t.year(), u8::from(t.month()), t.day()))
}

/// Whether a time has a date; a wrong clock or file may exceed the calendar.
pub(super) fn is_on_calendar(at_s: f64) -> bool {
    utc(at_s).is_some()
}

fn utc(at_s: f64) -> Option<OffsetDateTime> {
    at_s.is_finite().then(|| OffsetDateTime::from_unix_timestamp(at_s.floor() as i64).ok())?
}

/// `to mirror.example.net (192.0.2.7) from 198.51.100.3`, in the direction of the data.
pub(super) fn route(path: &HistoryPath) -> String {
    let [far, local] = [&path.remote, &path.local].map(|a| printable(a));
    let name = printable(path.hosts.first().unwrap_or(&path.remote));
    let far = if name == far { far } else { format!("{name} ({far})") };
    match path.direction {
        Direction::Up => format!("to {far} from {local}"),
        Direction::Down => format!("from {far} to {local}"),
    }
}

/// Short name of a quantity.
pub(super) const fn short(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Capacity => "capacity",
        Quantity::AvailableBandwidth => "available",
        Quantity::AsymptoticDispersion => "dispersion",
        Quantity::BulkTransferCapacity => "transfer",
        Quantity::LossLimit => "loss limit",
    }
}

/// Name of a quantity with its layer.
pub(super) fn full((quantity, layer): (Quantity, Layer)) -> String {
    let bits = match layer {
        Layer::Ip => "bits of IP packets",
        Layer::Payload => "bits of payload",
    };
    format!("{}, {bits}", quantity.text())
}

pub(super) fn between(low_bps: u64, high_bps: u64) -> String {
    if low_bps == high_bps { String::new() } else { format!("{} and {}", rate(low_bps), rate(high_bps)) }
}
