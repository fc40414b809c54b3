//! The methods that are transfers: a TCP connection, as long as it may last and as much as it may cost.

use std::cell::Cell;
use std::time::Duration;

use kernel::Shutdown;
use measure::probe::Bounds;
use measure::{MeasureError, run_test};
use results::estimate::{EstimateResult, Layer, Quantity, RateInterval, Trouble};
use results::{Completion, EndRecord, Record, StartRecord, TestPlan};
use units::{Bytes, Instant};

use super::cli::{EstimateOptions, MethodName};
use super::{client_options, direction, plan};
use crate::history::memory::keep_test;

/// Prefix of a transfer that the thesis calls short (§4.3).
const SHORT: u64 = 128 << 10;

/// How long a transfer lasts, and in 2002 (§4.1.5); and how many bytes it must have carried then.
const LONG: Duration = Duration::from_secs(10);
const LONG_2002: Duration = Duration::from_secs(30);
const LEAST_2002: u64 = 2_000_000;

/// Headers of IP and TCP with timestamps over a full segment.
const TCP_PACKET: f64 = 1500.0 / 1448.0;

/// What a transfer may take.
#[derive(Debug, Clone, Copy)]
struct Terms {
    /// Payload, and whether a bound makes it that little.
    bytes: Option<u64>,
    is_cut: bool,
    /// It ends after so long, if so much has arrived, and at last after as long as it may take.
    enough: Option<(Duration, u64)>,
    most: Duration,
}

impl Terms {
    fn of(name: MethodName, options: &EstimateOptions, bounds: Bounds) -> Self {
        let affordable = (bounds.bytes as f64 / TCP_PACKET) as u64;
        let most = bounds.time;
        match (name == MethodName::ShortTcp, options.faithful_2002) {
            (true, _) => Self { bytes: Some(SHORT.min(affordable)), is_cut: affordable < SHORT, enough: None, most },
            // What a transfer of some seconds costs is for the path to say, unless the user sets a bound.
            (false, faithful) => Self {
                bytes: options.budget.map(|_| affordable),
                is_cut: options.budget.is_some(),
                enough: Some(if faithful { (LONG_2002, LEAST_2002) } else { (LONG, 0) }),
                most,
            },
        }
    }

    fn plan(&self, options: &EstimateOptions) -> TestPlan {
        let faithful = options.faithful_2002;
        TestPlan {
            bytes: self.bytes,
            duration_ns: self.bytes.is_none().then(|| units::nanos(self.longest())),
            window_bytes: options.window.map(Bytes::as_u64).or_else(|| faithful.then_some(1 << 20)),
            congestion_control: faithful.then(|| "reno".to_owned()),
            ..plan(direction(options))
        }
    }

    /// How long it may last by itself: where so much must have arrived first, it is stopped when it has.
    fn longest(&self) -> Duration {
        self.enough.filter(|(_, bytes)| *bytes == 0).map_or(self.most, |(time, _)| time.min(self.most))
    }

    /// Whether it has lasted long enough.
    fn are_met(&self, elapsed: Duration, arrived: u64) -> bool {
        self.enough.is_some_and(|(time, bytes)| elapsed >= time && arrived >= bytes)
    }
}

/// How a transfer came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    ByItself,
    Enough,
    TimeSpent,
}

/// A real transfer: payload over the time from its start to its last byte.
pub(super) fn run(name: MethodName, options: &EstimateOptions, bounds: Bounds) -> anyhow::Result<EstimateResult> {
    let terms = Terms::of(name, options, bounds);
    if terms.bytes == Some(0) {
        return Ok(nothing(name, options, Trouble::BudgetSpent, None));
    }
    let begin = kernel::now();
    let (started, arrived, ended) = (Cell::new(None::<Instant>), Cell::new(0), Cell::new(Ended::ByItself));
    let mut told = None;
    let mut observe = |record: &Record| {
        started.set(Some(started.get().unwrap_or_else(kernel::now)));
        match record {
            Record::Start(start) => told = Some(start.clone()),
            Record::Interval(i) if i.role == results::Role::Receiver => arrived.set(arrived.get() + i.bytes),
            Record::Interval(_) | Record::End(_) => {}
        }
    };
    let asked = || {
        let lasted = started.get().map_or(Duration::ZERO, |s| kernel::now().saturating_since(s));
        if terms.are_met(lasted, arrived.get()) {
            ended.set(Ended::Enough);
        } else if terms.bytes.is_some() && kernel::now().saturating_since(begin) >= terms.most {
            ended.set(Ended::TimeSpent);
        }
        Shutdown::asked().max(usize::from(ended.get() != Ended::ByItself))
    };
    let end = run_test(&client_options(options, terms.plan(options))?, &mut observe, &asked);
    let elapsed_ns = units::nanos(kernel::now().saturating_since(begin));
    match end {
        Ok(end) => {
            if let Some(start) = told.as_ref().filter(|_| name == MethodName::Tcp) {
                keep_test(options.memory, start, &end);
            }
            let congestion_control = told.as_ref().and_then(congestion_control);
            Ok(EstimateResult { elapsed_ns, congestion_control, ..of_end(name, options, terms, ended.get(), &end) })
        }
        Err(e @ MeasureError::Interrupted) if Shutdown::asked() > 0 => Err(e.into()),
        // Other methods may get through: probes did.
        Err(e) => Ok(EstimateResult { elapsed_ns, ..nothing(name, options, Trouble::NoAnswer, Some(e.to_string())) }),
    }
}

/// Of the one connection; a far end that speaks thrulay does not say.
fn congestion_control(start: &StartRecord) -> Option<String> {
    start.streams.first()?.congestion_control.clone()
}

fn of_end(name: MethodName, options: &EstimateOptions, terms: Terms, ended: Ended, end: &EndRecord) -> EstimateResult {
    let direction = end.directions.first();
    let (sent, bps) = direction.map_or((0, 0), |d| (d.sender.bytes, d.throughput_bps));
    let by_user = Shutdown::asked() > 0;
    let is_whole = bps > 0
        && match end.completion {
            Completion::Complete => true,
            Completion::Interrupted => !by_user,
            Completion::Failed { .. } => false,
        };
    let trouble = match ended {
        _ if !is_whole => Some(Trouble::NoAnswer),
        Ended::TimeSpent => Some(Trouble::TimeSpent),
        Ended::ByItself if terms.is_cut => Some(Trouble::BudgetSpent),
        Ended::ByItself | Ended::Enough => None,
    };
    let error = match &end.completion {
        Completion::Failed { reason } => Some(reason.clone()),
        Completion::Complete | Completion::Interrupted => None,
    };
    let quantity = Quantity::BulkTransferCapacity;
    let wire = (sent as f64 * TCP_PACKET) as u64;
    EstimateResult {
        // One transfer says nothing of how much the next will differ.
        estimate: is_whole.then_some(RateInterval {
            quantity,
            rate_bps: bps,
            low_bps: bps,
            high_bps: bps,
            bound: None,
        }),
        packets: wire.div_ceil(1500),
        bytes: wire,
        troubles: trouble.into_iter().collect(),
        error,
        ..nothing(name, options, Trouble::NoAnswer, None)
    }
}

fn nothing(name: MethodName, options: &EstimateOptions, trouble: Trouble, error: Option<String>) -> EstimateResult {
    EstimateResult {
        method: name.name().to_owned(),
        faithful: options.faithful_2002,
        congestion_control: None,
        quantity: Quantity::BulkTransferCapacity,
        layer: Layer::Payload,
        estimate: None,
        also: Vec::new(),
        loss: None,
        queue_ns: None,
        squeezed: None,
        packets: 0,
        bytes: 0,
        elapsed_ns: 0,
        troubles: vec![trouble],
        error,
    }
}
