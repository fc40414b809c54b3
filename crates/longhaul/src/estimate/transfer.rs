//! Methods that are TCP transfers, limited in time and volume.

use std::cell::Cell;
use std::time::Duration;

use kernel::Shutdown;
use measure::probe::Bounds;
use measure::{MeasureError, run_test};
use results::estimate::{Caveat, EstimateResult, Layer, Quantity, RateInterval};
use results::{Completion, EndRecord, Record, StartRecord, TestPlan};
use units::{Bytes, Instant};

use super::cli::{EstimateOptions, MethodName};
use super::{client_options, direction, plan};
use crate::history::memory::keep_test;

/// Volume of the short transfer of the thesis (§4.3), in bytes.
const SHORT_BYTES: u64 = 128 << 10;

/// Duration of a long transfer.
const LONG_DURATION: Duration = Duration::from_secs(10);
/// Duration of a long transfer in the thesis of 2002 (§4.1.5).
const LONG_DURATION_2002: Duration = Duration::from_secs(30);
/// Minimum volume of a long transfer in the thesis of 2002 (§4.1.5), in bytes.
const LONG_2002_BYTES_MIN: u64 = 2_000_000;

/// Ratio of packet size to payload in a full TCP segment with timestamps.
const TCP_PACKET_RATIO: f64 = 1500.0 / 1448.0;

/// Limits of a transfer.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Maximum payload in bytes.
    bytes: Option<u64>,
    /// Whether the budget reduces the payload.
    is_cut: bool,
    /// Duration and payload in bytes, both of which complete the transfer.
    complete_at: Option<(Duration, u64)>,
    /// Maximum duration.
    time_max: Duration,
}

impl Limits {
    fn of(name: MethodName, options: &EstimateOptions, bounds: Bounds) -> Self {
        let affordable = (bounds.bytes as f64 / TCP_PACKET_RATIO) as u64;
        let time_max = bounds.time;
        match (name == MethodName::ShortTcp, options.faithful_2002) {
            (true, _) => Self {
                bytes: Some(SHORT_BYTES.min(affordable)),
                is_cut: affordable < SHORT_BYTES,
                complete_at: None,
                time_max,
            },
            // The volume of a timed transfer depends on the path; only --budget limits it.
            (false, faithful) => Self {
                bytes: options.budget.map(|_| affordable),
                is_cut: options.budget.is_some(),
                complete_at: Some(if faithful {
                    (LONG_DURATION_2002, LONG_2002_BYTES_MIN)
                } else {
                    (LONG_DURATION, 0)
                }),
                time_max,
            },
        }
    }

    fn plan(&self, options: &EstimateOptions) -> TestPlan {
        let faithful = options.faithful_2002;
        TestPlan {
            bytes: self.bytes,
            duration_ns: self.bytes.is_none().then(|| units::nanos(self.planned_time())),
            window_bytes: options.window.map(Bytes::as_u64).or_else(|| faithful.then_some(1 << 20)),
            congestion_control: faithful.then(|| "reno".to_owned()),
            ..plan(direction(options))
        }
    }

    /// Planned duration. A transfer with a minimum volume is planned at its maximum and stopped early.
    fn planned_time(&self) -> Duration {
        self.complete_at.filter(|(_, bytes)| *bytes == 0).map_or(self.time_max, |(time, _)| time.min(self.time_max))
    }

    /// Whether the transfer is complete.
    fn are_met(&self, elapsed: Duration, arrived: u64) -> bool {
        self.complete_at.is_some_and(|(time, bytes)| elapsed >= time && arrived >= bytes)
    }
}

/// Reason for the end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    ByItself,
    Enough,
    TimeSpent,
}

/// Runs a transfer; its result is the payload over the time from its start to its last byte.
pub(super) fn run(name: MethodName, options: &EstimateOptions, bounds: Bounds) -> anyhow::Result<EstimateResult> {
    let limits = Limits::of(name, options, bounds);
    if limits.bytes == Some(0) {
        return Ok(nothing(name, options, Caveat::BudgetSpent, None));
    }
    let start = kernel::now();
    let (started, arrived, ended) = (Cell::new(None::<Instant>), Cell::new(0), Cell::new(Ended::ByItself));
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
            ended.set(Ended::Enough);
        } else if limits.bytes.is_some() && kernel::now().saturating_since(start) >= limits.time_max {
            ended.set(Ended::TimeSpent);
        }
        Shutdown::requests().max(usize::from(ended.get() != Ended::ByItself))
    };
    let end = run_test(&client_options(options, limits.plan(options))?, &mut observe, &asked);
    let elapsed_ns = units::nanos(kernel::now().saturating_since(start));
    match end {
        Ok(end) => {
            if let Some(record) = start_record.as_ref().filter(|_| name == MethodName::Tcp) {
                keep_test(options.memory, record, &end);
            }
            let congestion_control = start_record.as_ref().and_then(congestion_control);
            Ok(EstimateResult { elapsed_ns, congestion_control, ..of_end(name, options, limits, ended.get(), &end) })
        }
        Err(e @ MeasureError::Interrupted) if Shutdown::requests() > 0 => Err(e.into()),
        // Other methods may still succeed: the probes before reached the server.
        Err(e) => Ok(EstimateResult { elapsed_ns, ..nothing(name, options, Caveat::NoAnswer, Some(e.to_string())) }),
    }
}

/// Congestion control of the only connection; unknown for a thrulay server.
fn congestion_control(start: &StartRecord) -> Option<String> {
    start.streams.first()?.congestion_control.clone()
}

fn of_end(
    name: MethodName,
    options: &EstimateOptions,
    limits: Limits,
    ended: Ended,
    end: &EndRecord,
) -> EstimateResult {
    let direction = end.directions.first();
    let (sent, bps) = direction.map_or((0, 0), |d| (d.sender.bytes, d.throughput_bps));
    let by_user = Shutdown::requests() > 0;
    let is_whole = bps > 0
        && match end.completion {
            Completion::Complete => true,
            Completion::Interrupted => !by_user,
            Completion::Failed { .. } => false,
        };
    let caveat = match ended {
        _ if !is_whole => Some(Caveat::NoAnswer),
        Ended::TimeSpent => Some(Caveat::TimeSpent),
        Ended::ByItself if limits.is_cut => Some(Caveat::BudgetSpent),
        Ended::ByItself | Ended::Enough => None,
    };
    let error = match &end.completion {
        Completion::Failed { reason } => Some(reason.clone()),
        Completion::Complete | Completion::Interrupted => None,
    };
    let quantity = Quantity::BulkTransferCapacity;
    let wire = (sent as f64 * TCP_PACKET_RATIO) as u64;
    EstimateResult {
        // A single transfer gives no estimate of the variance, so the interval is empty.
        estimate: is_whole.then_some(RateInterval {
            quantity,
            rate_bps: bps,
            low_bps: bps,
            high_bps: bps,
            bound: None,
        }),
        packets: wire.div_ceil(1500),
        bytes: wire,
        caveats: caveat.into_iter().collect(),
        error,
        ..nothing(name, options, Caveat::NoAnswer, None)
    }
}

fn nothing(name: MethodName, options: &EstimateOptions, caveat: Caveat, error: Option<String>) -> EstimateResult {
    EstimateResult {
        method: name.name().to_owned(),
        faithful: options.faithful_2002,
        congestion_control: None,
        quantity: Quantity::BulkTransferCapacity,
        layer: Layer::Payload,
        estimate: None,
        other_estimates: Vec::new(),
        loss: None,
        queue_ns: None,
        squeezed: None,
        packets: 0,
        bytes: 0,
        elapsed_ns: 0,
        caveats: vec![caveat],
        error,
    }
}
