//! One run of a scenario: set up, start, follow, end, judge.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use kernel::NamespaceInit;
use results::lab::{LabRecord, LabRunEnd, ProgramEnd, Transfer};
use scenario::Scenario;
use units::Instant;

use crate::engine::{Engine, Report};
use crate::overlay::{self, Members};
use crate::programs::{self, Programs, Running};
use crate::registry::Registration;
use crate::topology::{self, Host};
use crate::truth::Truth;
use crate::verdict::ValidityChecks;
use crate::{LabError, flow, mice, traffic, transfers};

/// Time for flows to exchange their results after the end of the run, in addition to round trips: at 15 % loss, timers
/// double a few times.
const RESULTS_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum delay of a flow's start, unless a round trip is longer; a later flow is not the one in the experiment file.
const START_DELAY_MAX: Duration = Duration::from_millis(100);

/// Interval at which the CPU waits of the flows' processes are sampled.
const CPU_WAIT_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which the run checks for an interrupt by the user.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time from the end of the preparations to the start, so that the start is in the future for all processes.
const START_MARGIN: Duration = Duration::from_millis(200);

/// Options of a run besides the scenario.
#[derive(Debug)]
pub struct RunOptions {
    /// The longhaul binary, for flows and servers.
    pub program: PathBuf,
    /// Directory for the files of this run.
    pub directory: PathBuf,
    /// Index of the run.
    pub run: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Number of threads of the engine.
    pub workers: usize,
    /// Maximum number of bytes that the links may hold.
    pub memory: u64,
}

/// An action at a planned time of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimedAction {
    Flow(usize),
    Start(usize),
    Stop(usize),
}

struct Run<'a> {
    scenario: &'a Scenario,
    options: &'a RunOptions,
    observe: &'a mut dyn FnMut(&LabRecord),
    hosts: Vec<Host>,
    keeper: NamespaceInit,
    engine: Option<Engine>,
    truth: Truth,
    checks: ValidityChecks,
    servers: Vec<Running>,
    members: Option<Members>,
    flows: Vec<Option<Running>>,
    programs: Programs,
    transfers: Receiver<Transfer>,
    outcomes: transfers::Outcomes,
}

/// Makes one run. Calls `observe` with each record as soon as it exists, including the last one.
///
/// # Errors
/// The run could not be set up. Later failures are in the verdict.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&LabRecord),
    interrupted: &dyn Fn() -> usize,
) -> Result<LabRunEnd, LabError> {
    std::fs::create_dir_all(&options.directory).map_err(LabError::file(&options.directory))?;
    let mut topology = topology::build(scenario, options.seed, options.memory, &options.directory)?;
    let keeper = programs::keeper(&options.program, scenario, &options.directory)?;
    let _entry = Registration::new(&scenario.name, (&options.directory, false), keeper.pid(), &topology.hosts)?;
    let captures = std::mem::take(&mut topology.captures);
    let workers = options.workers;
    let engine = Engine::start(topology.plan, workers).map_err(LabError::system("starting the engine"))?;
    let (send, transfers) = mpsc::channel();
    let mut run = Run {
        scenario,
        options,
        observe,
        truth: Truth::new(options.run, engine.workers(), &topology.wires),
        hosts: topology.hosts,
        programs: Programs::new(scenario),
        keeper,
        engine: Some(engine),
        checks: ValidityChecks::default(),
        servers: Vec::new(),
        members: None,
        flows: scenario.flows.iter().map(|_| None).collect(),
        transfers,
        outcomes: transfers::Outcomes::new(scenario),
    };
    let end = run.go(send, interrupted);
    drop(run);
    for (link, capture) in captures {
        match capture.finish() {
            Ok(0) => {}
            Ok(missing) => tracing::warn!("{link}.pcapng lacks {missing} packets because the disk is too slow"),
            Err(e) => tracing::warn!("{link}.pcapng: {e}"),
        }
    }
    end
}

impl Run<'_> {
    fn go(&mut self, transfers: Sender<Transfer>, interrupted: &dyn Fn() -> usize) -> Result<LabRunEnd, LabError> {
        self.start_servers()?;
        let run_start = self.plan_start();
        let drops = topology::device_drops(&self.hosts)?;
        if let Some(engine) = &self.engine {
            engine.start_run(run_start);
        }
        let (number, seed) = (self.options.run, self.options.seed);
        let mut streams = Vec::new();
        for stream in 0..self.scenario.mice.len() {
            let transfers = transfers.clone();
            streams.push(mice::Stream::start(
                self.scenario,
                stream,
                &self.hosts,
                (number, seed),
                run_start,
                transfers,
            )?);
        }
        drop(transfers);
        let mut actions = self.actions(run_start);
        let end = run_start + self.scenario.duration;
        let stopped = self.follow(run_start, end, &mut actions, interrupted);
        // The last interval ends with the run; its report may still be in the channel.
        self.take_reports(kernel::now() + POLL_INTERVAL);
        let after = topology::device_drops(&self.hosts)?;
        self.finish(interrupted);
        streams.into_iter().for_each(mice::Stream::end);
        self.take_transfers();
        for (wire, packets) in after {
            let before = drops.iter().find(|(w, _)| *w == wire).map_or(0, |(_, n)| *n);
            self.truth.add_device_drops(wire, packets.saturating_sub(before));
        }
        Ok(self.conclude(run_start, stopped))
    }

    /// Starts one server in each node that receives a flow or answers probes, and waits until it listens; then starts
    /// the programs that precede the run.
    fn start_servers(&mut self) -> Result<(), LabError> {
        for node in receivers(self.scenario) {
            let host = &self.hosts[node];
            let server = programs::start_server(&self.keeper, host, &self.options.program, &self.options.directory)?;
            self.servers.push(server);
        }
        if let Some(overlay) = &self.scenario.overlay {
            let (program, directory) = (&self.options.program, &self.options.directory);
            self.members = Some(Members::start(overlay, self.scenario, &self.keeper, &self.hosts, program, directory)?);
        }
        for number in 0..self.scenario.programs.len() {
            if self.scenario.programs[number].start.is_none() {
                self.start_program(number);
            }
        }
        Ok(())
    }

    /// The start of the run: late enough for the first flows to complete their negotiation with the servers.
    fn plan_start(&self) -> Instant {
        let flows = self.scenario.flows.iter();
        let wait = flows.map(|f| flow::lead(self.scenario, f).saturating_sub(f.start)).max().unwrap_or_default();
        kernel::now() + START_MARGIN + wait
    }

    /// The timed actions, sorted by time.
    fn actions(&self, run_start: Instant) -> VecDeque<(Instant, TimedAction)> {
        let mut actions = Vec::new();
        for (number, f) in self.scenario.flows.iter().enumerate() {
            actions.push((run_start + f.start - flow::lead(self.scenario, f), TimedAction::Flow(number)));
        }
        for (number, p) in self.scenario.programs.iter().enumerate() {
            actions.extend(p.start.map(|at| (run_start + at, TimedAction::Start(number))));
            actions.extend(p.stop.map(|at| (run_start + at, TimedAction::Stop(number))));
        }
        actions.sort_by_key(|(at, _)| *at);
        actions.into()
    }

    /// Follows the run until its end; returns true if the user interrupted it.
    fn follow(
        &mut self,
        run_start: Instant,
        end: Instant,
        actions: &mut VecDeque<(Instant, TimedAction)>,
        interrupted: &dyn Fn() -> usize,
    ) -> bool {
        let mut next_look = run_start;
        loop {
            let now = kernel::now();
            while let Some((_, action)) = actions.pop_front_if(|(at, _)| *at <= now) {
                match action {
                    TimedAction::Flow(number) => self.start_flow(number, run_start),
                    TimedAction::Start(number) => self.start_program(number),
                    TimedAction::Stop(number) => self.programs.stop(number),
                }
            }
            if now >= end {
                return false;
            }
            if interrupted() > 0 {
                return true;
            }
            self.programs.poll();
            if now >= next_look {
                next_look = now + CPU_WAIT_INTERVAL;
                self.servers.iter_mut().chain(self.flows.iter_mut().flatten()).for_each(Running::sample_cpu_wait);
            }
            self.take_transfers();
            let next = actions.front().map_or(end, |(at, _)| (*at).min(end)).min(now + POLL_INTERVAL);
            self.take_reports(next);
            if self.engine.as_ref().is_some_and(Engine::failed) {
                return false;
            }
        }
    }

    /// Handles the reports of the engine until a time.
    fn take_reports(&mut self, until: Instant) {
        while let Some(engine) = &self.engine {
            match engine.reports().recv_timeout(until.saturating_since(kernel::now())) {
                Ok(report) => self.take_report(report),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    kernel::sleep_for(until.saturating_since(kernel::now()));
                    return;
                }
            }
        }
    }

    fn take_report(&mut self, report: Report) {
        let records = self.truth.handle_until(report, self.scenario.duration);
        records.iter().for_each(|r| (self.observe)(r));
    }

    fn take_transfers(&mut self) {
        while let Ok(transfer) = self.transfers.try_recv() {
            self.outcomes.add(&transfer);
            (self.observe)(&LabRecord::Transfer(transfer));
        }
    }

    fn start_flow(&mut self, number: usize, run_start: Instant) {
        let f = &self.scenario.flows[number];
        let directory = &self.options.directory;
        let mut command = Command::new(&self.options.program);
        command.args(flow::arguments(self.scenario, f));
        command.args(flow::run_arguments(
            directory,
            f,
            run_start + f.start,
            self.options.seed.wrapping_add(number as u64),
        ));
        let log = directory.join(format!("flow-{}.log", f.name));
        match Running::start(&self.keeper, &self.hosts[f.from], command, &log) {
            Ok(running) => self.flows[number] = Some(running),
            Err(e) => self.checks.add(format!("flow {}: {e}", f.name)),
        }
    }

    fn start_program(&mut self, number: usize) {
        let node = &self.hosts[self.scenario.programs[number].node];
        if let Err(e) = self.programs.start(number, &self.keeper, node, self.scenario, &self.options.directory) {
            self.checks.add(format!("program {}: {e}", self.scenario.programs[number].name));
        }
    }

    /// Waits for the flows to exchange their results, then ends programs and all other processes.
    fn finish(&mut self, interrupted: &dyn Fn() -> usize) {
        let longest = self.scenario.flows.iter().map(|f| flow::round_trip(self.scenario, f)).max().unwrap_or_default();
        if interrupted() > 0 {
            self.flows.iter().flatten().for_each(Running::interrupt);
        }
        let give_up = kernel::now() + RESULTS_TIMEOUT + longest * 20;
        while kernel::now() < give_up && interrupted() < 2 && self.flows.iter_mut().flatten().any(Running::runs) {
            self.take_reports(kernel::now() + POLL_INTERVAL);
        }
        self.programs.end_all();
        self.servers.iter_mut().chain(self.flows.iter_mut().flatten()).for_each(Running::end);
        // The members must end while they still have links; otherwise their event logs would report failed links.
        self.members = None;
        if let Some(engine) = self.engine.take() {
            match engine.stop() {
                Ok(reports) => reports.into_iter().for_each(|r| self.take_report(r)),
                Err(e) => self.checks.add(format!("the engine failed: {e}")),
            }
        }
    }

    /// Reads the records of the flows and determines the verdict.
    fn conclude(&mut self, run_start: Instant, interrupted: bool) -> LabRunEnd {
        let run = self.options.run;
        let (mut totals, mut flows) = (Vec::new(), Vec::new());
        for (f, running) in self.scenario.flows.iter().zip(&mut self.flows) {
            let failure = running.as_mut().and_then(Running::failure);
            let outcome = flow::read(f, run_start, run, &self.options.directory, failure);
            flows.push(traffic::received(&outcome.intervals));
            outcome.intervals.into_iter().for_each(|i| (self.observe)(&LabRecord::Flow(i)));
            if let (Some(failure), false) = (&outcome.totals.failure, interrupted) {
                self.checks.add(format!("flow {}: {failure}", f.name));
            }
            self.checks.cut_window(&f.name, outcome.cut_window);
            self.checks.started_late(&f.name, outcome.late, START_DELAY_MAX.max(flow::round_trip(self.scenario, f)));
            totals.push(outcome.totals);
        }
        totals.extend(self.outcomes.totals());
        let programs: Vec<ProgramEnd> = self.programs.ends(self.scenario);
        for program in programs.iter().filter(|p| p.failed && !interrupted) {
            self.checks.add(format!(
                "program {} in node {} ended with status {}",
                program.program, program.node, program.status
            ));
        }
        for (f, running) in self.scenario.flows.iter().zip(&self.flows).filter_map(|(f, r)| Some((f, r.as_ref()?))) {
            self.checks.starved(&format!("flow {}", f.name), running.starved(), self.scenario.duration);
        }
        for (server, node) in self.servers.iter().zip(receivers(self.scenario)) {
            let place = format!("the server in {}", self.scenario.nodes[node].name);
            self.checks.starved(&place, server.starved(), self.scenario.duration);
        }
        self.truth.judge(&self.scenario.validity, &mut self.checks);
        let links = self.truth.totals();
        let spans = (self.scenario.duration, self.scenario.record.interval);
        let zero = utc_at(run_start);
        let overlay = self.scenario.overlay.as_ref();
        let events = overlay.map(|o| overlay::read_events(o, self.scenario, &self.options.directory, zero));
        let stalls = events.iter().flat_map(|t| &t.stalls);
        stalls.for_each(|(member, seconds)| self.checks.stalled(member, *seconds));
        let end = LabRunEnd {
            run,
            verdict: std::mem::take(&mut self.checks).verdict(),
            interrupted,
            start_utc_s: Some(zero),
            route_changes: events.map(|t| t.routes).unwrap_or_default(),
            traffic: traffic::traffic(&flows, &totals, &links, spans),
            links,
            flows: totals,
            programs,
            full_sockets: topology::full_sockets(&self.hosts),
            busiest_worker: self.truth.busiest_worker(),
            stolen_cpu: self.truth.stolen_cpu(),
            lateness: self.truth.lateness(),
        };
        (self.observe)(&LabRecord::RunEnd(end.clone()));
        end
    }
}

/// The wall clock time of an instant, in seconds UTC.
fn utc_at(instant: Instant) -> f64 {
    let (seconds, ns) = kernel::utc_seconds();
    seconds as f64 + f64::from(ns) / 1e9 - kernel::now().nanos_since(instant) as f64 / 1e9
}

/// The nodes that receive flows or answer probes, without duplicates.
fn receivers(scenario: &Scenario) -> Vec<usize> {
    let flows = scenario.flows.iter().map(|f| f.to);
    let mut nodes: Vec<usize> = flows.chain(scenario.estimates.iter().map(|e| e.to)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
