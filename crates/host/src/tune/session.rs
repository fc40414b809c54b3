use std::fs::File;
use std::path::Path;

use results::tune::{ChangeOutcome, TuneChange};
use tuning::{Change, Setting, same_value};

use super::journal::{Journal, Place};
use super::{Persistent, TuneError, is_host, read, write};

/// Exclusive access to the settings of the calling thread's network namespace.
#[derive(Debug)]
pub struct Session {
    place: Place,
    journal: Journal,
}

impl Session {
    /// Opens a session; `directory` is that of [`crate::state::directory`].
    ///
    /// # Errors
    /// The caller may not change networks, another process changes them, or the journal cannot be read.
    pub fn open(directory: &Path) -> Result<Self, TuneError> {
        if !kernel::may_change_networks() {
            return Err(TuneError::Unprivileged);
        }
        let place = Place::take(directory)?;
        let journal = place.read()?;
        Ok(Self { place, journal })
    }

    /// Whether changes by longhaul are in force, or were when a process was killed.
    pub fn is_changed(&self) -> bool {
        !self.journal.is_empty()
    }

    /// Makes changes and reads each back. When one fails, the earlier ones are reverted, and the failure is among the
    /// outcomes.
    ///
    /// # Errors
    /// Before any change: a setting is not writable, the journal cannot be written, or a file conflicts with
    /// `persist`.
    pub fn apply(
        &mut self,
        changes: &[Change],
        persist: Option<&Persistent>,
        report: &mut dyn FnMut(TuneChange),
    ) -> Result<bool, TuneError> {
        if let Some(file) = persist {
            if !is_host() {
                return Err(TuneError::NotTheHost);
            }
            file.is_ours()?;
        }
        changes.iter().try_for_each(|c| may_write(&c.setting))?;
        let was = self.journal.clone();
        self.journal.add(changes);
        self.place.write(&self.journal)?;
        for (at, change) in changes.iter().enumerate() {
            if let Err(e) = write(&change.setting, &change.after) {
                report(outcome(change, ChangeOutcome::Failed, Some(e.to_string())));
                self.revert(&changes[..=at], was, report)?;
                return Ok(false);
            }
            report(outcome(change, ChangeOutcome::Applied, None));
        }
        if let Some(file) = persist {
            let all = self.journal.changes().unwrap_or_default();
            file.write(&all)?;
            report(about_file(file, ChangeOutcome::FileWritten, None));
        }
        Ok(true)
    }

    /// Reverts the changes of a failed call.
    fn revert(&mut self, made: &[Change], was: Journal, report: &mut dyn FnMut(TuneChange)) -> Result<(), TuneError> {
        // The kernel may hold a modified value of the failed change, so that value is not compared.
        let (failed, done) = made.split_last().map_or((None, made), |(last, rest)| (Some(last), rest));
        let reported: Vec<TuneChange> =
            failed.into_iter().map(set_back).chain(done.iter().rev().map(restore)).collect();
        let all_back = reported.iter().all(|t| t.outcome != ChangeOutcome::Failed);
        reported.into_iter().for_each(&mut *report);
        if all_back {
            self.journal = was;
            self.place.write(&self.journal)?;
        }
        Ok(())
    }

    /// Reverts all changes in the journal, the last one first. A value that is neither the original nor the one that
    /// longhaul set belongs to another program and is left. Changes that cannot be reverted stay in the journal.
    /// Returns whether all original values are restored.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub fn undo(&mut self, report: &mut dyn FnMut(TuneChange)) -> Result<bool, TuneError> {
        let changes = self.journal.changes().unwrap_or_default();
        let (mut left, mut as_before) = (Vec::new(), true);
        for change in changes.iter().rev() {
            let reported = restore(change);
            as_before &= matches!(reported.outcome, ChangeOutcome::Restored | ChangeOutcome::AsBefore);
            if reported.outcome == ChangeOutcome::Failed {
                left.push(change.clone());
            }
            report(reported);
        }
        self.journal.keep(&left);
        self.place.write(&self.journal)?;
        Ok(as_before)
    }
}

/// Reverts all changes by longhaul in the calling thread's network namespace; on the host also removes the file of
/// `persist`. Returns whether all original values are restored.
///
/// # Errors
/// As [`Session::open`] and [`Session::undo`].
pub fn undo(directory: &Path, file: &Persistent, report: &mut dyn FnMut(TuneChange)) -> Result<bool, TuneError> {
    let mut session = Session::open(directory)?;
    // The file goes first: a restart in between must not apply the values again.
    if is_host() && file.remove()? {
        let note =
            (!session.is_changed()).then(|| "the values that it set at boot stay until the next restart".to_owned());
        report(about_file(file, ChangeOutcome::FileRemoved, note));
    }
    session.undo(report)
}

/// Checks without a change whether the kernel would accept a write.
fn may_write(setting: &Setting) -> Result<(), TuneError> {
    let Setting::Sysctl(key) = setting else { return Ok(()) };
    let path = Path::new("/proc/sys").join(key.replace('.', "/"));
    // sysctl(8) names may contain slashes; none of the catalogue does.
    File::options().write(true).open(&path).map_err(TuneError::file("opening for writing", &path))?;
    Ok(())
}

fn restore(change: &Change) -> TuneChange {
    let found = match read(&change.setting) {
        Ok(found) => found,
        Err(e) => return outcome(change, ChangeOutcome::Failed, Some(e.to_string())),
    };
    if same_value(&found, &change.before) {
        return outcome(change, ChangeOutcome::AsBefore, None);
    }
    if !same_value(&found, &change.after) {
        let note = format!("its value is `{found}`, which longhaul did not set");
        return outcome(change, ChangeOutcome::LeftAlone, Some(note));
    }
    set_back(change)
}

fn set_back(change: &Change) -> TuneChange {
    match write(&change.setting, &change.before) {
        Ok(()) => outcome(change, ChangeOutcome::Restored, None),
        Err(e) => outcome(change, ChangeOutcome::Failed, Some(e.to_string())),
    }
}

fn outcome(change: &Change, outcome: ChangeOutcome, note: Option<String>) -> TuneChange {
    TuneChange {
        key: change.setting.to_string(),
        before: Some(change.before.clone()),
        after: Some(change.after.clone()),
        outcome,
        note,
    }
}

fn about_file(file: &Persistent, outcome: ChangeOutcome, note: Option<String>) -> TuneChange {
    TuneChange { key: file.path().display().to_string(), before: None, after: None, outcome, note }
}
