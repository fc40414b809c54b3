//! Joins the records of a run into one measured path.

use std::time::Duration;

use results::Direction;
use results::estimate::EstimateResult;
use results::evaluate::MeasuredPath;
use results::lab::{LabRunEnd, Verdict};
use scenario::{EstimateCall, Flow, Program, Scenario};

use super::directory::Run;
use super::estimates::{Truth, estimates_of, predicted};
use super::probes::Call;
use super::truth::{Path, Sent, Window};

/// Prefix of sweep keys that name the sender.
const SENDER_PREFIX: &str = "parameters.sender";
/// Prefix of sweep keys that name the receiver.
const RECEIVER_PREFIX: &str = "parameters.receiver";

/// Outcome of joining a run.
#[derive(Debug)]
pub(super) enum Joined {
    /// Measured path, and whether a method was still running when the transfer started.
    Path(Box<MeasuredPath>, bool),
    Invalid,
    Unfinished,
    WithoutTransfer,
    WithoutEstimates,
}

/// Transfer of a scenario and its path.
pub(super) struct Transfer<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) flow: &'a Flow,
    pub(super) path: Path,
}

/// Node and start of the calls in one output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    node: usize,
    /// Time since the start of the run.
    start: Duration,
}

impl From<&Program> for Caller {
    fn from(program: &Program) -> Self {
        Self { node: program.node, start: program.start.unwrap_or_default() }
    }
}

impl From<&EstimateCall> for Caller {
    fn from(call: &EstimateCall) -> Self {
        Self { node: call.from, start: call.start }
    }
}

/// Joins the calls of `longhaul estimate` in a run, listed by caller, with the reference values.
pub(super) fn join(
    directory: &str,
    run: &Run,
    transfer: &Transfer<'_>,
    calls: &[(Caller, Vec<Call>)],
    include_invalid: bool,
) -> Joined {
    let Some(end) = run.end.as_ref().filter(|e| !e.interrupted) else { return Joined::Unfinished };
    if end.verdict != Verdict::Valid && !include_invalid {
        return Joined::Invalid;
    }
    let flow = end.flows.iter().find(|f| f.flow == transfer.flow.name && f.failure.is_none());
    let Some(throughput_bps) = flow.and_then(|f| f.throughput_bps) else { return Joined::WithoutTransfer };
    let timed: Vec<TimedResult<'_>> =
        calls.iter().flat_map(|(caller, calls)| timed_results(*caller, calls, transfer, end)).collect();
    if timed.is_empty() {
        return Joined::WithoutEstimates;
    }
    let start_s = transfer.flow.start.as_secs_f64();
    let overlaps = timed.iter().any(|a| a.is_dated && a.window.end_s > start_s);
    let truth = Truth {
        path: &transfer.path,
        usage: &run.usage,
        sent: timed.iter().map(TimedResult::sent).collect(),
        throughput_bps,
    };
    let similarity = timed.iter().find_map(|a| a.result.squeezed.as_ref()?.label);
    let (sender, receiver) = ends(run, transfer);
    let mut path = MeasuredPath {
        directory: directory.to_owned(),
        run: run.start.run,
        values: run.start.values.clone(),
        sender,
        receiver,
        transfer_bps: throughput_bps,
        round_trip_ns: units::nanos(Duration::try_from_secs_f64(transfer.path.round_trip_s()).unwrap_or_default()),
        similarity,
        estimates: Vec::new(),
    };
    let estimates = timed.iter().flat_map(|a| estimates_of(a, &truth));
    let on_path = calls.iter().flat_map(|(caller, calls)| calls_on_path(*caller, calls, transfer));
    let predicted = on_path.filter_map(|call| predicted(call, transfer.flow, &truth));
    for estimate in estimates.chain(predicted) {
        // If a method ran twice with the same parameters, the first result counts.
        if path.estimates.iter().all(|e| e.method != estimate.method) {
            path.estimates.push(estimate);
        }
    }
    Joined::Path(Box::new(path), overlaps)
}

/// Names of sender and receiver: their nodes and the sweep values that select their sites.
fn ends(run: &Run, transfer: &Transfer<'_>) -> (String, String) {
    let name = |node: usize, prefix: &str| {
        let node = transfer.scenario.nodes.get(node).map_or("", |n| n.name.as_str());
        let sites = run.start.values.iter().filter(|v| v.key.starts_with(prefix)).map(|v| v.value.as_str());
        std::iter::once(node).chain(sites).collect::<Vec<_>>().join(" ")
    };
    (name(transfer.flow.from, SENDER_PREFIX), name(transfer.flow.to, RECEIVER_PREFIX))
}

/// Result of a method with its time window.
pub(super) struct TimedResult<'a> {
    pub(super) result: &'a EstimateResult,
    /// Budget of the call in bytes, if the user set one.
    pub(super) budget: Option<u64>,
    pub(super) window: Window,
    /// Whether the window is that of the method rather than that of all probing.
    is_dated: bool,
}

impl TimedResult<'_> {
    /// Probes sent in the direction of the transfer: half of the count if they are echoed.
    fn sent(&self) -> Sent {
        let part = if self.result.loss.is_some() { 0.5 } else { 1.0 };
        let (bytes, packets) = (self.result.bytes as f64 * part, self.result.packets as f64 * part);
        Sent { window: self.window, bytes, packets }
    }
}

/// Selects the calls that probed the path and direction of the transfer.
fn calls_on_path<'a>(caller: Caller, calls: &'a [Call], transfer: &'a Transfer<'_>) -> impl Iterator<Item = &'a Call> {
    let flow = transfer.flow;
    let is = move |host: &str, node: usize| {
        let node = transfer.scenario.nodes.get(node);
        node.is_some_and(|n| host == n.name || host == n.ipv4.to_string() || host == n.ipv6.to_string())
    };
    calls.iter().filter(move |call| match call.start.direction {
        Direction::Up => caller.node == flow.from && is(&call.start.host, flow.to),
        Direction::Down => caller.node == flow.to && is(&call.start.host, flow.from),
    })
}

/// Assigns each method its time window: the methods of a call run in sequence from the first record on. Without the UTC
/// time of the run, the window is the time from the start of the caller to that of the transfer.
fn timed_results<'a>(
    caller: Caller,
    calls: &'a [Call],
    transfer: &'a Transfer<'_>,
    end: &LabRunEnd,
) -> Vec<TimedResult<'a>> {
    let whole = Window { start_s: caller.start.as_secs_f64(), end_s: transfer.flow.start.as_secs_f64() };
    let mut all = Vec::new();
    for call in calls_on_path(caller, calls, transfer) {
        let mut clock = end.start_utc_s.zip(call.start_utc_s()).map(|(zero, start)| start - zero);
        for result in &call.results {
            let own = clock.map(|start_s| Window { start_s, end_s: start_s + result.elapsed_ns as f64 / 1e9 });
            clock = own.map(|w| w.end_s);
            let window = own.unwrap_or(whole);
            all.push(TimedResult { result, budget: call.start.budget_bytes, window, is_dated: own.is_some() });
        }
    }
    all
}
