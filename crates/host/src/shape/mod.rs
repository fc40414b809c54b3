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
pub use journal::{Ifb, Journal, JournalFile};
pub use restore::Restored;
pub use show::{InstallationState, Reading, installation_state, program, read};

/// Restores a device's traffic control before longhaul, also after the shaping process was killed.
///
/// # Errors
/// The device is not shaped by longhaul, another process is changing it, or the kernel refused.
pub fn clear(journal_file: &JournalFile) -> Result<Restored, ShapeError> {
    let _lock = journal_file.lock()?;
    let journal =
        journal_file.read()?.ok_or_else(|| ShapeError::NotInstalled { device: journal_file.device().to_owned() })?;
    restore::restore(&mut Netlink::open()?, journal_file, &journal)
}

/// Confirms a policy that would otherwise be undone.
///
/// # Errors
/// No policy waits for confirmation.
pub fn confirm(journal_file: &JournalFile) -> Result<Journal, ShapeError> {
    let lock = journal_file.lock()?;
    let journal =
        journal_file.read()?.ok_or_else(|| ShapeError::NotInstalled { device: journal_file.device().to_owned() })?;
    let Some(by) = journal.confirm_by else {
        return Err(ShapeError::NothingToConfirm { device: journal_file.device().to_owned() });
    };
    if by <= kernel::now() {
        guard::end(journal_file, &journal, lock)?;
        return Err(ShapeError::TooLate { device: journal_file.device().to_owned() });
    }
    let journal = Journal { confirm_by: None, ..journal };
    journal_file.write(&journal)?;
    Ok(journal)
}

/// Undoes policies whose time limit passed and whose guard process has ended. Returns the devices.
///
/// # Errors
/// As for [`clear`].
pub fn undo_overdue() -> Result<Vec<String>, ShapeError> {
    let mut undone = Vec::new();
    for journal_file in JournalFile::all()? {
        let overdue = |j: &Journal| j.deadline().is_some_and(|at| at < kernel::now());
        if !journal_file.read()?.is_some_and(|j| overdue(&j)) {
            continue;
        }
        // The guard process holds the lock and is about to undo the policy.
        let Ok(lock) = journal_file.lock() else { continue };
        if let Some(journal) = journal_file.read()?.filter(overdue) {
            guard::end(&journal_file, &journal, lock)?;
            undone.push(journal_file.device().to_owned());
        }
    }
    Ok(undone)
}
