//! The schedule: its entries (steps, ramps, outages, loops), and the list of changes that results.
//!
//! Each entry changes only the values that it names. The changes are therefore computed in the order of time, each on
//! top of the state before it.

mod read;
mod resolve;

use std::time::Duration;

use link::Settings;

use crate::files::Files;
use crate::model::{Change, LinkDirection};
use crate::patch::Patch;
use crate::problem::{Fault, Report};
use crate::section::{Item, Spot};
use crate::topology::Topology;

/// Maximum number of changes of a run: at one every 50 ms, more than eight minutes of a ramp.
const CHANGES_MAX: usize = 10_000;

/// One direction of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    link: usize,
    direction: LinkDirection,
}

/// An event for directions of links at one time, with loops unrolled.
#[derive(Debug, Clone)]
struct Entry {
    at: Duration,
    targets: Vec<Target>,
    action: Action,
    spot: Spot,
}

#[derive(Debug, Clone)]
enum Action {
    /// Sets new values at once.
    Set(Patch),
    /// Changes from the present values to these, in steps.
    Ramp { to: Patch, over: Duration, every: Duration },
    /// Takes the link down for a duration.
    Outage(Duration),
}

/// The changes that the schedule makes in a run of duration `run`, sorted by time.
pub(crate) fn read(item: &Item<'_>, topology: &Topology, run: Duration, files: &Files<'_>) -> Vec<Change> {
    let entries = read::entries(item, topology, run, files);
    if !item.report.is_empty() {
        return Vec::new();
    }
    let initial: Vec<[Settings; 2]> = topology.links.iter().map(|l| [l.forward.clone(), l.backward.clone()]).collect();
    resolve::changes(&entries, initial, run, item.report)
}

fn too_many(spot: &Spot, report: &Report) {
    let hint = "use longer periods, larger steps (every) or fewer links";
    spot.complain(report, Fault::new(format!("the schedule makes more than {CHANGES_MAX} changes"), hint));
}
