//! Processes in nodes: servers, the tests of flows, and the programs of the experiment.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use kernel::{NamespaceInit, RunQueueWait, Spawn};
use results::lab::ProgramEnd;
use scenario::Scenario;

use crate::flow::PORT;
use crate::topology::{Host, uses_ipv6};
use crate::{LabError, estimates};

/// A wait status of exit code 255, for a process whose status is unknown.
const STATUS_UNKNOWN: i32 = 255 << 8;

// signal(7)
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Time within which a server must listen.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a program may take to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(3);

/// Command of longhaul that runs the init process of the nodes' namespace.
pub(crate) const KEEPER: &str = "lab-keeper";
/// File in the lab's directory that the nodes see as /etc/hosts.
pub(crate) const HOSTS: &str = "hosts";

/// Starts the init process of all processes of a run, with a hosts file that names all nodes.
pub(crate) fn keeper(program: &Path, scenario: &Scenario, directory: &Path) -> Result<NamespaceInit, LabError> {
    let mut text = String::from("127.0.0.1 localhost\n");
    if uses_ipv6(scenario) {
        text += "::1 localhost\n";
    }
    for node in &scenario.nodes {
        let _ = writeln!(text, "{} {}", node.ipv4, node.name);
        if uses_ipv6(scenario) {
            let _ = writeln!(text, "{} {}", node.ipv6, node.name);
        }
    }
    let hosts = directory.join(HOSTS);
    fs::write(&hosts, text).map_err(LabError::file(&hosts))?;
    let hosts = hosts.canonicalize().map_err(LabError::file(&hosts))?;
    NamespaceInit::start(program, &[KEEPER, &hosts.to_string_lossy()]).map_err(LabError::kernel("the nodes' processes"))
}

/// A process in a node.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    ended: Option<ExitStatus>,
    /// Whether the lab killed it.
    cut_off: bool,
    starved: RunQueueWait,
    log: PathBuf,
}

impl Running {
    /// Starts a command in a node; its output goes to `log`.
    pub(crate) fn start(
        keeper: &NamespaceInit,
        host: &Host,
        mut command: Command,
        log: &Path,
    ) -> Result<Self, LabError> {
        let file = File::create(log).map_err(LabError::file(log))?;
        let again = file.try_clone().map_err(LabError::file(log))?;
        command.stdin(Stdio::null()).stdout(file).stderr(again);
        Self::spawn(keeper, host, command, false, log)
    }

    /// Starts a command in a node with this process's terminal.
    pub(crate) fn in_terminal(keeper: &NamespaceInit, host: &Host, command: Command) -> Result<Self, LabError> {
        Self::spawn(keeper, host, command, true, Path::new(""))
    }

    fn spawn(
        keeper: &NamespaceInit,
        host: &Host,
        mut command: Command,
        share_terminal: bool,
        log: &Path,
    ) -> Result<Self, LabError> {
        command.env("LONGHAUL_NODE", &host.name);
        // The history of paths is disabled: the same addresses belong to other paths in the next emulated network.
        command.env("LONGHAUL_HISTORY", "off");
        let name = command.get_program().to_string_lossy().into_owned();
        let spawn = Spawn { network: &host.namespace, hostname: Some(host.name.clone()), share_terminal, command };
        let child = keeper.spawn(spawn).map_err(LabError::kernel(format!("{name} in node {}", host.name)))?;
        Ok(Self { child, ended: None, cut_off: false, starved: RunQueueWait::default(), log: log.to_owned() })
    }

    /// Exit status; `None` while it runs.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        if self.runs() { None } else { self.ended }
    }

    /// Description of the failure of a process that has ended; `None` if it runs or succeeded.
    pub(crate) fn failure_of_ended(&mut self) -> Option<String> {
        if self.runs() { None } else { self.failure() }
    }

    /// Whether it runs.
    pub(crate) fn runs(&mut self) -> bool {
        if self.ended.is_none() {
            // A child that cannot be waited for has ended, with an unknown status.
            self.ended = self.child.try_wait().unwrap_or_else(|_| Some(ExitStatus::from_raw(STATUS_UNKNOWN)));
        }
        self.ended.is_none()
    }

    /// Kills the process if it runs, and takes its status.
    pub(crate) fn end(&mut self) {
        if self.runs() {
            self.kill();
            // A killed process ends without further delay, so this wait is short.
            self.ended = self.child.wait().ok();
            self.cut_off = true;
        }
    }

    /// Description of the failure, also if the process did not end by itself.
    pub(crate) fn failure(&mut self) -> Option<String> {
        if self.runs() || self.cut_off {
            return Some("the process did not end in time".to_owned());
        }
        let status = self.ended.filter(|s| !s.success())?;
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let last = text.lines().rev().find(|l| !l.trim().is_empty()).map(str::to_owned);
        Some(last.unwrap_or_else(|| status_text(status)))
    }

    /// Records how long the process has waited for a CPU; must be called regularly.
    pub(crate) fn sample_cpu_wait(&mut self) {
        if self.runs() {
            self.starved.sample(self.child.id());
        }
    }

    /// The longest time that one of its threads waited for a CPU since the first sample.
    pub(crate) fn starved(&self) -> Duration {
        self.starved.longest()
    }

    /// Requests it to finish early with its results (SIGINT).
    pub(crate) fn interrupt(&self) {
        // A signal to a process that has just ended fails, which does no harm.
        let _ = kernel::signal_group(&self.child, SIGINT);
    }

    pub(crate) fn terminate(&self) {
        let _ = kernel::signal_group(&self.child, SIGTERM);
    }

    pub(crate) fn kill(&self) {
        let _ = kernel::signal_group(&self.child, SIGKILL);
    }
}

fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// Starts `longhaul serve` in a node and waits until it listens.
pub(crate) fn start_server(
    keeper: &NamespaceInit,
    host: &Host,
    program: &Path,
    directory: &Path,
) -> Result<Running, LabError> {
    let log = directory.join(format!("serve-{}.log", host.name));
    let mut command = Command::new(program);
    command.args(["serve", "--port", &PORT.to_string(), "--max-duration", "24h"]).env("NO_COLOR", "1");
    command.args(["--max-sessions", "1024", "--max-sessions-per-address", "1024"]);
    // The user of the server is the user who runs the experiment, so limits are not needed.
    command.args(["--max-memory", "1TB", "--large-windows"]);
    let mut server = Running::start(keeper, host, command, &log)?;
    let give_up = kernel::now() + SERVER_START_TIMEOUT;
    loop {
        let text = fs::read_to_string(&log).unwrap_or_default();
        if text.contains("listening") {
            return Ok(server);
        }
        if !server.runs() || kernel::now() > give_up {
            return Err(LabError::Server { node: host.name.clone(), detail: text.trim().to_owned() });
        }
        kernel::sleep_for(Duration::from_millis(5));
    }
}

/// The programs of an experiment.
pub(crate) struct Programs(Vec<Slot>);

#[derive(Default)]
struct Slot {
    running: Option<Running>,
    /// Whether the lab ended it, so that its exit status does not count.
    stopped: bool,
}

impl Programs {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self(scenario.programs.iter().map(|_| Slot::default()).collect())
    }

    pub(crate) fn start(
        &mut self,
        number: usize,
        keeper: &NamespaceInit,
        host: &Host,
        scenario: &Scenario,
        directory: &Path,
    ) -> Result<(), LabError> {
        let program = &scenario.programs[number];
        let mut arguments = program.command.iter();
        let mut command = Command::new(arguments.next().map_or("", String::as_str));
        command.args(arguments).envs(&program.env);
        for node in &scenario.nodes {
            command.env(format!("LONGHAUL_ADDRESS_{}", variable(&node.name)), node.ipv4.to_string());
        }
        let (out, err) =
            (directory.join(format!("{}.out", program.name)), directory.join(format!("{}.err", program.name)));
        command.stdin(Stdio::null());
        command.stdout(File::create(&out).map_err(LabError::file(&out))?);
        command.stderr(File::create(&err).map_err(LabError::file(&err))?);
        self.0[number].running = Some(Running::spawn(keeper, host, command, false, &err)?);
        Ok(())
    }

    /// Records which programs have ended.
    pub(crate) fn poll(&mut self) {
        self.0.iter_mut().filter_map(|s| s.running.as_mut()).for_each(|r| {
            r.runs();
        });
    }

    /// Requests a program to end (SIGTERM).
    pub(crate) fn stop(&mut self, number: usize) {
        let slot = &mut self.0[number];
        if let Some(running) = &mut slot.running
            && running.runs()
        {
            slot.stopped = true;
            running.terminate();
        }
    }

    /// Ends all programs: SIGTERM first, then SIGKILL.
    pub(crate) fn end_all(&mut self) {
        (0..self.0.len()).for_each(|n| self.stop(n));
        let give_up = kernel::now() + TERM_TIMEOUT;
        let mut running = || self.0.iter_mut().filter_map(|s| s.running.as_mut()).any(Running::runs);
        while running() && kernel::now() < give_up {
            kernel::sleep_for(Duration::from_millis(10));
        }
        for running in self.0.iter_mut().filter_map(|s| s.running.as_mut()).filter_map(|r| r.runs().then_some(r)) {
            running.kill();
        }
    }

    pub(crate) fn ends(&mut self, scenario: &Scenario) -> Vec<ProgramEnd> {
        let end = |(slot, program): (&mut Slot, &scenario::Program)| {
            let status = slot.running.as_mut().and_then(|r| {
                r.runs();
                r.ended
            });
            ProgramEnd {
                program: program.name.clone(),
                node: scenario.nodes[program.node].name.clone(),
                failed: !slot.stopped
                    && !status.is_some_and(|s| s.success())
                    && !estimates::is_without_value(scenario, &program.name, status.and_then(|s| s.code())),
                status: match (slot.stopped, status) {
                    (true, _) => "stopped by the lab".to_owned(),
                    (false, Some(status)) => status_text(status),
                    (false, None) => "not started".to_owned(),
                },
            }
        };
        self.0.iter_mut().zip(&scenario.programs).map(end).collect()
    }
}

/// A node's name as part of the name of an environment variable.
fn variable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}
