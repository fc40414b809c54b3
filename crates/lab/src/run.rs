//! One run of a scenario: build, begin, follow, end, judge.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use kernel::Keeper;
use results::lab::{LabRecord, LabRunEnd, ProgramEnd, Transfer};
use scenario::Scenario;
use units::Instant;

use crate::engine::{Engine, Report};
use crate::overlay::{self, Members};
use crate::programs::{self, Programs, Running};
use crate::registry::Registration;
use crate::topology::{self, Host};
use crate::truth::Truth;
use crate::verdict::Doubts;
use crate::{LabError, flow, mice, traffic, transfers};

/// How long flows may take after the end of the run to exchange their results, besides round trips: where 15 % are lost, timers double a few times.
const FINISH: Duration = Duration::from_secs(60);

/// A flow that begins later than this, and than a round trip, is not the flow that was asked for.
const LATE: Duration = Duration::from_millis(100);

/// How often it is looked how long the flows' processes waited for a CPU.
const LOOK_FOR_STARVATION: Duration = Duration::from_millis(250);

/// How often the user's wish to stop is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time between all being ready and the begin, so that the begin is in the future for everyone.
const BREATH: Duration = Duration::from_millis(200);

/// What a run needs to know besides the scenario.
#[derive(Debug)]
pub struct RunOptions {
    /// The longhaul binary, for flows and servers.
    pub program: PathBuf,
    /// Folder for what this run writes.
    pub folder: PathBuf,
    /// Number of the run.
    pub run: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Threads of the engine.
    pub workers: usize,
    /// Most bytes that the links may hold.
    pub memory: u64,
}

/// What shall happen at some time of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Flow(usize),
    Start(usize),
    Stop(usize),
}

struct Run<'a> {
    scenario: &'a Scenario,
    options: &'a RunOptions,
    observe: &'a mut dyn FnMut(&LabRecord),
    hosts: Vec<Host>,
    keeper: Keeper,
    engine: Option<Engine>,
    truth: Truth,
    doubts: Doubts,
    servers: Vec<Running>,
    members: Option<Members>,
    flows: Vec<Option<Running>>,
    programs: Programs,
    transfers: Receiver<Transfer>,
    outcomes: transfers::Outcomes,
}

/// Makes one run: gives `observe` each record as it comes, the last one included.
///
/// # Errors
/// It could not be set up. What goes wrong later is in the verdict.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&LabRecord),
    interrupted: &dyn Fn() -> usize,
) -> Result<LabRunEnd, LabError> {
    std::fs::create_dir_all(&options.folder).map_err(LabError::file(&options.folder))?;
    let mut topology = topology::build(scenario, options.seed, options.memory, &options.folder)?;
    let keeper = programs::keeper(&options.program, scenario, &options.folder)?;
    let _entry = Registration::new(&scenario.name, (&options.folder, false), keeper.pid(), &topology.hosts)?;
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
        doubts: Doubts::default(),
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
            Ok(missing) => tracing::warn!("{link}.pcapng lacks {missing} packets: the disk is too slow"),
            Err(e) => tracing::warn!("{link}.pcapng: {e}"),
        }
    }
    end
}

impl Run<'_> {
    fn go(&mut self, transfers: Sender<Transfer>, interrupted: &dyn Fn() -> usize) -> Result<LabRunEnd, LabError> {
        self.start_servers()?;
        let began = self.plan_begin();
        let drops = topology::device_drops(&self.hosts)?;
        if let Some(engine) = &self.engine {
            engine.begin(began);
        }
        let (number, seed) = (self.options.run, self.options.seed);
        let mut streams = Vec::new();
        for stream in 0..self.scenario.mice.len() {
            let transfers = transfers.clone();
            streams.push(mice::Stream::start(self.scenario, stream, &self.hosts, (number, seed), began, transfers)?);
        }
        drop(transfers);
        let mut acts = self.acts(began);
        let end = began + self.scenario.duration;
        let stopped = self.follow(began, end, &mut acts, interrupted);
        // The last interval ends with the run; its report is under way.
        self.take_reports(kernel::now() + LOOK_EVERY);
        let after = topology::device_drops(&self.hosts)?;
        self.finish(interrupted);
        streams.into_iter().for_each(mice::Stream::end);
        self.take_transfers();
        for (wire, packets) in after {
            let before = drops.iter().find(|(w, _)| *w == wire).map_or(0, |(_, n)| *n);
            self.truth.add_device_drops(wire, packets.saturating_sub(before));
        }
        Ok(self.conclude(began, stopped))
    }

    /// One server in each node that receives a flow, ready when this returns; then the programs that come first.
    fn start_servers(&mut self) -> Result<(), LabError> {
        for node in receivers(self.scenario) {
            let host = &self.hosts[node];
            let server = programs::start_server(&self.keeper, host, &self.options.program, &self.options.folder)?;
            self.servers.push(server);
        }
        if let Some(overlay) = &self.scenario.overlay {
            let (program, folder) = (&self.options.program, &self.options.folder);
            self.members = Some(Members::start(overlay, self.scenario, &self.keeper, &self.hosts, program, folder)?);
        }
        for number in 0..self.scenario.programs.len() {
            if self.scenario.programs[number].start.is_none() {
                self.start_program(number);
            }
        }
        Ok(())
    }

    /// When the run can begin: late enough for the first flows to have agreed with their servers.
    fn plan_begin(&self) -> Instant {
        let flows = self.scenario.flows.iter();
        let wait = flows.map(|f| flow::lead(self.scenario, f).saturating_sub(f.start)).max().unwrap_or_default();
        kernel::now() + BREATH + wait
    }

    /// What happens when, the earliest first.
    fn acts(&self, began: Instant) -> VecDeque<(Instant, Act)> {
        let mut acts = Vec::new();
        for (number, f) in self.scenario.flows.iter().enumerate() {
            acts.push((began + f.start - flow::lead(self.scenario, f), Act::Flow(number)));
        }
        for (number, p) in self.scenario.programs.iter().enumerate() {
            acts.extend(p.start.map(|at| (began + at, Act::Start(number))));
            acts.extend(p.stop.map(|at| (began + at, Act::Stop(number))));
        }
        acts.sort_by_key(|(at, _)| *at);
        acts.into()
    }

    /// Until the end of the run; true when the user stopped it.
    fn follow(
        &mut self,
        began: Instant,
        end: Instant,
        acts: &mut VecDeque<(Instant, Act)>,
        interrupted: &dyn Fn() -> usize,
    ) -> bool {
        let mut next_look = began;
        loop {
            let now = kernel::now();
            while let Some((_, act)) = acts.pop_front_if(|(at, _)| *at <= now) {
                match act {
                    Act::Flow(number) => self.start_flow(number, began),
                    Act::Start(number) => self.start_program(number),
                    Act::Stop(number) => self.programs.stop(number),
                }
            }
            if now >= end {
                return false;
            }
            if interrupted() > 0 {
                return true;
            }
            self.programs.look();
            if now >= next_look {
                next_look = now + LOOK_FOR_STARVATION;
                self.servers.iter_mut().chain(self.flows.iter_mut().flatten()).for_each(Running::look);
            }
            self.take_transfers();
            let next = acts.front().map_or(end, |(at, _)| (*at).min(end)).min(now + LOOK_EVERY);
            self.take_reports(next);
            if self.engine.as_ref().is_some_and(Engine::failed) {
                return false;
            }
        }
    }

    /// Handles the engine's reports that come until a time.
    fn take_reports(&mut self, until: Instant) {
        while let Some(engine) = &self.engine {
            match engine.reports().recv_timeout(until.saturating_since(kernel::now())) {
                Ok(report) => self.take_report(report),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    kernel::nap(until.saturating_since(kernel::now()));
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

    fn start_flow(&mut self, number: usize, began: Instant) {
        let f = &self.scenario.flows[number];
        let folder = &self.options.folder;
        let mut command = Command::new(&self.options.program);
        command.args(flow::arguments(self.scenario, f));
        command.args(flow::run_arguments(folder, f, began + f.start, self.options.seed.wrapping_add(number as u64)));
        let log = folder.join(format!("flow-{}.log", f.name));
        match Running::start(&self.keeper, &self.hosts[f.from], command, &log) {
            Ok(running) => self.flows[number] = Some(running),
            Err(e) => self.doubts.add(format!("flow {}: {e}", f.name)),
        }
    }

    fn start_program(&mut self, number: usize) {
        let node = &self.hosts[self.scenario.programs[number].node];
        if let Err(e) = self.programs.start(number, &self.keeper, node, self.scenario, &self.options.folder) {
            self.doubts.add(format!("program {}: {e}", self.scenario.programs[number].name));
        }
    }

    /// Lets flows exchange their results, then ends programs and whatever is left.
    fn finish(&mut self, interrupted: &dyn Fn() -> usize) {
        let longest = self.scenario.flows.iter().map(|f| flow::round_trip(self.scenario, f)).max().unwrap_or_default();
        if interrupted() > 0 {
            self.flows.iter().flatten().for_each(Running::interrupt);
        }
        let give_up = kernel::now() + FINISH + longest * 20;
        while kernel::now() < give_up && interrupted() < 2 && self.flows.iter_mut().flatten().any(Running::runs) {
            self.take_reports(kernel::now() + LOOK_EVERY);
        }
        self.programs.end_all();
        self.servers.iter_mut().chain(self.flows.iter_mut().flatten()).for_each(Running::end);
        // As long as they have links: without them they would write down that all have failed.
        self.members = None;
        if let Some(engine) = self.engine.take() {
            match engine.stop() {
                Ok(reports) => reports.into_iter().for_each(|r| self.take_report(r)),
                Err(e) => self.doubts.add(format!("the engine failed: {e}")),
            }
        }
    }

    /// Reads the flows' records and judges.
    fn conclude(&mut self, began: Instant, interrupted: bool) -> LabRunEnd {
        let run = self.options.run;
        let (mut totals, mut flows) = (Vec::new(), Vec::new());
        for (f, running) in self.scenario.flows.iter().zip(&mut self.flows) {
            let failure = running.as_mut().and_then(Running::failure);
            let outcome = flow::read(f, began, run, &self.options.folder, failure);
            flows.push(traffic::received(&outcome.intervals));
            outcome.intervals.into_iter().for_each(|i| (self.observe)(&LabRecord::Flow(i)));
            if let (Some(failure), false) = (&outcome.totals.failure, interrupted) {
                self.doubts.add(format!("flow {}: {failure}", f.name));
            }
            self.doubts.cut_window(&f.name, outcome.cut_window);
            self.doubts.began_late(&f.name, outcome.late, LATE.max(flow::round_trip(self.scenario, f)));
            totals.push(outcome.totals);
        }
        totals.extend(self.outcomes.totals());
        let programs: Vec<ProgramEnd> = self.programs.ends(self.scenario);
        for program in programs.iter().filter(|p| p.failed && !interrupted) {
            self.doubts
                .add(format!("program {} in {} ended with status {}", program.program, program.node, program.status));
        }
        for (f, running) in self.scenario.flows.iter().zip(&self.flows).filter_map(|(f, r)| Some((f, r.as_ref()?))) {
            self.doubts.starved(&format!("flow {}", f.name), running.starved(), self.scenario.duration);
        }
        for (server, node) in self.servers.iter().zip(receivers(self.scenario)) {
            let place = format!("the server in {}", self.scenario.nodes[node].name);
            self.doubts.starved(&place, server.starved(), self.scenario.duration);
        }
        self.truth.judge(&self.scenario.validity, &mut self.doubts);
        let links = self.truth.totals();
        let spans = (self.scenario.duration, self.scenario.record.interval);
        let zero = utc_at(began);
        let overlay = self.scenario.overlay.as_ref();
        let told = overlay.map(|o| overlay::told(o, self.scenario, &self.options.folder, zero));
        let stalls = told.iter().flat_map(|t| &t.stalls);
        stalls.for_each(|(member, seconds)| self.doubts.stalled(member, *seconds));
        let end = LabRunEnd {
            run,
            verdict: std::mem::take(&mut self.doubts).verdict(),
            interrupted,
            zero_utc_s: Some(zero),
            ways: told.map(|t| t.ways).unwrap_or_default(),
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

/// The wall clock's time at an instant, in seconds.
fn utc_at(instant: Instant) -> f64 {
    let (seconds, ns) = kernel::utc_seconds();
    seconds as f64 + f64::from(ns) / 1e9 - kernel::now().nanos_since(instant) as f64 / 1e9
}

/// The nodes that receive flows, each once.
fn receivers(scenario: &Scenario) -> Vec<usize> {
    let mut nodes: Vec<usize> = scenario.flows.iter().map(|f| f.to).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
