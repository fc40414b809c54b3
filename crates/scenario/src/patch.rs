//! The keys of a link: a change to the [`Settings`] of one direction.
//!
//! Defaults, a link, one of its directions and a step of the schedule use the same keys; each changes the values that
//! it names and keeps the others.

use std::sync::Arc;
use std::time::Duration;

use link::{Capacity, Discipline, JitterShape, Loss, Overhead, QueueLimit, Reorder, Settings};
use units::Bytes;

use crate::files::Files;
use crate::problem::{Fault, Report};
use crate::quantity;
use crate::section::{Item, Section, Spot};
use crate::tree::{Kind, Value};

/// Minimum and maximum MTU of a link: the size that every IPv4 host must accept (RFC 791 §3.1), and jumbo frames.
pub(crate) const MTU: std::ops::RangeInclusive<u32> = 576..=9000;

/// Values to change; `None` keeps a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Patch {
    pub(crate) capacity: Option<Capacity>,
    pub(crate) overhead: Option<Overhead>,
    pub(crate) delay: Option<Duration>,
    pub(crate) jitter: Option<Duration>,
    pub(crate) jitter_shape: Option<JitterShape>,
    pub(crate) jitter_reorders: Option<bool>,
    pub(crate) limit: Option<Limit>,
    pub(crate) discipline: Option<Discipline>,
    pub(crate) loss: Option<Loss>,
    pub(crate) loss_list: Option<Arc<[u64]>>,
    pub(crate) duplicate: Option<f64>,
    pub(crate) reorder: Option<Reorder>,
    pub(crate) mtu: Option<Option<u32>>,
    pub(crate) up: Option<bool>,
}

/// A queue limit as given in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Limit {
    Fixed(QueueLimit),
    /// A number of bandwidth-delay products of this link alone.
    Products(f64, Spot),
}

impl Patch {
    /// The keys of one direction of a link.
    pub(crate) const KEYS: [&str; 12] = [
        "rate",
        "trace",
        "overhead",
        "delay",
        "jitter",
        "queue",
        "loss",
        "loss_list",
        "duplicate",
        "reorder",
        "mtu",
        "up",
    ];

    /// Reads the keys of a link except `mtu`, which for a whole link is the MTU of the interfaces.
    pub(crate) fn read(section: &mut Section<'_>, files: &Files<'_>) -> Self {
        let mut patch = Self {
            capacity: capacity(section, files),
            overhead: section.read("overhead", overhead),
            delay: section.read("delay", quantity::delay),
            loss: section.item("loss").and_then(|item| loss(&item)),
            loss_list: section.item("loss_list").map(|item| loss_list(&item)),
            duplicate: section.read("duplicate", quantity::probability),
            reorder: section.item("reorder").and_then(|item| reorder(&item)),
            up: section.read("up", quantity::boolean),
            ..Self::default()
        };
        if let Some(item) = section.item("jitter") {
            patch.read_jitter(&item);
        }
        if let Some(item) = section.item("queue") {
            patch.read_queue(&item);
        }
        patch
    }

    /// Reads `mtu` as the largest packet that passes the link.
    pub(crate) fn read_path_mtu(&mut self, section: &mut Section<'_>) {
        self.mtu = section.read("mtu", |value| {
            if value.kind.as_text() == Some("any") { Ok(None) } else { quantity::whole_u32(MTU)(value).map(Some) }
        });
    }

    fn read_jitter(&mut self, item: &Item<'_>) {
        if !item.value.kind.is_table() {
            self.jitter = item.read(quantity::delay);
            return;
        }
        let Some(mut section) = item.section() else { return };
        self.jitter = section.read("amount", quantity::delay);
        self.jitter_shape = section.read("shape", quantity::name(SHAPES));
        self.jitter_reorders = section.read("reorder", quantity::boolean);
        section.finish();
    }

    fn read_queue(&mut self, item: &Item<'_>) {
        if !item.value.kind.is_table() {
            self.limit = limit(item);
            return;
        }
        let Some(mut section) = item.section() else { return };
        self.limit = section.item("limit").and_then(|item| limit(&item));
        let codel = section.read("discipline", quantity::name(DISCIPLINES));
        if codel == Some(true) {
            self.discipline = Some(Discipline::CoDel {
                target: section.read("target", quantity::positive_duration).unwrap_or(CODEL_TARGET),
                interval: section.read("interval", quantity::positive_duration).unwrap_or(CODEL_INTERVAL),
            });
        } else {
            self.discipline = codel.map(|_| Discipline::TailDrop);
            for key in ["target", "interval"] {
                section.refuse(key, "belongs to CoDel", "add discipline = \"codel\", or leave it out");
            }
        }
        section.finish();
    }

    /// This patch, with the values of `below` where it has none.
    pub(crate) fn over(self, below: &Self) -> Self {
        let below = below.clone();
        Self {
            capacity: self.capacity.or(below.capacity),
            overhead: self.overhead.or(below.overhead),
            delay: self.delay.or(below.delay),
            jitter: self.jitter.or(below.jitter),
            jitter_shape: self.jitter_shape.or(below.jitter_shape),
            jitter_reorders: self.jitter_reorders.or(below.jitter_reorders),
            limit: self.limit.or(below.limit),
            discipline: self.discipline.or(below.discipline),
            loss: self.loss.or(below.loss),
            loss_list: self.loss_list.or(below.loss_list),
            duplicate: self.duplicate.or(below.duplicate),
            reorder: self.reorder.or(below.reorder),
            mtu: self.mtu.or(below.mtu),
            up: self.up.or(below.up),
        }
    }

    /// Applies all values except a queue limit in bandwidth-delay products, which needs the other direction:
    /// [`Patch::apply_products`].
    pub(crate) fn apply(&self, settings: &mut Settings) {
        fn put<T: Clone>(target: &mut T, new: Option<&T>) {
            if let Some(new) = new {
                target.clone_from(new);
            }
        }
        put(&mut settings.capacity, self.capacity.as_ref());
        put(&mut settings.overhead, self.overhead.as_ref());
        put(&mut settings.delay, self.delay.as_ref());
        put(&mut settings.jitter.amount, self.jitter.as_ref());
        put(&mut settings.jitter.shape, self.jitter_shape.as_ref());
        put(&mut settings.jitter.reorders, self.jitter_reorders.as_ref());
        put(&mut settings.queue.discipline, self.discipline.as_ref());
        put(&mut settings.loss, self.loss.as_ref());
        put(&mut settings.loss_list, self.loss_list.as_ref());
        put(&mut settings.duplicate, self.duplicate.as_ref());
        put(&mut settings.reorder, self.reorder.as_ref());
        put(&mut settings.mtu, self.mtu.as_ref());
        put(&mut settings.up, self.up.as_ref());
        if let Some(Limit::Fixed(limit)) = self.limit {
            settings.queue.limit = limit;
        }
    }

    /// Converts a queue limit in bandwidth-delay products to bytes; `opposite` is the delay of the reverse direction.
    pub(crate) fn apply_products(&self, settings: &mut Settings, opposite: Duration, report: &Report) {
        let Some(Limit::Products(products, spot)) = &self.limit else { return };
        match products_in_bytes(*products, settings, opposite) {
            Ok(bytes) => settings.queue.limit = QueueLimit::Bytes(bytes),
            Err(fault) => spot.complain(report, fault),
        }
    }
}

const SHAPES: &[(&str, JitterShape)] =
    &[("uniform", JitterShape::Uniform), ("normal", JitterShape::Normal), ("exponential", JitterShape::Exponential)];

/// Whether the discipline is CoDel.
const DISCIPLINES: &[(&str, bool)] = &[("tail-drop", false), ("codel", true)];

/// Acceptable standing delay (RFC 8289 §3.2).
const CODEL_TARGET: Duration = Duration::from_millis(5);
/// Interval of CoDel: about the longest round trip of the flows (RFC 8289 §3.2).
const CODEL_INTERVAL: Duration = Duration::from_millis(100);

fn capacity(section: &mut Section<'_>, files: &Files<'_>) -> Option<Capacity> {
    let rate = section.read("rate", |value| {
        if value.kind.as_text() == Some("unlimited") {
            return Ok(Capacity::Unlimited);
        }
        quantity::rate(value).map(Capacity::Constant).map_err(no_rate)
    });
    let trace = section.item("trace");
    if let (Some(_), Some(trace)) = (&rate, &trace) {
        trace.complain(Fault::new("there is a rate as well", "keep either rate or trace"));
        return rate;
    }
    rate.or_else(|| files.trace(&trace?).map(Capacity::Trace))
}

fn no_rate(fault: Fault) -> Fault {
    if fault.message.starts_with("a rate of zero") {
        return Fault { hint: "use outage in the schedule, or leave rate out for no limit".to_owned(), ..fault };
    }
    fault
}

fn overhead(value: &Value) -> Result<Overhead, Fault> {
    const NAMES: &[(&str, Overhead)] =
        &[("ethernet", Overhead::ETHERNET), ("ethernet-frame", Overhead::ETHERNET_FRAME), ("ip", Overhead::IP)];
    if let Kind::Integer(_) = value.kind {
        return quantity::whole_u32(0..=1000)(value).map(|per_packet| Overhead { per_packet, minimum: 0 });
    }
    quantity::name(NAMES)(value)
}

fn loss(item: &Item<'_>) -> Option<Loss> {
    if !item.value.kind.is_table() {
        let p = item.read(quantity::probability)?;
        return Some(if p == 0.0 { Loss::None } else { Loss::Independent(p) });
    }
    let mut section = item.section()?;
    let missing = "loss in bursts needs { to_bad = 0.001, to_good = 0.1 }";
    let to_bad = section.required("to_bad", missing).and_then(|i| i.read(quantity::probability));
    let to_good = section.required("to_good", missing).and_then(|i| i.read(quantity::probability));
    let loss_bad = section.read("loss_bad", quantity::probability).unwrap_or(1.0);
    let loss_good = section.read("loss_good", quantity::probability).unwrap_or(0.0);
    section.finish();
    Some(Loss::GilbertElliott { to_bad: to_bad?, to_good: to_good?, loss_bad, loss_good })
}

fn loss_list(item: &Item<'_>) -> Arc<[u64]> {
    let index = |value: &Value| quantity::whole(0..=i64::MAX)(value).map(i64::cast_unsigned);
    let mut list: Vec<u64> = item.items().iter().filter_map(|i| i.read(index)).collect();
    list.sort_unstable();
    list.dedup();
    list.into()
}

fn reorder(item: &Item<'_>) -> Option<Reorder> {
    let mut section = item.section()?;
    let missing = "write { probability = 0.01, by = \"5ms\" }";
    let probability = section.required("probability", missing)?.read(quantity::probability);
    let by = if probability == Some(0.0) {
        section.read("by", quantity::delay).or(Some(Duration::ZERO))
    } else {
        section.required("by", missing).and_then(|i| {
            i.read(|value| {
                quantity::positive_duration(value)?;
                quantity::delay(value)
            })
        })
    };
    section.finish();
    Some(Reorder { probability: probability?, by: by? })
}

const LIMIT_HINT: &str =
    "write bytes (\"24MB\"), packets (\"1000 packets\"), a time (\"50ms\"), \"1 bdp\" or \"unlimited\"";

fn limit(item: &Item<'_>) -> Option<Limit> {
    let spot = item.spot();
    item.read(|value| {
        let text = quantity::text(value).map_err(|f| Fault { hint: LIMIT_HINT.to_owned(), ..f })?;
        let text = text.trim();
        if text == "unlimited" {
            return Ok(Limit::Fixed(QueueLimit::Unlimited));
        }
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim();
        let number = text[..text.len() - unit.len()].trim();
        match unit {
            "bdp" => products(number).map(|n| Limit::Products(n, spot)),
            "packets" | "packet" => packets(number).map(|n| Limit::Fixed(QueueLimit::Packets(n))),
            // `m` is minutes, as for all times; megabytes of a queue are `MB` or `M`.
            unit if !unit.is_empty() && units::parse_duration(text).is_ok() => {
                quantity::positive_duration(value).map(|t| Limit::Fixed(QueueLimit::Time(t)))
            }
            unit if !unit.is_empty() && text.parse::<Bytes>().is_ok() => {
                quantity::bytes(value).map(|n| Limit::Fixed(QueueLimit::Bytes(n)))
            }
            _ => Err(Fault::new(format!("`{text}` is not a valid queue limit"), LIMIT_HINT)),
        }
    })
}

fn products(number: &str) -> Result<f64, Fault> {
    match number.parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 1e6 => Ok(n),
        _ => Err(Fault::new(
            format!("`{number}` is not a valid number of bandwidth-delay products"),
            "write a number above zero",
        )),
    }
}

fn packets(number: &str) -> Result<u64, Fault> {
    match number.parse::<u64>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(Fault::new(format!("`{number}` is not a valid number of packets"), "write a whole number above zero")),
    }
}

fn products_in_bytes(products: f64, settings: &Settings, opposite: Duration) -> Result<Bytes, Fault> {
    let Capacity::Constant(rate) = settings.capacity else {
        return Err(Fault::new(
            "a bandwidth-delay product needs a constant rate",
            "give the link a rate, or the queue bytes, packets or a time",
        ));
    };
    let round_trip = settings.delay + opposite;
    if round_trip.is_zero() {
        return Err(Fault::new(
            "a bandwidth-delay product needs a delay",
            "give the link a delay, or the queue bytes, packets or a time",
        ));
    }
    let bytes = rate.bytes_in(round_trip).as_u64() as f64 * products;
    if bytes < 1.0 {
        return Err(Fault::new("the bandwidth-delay product is below one byte", "give the queue in packets"));
    }
    Ok(Bytes::new(bytes.round() as u64))
}
