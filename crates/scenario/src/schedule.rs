//! The schedule: what is written (steps, ramps, outages, loops), and the list of changes that follows from it.
//!
//! Each entry changes only what it names. The changes are therefore worked out in the order of time, each on top of the
//! state that it finds.

mod read;
mod resolve;

use std::time::Duration;

use link::Settings;

use crate::files::Files;
use crate::model::{Change, Way};
use crate::patch::Patch;
use crate::problem::{Fault, Report};
use crate::section::{Item, Spot};
use crate::topology::Topology;

/// Most changes of a run: at one every 50 ms, more than eight minutes of a ramp.
const MAX_CHANGES: usize = 10_000;

/// One direction of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    link: usize,
    way: Way,
}

/// Something that happens to directions of links at a time, loops unrolled.
#[derive(Debug, Clone)]
struct Entry {
    at: Duration,
    targets: Vec<Target>,
    action: Action,
    spot: Spot,
}

#[derive(Debug, Clone)]
enum Action {
    /// New values at once.
    Set(Patch),
    /// From the values that are found to these, in steps.
    Ramp { to: Patch, over: Duration, every: Duration },
    /// Down for a time.
    Outage(Duration),
}

/// The changes that the schedule makes in a run of this length, sorted by time.
pub(crate) fn read(item: &Item<'_>, topology: &Topology, run: Duration, files: &Files<'_>) -> Vec<Change> {
    let entries = read::entries(item, topology, run, files);
    if !item.report.is_empty() {
        return Vec::new();
    }
    let initial: Vec<[Settings; 2]> = topology.links.iter().map(|l| [l.forward.clone(), l.backward.clone()]).collect();
    resolve::changes(&entries, initial, run, item.report)
}

fn too_many(spot: &Spot, report: &Report) {
    let mend = "use longer periods, larger steps (every) or fewer links";
    spot.complain(report, Fault::new(format!("the schedule makes more than {MAX_CHANGES} changes"), mend));
}
