//! `longhaul lab`.

pub(crate) mod cli;
mod compare;
mod inspect;
mod merge;
mod path;
mod plan;
mod run;
mod trace;
mod virtual_time;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use kernel::Privilege;
use scenario::Experiment;

use crate::input::{read_referenced, read_text};
use cli::{LabCommand, LabOptions};

/// Exit status when a run is not valid or its command failed.
const NEGATIVE_RESULT: u8 = 1;

pub(crate) fn run(options: LabOptions) -> anyhow::Result<ExitCode> {
    match options.command {
        LabCommand::Run(options) => run::run(&options),
        LabCommand::Merge(options) => merge::run(&options),
        LabCommand::Compare(options) => compare::run(&options),
        LabCommand::Path(options) => path::run(&options),
        LabCommand::Shell(options) => inspect::shell(&options),
        LabCommand::Status(options) => inspect::status(&options),
        LabCommand::Gc => inspect::gc(),
        LabCommand::Trace(options) => trace::run(&options),
        LabCommand::Virtual(options) => virtual_time::manage(&options),
    }
}

/// Runs the first process of a lab's nodes, which only the lab starts.
pub(crate) fn keep(hosts: Option<&Path>) -> anyhow::Result<ExitCode> {
    kernel::run_keeper(hosts)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the first process of a guest kernel, which only the guest starts.
pub(crate) fn guest(task: &Path) -> anyhow::Result<ExitCode> {
    virtual_time::init(task)
}

/// Gains the privilege to create namespaces, as root or in a new user namespace. Call it before starting threads.
fn gain_privilege() -> anyhow::Result<Privilege> {
    lab::registry::directory();
    let privilege = kernel::gain().context("a lab needs network namespaces")?;
    kernel::tun_available().context("a lab needs /dev/net/tun")?;
    kernel::Shutdown::install().context("cannot handle signals")?;
    kernel::raise_open_files();
    Ok(privilege)
}

/// Path of this binary, which runs the flows and servers in the nodes.
fn own_program() -> anyhow::Result<PathBuf> {
    // The path of the running file: a search by name could find another version in a node or after an upgrade.
    std::env::current_exe().context("cannot find the executable file of this program")
}

fn read_experiment(
    file: &Path,
    set: &[(String, String)],
    variant: Option<&str>,
    repeat: Option<u32>,
) -> anyhow::Result<Experiment> {
    let text = read_text(file)?;
    let options = scenario::Options { overrides: set.to_vec(), variant: variant.map(str::to_owned), repeat };
    scenario::read(file, &text, &options, &read_referenced).map_err(|problems| anyhow::anyhow!(problems.annotated()))
}
