//! Experiments in the simulator: points and repetitions in parallel threads, records in the order of the runs.

mod estimates;
mod overlay;
mod run;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use results::lab::{FlowInterval, LabRecord, LabRunEnd, LabSummary};
use scenario::{Experiment, Problems, Scenario};

use crate::LabError;
use crate::experiment::{Options, describe_run, head};
use crate::selection::Place;
use crate::summary::{Done, summary};

pub use overlay::CONTROL_INTERVAL;

/// Interval at which the records of a run are awaited before the next check for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of runs for each thread that may be ahead of the one whose records are written: their records are in memory.
const RUNS_AHEAD: usize = 4;

/// One run of an experiment.
#[derive(Clone, Copy)]
struct Task<'a> {
    scenario: &'a Scenario,
    run: u32,
    place: Place,
}

impl Task<'_> {
    fn seed(&self) -> u64 {
        self.scenario.seed.wrapping_add(u64::from(self.place.repetition))
    }
}

/// A task, and where the thread that takes it reports.
type Job<'a> = (Task<'a>, Sender<Message>);

/// What a thread reports of a run.
enum Message {
    Record(Box<LabRecord>),
    End(Box<Result<LabRunEnd, LabError>>),
}

/// One simulated run, for programs that compute metrics of their own.
#[derive(Debug)]
pub struct SimulatedRun {
    /// Totals of the run.
    pub end: LabRunEnd,
    /// Intervals of all flows.
    pub flows: Vec<FlowInterval>,
    /// Bytes that all members of the overlay sent in each [`CONTROL_INTERVAL`] of the run without a packet of a host:
    /// handshakes, probes, reports and gossip, with IP and UDP headers. A frame counts on each hop.
    pub control_bytes: Vec<u64>,
}

/// Simulates one run of a scenario without calls of `longhaul estimate`, in the calling thread.
///
/// # Errors
/// The scenario has a part that the simulator does not have, or its members do not reach each other.
pub fn simulate_run(scenario: &Scenario, seed: u64) -> Result<SimulatedRun, LabError> {
    let mut flows = Vec::new();
    let mut observe = |record: &LabRecord| {
        if let LabRecord::Flow(interval) = record {
            flows.push(interval.clone());
        }
    };
    let run = run::run(scenario, (0, seed), Path::new(""), &mut observe, &|| 0)?;
    Ok(SimulatedRun { end: run.end, flows, control_bytes: run.control_bytes })
}

/// Checks that the simulator has all parts of an experiment. `text` is that of the experiment file.
///
/// # Errors
/// The parts that it does not have, each with its line.
pub fn check_simulated(experiment: &Experiment, text: &str) -> Result<(), Problems> {
    let mut all: Vec<(String, String, String)> = Vec::new();
    for missing in experiment.scenarios.iter().flat_map(sim::unsupported) {
        let problem = (missing.key, missing.reason, "run the experiment without --simulate".to_owned());
        if !all.contains(&problem) {
            all.push(problem);
        }
    }
    if all.is_empty() { Ok(()) } else { Err(Problems::with_keys(&experiment.path, text, all)) }
}

/// Simulates all runs in `jobs` threads. The records do not depend on the number of threads. Calls `observe` with each
/// record, in the order of the runs, including the last one, a [`LabRecord::Summary`].
///
/// # Errors
/// The scenario has a part that the simulator does not have.
pub fn run_simulated(
    experiment: &Experiment,
    options: &Options,
    jobs: usize,
    observe: &mut dyn FnMut(&LabRecord),
    interrupted: &dyn Fn() -> usize,
) -> Result<LabSummary, LabError> {
    let Some(first) = experiment.scenarios.first() else {
        return Err(LabError::Unknown("the experiment has no scenario".to_owned()));
    };
    observe(&LabRecord::Experiment(head(experiment, first, options)));
    let tasks = tasks(experiment, options, first.repeat);
    let stop = AtomicBool::new(false);
    let threads = jobs.clamp(1, tasks.len().max(1));
    let (give, take) = mpsc::channel();
    let queue = Mutex::new(take);
    let done = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&queue, &options.directory, &stop));
        }
        let mut watch = || {
            if interrupted() > 0 {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let done = collect(&tasks, give, threads * RUNS_AHEAD, (&stop, &mut watch), observe);
        // Runs that are ahead end soon: their receivers are gone.
        stop.store(true, Ordering::Relaxed);
        done
    })?;
    let last = summary(&done, interrupted() > 0);
    observe(&LabRecord::Summary(last.clone()));
    Ok(last)
}

/// The runs that are to be made. A run has the same number whatever the other points.
fn tasks<'a>(experiment: &'a Experiment, options: &Options, repeat: u32) -> Vec<Task<'a>> {
    let points = experiment.scenarios.len() as u32;
    let task = |place: Place| {
        let scenario = experiment.scenarios.get(place.point as usize)?;
        Some(Task { scenario, run: place.repetition * points + place.point, place })
    };
    options.places(experiment, repeat).into_iter().filter_map(task).collect()
}

/// Takes tasks until none is left.
fn work(queue: &Mutex<Receiver<Job<'_>>>, directory: &Path, stop: &AtomicBool) {
    let interrupted = || usize::from(stop.load(Ordering::Relaxed));
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((task, sender)) = job else { return };
        if interrupted() > 0 {
            continue;
        }
        // After an interrupt the records of later runs have no receiver.
        let mut observe = |record: &LabRecord| {
            let _ = sender.send(Message::Record(Box::new(record.clone())));
        };
        let directory = directory.join(format!("run-{}", task.run));
        let end = run::run(task.scenario, (task.run, task.seed()), &directory, &mut observe, &interrupted);
        let _ = sender.send(Message::End(Box::new(end.map(|run| run.end))));
    }
}

/// Gives the tasks to the threads, at most `ahead` at a time, and passes on the records of all runs in order, until
/// all have ended or the user interrupts.
fn collect<'a>(
    tasks: &[Task<'a>],
    give: Sender<Job<'a>>,
    ahead: usize,
    (stop, watch): (&AtomicBool, &mut dyn FnMut()),
    observe: &mut dyn FnMut(&LabRecord),
) -> Result<Vec<Done>, LabError> {
    let (mut done, mut receivers) = (Vec::new(), VecDeque::new());
    let mut waiting = tasks.iter();
    for task in tasks {
        while receivers.len() < ahead
            && let Some(next) = waiting.next()
        {
            let (sender, receiver) = mpsc::channel();
            receivers.push_back(receiver);
            // The threads wait for tasks until `give` is dropped.
            let _ = give.send((*next, sender));
        }
        let Some(receiver) = receivers.pop_front() else { break };
        match collect_run(task, &receiver, (stop, watch), observe)? {
            Some(run) => done.push(run),
            None => break,
        }
    }
    Ok(done)
}

/// Passes on the records of one run; `None` if the user interrupted before it started.
fn collect_run(
    task: &Task<'_>,
    receiver: &Receiver<Message>,
    (stop, watch): (&AtomicBool, &mut dyn FnMut()),
    observe: &mut dyn FnMut(&LabRecord),
) -> Result<Option<Done>, LabError> {
    let description = describe_run(task.scenario, task.place, [task.run, 0], task.seed(), None);
    let mut is_started = false;
    loop {
        watch();
        let message = match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) if !is_started && stop.load(Ordering::Relaxed) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        };
        if !is_started {
            observe(&LabRecord::Run(description.clone()));
            is_started = true;
        }
        match message {
            Message::Record(record) => observe(&record),
            Message::End(end) => return Ok(Some(Done::new(&description, (*end)?))),
        }
    }
}
