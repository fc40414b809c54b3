//! Experiments in the simulator: points and repetitions in parallel threads, records in the order of the runs.

mod run;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use results::lab::{LabRecord, LabRunEnd, LabSummary};
use scenario::{Experiment, Problems, Scenario};

use crate::LabError;
use crate::experiment::{Options, describe_run, head};
use crate::summary::{Done, summary};

/// Interval at which the records of a run are awaited before the next check for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Records of a run that wait while those of an earlier run are written. A thread that is ahead of them waits.
const WAITING_RECORDS_MAX: usize = 100_000;

/// One run of an experiment.
#[derive(Clone, Copy)]
struct Task<'a> {
    scenario: &'a Scenario,
    run: u32,
    point: u32,
    repetition: u32,
}

impl Task<'_> {
    fn seed(&self) -> u64 {
        self.scenario.seed.wrapping_add(u64::from(self.repetition))
    }
}

/// What a thread reports of a run.
enum Message {
    Record(Box<LabRecord>),
    End(Box<Result<LabRunEnd, LabError>>),
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
    let next = AtomicUsize::new(0);
    let (senders, receivers): (Vec<_>, Vec<_>) = tasks.iter().map(|_| mpsc::sync_channel(WAITING_RECORDS_MAX)).unzip();
    let done = thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| work(&tasks, &senders, &next, &stop));
        }
        let mut watch = || {
            if interrupted() > 0 {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let done = collect(&tasks, &receivers, &stop, &mut watch, observe);
        // Threads that are ahead end soon: their receivers are gone.
        stop.store(true, Ordering::Relaxed);
        drop(receivers);
        done
    })?;
    let last = summary(&done, interrupted() > 0);
    observe(&LabRecord::Summary(last.clone()));
    Ok(last)
}

/// The runs of all points that are to run. A run has the same number whatever the other points.
fn tasks<'a>(experiment: &'a Experiment, options: &Options, repeat: u32) -> Vec<Task<'a>> {
    let runs = (0..repeat).flat_map(|r| experiment.scenarios.iter().zip(0..).map(move |(s, point)| (r, s, point)));
    let all = runs.zip(0..).map(|((repetition, scenario, point), run)| Task { scenario, run, point, repetition });
    all.filter(|task| options.includes(task.point)).collect()
}

/// Takes tasks until none is left.
fn work(tasks: &[Task<'_>], senders: &[SyncSender<Message>], next: &AtomicUsize, stop: &AtomicBool) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let (Some(task), Some(sender)) = (tasks.get(number), senders.get(number)) else { return };
        let interrupted = || usize::from(stop.load(Ordering::Relaxed));
        if interrupted() > 0 {
            return;
        }
        // A record without a receiver is of a run that ends unused after an interrupt.
        let mut observe = |record: &LabRecord| {
            let _ = sender.send(Message::Record(Box::new(record.clone())));
        };
        let end = run::run(task.scenario, (task.run, task.seed()), &mut observe, &interrupted);
        let _ = sender.send(Message::End(Box::new(end)));
    }
}

/// Passes on the records of all runs in their order, until all have ended or the user interrupts.
fn collect(
    tasks: &[Task<'_>],
    receivers: &[Receiver<Message>],
    stop: &AtomicBool,
    watch: &mut dyn FnMut(),
    observe: &mut dyn FnMut(&LabRecord),
) -> Result<Vec<Done>, LabError> {
    let mut done = Vec::new();
    for (task, receiver) in tasks.iter().zip(receivers) {
        let place = [task.run, task.point, task.repetition, 0];
        let description = describe_run(task.scenario, place, task.seed(), None);
        let (values, duration) = (description.values.clone(), description.duration_s);
        let mut is_described = false;
        loop {
            watch();
            let message = match receiver.recv_timeout(POLL_INTERVAL) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) && !is_described => return Ok(done),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(done),
            };
            if !std::mem::replace(&mut is_described, true) {
                observe(&LabRecord::Run(description.clone()));
            }
            match message {
                Message::Record(record) => observe(&record),
                Message::End(end) => {
                    let (point, repetition) = (task.point, task.repetition);
                    done.push(Done { point, repetition, values, follows: None, duration, end: (*end)? });
                    break;
                }
            }
        }
    }
    Ok(done)
}
