//! Shaping of a device: installing a policy, showing its effect, restoring the earlier traffic control.

mod error;
mod guard;
mod install;
mod journal;
mod observe;
mod rehearsal;
mod restore;
mod show;

use kernel::Netlink;

pub use error::ShapeError;
pub use guard::{COMMAND as GUARD_COMMAND, watch};
pub use install::{InstallOptions, Installed, dry_run, install, install_for_good, plan_here};
pub use journal::{Ifb, Journal, Notes};
pub use restore::Restored;
pub use show::{Reading, Standing, program, read, standing};

/// Restores a device's traffic control before longhaul, also after the shaping process was killed.
///
/// # Errors
/// The device is not shaped by longhaul, another process is changing it, or the kernel refused.
pub fn clear(notes: &Notes) -> Result<Restored, ShapeError> {
    let _lock = notes.lock()?;
    let journal = notes.read()?.ok_or_else(|| ShapeError::NotInstalled { device: notes.device().to_owned() })?;
    restore::restore(&mut Netlink::open()?, notes, &journal)
}

/// Confirms a policy that would otherwise be undone.
///
/// # Errors
/// No policy waits for confirmation.
pub fn confirm(notes: &Notes) -> Result<Journal, ShapeError> {
    let lock = notes.lock()?;
    let journal = notes.read()?.ok_or_else(|| ShapeError::NotInstalled { device: notes.device().to_owned() })?;
    let Some(by) = journal.confirm_by else {
        return Err(ShapeError::NothingToConfirm { device: notes.device().to_owned() });
    };
    if by <= kernel::now() {
        guard::end(notes, &journal, lock)?;
        return Err(ShapeError::TooLate { device: notes.device().to_owned() });
    }
    let journal = Journal { confirm_by: None, ..journal };
    notes.write(&journal)?;
    Ok(journal)
}

/// Undoes policies whose time limit passed and whose guard process has ended. Returns the devices.
///
/// # Errors
/// As for [`clear`].
pub fn undo_overdue() -> Result<Vec<String>, ShapeError> {
    let mut undone = Vec::new();
    for notes in Notes::all()? {
        let overdue = |j: &Journal| j.deadline().is_some_and(|at| at < kernel::now());
        if !notes.read()?.is_some_and(|j| overdue(&j)) {
            continue;
        }
        // The guard process holds the lock and is about to undo the policy.
        let Ok(lock) = notes.lock() else { continue };
        if let Some(journal) = notes.read()?.filter(overdue) {
            guard::end(&notes, &journal, lock)?;
            undone.push(notes.device().to_owned());
        }
    }
    Ok(undone)
}
