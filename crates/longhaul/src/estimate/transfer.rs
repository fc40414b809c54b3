//! Methods that are TCP transfers, limited in time and volume.

use std::cell::Cell;
use std::time::Duration;

use estimate::probe::{Bounds, MethodName, TransferEnd, TransferLimits, no_transfer};
use kernel::Shutdown;
use measure::{MeasureError, run_test};
use results::estimate::{Caveat, EstimateResult};
use results::{Completion, EndRecord, Record, StartRecord, TestPlan};
use units::{Bytes, Instant};

use super::cli::EstimateOptions;
use super::{client_options, direction, plan};
use crate::history::memory::keep_test;

/// Plan of a transfer within its limits.
fn plan_of(limits: &TransferLimits, options: &EstimateOptions) -> TestPlan {
    let faithful = options.faithful_2002;
    TestPlan {
        bytes: limits.bytes,
        duration_ns: limits.bytes.is_none().then(|| units::nanos(limits.planned_time())),
        window_bytes: options.window.map(Bytes::as_u64).or_else(|| faithful.then_some(1 << 20)),
        congestion_control: faithful.then(|| "reno".to_owned()),
        ..plan(direction(options))
    }
}

/// Runs a transfer; its result is the payload over the time from its start to its last byte.
pub(super) fn run(name: MethodName, options: &EstimateOptions, bounds: Bounds) -> anyhow::Result<EstimateResult> {
    let faithful = options.faithful_2002;
    let limits = TransferLimits::new(name, faithful, options.budget.is_some(), bounds);
    if limits.bytes == Some(0) {
        return Ok(no_transfer(name, faithful, Caveat::BudgetSpent));
    }
    let start = kernel::now();
    let (started, arrived, ended) = (Cell::new(None::<Instant>), Cell::new(0), Cell::new(TransferEnd::ByItself));
    let mut start_record = None;
    let mut observe = |record: &Record| {
        started.set(Some(started.get().unwrap_or_else(kernel::now)));
        match record {
            Record::Start(record) => start_record = Some(record.clone()),
            Record::Interval(i) if i.role == results::Role::Receiver => arrived.set(arrived.get() + i.bytes),
            Record::Interval(_) | Record::End(_) => {}
        }
    };
    let asked = || {
        let elapsed = started.get().map_or(Duration::ZERO, |s| kernel::now().saturating_since(s));
        if limits.are_met(elapsed, arrived.get()) {
            ended.set(TransferEnd::Enough);
        } else if limits.bytes.is_some() && kernel::now().saturating_since(start) >= limits.time_max {
            ended.set(TransferEnd::TimeSpent);
        }
        Shutdown::requests().max(usize::from(ended.get() != TransferEnd::ByItself))
    };
    let end = run_test(&client_options(options, plan_of(&limits, options))?, &mut observe, &asked);
    let elapsed_ns = units::nanos(kernel::now().saturating_since(start));
    match end {
        Ok(end) => {
            if let Some(record) = start_record.as_ref().filter(|_| name == MethodName::Tcp) {
                keep_test(options.memory, record, &end);
            }
            let congestion_control = start_record.as_ref().and_then(congestion_control);
            Ok(EstimateResult { elapsed_ns, congestion_control, ..of_end(name, faithful, limits, ended.get(), &end) })
        }
        Err(e @ MeasureError::Interrupted) if Shutdown::requests() > 0 => Err(e.into()),
        // Other methods may still succeed: the probes before reached the server.
        Err(e) => {
            let error = Some(e.to_string());
            Ok(EstimateResult { elapsed_ns, error, ..no_transfer(name, faithful, Caveat::NoAnswer) })
        }
    }
}

/// Congestion control of the only connection; unknown for a thrulay server.
fn congestion_control(start: &StartRecord) -> Option<String> {
    start.streams.first()?.congestion_control.clone()
}

fn of_end(
    name: MethodName,
    faithful: bool,
    limits: TransferLimits,
    ended: TransferEnd,
    end: &EndRecord,
) -> EstimateResult {
    let direction = end.directions.first();
    let goodput = direction.map_or((0, 0), |d| (d.sender.bytes, d.throughput_bps));
    let (ended, error) = match &end.completion {
        Completion::Complete => (ended, None),
        Completion::Interrupted if Shutdown::requests() > 0 => (TransferEnd::Broken, None),
        Completion::Interrupted => (ended, None),
        Completion::Failed { reason } => (TransferEnd::Broken, Some(reason.clone())),
    };
    EstimateResult { error, ..limits.result(name, faithful, ended, goodput) }
}
