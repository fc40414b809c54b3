//! Restoring the traffic control before longhaul.

use kernel::{Change, Netlink};
use tc::{Handle, Object, Operation, Qdisc, Tree};

use super::ShapeError;
use super::journal::{Journal, JournalFile, Saved};
use super::observe::{self, Found};

/// Result of restoring a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// The earlier traffic control is restored.
    AsBefore,
    /// The device was removed; its IFB device has been removed as well.
    DeviceGone,
    /// Another program has changed the device since, and its traffic control (as described) was left.
    LeftAlone(String),
}

/// Undoes an installation; the caller holds the lock.
pub(super) fn restore(
    netlink: &mut Netlink,
    journal_file: &JournalFile,
    journal: &Journal,
) -> Result<Restored, ShapeError> {
    let ifb_exists = match &journal.ifb {
        Some(ifb) => netlink.links()?.iter().any(|d| d.index == ifb.index && d.name == ifb.name),
        None => false,
    };
    // The device is found by index, because it may have been renamed.
    let existing = netlink.links()?;
    let Some(device) = existing.iter().find(|d| d.index == journal.index) else {
        if ifb_exists {
            netlink.change_all(&remove_ifb(journal))?;
        }
        journal_file.remove()?;
        return Ok(Restored::DeviceGone);
    };
    let found = observe::observe(netlink, &device.name)?;
    let mut changes = Vec::new();
    let mut foreign = Vec::new();
    if journal.policy.ingress.is_some() || ifb_exists {
        if is_hook(&found.ingress, journal) || observe::is_empty(&found.ingress) {
            changes.extend(without_ingress(journal, &found, ifb_exists)?);
        } else {
            foreign.push(observe::describe(&found.ingress));
            changes.extend(if ifb_exists { remove_ifb(journal) } else { Vec::new() });
        }
    }
    if journal.policy.egress.is_some() {
        if is_our_root(&found.egress, journal) || observe::is_empty(&found.egress) {
            changes.extend(without_egress(journal, &found)?);
        } else if messages_of(&found.egress, journal.index) != journal.before_egress {
            foreign.push(observe::describe(&found.egress));
        }
    }
    if !changes.is_empty() {
        netlink.change_all(&changes)?;
    }
    journal_file.remove()?;
    Ok(if foreign.is_empty() { Restored::AsBefore } else { Restored::LeftAlone(foreign.join(", ")) })
}

/// The changes that remove longhaul's classes from the device's root and restore the earlier traffic control.
pub(super) fn without_egress(journal: &Journal, found: &Found) -> Result<Vec<Change>, ShapeError> {
    let mut changes = Vec::new();
    if is_our_root(&found.egress, journal) && messages_of(&found.egress, journal.index) != journal.before_egress {
        changes.extend(observe::root(&found.egress).map(|root| delete(journal.index, root)));
    } else if !observe::is_empty(&found.egress) {
        return Ok(changes);
    }
    changes.extend(replay(&journal.before_egress, journal.index)?);
    Ok(changes)
}

/// The changes that remove longhaul's ingress hook and IFB device and restore the earlier traffic control.
pub(super) fn without_ingress(journal: &Journal, found: &Found, ifb_exists: bool) -> Result<Vec<Change>, ShapeError> {
    let mut changes = Vec::new();
    if is_hook(&found.ingress, journal) {
        changes.extend(found.ingress.qdiscs.first().map(|hook| delete(journal.index, hook)));
    }
    if changes.is_empty() && !observe::is_empty(&found.ingress) {
        return Ok(changes);
    }
    changes.extend(replay(&journal.before_ingress, journal.index)?);
    if ifb_exists {
        changes.extend(remove_ifb(journal));
    }
    Ok(changes)
}

fn remove_ifb(journal: &Journal) -> Vec<Change> {
    journal.ifb.iter().map(|ifb| Change::DeleteLink { index: ifb.index }).collect()
}

fn delete(device: u32, qdisc: &Qdisc) -> Change {
    Change::Tc { device, operation: Operation::Delete(Object::Qdisc(qdisc.clone())) }
}

fn replay(saved: &[Saved], device: u32) -> Result<Vec<Change>, ShapeError> {
    let damaged = ShapeError::system("reading the journal");
    let messages: Result<Vec<_>, _> = saved.iter().map(Saved::message).collect();
    Ok(messages.map_err(damaged)?.into_iter().map(|message| Change::Message { device, message }).collect())
}

fn messages_of(tree: &Tree, device: u32) -> Vec<Saved> {
    tree.operations_from(&Tree::default()).iter().map(|o| Saved::new(&o.message(device))).collect()
}

/// Whether a tree has the handles of longhaul's: many scripts also create `1:` and `1:1`, but few all classes of a
/// policy.
fn is_our_root(tree: &Tree, journal: &Journal) -> bool {
    let Some(side) = &journal.policy.egress else { return false };
    let has = |handle: Handle, parent: Handle| tree.classes.iter().any(|c| c.handle == handle && c.parent == parent);
    let root = observe::root(tree).is_some_and(|q| q.handle == Handle::new(1, 0));
    let leaves = (0..side.classes.len()).map(shaping::handle);
    root && has(Handle::new(1, 1), Handle::new(1, 0))
        && leaves.into_iter().any(|l| tree.classes.iter().any(|c| c.handle == l))
}

/// Whether the parent of ingress filters redirects to longhaul's IFB device.
fn is_hook(tree: &Tree, journal: &Journal) -> bool {
    let Some(ifb) = &journal.ifb else { return false };
    tree.filters
        .iter()
        .any(|f| matches!(&f.classifier, tc::Classifier::U32 { redirect: Some(index), .. } if *index == ifb.index))
}
