//! `longhaul choose`.

pub(crate) mod cli;
mod contest;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use kernel::Shutdown;
use measure::ClientOptions;
use results::choose::{CHOOSE_SCHEMA, ChooseRecord, ChooseStart};
use results::{Direction, TestPlan, Transport};
use units::Bytes;

use crate::output::{is_standard, json_line, open_until_done, output_name};
use crate::standard_output::standard_output;
use cli::{ChooseOptions, Named};
use contest::Contest;

/// Exit status when no candidate reaches the requested confidence.
const UNDECIDED_STATUS: u8 = 1;

pub(crate) fn run(options: &ChooseOptions) -> anyhow::Result<ExitCode> {
    Shutdown::install().context("cannot handle signals")?;
    let named = options.hosts.iter().map(|h| Named::parse(h)).collect::<anyhow::Result<Vec<_>>>()?;
    for (i, one) in named.iter().enumerate() {
        anyhow::ensure!(!named[..i].contains(one), "{} is listed twice", one.name);
    }
    let mut contest = Contest::open(options, &named)?;
    contest.run(options);
    let (candidates, decision) = contest.close(options);
    let mut records = vec![ChooseRecord::Start(start(options))];
    records.extend(candidates.into_iter().map(ChooseRecord::Candidate));
    records.push(ChooseRecord::Decision(decision.clone()));
    write(options, &records)?;
    let Some(best) = decision.best.as_ref().filter(|_| decision.decided) else {
        return Ok(ExitCode::from(UNDECIDED_STATUS));
    };
    let server = named.iter().find(|n| n.name == *best).map_or(best.as_str(), Named::server);
    options.then.as_ref().map_or(Ok(ExitCode::SUCCESS), |command| run_then(command, server))
}

fn start(options: &ChooseOptions) -> ChooseStart {
    ChooseStart {
        schema: CHOOSE_SCHEMA.to_owned(),
        version: measure::VERSION.to_owned(),
        time_utc: measure::utc_now(),
        direction: direction(options),
        confidence: options.confidence,
        budget_bytes: options.budget.as_u64(),
    }
}

fn write(options: &ChooseOptions, records: &[ChooseRecord]) -> anyhow::Result<()> {
    if let Some(path) = &options.json {
        let mut out = open_until_done(path)?;
        records
            .iter()
            .try_for_each(|r| json_line(&mut out, r))
            .and_then(|()| out.flush())
            .with_context(|| format!("cannot write {}", output_name(path)))?;
    }
    if !is_standard(options.json.as_deref()) {
        report::choose::write_choice(records, &mut standard_output())?;
    }
    Ok(())
}

/// Runs the user's command with the best server as `$1`. The server is never part of the command's text, so it is not
/// parsed.
fn run_then(command: &str, server: &str) -> anyhow::Result<ExitCode> {
    let script = if command.contains("$1") { command.to_owned() } else { format!("{command} \"$1\"") };
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", &script, "longhaul", server])
        .status()
        .context("cannot run the command of --then")?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(128)).unwrap_or(u8::MAX)))
}

fn direction(options: &ChooseOptions) -> Direction {
    if options.reverse { Direction::Down } else { Direction::Up }
}

fn client_options(options: &ChooseOptions, named: &Named) -> anyhow::Result<ClientOptions> {
    let plan = TestPlan {
        transport: Transport::Probe,
        bytes: Some(options.budget.max(Bytes::new(1)).as_u64()),
        ..crate::estimate::plan(direction(options))
    };
    Ok(ClientOptions { bind: named.bind, ..options.peer.client(&named.target, plan)? })
}
