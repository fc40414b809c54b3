//! The entries of a schedule as they are written; loops are unrolled.

use std::time::Duration;

use super::{Action, CHANGES_MAX, Entry, Target, too_many};
use crate::describe;
use crate::files::Files;
use crate::model::LinkDirection;
use crate::patch::Patch;
use crate::problem::Fault;
use crate::quantity;
use crate::section::{Item, Section};
use crate::topology::Topology;

/// Default interval between the steps of a ramp.
const INTERVAL_DEFAULT: Duration = Duration::from_millis(50);

/// Reads `[[schedule]]`.
pub(super) fn entries(item: &Item<'_>, topology: &Topology, run: Duration, files: &Files<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for item in item.items() {
        let Some(mut section) = item.section() else { continue };
        let targets = targets(&mut section, topology);
        if let Some(steps) = section.item("steps") {
            unroll(&mut section, &steps, &targets, run, files, &mut entries);
        } else {
            for key in ["period", "until"] {
                section.refuse(key, "belongs to a loop", "add steps = [ ... ], or leave it out");
            }
            let at = section.required("at", "write the time of the change: at = \"60s\"");
            let at = at.and_then(|i| i.read(quantity::duration).filter(|at| within(&i, *at, run)));
            let action = action(&mut section, files);
            if let (Some(at), Some(action)) = (at, action) {
                entries.push(Entry { at, targets, action, spot: section.spot() });
            }
        }
        section.finish();
    }
    entries
}

fn within(item: &Item<'_>, at: Duration, run: Duration) -> bool {
    if at >= run {
        let message = format!("{} is after the end of the run of {}", describe::duration(at), describe::duration(run));
        item.complain(Fault::new(message, "change earlier, or make the duration longer"));
    }
    at < run
}

/// Reads which directions of which links an entry changes.
fn targets(section: &mut Section<'_>, topology: &Topology) -> Vec<Target> {
    let directions: &[LinkDirection] = section
        .read("direction", quantity::name(&[("both", 2), ("forward", 0), ("backward", 1)]))
        .map_or(&[LinkDirection::Forward, LinkDirection::Backward], |n| {
            [
                &[LinkDirection::Forward][..],
                &[LinkDirection::Backward],
                &[LinkDirection::Forward, LinkDirection::Backward],
            ][n]
        });
    let (one, many) = (section.item("link"), section.item("links"));
    if let (Some(_), Some(many)) = (&one, &many) {
        many.complain(Fault::new("link is given, too", "keep one of them"));
    }
    let Some(item) = many.or(one) else {
        section.complain(Fault::new("names no link", "add link = \"name\", or links = \"all\""));
        return Vec::new();
    };
    let links: Vec<usize> = match quantity::text(item.value) {
        Ok(all) if all == "all" => (0..topology.links.len()).collect(),
        _ => item.one_or_more().iter().filter_map(|i| topology.link(i)).collect(),
    };
    if links.is_empty() && item.report.is_empty() {
        item.complain(Fault::new("is empty", "name at least one"));
    }
    links
        .iter()
        .flat_map(|link| directions.iter().map(|direction| Target { link: *link, direction: *direction }))
        .collect()
}

/// Reads what an entry does: new values, a ramp to them, or an outage.
fn action(section: &mut Section<'_>, files: &Files<'_>) -> Option<Action> {
    let mut patch = Patch::read(section, files);
    patch.read_path_mtu(section);
    let over = section.item("over");
    let every = section.item("every");
    if let Some(item) = section.item("outage") {
        let outage = item.read(quantity::positive_duration)?;
        if !section.given(&Patch::KEYS).is_empty() || over.is_some() || every.is_some() {
            item.complain(Fault::new(
                "an outage changes nothing else",
                "write a second [[schedule]] for the other keys",
            ));
        }
        return Some(Action::Outage(outage));
    }
    if section.given(&Patch::KEYS).is_empty() {
        section.complain(Fault::new("changes nothing", "add what is to change: loss = 0.05, or outage = \"2s\""));
        return None;
    }
    let Some(over) = over else {
        if let Some(every) = every {
            every.complain(Fault::new("belongs to a ramp", "add over = \"5s\", or leave it out"));
        }
        return Some(Action::Set(patch));
    };
    let every = every.map_or(Some(INTERVAL_DEFAULT), |item| item.read(quantity::positive_duration))?;
    let time = over.read(quantity::positive_duration)?;
    if let Some(key) = no_ramp(&patch) {
        let hint = "a ramp changes rate, delay, jitter and loss; write a second [[schedule]] for the rest";
        over.complain(Fault::new(format!("a ramp cannot change {key}"), hint));
        return None;
    }
    Some(Action::Ramp { to: patch, over: time, every })
}

/// A key whose value is not a number and so cannot be ramped, if there is one.
fn no_ramp(patch: &Patch) -> Option<&'static str> {
    [
        ("trace", matches!(patch.capacity, Some(link::Capacity::Trace(_)))),
        ("an unlimited rate", matches!(patch.capacity, Some(link::Capacity::Unlimited))),
        ("loss in bursts", matches!(patch.loss, Some(link::Loss::GilbertElliott { .. }))),
        ("overhead", patch.overhead.is_some()),
        ("the shape of the jitter", patch.jitter_shape.is_some() || patch.jitter_reorders.is_some()),
        ("queue", patch.limit.is_some() || patch.discipline.is_some()),
        ("loss_list", patch.loss_list.is_some()),
        ("duplicate", patch.duplicate.is_some()),
        ("reorder", patch.reorder.is_some()),
        ("mtu", patch.mtu.is_some()),
        ("up", patch.up.is_some()),
    ]
    .iter()
    .find(|(_, given)| *given)
    .map(|(key, _)| *key)
}

/// A loop: its steps, repeated in each period.
fn unroll(
    section: &mut Section<'_>,
    steps: &Item<'_>,
    targets: &[Target],
    run: Duration,
    files: &Files<'_>,
    entries: &mut Vec<Entry>,
) {
    let start = section.read("at", quantity::duration).unwrap_or_default();
    let until = section.item("until").map_or(Some(run), |item| {
        let until = item.read(quantity::positive_duration)?;
        if until > run {
            let text = describe::duration;
            let message = format!("{} is after the end of the run of {}", text(until), text(run));
            item.complain(Fault::new(message, "leave it out to go on until the end"));
        }
        Some(until)
    });
    let period = section.required("period", "write how long one round of the steps takes: period = \"120s\"");
    let period = period.and_then(|item| item.read(quantity::positive_duration));
    let steps: Vec<_> = steps.items().iter().filter_map(|step| one_step(step, period, files)).collect();
    let (Some(period), Some(until)) = (period, until) else { return };
    if steps.is_empty() && section.report.is_empty() {
        section.complain(Fault::new("has no steps", "write steps = [ { at = \"0s\", loss = 0.1 } ]"));
    }
    let mut period_start = start;
    while period_start < until && !steps.is_empty() {
        for (offset, action, spot) in &steps {
            let at = period_start + *offset;
            if at < until {
                entries.push(Entry { at, targets: targets.to_vec(), action: action.clone(), spot: spot.clone() });
            }
        }
        if entries.len() > CHANGES_MAX {
            too_many(&section.spot(), section.report);
            return;
        }
        period_start += period;
    }
}

fn one_step(
    step: &Item<'_>,
    period: Option<Duration>,
    files: &Files<'_>,
) -> Option<(Duration, Action, crate::section::Spot)> {
    let mut section = step.section()?;
    let at = section.required("at", "write the time within the period: at = \"0s\"");
    let at = at.and_then(|item| {
        let at = item.read(quantity::duration)?;
        if period.is_some_and(|period| at >= period) {
            item.complain(Fault::new("is not within the period", "times of steps count from the start of each period"));
        }
        Some(at)
    });
    for key in ["link", "links", "direction"] {
        section.refuse(key, "holds for the whole loop", "write it beside steps");
    }
    let action = action(&mut section, files);
    let spot = section.spot();
    section.finish();
    Some((at?, action?, spot))
}
