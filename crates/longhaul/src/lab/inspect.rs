//! `longhaul lab shell`, `status` and `gc`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;
use lab::registry;

use super::cli::{ShellOptions, StatusOptions};
use crate::standard_output::standard_output;

pub(crate) fn shell(options: &ShellOptions) -> anyhow::Result<ExitCode> {
    let (entry, node) = registry::find(&options.node, options.lab)?;
    let network = format!("/proc/{}/fd/{}", entry.lab.pid, node.descriptor);
    kernel::join(entry.keeper.pid, Path::new(&network), Some(&node.name))
        .with_context(|| format!("cannot enter node {} of lab {}", node.name, entry.lab.pid))?;
    let mut command = command_or_shell(&options.command);
    let status = command
        .env("LONGHAUL_NODE", &node.name)
        .status()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    Ok(exit_code(status))
}

/// Returns the command, or the user's shell; a single argument with spaces is run by /bin/sh.
pub(super) fn command_or_shell(arguments: &[String]) -> Command {
    let arguments = arguments_or_shell(arguments);
    let mut command = Command::new(arguments.first().map_or("/bin/sh", String::as_str));
    command.args(arguments.iter().skip(1));
    command
}

pub(super) fn arguments_or_shell(arguments: &[String]) -> Vec<String> {
    match arguments {
        [] => vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())],
        [line] if line.contains(char::is_whitespace) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()],
        arguments => arguments.to_vec(),
    }
}

/// Converts the status of a command like a shell: 128 plus the number of the signal that ended it.
pub(super) fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

pub(crate) fn status(options: &StatusOptions) -> anyhow::Result<ExitCode> {
    let mut out = standard_output();
    let labs = registry::labs()?;
    for entry in &labs {
        if options.json {
            serde_json::to_writer(&mut out, entry)?;
            writeln!(out)?;
            continue;
        }
        let nodes: Vec<&str> = entry.nodes.iter().map(|n| n.name.as_str()).collect();
        let state = if entry.lab.lives() { "running" } else { "ended abnormally; clean up with `longhaul lab gc`" };
        writeln!(out, "{} {} ({state}): {}", entry.lab.pid, entry.name, nodes.join(", "))?;
        writeln!(out, "    {}", entry.directory.display())?;
    }
    if labs.is_empty() && !options.json {
        writeln!(out, "no lab is running")?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn gc() -> anyhow::Result<ExitCode> {
    let done = registry::collect()?;
    let mut out = standard_output();
    for line in &done {
        writeln!(out, "{line}")?;
    }
    if done.is_empty() {
        writeln!(out, "nothing to remove")?;
    }
    Ok(ExitCode::SUCCESS)
}
