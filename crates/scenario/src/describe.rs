//! Settings as text, for reports: exact numbers in the largest unit that keeps them short.

use std::time::Duration;

use link::{Capacity, Discipline, JitterShape, Loss, Overhead, QueueLimit, Settings};
use units::{Bytes, Rate};

use crate::model::{Change, LinkDirection, Scenario};

/// The settings of one direction of a link as text: `1 Gb/s, 93.5 ms, queue 24 MB, loss 0.1 %`.
///
/// Values without effect are left out: the default overhead, no loss, no limit.
pub fn describe(settings: &Settings) -> String {
    let usual = Settings::default();
    aspects(settings)
        .into_iter()
        .zip(aspects(&usual))
        .filter(|((name, text), (_, usual))| matches!(*name, RATE | DELAY | QUEUE) || text != usual)
        .filter(|((name, _), _)| *name != QUEUE || settings.capacity != Capacity::Unlimited)
        .map(|((name, text), _)| match name {
            RATE | DELAY | UP => text,
            _ => format!("{name} {text}"),
        })
        .collect::<Vec<_>>()
        .join(", ")
}

/// The differences between two settings as text: `loss 15 % -> 5 %`; empty if there are none.
pub fn describe_difference(before: &Settings, after: &Settings) -> String {
    let differences = aspects(before).into_iter().zip(aspects(after)).filter(|((_, a), (_, b))| a != b);
    let texts = differences.map(|((name, a), (_, b))| match name {
        UP => b,
        _ => format!("{name} {a} -> {b}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

impl Scenario {
    /// The change at an index of the schedule as text, with the values before it: `north forward: loss 15 % -> 5 %`.
    /// Empty if the schedule has no such change.
    pub fn describe_change(&self, index: usize) -> String {
        let Some(change) = self.schedule.get(index) else { return String::new() };
        let Some(link) = self.links.get(change.link) else { return String::new() };
        let same = |c: &&Change| c.link == change.link && c.direction == change.direction;
        let initial = match change.direction {
            LinkDirection::Forward => &link.forward,
            LinkDirection::Backward => &link.backward,
        };
        let before = self.schedule[..index].iter().rev().find(same).map_or(initial, |c| &c.settings);
        let direction = match change.direction {
            LinkDirection::Forward => "forward",
            LinkDirection::Backward => "backward",
        };
        format!("{} {direction}: {}", link.name, describe_difference(before, &change.settings))
    }
}

const RATE: &str = "rate";
const DELAY: &str = "delay";
const QUEUE: &str = "queue";
const UP: &str = "up";

/// The name and text of each aspect: all aspects, always in the same order.
fn aspects(s: &Settings) -> [(&'static str, String); 11] {
    [
        (RATE, capacity(&s.capacity)),
        (DELAY, duration(s.delay)),
        ("jitter", jitter(s)),
        (QUEUE, queue(s)),
        ("loss", loss(s.loss)),
        ("lost packets", list(&s.loss_list)),
        ("duplicates", percent(s.duplicate)),
        ("reordering", reorder(s)),
        ("overhead", overhead(s.overhead)),
        ("path MTU", s.mtu.map_or_else(|| "any".to_owned(), |mtu| format!("{mtu} B"))),
        (UP, if s.up { "up" } else { "down" }.to_owned()),
    ]
}

fn capacity(capacity: &Capacity) -> String {
    match capacity {
        Capacity::Unlimited => "no rate limit".to_owned(),
        Capacity::Constant(r) => rate(*r),
        Capacity::Trace(trace) => format!("a trace of {} on average", rate(trace.mean_rate())),
    }
}

fn jitter(s: &Settings) -> String {
    let j = s.jitter;
    if j.amount.is_zero() {
        return "none".to_owned();
    }
    let shape = match j.shape {
        JitterShape::Uniform => "uniform",
        JitterShape::Normal => "normal",
        JitterShape::Exponential => "exponential",
    };
    let order = if j.reorders { ", reordering" } else { "" };
    format!("{} {shape}{order}", duration(j.amount))
}

fn queue(s: &Settings) -> String {
    let limit = match s.queue.limit {
        QueueLimit::Unlimited => "unlimited".to_owned(),
        QueueLimit::Bytes(n) => bytes(n),
        QueueLimit::Packets(1) => "1 packet".to_owned(),
        QueueLimit::Packets(n) => format!("{n} packets"),
        QueueLimit::Time(t) => duration(t),
    };
    match s.queue.discipline {
        Discipline::TailDrop => limit,
        Discipline::CoDel { target, interval } => {
            format!("{limit} CoDel ({}, {})", duration(target), duration(interval))
        }
    }
}

fn loss(loss: Loss) -> String {
    match loss {
        Loss::None => percent(0.0),
        Loss::Independent(p) => percent(p),
        Loss::GilbertElliott { to_bad, to_good, loss_bad, loss_good } => {
            let of_states = if (loss_bad, loss_good) == (1.0, 0.0) {
                String::new()
            } else {
                format!(", losing {} and {}", percent(loss_bad), percent(loss_good))
            };
            format!("in bursts (to bad {}, to good {}{of_states})", percent(to_bad), percent(to_good))
        }
    }
}

fn list(indices: &[u64]) -> String {
    match indices {
        [] => "none".to_owned(),
        [one] => format!("number {one}"),
        [first, .., last] => format!("{} of numbers {first} to {last}", indices.len()),
    }
}

fn reorder(s: &Settings) -> String {
    if s.reorder.probability == 0.0 {
        return "none".to_owned();
    }
    format!("{} by {}", percent(s.reorder.probability), duration(s.reorder.by))
}

fn overhead(overhead: Overhead) -> String {
    match overhead {
        Overhead::ETHERNET => "Ethernet".to_owned(),
        Overhead::ETHERNET_FRAME => "Ethernet frame".to_owned(),
        Overhead::IP => "none".to_owned(),
        Overhead { per_packet, minimum: 0 } => format!("{per_packet} B a packet"),
        Overhead { per_packet, minimum } => format!("{per_packet} B a packet, at least {minimum} B"),
    }
}

/// `1.5 Mb/s`
pub(crate) fn rate(rate: Rate) -> String {
    scaled(
        rate.as_bps(),
        &[(1_000_000_000_000, "Tb/s"), (1_000_000_000, "Gb/s"), (1_000_000, "Mb/s"), (1000, "kb/s")],
        "b/s",
    )
}

/// `24 MB`
pub(crate) fn bytes(bytes: Bytes) -> String {
    scaled(bytes.as_u64(), &[(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")], "B")
}

/// `93.5 ms`
pub(crate) fn duration(duration: Duration) -> String {
    if duration.is_zero() {
        return "0 s".to_owned();
    }
    scaled(units::nanos(duration), &[(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")], "ns")
}

/// An exact decimal fraction of the first unit that is not above the number.
fn scaled(n: u64, units: &[(u64, &str)], one: &str) -> String {
    let (factor, unit) = units.iter().find(|(factor, _)| n >= *factor).copied().unwrap_or((1, one));
    let (whole, rest) = (n / factor, n % factor);
    if rest == 0 {
        return format!("{whole} {unit}");
    }
    let digits = factor.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{} {unit}", fraction.trim_end_matches('0'))
}

/// `0.1 %`, to six significant digits: the product with 100 is rarely exact.
fn percent(p: f64) -> String {
    let rounded: f64 = format!("{:.5e}", p * 100.0).parse().unwrap_or(p * 100.0);
    format!("{rounded} %")
}
