use std::time::Duration;

use link::Tally;

/// The results of a worker for one interval.
#[derive(Debug)]
pub struct Report {
    /// Index of the worker.
    pub worker: usize,
    /// Start of the interval, since the start of the run.
    pub start: Duration,
    /// End of the interval, since the start of the run.
    pub end: Duration,
    /// Results of its wires.
    pub wires: Vec<WireReport>,
    /// CPU time of the worker's thread.
    pub cpu: Duration,
    /// Upper bounds of the time that packets waited in a device before they were read, in nanoseconds.
    pub uncertainty: Vec<u32>,
    /// Scheduling policy of the worker's thread.
    pub scheduling: &'static str,
    /// Bytes held by its wires at the end.
    pub held: u64,
}

/// The results of one wire for one interval.
#[derive(Debug)]
pub struct WireReport {
    /// Index in the plan.
    pub wire: usize,
    /// Counters of the link model.
    pub tally: Tally,
    /// Lateness of each delivery relative to the model, in nanoseconds. Samples are used instead of a histogram, since
    /// clearing the histograms of hundreds of wires would make the worker late.
    pub lateness: Vec<u32>,
    /// Packets that the emulator lost: the device rejected them, or memory was full.
    pub lost: u64,
}
