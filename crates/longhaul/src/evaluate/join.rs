//! From a run's records to one measured path.

use std::time::Duration;

use results::Direction;
use results::estimate::EstimateResult;
use results::evaluate::MeasuredPath;
use results::lab::{LabRunEnd, Verdict};
use scenario::{Flow, Program, Scenario};

use super::folder::Run;
use super::probes::Call;
use super::said::{Truth, predicted, told};
use super::truth::{Path, Sent, Window};

/// Keys of a sweep that begin so name the end that sends.
const SENDER: &str = "parameters.sender";
/// Those that name the end that receives.
const RECEIVER: &str = "parameters.receiver";

/// What a run comes to.
#[derive(Debug)]
pub(super) enum Joined {
    /// A measured path, and whether a method was still at work when the transfer began.
    Path(Box<MeasuredPath>, bool),
    Invalid,
    Unfinished,
    WithoutTransfer,
    WithoutEstimates,
}

/// The transfer and the way that it takes.
pub(super) struct Transfer<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) flow: &'a Flow,
    pub(super) path: Path,
}

/// Joins what programs wrote in a run (with the program that wrote it) with what was true.
pub(super) fn join(
    folder: &str,
    run: &Run,
    transfer: &Transfer<'_>,
    calls: &[(&Program, Vec<Call>)],
    include_invalid: bool,
) -> Joined {
    let Some(end) = run.end.as_ref().filter(|e| !e.interrupted) else { return Joined::Unfinished };
    if end.verdict != Verdict::Valid && !include_invalid {
        return Joined::Invalid;
    }
    let flow = end.flows.iter().find(|f| f.flow == transfer.flow.name && f.failure.is_none());
    let Some(got) = flow.and_then(|f| f.throughput_bps) else { return Joined::WithoutTransfer };
    let asked: Vec<Asked<'_>> =
        calls.iter().flat_map(|(program, calls)| asked(program, calls, transfer, end)).collect();
    if asked.is_empty() {
        return Joined::WithoutEstimates;
    }
    let start_s = transfer.flow.start.as_secs_f64();
    let overlaps = asked.iter().any(|a| a.is_dated && a.window.end_s > start_s);
    let truth = Truth { path: &transfer.path, usage: &run.usage, sent: asked.iter().map(Asked::sent).collect(), got };
    let similarity = asked.iter().find_map(|a| a.result.squeezed.as_ref()?.label);
    let (sender, receiver) = ends(run, transfer);
    let mut path = MeasuredPath {
        folder: folder.to_owned(),
        run: run.start.run,
        values: run.start.values.clone(),
        sender,
        receiver,
        transfer_bps: got,
        round_trip_ns: units::nanos(Duration::try_from_secs_f64(transfer.path.round_trip_s()).unwrap_or_default()),
        similarity,
        estimates: Vec::new(),
    };
    let told = asked.iter().flat_map(|a| told(a, &truth));
    let about = calls.iter().flat_map(|(program, calls)| about(program, calls, transfer));
    let predicted = about.filter_map(|call| predicted(call, transfer.flow, &truth));
    for estimate in told.chain(predicted) {
        // Of a method that was asked twice in the same words the first answer counts.
        if path.estimates.iter().all(|e| e.method != estimate.method) {
            path.estimates.push(estimate);
        }
    }
    Joined::Path(Box::new(path), overlaps)
}

/// Names of the ends: their nodes, with the values of the sweep that tell sites apart.
fn ends(run: &Run, transfer: &Transfer<'_>) -> (String, String) {
    let name = |node: usize, prefix: &str| {
        let node = transfer.scenario.nodes.get(node).map_or("", |n| n.name.as_str());
        let sites = run.start.values.iter().filter(|v| v.key.starts_with(prefix)).map(|v| v.value.as_str());
        std::iter::once(node).chain(sites).collect::<Vec<_>>().join(" ")
    };
    (name(transfer.flow.from, SENDER), name(transfer.flow.to, RECEIVER))
}

/// A method at its time.
pub(super) struct Asked<'a> {
    pub(super) result: &'a EstimateResult,
    /// Bytes that the call was given, by the user.
    pub(super) budget: Option<u64>,
    pub(super) window: Window,
    /// Whether the window is the method's own, not that of all probing.
    is_dated: bool,
}

impl Asked<'_> {
    /// What it sent the way of the transfer: half of what is echoed.
    fn sent(&self) -> Sent {
        let part = if self.result.loss.is_some() { 0.5 } else { 1.0 };
        let (bytes, packets) = (self.result.bytes as f64 * part, self.result.packets as f64 * part);
        Sent { window: self.window, bytes, packets }
    }
}

/// The calls that were about the way of the transfer.
fn about<'a>(program: &'a Program, calls: &'a [Call], transfer: &'a Transfer<'_>) -> impl Iterator<Item = &'a Call> {
    let flow = transfer.flow;
    let is = move |host: &str, node: usize| {
        let node = transfer.scenario.nodes.get(node);
        node.is_some_and(|n| host == n.name || host == n.ipv4.to_string() || host == n.ipv6.to_string())
    };
    calls.iter().filter(move |call| match call.start.direction {
        Direction::Up => program.node == flow.from && is(&call.start.host, flow.to),
        Direction::Down => program.node == flow.to && is(&call.start.host, flow.from),
    })
}

/// Each method with its time: they follow each other from the first record of their call on. Where the run's clock is not known,
/// all of the time from the program's start to the transfer's.
fn asked<'a>(program: &'a Program, calls: &'a [Call], transfer: &'a Transfer<'_>, end: &LabRunEnd) -> Vec<Asked<'a>> {
    let whole =
        Window { begin_s: program.start.unwrap_or_default().as_secs_f64(), end_s: transfer.flow.start.as_secs_f64() };
    let mut all = Vec::new();
    for call in about(program, calls, transfer) {
        let mut clock = end.zero_utc_s.zip(call.began_utc_s()).map(|(zero, began)| began - zero);
        for result in &call.results {
            let own = clock.map(|begin_s| Window { begin_s, end_s: begin_s + result.elapsed_ns as f64 / 1e9 });
            clock = own.map(|w| w.end_s);
            let window = own.unwrap_or(whole);
            all.push(Asked { result, budget: call.start.budget_bytes, window, is_dated: own.is_some() });
        }
    }
    all
}
