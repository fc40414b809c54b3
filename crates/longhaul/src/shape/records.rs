//! Converts plans and counters to records.

use std::io::{self, Write};

use host::shape::Reading;
use results::shape::{
    SHAPE_SCHEMA, ShapeClass, ShapeCommand, ShapeCounters, ShapeDirection, ShapePolicy, ShapeQueue, ShapeRecord,
    ShapeState, TrafficDirection,
};
use shaping::{ClassPlan, Direction, IFB_QUEUE, Plan, SidePlan};
use tc::Tree;

use crate::output::json_line;

pub(super) fn traffic_direction(direction: Direction) -> TrafficDirection {
    match direction {
        Direction::Egress => TrafficDirection::Egress,
        Direction::Ingress => TrafficDirection::Ingress,
    }
}

/// Directions of a plan.
pub(super) fn sides(plan: &Plan) -> impl Iterator<Item = &SidePlan> {
    plan.egress.iter().chain(plan.ingress.iter().map(|i| &i.side))
}

/// Converts the policy of a plan, without the fields of an installation.
pub(super) fn policy(plan: &Plan, state: ShapeState) -> ShapePolicy {
    ShapePolicy {
        schema: SHAPE_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device: plan.device.name.clone(),
        state,
        differences: Vec::new(),
        undone_in_s: None,
        awaits_confirmation: false,
        directions: sides(plan).map(direction).collect(),
    }
}

fn direction(side: &SidePlan) -> ShapeDirection {
    let (classifier, rules) = match &side.rules {
        Some(rules) => ("bpf", rules.len()),
        None if side.tree.filters.is_empty() => ("none", 0),
        None => ("u32", side.tree.filters.len()),
    };
    let default = side.classes.iter().find(|c| c.handle == side.default);
    ShapeDirection {
        direction: traffic_direction(side.direction),
        device: side.device.name.clone(),
        rate_bps: side.rate.as_bps(),
        wire_rate_bps: side.device.on_wire(side.rate).as_bps(),
        default_class: default.map(|c| c.name.clone()).unwrap_or_default(),
        classifier: classifier.to_owned(),
        rules: u32::try_from(rules).unwrap_or(u32::MAX),
    }
}

pub(super) fn classes(plan: &Plan) -> Vec<ShapeRecord> {
    let device = &plan.device.name;
    let of_side =
        |side: &SidePlan| side.classes.iter().map(|c| ShapeRecord::Class(class(device, side, c))).collect::<Vec<_>>();
    sides(plan).flat_map(of_side).collect()
}

fn class(device: &str, side: &SidePlan, class: &ClassPlan) -> ShapeClass {
    let htb = &class.htb;
    let queue = class.leaf.as_ref().map(|leaf| ShapeQueue {
        discipline: leaf.discipline.kind().to_owned(),
        limit_bytes: leaf.limit.as_u64(),
        limit_s: leaf.wait.as_secs_f64(),
    });
    ShapeClass {
        device: device.to_owned(),
        direction: traffic_direction(side.direction),
        class: class.name.clone(),
        handle: class.handle.to_string(),
        parent: side.classes.iter().find(|c| c.handle == class.parent).map(|c| c.name.clone()),
        rate_bps: htb.rate.as_bps(),
        ceiling_bps: htb.ceiling.as_bps(),
        wire_rate_bps: side.device.on_wire(htb.rate).as_bps(),
        wire_ceiling_bps: side.device.on_wire(htb.ceiling).as_bps(),
        burst_bytes: tc::burst_bytes(htb.rate, htb.burst).as_u64(),
        ceiling_burst_bytes: tc::burst_bytes(htb.ceiling, htb.ceiling_burst).as_u64(),
        quantum_bytes: htb.quantum,
        priority: htb.priority,
        queue,
    }
}

/// Equivalent tc commands for a device without a configuration.
pub(super) fn commands(plan: &Plan) -> Vec<ShapeRecord> {
    let device = &plan.device;
    let ifb = plan.ingress.as_ref().map(|i| &i.side.device);
    let name = |index: u32| {
        let known = [Some(device), ifb].into_iter().flatten().find(|d| d.index == index);
        known.map_or_else(|| index.to_string(), |d| d.name.clone())
    };
    let mut lines = Vec::new();
    let mut add = |tree: &Tree, on: &str| {
        lines.extend(tree.operations_from(&Tree::default()).iter().map(|o| o.command(on, name)));
    };
    if let Some(ingress) = &plan.ingress {
        let ifb = &ingress.side.device.name;
        add(&ingress.side.tree, ifb);
        add(&ingress.hook, &device.name);
    }
    if let Some(egress) = &plan.egress {
        add(&egress.tree, &device.name);
    }
    if let Some(ifb) = ifb {
        lines.insert(0, format!("ip link add {} type ifb", ifb.name));
        lines.insert(1, format!("ip link set {} txqueuelen {IFB_QUEUE} up", ifb.name));
    }
    lines
        .into_iter()
        .map(|command| ShapeRecord::Command(ShapeCommand { device: device.name.clone(), command }))
        .collect()
}

/// Counters of the classes of a direction between two readings.
pub(super) fn counters(
    side: &SidePlan,
    device: &str,
    (before, seconds): (Option<&Reading>, f64),
    now: &Reading,
    utc_s: f64,
) -> Vec<ShapeRecord> {
    let one = |(at, class): (usize, &ClassPlan)| {
        let current = now.classes.get(at).copied().unwrap_or_default();
        let earlier = before.and_then(|r| r.classes.get(at)).copied().unwrap_or_default();
        let bytes = current.bytes.as_u64().saturating_sub(earlier.bytes.as_u64());
        let rate_bps = if seconds > 0.0 { (bytes as f64 * 8.0 / seconds) as u64 } else { 0 };
        let leaving = if rate_bps > 0 { rate_bps } else { class.htb.ceiling.as_bps() };
        ShapeRecord::Counters(ShapeCounters {
            device: device.to_owned(),
            direction: traffic_direction(side.direction),
            class: class.name.clone(),
            utc_s,
            seconds,
            bytes,
            packets: current.packets.saturating_sub(earlier.packets),
            rate_bps,
            borrowed: current.borrows.saturating_sub(earlier.borrows),
            dropped: current.drops.saturating_sub(earlier.drops),
            backlog_bytes: current.backlog.as_u64(),
            backlog_packets: current.backlog_packets,
            backlog_s: current.backlog.as_u64() as f64 * 8.0 / leaving.max(1) as f64,
            total_bytes: current.bytes.as_u64(),
            total_dropped: current.drops,
        })
    };
    side.classes.iter().enumerate().map(one).collect()
}

pub(super) fn write_json(records: &[ShapeRecord], out: &mut impl Write) -> io::Result<()> {
    for record in records {
        json_line(out, record)?;
    }
    out.flush()
}
