//! The installed policy and its effect.

use kernel::Netlink;
use shaping::{ClassPlan, Plan, SidePlan};
use tc::{Object, Statistics};
use units::Instant;

use super::journal::{Journal, JournalFile};
use super::{ShapeError, install, observe};

/// State of an installation.
#[derive(Debug)]
pub struct InstallationState {
    /// Journal of the installation.
    pub journal: Journal,
    /// Plan of the policy.
    pub plan: Plan,
    /// Differences between the kernel's state and the plan, as text.
    pub differences: Vec<String>,
}

/// Counters of the classes of one direction.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Time of the reading.
    pub at: Instant,
    /// Statistics in the order of the plan; drops and backlog are those of the queue where the class has one.
    pub classes: Vec<Statistics>,
}

/// The policy that is installed on a device.
///
/// # Errors
/// No policy is installed, or the state file cannot be read.
pub fn installation_state(journal_file: &JournalFile) -> Result<InstallationState, ShapeError> {
    let not_installed = || ShapeError::NotInstalled { device: journal_file.device().to_owned() };
    let journal = journal_file.read()?.ok_or_else(not_installed)?;
    let plan = install::plan_of_journal(&journal)?;
    let differences = install::differences(&mut Netlink::open()?, &plan, journal_file.device())?;
    Ok(InstallationState { journal, plan, differences })
}

/// Reads the counters of a direction.
///
/// # Errors
/// The device was removed.
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
        // CoDel drops packets on dequeue, which the class does not count.
        Some(queue) => {
            Statistics { drops: queue.drops, backlog: queue.backlog, backlog_packets: queue.backlog_packets, ..own }
        }
        None => own,
    }
}

/// Id of the classifier program of a direction.
///
/// # Errors
/// The device was removed.
pub fn program(netlink: &mut Netlink, side: &SidePlan) -> Result<Option<u32>, ShapeError> {
    Ok(observe::program(&observe::traffic_control(netlink, side.device.index)?.0))
}
