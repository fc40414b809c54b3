//! `longhaul tune`.

mod change;
mod check;
pub(crate) mod cli;
mod output;
mod plan;
mod verify;

use std::process::ExitCode;

use cli::{TuneCommand, TuneOptions};

/// Exit status when changes are recommended, could not be applied or reverted, or gave no improvement.
const NEGATIVE_RESULT: u8 = 1;

pub(crate) fn run(options: TuneOptions) -> anyhow::Result<ExitCode> {
    match options.command {
        TuneCommand::Check(options) => check::run(&options),
        TuneCommand::Apply(options) => change::apply(&options),
        TuneCommand::Undo(options) => change::undo(&options),
        TuneCommand::Verify(options) => verify::run(&options),
    }
}
