//! The guard process that undoes a policy when its time limit passes, so that an operator is not locked out of a
//! remote host.

use std::process::{Command, Stdio};

use kernel::Netlink;
use units::Duration;

use super::journal::{Journal, JournalFile};
use super::{ShapeError, install, restore};
use crate::state::Lock;

/// Interval at which the guard checks whether it is still needed.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The hidden command of this binary that runs [`watch`].
pub const COMMAND: [&str; 2] = ["shape", "guard"];

/// Starts a guard in a separate process.
pub(super) fn start(journal_file: &JournalFile, journal: &Journal) -> Result<(), ShapeError> {
    let program = std::env::current_exe().map_err(ShapeError::system("finding this program's own file"))?;
    let spawned = Command::new(program)
        .args(COMMAND)
        .args([journal_file.device(), &journal.id.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn();
    spawned.map(drop).map_err(ShapeError::system("starting the guard"))
}

/// Waits for the time limit of an installation and undoes it; ends early when the guard is no longer needed.
///
/// # Errors
/// The earlier traffic control could not be restored.
pub fn watch(device: &str, id: u64) -> Result<(), ShapeError> {
    kernel::leave_session().map_err(ShapeError::system("leaving the session"))?;
    let journal_file = JournalFile::of(device)?;
    loop {
        let Some(journal) = journal_file.read()?.filter(|j| j.id == id) else { return Ok(()) };
        let Some(deadline) = journal.deadline() else { return Ok(()) };
        let left = deadline.saturating_since(kernel::now());
        if !left.is_zero() {
            kernel::sleep_for(left.min(CHECK_INTERVAL));
            continue;
        }
        match journal_file.lock() {
            Ok(lock) => return undo_if_expired(&journal_file, id, lock),
            // The holder of the lock may confirm or clear the policy.
            Err(ShapeError::Busy { .. }) => kernel::sleep_for(CHECK_INTERVAL),
            Err(e) => return Err(e),
        }
    }
}

fn undo_if_expired(journal_file: &JournalFile, id: u64, lock: Lock) -> Result<(), ShapeError> {
    let Some(journal) = journal_file.read()?.filter(|j| j.id == id) else { return Ok(()) };
    if journal.deadline().is_none_or(|at| at > kernel::now()) {
        return Ok(());
    }
    end(journal_file, &journal, lock)
}

/// Undoes an installation whose time limit has passed: restores the last confirmed policy, or the traffic control
/// before longhaul.
pub(super) fn end(journal_file: &JournalFile, journal: &Journal, lock: Lock) -> Result<(), ShapeError> {
    let unconfirmed = journal.confirm_by.is_some_and(|at| at <= kernel::now());
    if let (true, Some(previous)) = (unconfirmed, &journal.previous) {
        drop(lock);
        return install::reinstall(previous, journal.previous_until);
    }
    restore::restore(&mut Netlink::open()?, journal_file, journal).map(drop)
}
