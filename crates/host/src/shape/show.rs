//! What is installed, and what it does.

use kernel::Netlink;
use shaping::{ClassPlan, Plan, SidePlan};
use tc::{Object, Statistics};
use units::Instant;

use super::journal::{Journal, Notes};
use super::{ShapeError, install, observe};

/// An installation as it stands.
#[derive(Debug)]
pub struct Standing {
    /// What was noted.
    pub journal: Journal,
    /// What was planned.
    pub plan: Plan,
    /// What the kernel has otherwise, in words.
    pub differences: Vec<String>,
}

/// What the classes of one direction counted.
#[derive(Debug, Clone)]
pub struct Reading {
    /// When it was read.
    pub at: Instant,
    /// In the order of the plan; the queue's own drops and backlog where the class has a queue.
    pub classes: Vec<Statistics>,
}

/// What is installed on a device.
///
/// # Errors
/// Nothing is, or the notes cannot be read.
pub fn standing(notes: &Notes) -> Result<Standing, ShapeError> {
    let not_installed = || ShapeError::NotInstalled { device: notes.device().to_owned() };
    let journal = notes.read()?.ok_or_else(not_installed)?;
    let plan = install::plan_noted(&journal)?;
    let differences = install::differences(&mut Netlink::open()?, &plan, notes.device())?;
    Ok(Standing { journal, plan, differences })
}

/// Reads the counters of a direction.
///
/// # Errors
/// The device is gone.
pub fn read(netlink: &mut Netlink, side: &SidePlan) -> Result<Reading, ShapeError> {
    let objects = netlink.traffic_control(side.device.index)?;
    let at = kernel::now();
    let classes = side.classes.iter().map(|class| of_class(class, &objects)).collect();
    Ok(Reading { at, classes })
}

fn of_class(class: &ClassPlan, objects: &[(Object, Statistics)]) -> Statistics {
    let is_class = |o: &Object| matches!(o, Object::Class(c) if c.handle == class.handle);
    let is_queue = |o: &Object| matches!(o, Object::Qdisc(q) if q.parent == class.handle);
    let find = |which: &dyn Fn(&Object) -> bool| objects.iter().find(|(o, _)| which(o)).map(|(_, s)| *s);
    let own = find(&is_class).unwrap_or_default();
    match find(&is_queue) {
        // CoDel drops what it hands out, of which the class knows nothing.
        Some(queue) => {
            Statistics { drops: queue.drops, backlog: queue.backlog, backlog_packets: queue.backlog_packets, ..own }
        }
        None => own,
    }
}

/// The program that decides for a direction, by the kernel's number.
///
/// # Errors
/// The device is gone.
pub fn program(netlink: &mut Netlink, side: &SidePlan) -> Result<Option<u32>, ShapeError> {
    Ok(observe::program(&observe::traffic_control(netlink, side.device.index)?.0))
}
