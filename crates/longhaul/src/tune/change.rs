//! `longhaul tune apply` and `undo`.

use std::process::ExitCode;

use host::state;
use host::tune::{PERSISTENT, Persistent, Session, TuneError, is_host};
use results::tune::{ChangeOutcome, TuneChange, TuneCommand, TuneRecord};
use tuning::Change;

use super::cli::{ApplyOptions, UndoOptions};
use super::output::Output;
use super::{NEGATIVE_RESULT, plan};
use crate::output::print_message;

pub(super) fn apply(options: &ApplyOptions) -> anyhow::Result<ExitCode> {
    let (start, rows) = plan::advice(&options.path, TuneCommand::Apply)?;
    let changes = tuning::planned(&rows, &options.keys)?;
    let file = options.persist.then(|| Persistent::at(PERSISTENT));
    if file.is_some() && !is_host() {
        return Err(TuneError::NotTheHost.into());
    }
    if changes.is_empty() {
        print_message("nothing to change: all settings are as recommended for this path");
    }
    let mut output = Output::new(options.json);
    if options.dry_run {
        output.record(&TuneRecord::Start(start));
        changes.iter().for_each(|c| output.record(&TuneRecord::Change(planned_record(c))));
        output.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut session = Session::open(state::directory())?;
    output.record(&TuneRecord::Start(start));
    let done = session.apply(&changes, file.as_ref(), &mut |c| output.record(&TuneRecord::Change(c)))?;
    output.finish()?;
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::from(NEGATIVE_RESULT) })
}

fn planned_record(change: &Change) -> TuneChange {
    TuneChange {
        key: change.setting.to_string(),
        before: Some(change.before.clone()),
        after: Some(change.after.clone()),
        outcome: ChangeOutcome::Planned,
        note: None,
    }
}

pub(super) fn undo(options: &UndoOptions) -> anyhow::Result<ExitCode> {
    let start = plan::start(TuneCommand::Undo, None)?;
    let mut changes = Vec::new();
    let as_before = host::tune::undo(state::directory(), &Persistent::at(PERSISTENT), &mut |c| changes.push(c));
    if changes.is_empty()
        && let Err(e) = as_before
    {
        return Err(e.into());
    }
    if changes.is_empty() {
        print_message("nothing to undo: no change by longhaul is in effect here");
    }
    let mut output = Output::new(options.json);
    output.record(&TuneRecord::Start(start));
    for change in changes {
        output.record(&TuneRecord::Change(change));
    }
    let as_before = as_before?;
    output.finish()?;
    Ok(if as_before { ExitCode::SUCCESS } else { ExitCode::from(NEGATIVE_RESULT) })
}
