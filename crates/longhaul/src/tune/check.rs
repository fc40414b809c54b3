//! `longhaul tune check`.

use std::process::ExitCode;

use results::tune::{TuneCommand, TuneRecord};

use super::cli::CheckOptions;
use super::output::Output;
use super::{NEGATIVE_RESULT, plan};

pub(super) fn run(options: &CheckOptions) -> anyhow::Result<ExitCode> {
    let (start, rows) = plan::advice(&options.path, TuneCommand::Check)?;
    let summary = tuning::summary(&rows);
    let should_change = summary.to_change + summary.of_host > 0;
    let mut output = Output::new(options.json);
    output.record(&TuneRecord::Start(start));
    for row in rows {
        output.record(&TuneRecord::Row(row));
    }
    output.record(&TuneRecord::Summary(summary));
    output.finish()?;
    Ok(if should_change { ExitCode::from(NEGATIVE_RESULT) } else { ExitCode::SUCCESS })
}
