//! One emulated path around any command: `longhaul lab path -- COMMAND`.

use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use results::lab::{LabRecord, LabRunEnd};
use scenario::Scenario;

use crate::engine::Engine;
use crate::programs::{self, Running};
use crate::registry::Registration;
use crate::truth::Truth;
use crate::verdict::ValidityChecks;
use crate::{LabError, topology};

/// Time that a command may take to end after a request (Ctrl-C) before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(5);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The commands to run over the path.
#[derive(Debug)]
pub struct PathOptions {
    /// The longhaul binary.
    pub program: PathBuf,
    /// Program and arguments at the near end; it uses the terminal.
    pub command: Vec<String>,
    /// Shell command at the far end; `None`: `longhaul serve`.
    pub far: Option<String>,
    /// Directory for logs and captures.
    pub directory: PathBuf,
}

/// Runs a command at the first node of a scenario of two nodes and one link. Returns the exit status of the command and
/// the totals of the link.
///
/// # Errors
/// The path could not be set up, or the command could not be started.
pub fn run_path(
    scenario: &Scenario,
    options: &PathOptions,
    observe: &mut dyn FnMut(&LabRecord),
    interrupted: &dyn Fn() -> usize,
) -> Result<(ExitStatus, LabRunEnd), LabError> {
    let memory = kernel::available_memory() / 2;
    let mut topology = topology::build(scenario, scenario.seed, memory, &options.directory)?;
    let keeper = programs::keeper(&options.program, scenario, &options.directory)?;
    let captures = std::mem::take(&mut topology.captures);
    let engine = Engine::start(topology.plan, 1).map_err(LabError::system("starting the engine"))?;
    let mut truth = Truth::new(0, engine.workers(), &topology.wires);
    let [near, far] = topology.hosts.as_slice() else {
        return Err(LabError::Unknown("a path must have exactly two nodes".to_owned()));
    };
    let (here, there) = (scenario.nodes[0].ipv4.to_string(), scenario.nodes[1].ipv4.to_string());
    let _entry = Registration::new(&scenario.name, (&options.directory, true), keeper.pid(), &topology.hosts)?;
    let mut far_process = match &options.far {
        None => programs::start_server(&keeper, far, &options.program, &options.directory)?,
        Some(line) => {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", line]).env("LONGHAUL_PEER", &here);
            Running::start(&keeper, far, command, &options.directory.join("far.log"))?
        }
    };
    engine.start_run(kernel::now());
    let mut arguments = options.command.iter();
    let mut command = Command::new(arguments.next().map_or("", String::as_str));
    command.args(arguments).env("LONGHAUL_PEER", &there).stdin(Stdio::inherit());
    let mut child = Running::in_terminal(&keeper, near, command)?;
    let mut interrupted_at = None;
    let status = loop {
        if let Some(status) = child.status() {
            break status;
        }
        while let Ok(report) = engine.reports().recv_timeout(POLL_INTERVAL) {
            truth.handle(report).iter().for_each(&mut *observe);
        }
        if interrupted() > 0 {
            let since = *interrupted_at.get_or_insert_with(kernel::now);
            if kernel::now().saturating_since(since) > END_TIMEOUT {
                child.kill();
            } else if interrupted() > 1 {
                child.terminate();
            }
        }
    };
    let mut checks = ValidityChecks::default();
    if let (Some(failure), Some(_)) = (far_process.failure_of_ended(), &options.far) {
        checks.add(format!("the far command ended before the near one: {failure}"));
    }
    for (wire, packets) in topology::device_drops(&topology.hosts)? {
        truth.add_device_drops(wire, packets);
    }
    for report in engine.stop().map_err(LabError::system("the engine failed"))? {
        truth.handle(report).iter().for_each(&mut *observe);
    }
    drop(keeper);
    for (link, capture) in captures {
        capture.finish().map_err(LabError::system(format!("{link}.pcapng")))?;
    }
    truth.judge(&scenario.validity, &mut checks);
    let end = LabRunEnd { full_sockets: topology::full_sockets(&topology.hosts), ..truth.end(checks.verdict()) };
    observe(&LabRecord::RunEnd(end.clone()));
    Ok((status, end))
}
