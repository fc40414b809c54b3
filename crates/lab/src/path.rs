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
use crate::verdict::Doubts;
use crate::{LabError, topology};

/// How long a command that was told to end (Ctrl-C) may take before it is ended.
const GRACE: Duration = Duration::from_secs(5);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What runs over the path.
#[derive(Debug)]
pub struct PathOptions {
    /// The longhaul binary.
    pub program: PathBuf,
    /// Program and arguments at the near end; shares the terminal.
    pub command: Vec<String>,
    /// Shell command at the far end instead of `longhaul serve`.
    pub far: Option<String>,
    /// Folder for logs and captures.
    pub folder: PathBuf,
}

/// Runs a command at the first node of a scenario of two nodes and one link; gives its status and what the link did.
///
/// # Errors
/// The path could not be set up or the command not started.
pub fn run_path(
    scenario: &Scenario,
    options: &PathOptions,
    observe: &mut dyn FnMut(&LabRecord),
    interrupted: &dyn Fn() -> usize,
) -> Result<(ExitStatus, LabRunEnd), LabError> {
    let memory = kernel::available_memory() / 2;
    let mut topology = topology::build(scenario, scenario.seed, memory, &options.folder)?;
    let keeper = programs::keeper(&options.program, scenario, &options.folder)?;
    let captures = std::mem::take(&mut topology.captures);
    let engine = Engine::start(topology.plan, 1).map_err(LabError::system("starting the engine"))?;
    let mut truth = Truth::new(0, engine.workers(), &topology.wires);
    let [near, far] = topology.hosts.as_slice() else {
        return Err(LabError::Unknown("a path has two ends".to_owned()));
    };
    let (here, there) = (scenario.nodes[0].ipv4.to_string(), scenario.nodes[1].ipv4.to_string());
    let _entry = Registration::new(&scenario.name, (&options.folder, true), keeper.pid(), &topology.hosts)?;
    let mut far_process = match &options.far {
        None => programs::start_server(&keeper, far, &options.program, &options.folder)?,
        Some(line) => {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", line]).env("LONGHAUL_PEER", &here);
            Running::start(&keeper, far, command, &options.folder.join("far.log"))?
        }
    };
    engine.begin(kernel::now());
    let mut words = options.command.iter();
    let mut command = Command::new(words.next().map_or("", String::as_str));
    command.args(words).env("LONGHAUL_PEER", &there).stdin(Stdio::inherit());
    let mut child = Running::in_terminal(&keeper, near, command)?;
    let mut told = None;
    let status = loop {
        if let Some(status) = child.status() {
            break status;
        }
        while let Ok(report) = engine.reports().recv_timeout(LOOK_EVERY) {
            truth.handle(report).iter().for_each(&mut *observe);
        }
        if interrupted() > 0 {
            let since = *told.get_or_insert_with(kernel::now);
            if kernel::now().saturating_since(since) > GRACE {
                child.kill();
            } else if interrupted() > 1 {
                child.terminate();
            }
        }
    };
    let mut doubts = Doubts::default();
    if let (Some(failure), Some(_)) = (far_process.failure_of_ended(), &options.far) {
        doubts.add(format!("the far command ended before the near one: {failure}"));
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
    truth.judge(&scenario.validity, &mut doubts);
    let end = LabRunEnd { full_sockets: topology::full_sockets(&topology.hosts), ..truth.end(doubts.verdict()) };
    observe(&LabRecord::RunEnd(end.clone()));
    Ok((status, end))
}
