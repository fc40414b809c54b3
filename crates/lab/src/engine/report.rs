use std::time::Duration;

use link::Tally;

/// What a worker saw in one interval.
#[derive(Debug)]
pub struct Report {
    /// Which worker.
    pub worker: usize,
    /// Begin, since the start of the run.
    pub begin: Duration,
    /// End, since the start of the run.
    pub end: Duration,
    /// Its wires.
    pub wires: Vec<WireReport>,
    /// CPU time of the worker's thread.
    pub cpu: Duration,
    /// Upper bounds of how long packets had lain in a device before they were read, nanoseconds.
    pub uncertainty: Vec<u32>,
    /// How the worker's thread is scheduled.
    pub scheduling: &'static str,
    /// Bytes held at the end.
    pub held: u64,
}

/// What one wire did in one interval.
#[derive(Debug)]
pub struct WireReport {
    /// Index in the plan.
    pub wire: usize,
    /// The model's truth.
    pub tally: Tally,
    /// How much later than the model says packets were handed over, nanoseconds, one for each hand-over. Samples rather than a
    /// histogram: clearing histograms of hundreds of wires would itself make the worker late.
    pub lateness: Vec<u32>,
    /// Packets that the emulator lost: a device that did not take them, or no memory.
    pub lost: u64,
}
