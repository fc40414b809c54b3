//! The `longhaul` command line: parses arguments, runs the command, and reports errors.

mod cc;
mod choose;
mod cli;
mod estimate;
mod evaluate;
mod foreign;
mod generate;
mod habits;
mod history;
mod input;
mod lab;
mod logs;
mod model;
mod named;
mod omit;
mod output;
mod overlay;
mod peer;
mod quantity;
mod record_file;
mod report_command;
mod serve;
mod shape;
mod standard_output;
mod target;
mod test;
mod trace;
mod tune;
mod whole_file;

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command};

/// Exit status of a usage or setup error: options, files, privileges, no connection.
const USAGE_OR_SETUP_ERROR: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(habits::rewritten(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let outcome = match cli.command {
        Command::Serve(options) => serve::run(*options),
        Command::Test(options) => test::run(*options),
        Command::Shape(options) => shape::run(options),
        Command::Cc(options) => cc::run(options),
        Command::Choose(options) => choose::run(&options),
        Command::Estimate(options) => estimate::run(&options),
        Command::Evaluate(options) => evaluate::run(&options),
        Command::History(options) => history::run(&options),
        Command::Lab(options) => lab::run(options),
        Command::LabKeeper { hosts } => lab::keep(hosts.as_deref()),
        Command::LabGuest { task, rest: _ } => lab::guest(&task),
        Command::Model(options) => model::run(&options),
        Command::Overlay(options) => overlay::run(options),
        Command::Trace(options) => trace::run(&options),
        Command::Tune(options) => tune::run(options),
        Command::Report(options) => report_command::run(&options),
        Command::Generate(options) => generate::run(&options),
    };
    match outcome {
        Ok(code) => code,
        // A reader that closes the pipe early (`longhaul test ... | head`) is not an error.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            print_error(&e);
            ExitCode::from(USAGE_OR_SETUP_ERROR)
        }
    }
}

/// Prints the help, the version, or the error of the command line.
fn usage(error: &clap::Error) -> ExitCode {
    match habits::hint(&std::env::args_os().skip(1).collect::<Vec<_>>(), error) {
        // Replaces the suggestion of the parser, which is to pass the option as a value.
        Some(hint) => output::print_message(&format!("error: {hint}")),
        // A closed output is not an error.
        None => drop(error.print()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE_OR_SETUP_ERROR))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|e| e.downcast_ref::<std::io::Error>()).any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

#[allow(clippy::print_stderr, reason = "the one place where an error reaches the user")]
pub(crate) fn print_error(error: &anyhow::Error) {
    // File names and texts of peers and files may contain escape sequences of the terminal.
    eprintln!("longhaul: {}", report::summary::printable_lines(&output::described(error)));
}
