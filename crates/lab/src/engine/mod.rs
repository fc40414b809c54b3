//! The link engine: moves packets between the devices of the nodes as the model of each link decides.
//!
//! A worker is a thread that owns whole media (a link, or a LAN with all its ports): it reads what nodes send, offers it to the
//! model, and hands over what the model delivers. Workers share nothing, so there is no lock on a packet's way.

mod plan;
mod pool;
mod port;
mod report;
mod wire;
mod worker;

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use units::Instant;

pub use plan::{Exit, Plan, PortPlan, WirePlan};
pub use report::{Report, WireReport};

use worker::{Command, Worker};

/// Running workers.
#[derive(Debug)]
pub struct Engine {
    controls: Vec<Sender<Command>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    reports: Receiver<Report>,
}

impl Engine {
    /// Starts moving packets, with the settings that hold at time zero.
    ///
    /// # Errors
    /// Threads or descriptors are short.
    pub fn start(plan: Plan, workers: usize) -> io::Result<Self> {
        let (send, reports) = mpsc::channel();
        let (mut controls, mut threads) = (Vec::new(), Vec::new());
        for (number, share) in plan.split(workers).into_iter().enumerate() {
            let (control, commands) = mpsc::channel();
            let reports = send.clone();
            let thread = std::thread::Builder::new()
                .name(format!("links-{number}"))
                .spawn(move || Worker::new(number, share, commands, reports)?.run())?;
            controls.push(control);
            threads.push(thread);
        }
        Ok(Self { controls, threads, reports })
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.threads.len()
    }

    /// Starts the run's clock at `at`: from then on counters and schedule count.
    pub fn begin(&self, at: Instant) {
        self.tell(|| Command::Begin(at));
    }

    /// What the workers report: one for each worker and interval after [`Engine::begin`].
    pub fn reports(&self) -> &Receiver<Report> {
        &self.reports
    }

    /// Stops all workers after a last report, which covers the time since the last interval, and gives what was not yet read.
    ///
    /// # Errors
    /// A worker had failed; its links have been dead since.
    pub fn stop(self) -> io::Result<Vec<Report>> {
        self.tell(|| Command::Stop);
        let mut outcome = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker of the engine panicked")));
            outcome = outcome.and(ended);
        }
        outcome.map(|()| self.reports.try_iter().collect())
    }

    /// Whether a worker has ended by itself, which only a fault makes it do.
    pub fn failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    fn tell(&self, command: impl Fn() -> Command) {
        for control in &self.controls {
            // A worker that is gone shows in `stop`.
            let _ = control.send(command());
        }
    }
}
