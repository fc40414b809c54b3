//! Text of `longhaul shape`: classes of a policy, equivalent commands, counters of the classes.

use std::io::{self, Write};

use results::shape::{
    ShapeClass, ShapeCounters, ShapeDirection, ShapeFlows, ShapePolicy, ShapeRecord, ShapeState, TrafficDirection,
};

use crate::summary::{bytes, nanos, plural, printable, rate};

/// Minimum width of the column of names.
const NAME_WIDTH_MIN: usize = 12;
/// Maximum width of the column of names; longer names are truncated.
const NAME_WIDTH_MAX: usize = 32;

/// Writes the records of one device as text.
///
/// # Errors
/// Errors of the writer.
pub fn write_shape(records: &[ShapeRecord], out: &mut impl Write) -> io::Result<()> {
    let classes: Vec<&ShapeClass> = records.iter().filter_map(class).collect();
    let counters: Vec<&ShapeCounters> = records.iter().filter_map(counters).collect();
    let flows: Vec<&ShapeFlows> = records.iter().filter_map(flows).collect();
    for record in records {
        if let ShapeRecord::Policy(policy) = record {
            write_policy(policy, out)?;
            for direction in &policy.directions {
                let of = |other: TrafficDirection| other == direction.direction;
                let classes: Vec<_> = classes.iter().copied().filter(|c| of(c.direction)).collect();
                let counters: Vec<_> = counters.iter().copied().filter(|c| of(c.direction)).collect();
                let flows: Vec<_> = flows.iter().copied().filter(|f| of(f.direction)).collect();
                write_direction(direction, &classes, &counters, &flows, out)?;
            }
        }
    }
    let commands: Vec<&str> = records.iter().filter_map(command).collect();
    if !commands.is_empty() {
        writeln!(out, "\nequivalent tc(8) and ip(8) commands:")?;
    }
    commands.iter().try_for_each(|line| writeln!(out, "  {}", printable(line)))
}

/// Writes the counters of the classes since the previous reading, without their settings.
///
/// # Errors
/// Errors of the writer.
pub fn write_counters(records: &[ShapeRecord], out: &mut impl Write) -> io::Result<()> {
    let counters: Vec<&ShapeCounters> = records.iter().filter_map(counters).collect();
    write_counters_table(&counters, out)
}

fn class(record: &ShapeRecord) -> Option<&ShapeClass> {
    if let ShapeRecord::Class(class) = record { Some(class) } else { None }
}

fn counters(record: &ShapeRecord) -> Option<&ShapeCounters> {
    if let ShapeRecord::Counters(counters) = record { Some(counters) } else { None }
}

fn flows(record: &ShapeRecord) -> Option<&ShapeFlows> {
    if let ShapeRecord::Flows(flows) = record { Some(flows) } else { None }
}

fn command(record: &ShapeRecord) -> Option<&str> {
    if let ShapeRecord::Command(command) = record { Some(&command.command) } else { None }
}

fn write_policy(policy: &ShapePolicy, out: &mut impl Write) -> io::Result<()> {
    let state = match policy.state {
        ShapeState::Planned => "planned, not installed",
        ShapeState::Installed => "installed, matches the policy",
        ShapeState::Disturbed => "installed, DIFFERS from the policy",
    };
    writeln!(out, "{}: {state}", printable(&policy.device))?;
    for difference in &policy.differences {
        writeln!(out, "  {}", printable(difference))?;
    }
    if let Some(left) = policy.undone_in_s {
        let unless = if policy.awaits_confirmation {
            format!(" unless confirmed: longhaul shape confirm {}", printable(&policy.device))
        } else {
            String::new()
        };
        writeln!(out, "  undone in {left:.0} s{unless}")?;
    }
    Ok(())
}

fn write_direction(
    direction: &ShapeDirection,
    classes: &[&ShapeClass],
    counters: &[&ShapeCounters],
    flows: &[&ShapeFlows],
    out: &mut impl Write,
) -> io::Result<()> {
    let decided = match (direction.classifier.as_str(), direction.rules) {
        ("none", _) => "one class".to_owned(),
        (kind, rules) => {
            let noun = if kind == "bpf" { "rule" } else { "filter" };
            format!("{rules} {kind} {noun}{}", if rules == 1 { "" } else { "s" })
        }
    };
    writeln!(
        out,
        "\n{} on {}: {} in frames (L2), {} on the wire (L1) at full size; {decided}, the rest to {}",
        direction_name(direction.direction),
        printable(&direction.device),
        rate(direction.rate_bps),
        rate(direction.wire_rate_bps),
        printable(&direction.default_class)
    )?;
    write_classes(classes, out)?;
    if !counters.is_empty() {
        writeln!(out)?;
        write_counters_table(counters, out)?;
    }
    for flows in flows {
        let cost = flows.run_ns.map_or_else(String::new, |ns| format!("; {ns:.0} ns per packet"));
        writeln!(
            out,
            "  tracked flows: {} {}, {}, limit {}{cost}",
            flows.mice,
            if flows.mice == 1 { "mouse" } else { "mice" },
            plural(flows.elephants, "elephant"),
            flows.flows_max
        )?;
    }
    Ok(())
}

/// A short time: `5.000 ms`.
fn time(seconds: f64) -> String {
    nanos((seconds * 1e9).round() as u64)
}

fn direction_name(direction: TrafficDirection) -> &'static str {
    match direction {
        TrafficDirection::Egress => "egress",
        TrafficDirection::Ingress => "ingress",
    }
}

fn write_classes(classes: &[&ShapeClass], out: &mut impl Write) -> io::Result<()> {
    let depth = |class: &ShapeClass| {
        let mut depth = 0;
        let mut above = class.parent.as_deref();
        while let Some(parent) = above.and_then(|name| classes.iter().find(|c| c.class == name)) {
            depth += 1;
            above = parent.parent.as_deref();
        }
        depth
    };
    let named: Vec<(String, &ShapeClass)> =
        classes.iter().map(|c| (format!("{}{}", "  ".repeat(depth(c)), printable(&c.class)), *c)).collect();
    let width = named.iter().map(|(n, _)| n.chars().count()).max().unwrap_or(0).clamp(NAME_WIDTH_MIN, NAME_WIDTH_MAX);
    writeln!(
        out,
        "  {:<width$}  {:<7} {:>4}  {:>11}  {:>11}  {:>11}  {:>17}  {:>9}  queue",
        "class", "handle", "prio", "rate", "ceiling", "on wire", "burst", "quantum"
    )?;
    for (name, class) in named {
        let burst_s = class.ceiling_burst_bytes as f64 * 8.0 / class.ceiling_bps.max(1) as f64;
        let burst = format!("{} {}", bytes(class.ceiling_burst_bytes), time(burst_s));
        let queue = class.queue.as_ref().map_or_else(String::new, |q| {
            format!("{} {} {}", printable(&q.discipline), bytes(q.limit_bytes), time(q.limit_s))
        });
        let name: String = name.chars().take(width).collect();
        let line = format!(
            "  {name:<width$}  {:<7} {:>4}  {:>11}  {:>11}  {:>11}  {burst:>17}  {:>9}  {queue}",
            printable(&class.handle),
            class.priority,
            rate(class.rate_bps),
            rate(class.ceiling_bps),
            rate(class.wire_ceiling_bps),
            bytes(u64::from(class.quantum_bytes)),
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn write_counters_table(counters: &[&ShapeCounters], out: &mut impl Write) -> io::Result<()> {
    let width =
        counters.iter().map(|c| c.class.chars().count()).max().unwrap_or(0).clamp(NAME_WIDTH_MIN, NAME_WIDTH_MAX);
    writeln!(
        out,
        "  {:<width$}  {:<7}  {:>11}  {:>10}  {:>9}  {:>8}  {:>10}  {:>10}  {:>10}",
        "class", "", "rate", "packets", "borrowed", "dropped", "backlog", "delay", "total"
    )?;
    for c in counters {
        let name: String = printable(&c.class).chars().take(width).collect();
        writeln!(
            out,
            "  {name:<width$}  {:<7}  {:>11}  {:>10}  {:>9}  {:>8}  {:>10}  {:>10}  {:>10}",
            direction_name(c.direction),
            rate(c.rate_bps),
            c.packets,
            c.borrowed,
            c.dropped,
            bytes(c.backlog_bytes),
            time(c.backlog_s),
            bytes(c.total_bytes),
        )?;
    }
    Ok(())
}
