//! The link engine: forwards packets between the devices of the nodes as the model of each link decides.
//!
//! A worker is a thread that owns whole media (a link, or a LAN with all its ports). It reads the packets that nodes
//! send, offers them to the model, and delivers the packets that the model releases. Workers share no state, so
//! forwarding a packet takes no lock.

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
    /// Starts forwarding packets with the settings of time zero.
    ///
    /// # Errors
    /// A thread or descriptor could not be created.
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

    /// Starts the run's clock at `at`: counters and the schedule start there.
    pub fn start_run(&self, at: Instant) {
        self.command(|| Command::Start(at));
    }

    /// Reports of the workers: one for each worker and interval after [`Engine::start_run`].
    pub fn reports(&self) -> &Receiver<Report> {
        &self.reports
    }

    /// Stops all workers after a last report, which covers the time since the last interval. Returns the reports that
    /// were not read yet.
    ///
    /// # Errors
    /// A worker had failed; its links have forwarded nothing since.
    pub fn stop(self) -> io::Result<Vec<Report>> {
        self.command(|| Command::Stop);
        let mut outcome = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker of the engine panicked")));
            outcome = outcome.and(ended);
        }
        outcome.map(|()| self.reports.try_iter().collect())
    }

    /// Whether a worker has ended by itself, which happens only on an error.
    pub fn failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    fn command(&self, command: impl Fn() -> Command) {
        for control in &self.controls {
            // [`Engine::stop`] reports a worker that has ended.
            let _ = control.send(command());
        }
    }
}
