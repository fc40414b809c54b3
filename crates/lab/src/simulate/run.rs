//! Simulated runs: the records of the simulator, in the form of any run.

use std::path::Path;
use std::time::Duration;

use link::Tally;
use results::DelayHistogram;
use results::lab::{EngineInterval, FlowInterval, FlowTotals, LabRecord, LabRunEnd, LinkStatistics, Transfer, Verdict};
use scenario::{Extent, Flow, Scenario, Transport, Wire};
use sim::{Completion, FlowState, World};
use units::Bytes;

use super::estimates::Calls;
use super::overlay::{Members, Observations};
use crate::path_parameters::path_parameters;
use crate::{LabError, flow, traffic, transfers, truth};

/// Interval at which the smoothed round-trip time of a flow is sampled.
const RTT_INTERVAL: Duration = Duration::from_millis(10);
/// Time that a transfer may take after the end of the run, as in a run on a kernel.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(1);

/// Makes one simulated run. Calls `observe` with each record, including the last one. The calls of `longhaul estimate`
/// write their records below `directory`.
///
/// # Errors
/// The scenario has a part that the simulator does not have, or a file cannot be written.
pub(crate) fn run(
    scenario: &Scenario,
    (run, seed): (u32, u64),
    directory: &Path,
    observe: &mut dyn FnMut(&LabRecord),
    interrupted: &dyn Fn() -> usize,
) -> Result<Simulated, LabError> {
    let Members { tunnels, observations } = super::overlay::members(scenario, seed)?;
    let world = World::with_members(scenario, seed, tunnels)
        .map_err(|missing| LabError::Unknown(missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    let mut simulation = Simulation {
        scenario,
        run,
        wires: scenario.wires().into_iter().map(|wire| (wire, Tally::default())).collect(),
        flows: scenario
            .flows
            .iter()
            .map(|f| Recorder::new(f, run, scenario.record.interval, scenario.duration))
            .collect(),
        outcomes: transfers::Outcomes::new(scenario),
        observations: observations.clone(),
        calls: Calls::new(scenario),
        world,
        link_start: Duration::ZERO,
        observe,
    };
    let stopped = simulation.follow(interrupted);
    simulation.take_estimates();
    simulation.calls.write(scenario, directory)?;
    let zero = simulation.world.zero();
    let end = simulation.conclude(stopped);
    Ok(Simulated { end, control_bytes: observations.control_bytes(zero) })
}

/// A simulated run.
pub(crate) struct Simulated {
    pub(crate) end: LabRunEnd,
    /// Bytes of the overlay's control traffic in each [`super::overlay::CONTROL_INTERVAL`].
    pub(crate) control_bytes: Vec<u64>,
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    run: u32,
    world: World,
    wires: Vec<(Wire, Tally)>,
    flows: Vec<Recorder>,
    outcomes: transfers::Outcomes,
    observations: Observations,
    calls: Calls,
    /// Start of the present interval of the links.
    link_start: Duration,
    observe: &'a mut dyn FnMut(&LabRecord),
}

impl Simulation<'_> {
    /// Runs until the end; returns true if the user interrupted it.
    fn follow(&mut self, interrupted: &dyn Fn() -> usize) -> bool {
        let (end, interval) = (self.scenario.duration, self.scenario.record.interval);
        let mut next_sample = RTT_INTERVAL;
        while self.link_start < end {
            if interrupted() > 0 {
                return true;
            }
            let link_end = (self.link_start + interval).min(end);
            let next_flow = self.flows.iter().filter_map(Recorder::next).min().unwrap_or(end);
            let until = link_end.min(next_sample).min(next_flow);
            self.world.run_until(until);
            for (number, recorder) in self.flows.iter_mut().enumerate() {
                if recorder.is_due(until) || until == next_sample {
                    recorder.observe(until, self.world.flow(number));
                }
            }
            if until == next_sample {
                next_sample += RTT_INTERVAL;
            }
            if until == link_end {
                self.record_links(link_end);
            }
        }
        false
    }

    fn record_links(&mut self, end: Duration) {
        let span = (self.link_start, end);
        self.link_start = end;
        for ((wire, total), tally) in self.wires.iter_mut().zip(self.world.take_tallies()) {
            let record = truth::link_interval(self.run, wire, span, &tally, 0, None);
            total.merge(&tally);
            (self.observe)(&LabRecord::Link(record));
        }
        self.record_transfers();
        (self.observe)(&LabRecord::Engine(EngineInterval {
            run: self.run,
            start_s: span.0.as_secs_f64(),
            end_s: end.as_secs_f64(),
            worker_cpu: Vec::new(),
            machine_cpu: None,
            stolen_cpu: None,
            lateness: None,
            arrival_uncertainty: None,
            scheduling: String::new(),
            held_bytes: self.world.held_bytes(),
        }));
    }

    fn take_estimates(&mut self) {
        for (index, event) in self.world.take_estimate_events() {
            self.calls.add(self.scenario, index, event);
        }
    }

    fn record_transfers(&mut self) {
        for completion in self.world.take_completions() {
            self.record_transfer(completion, None);
        }
    }

    fn record_transfer(&mut self, completion: Completion, error: Option<String>) {
        let mice = &self.scenario.mice[completion.stream];
        let path = path_parameters(self.scenario, mice.from, mice.to);
        let ideal = path.and_then(|p| estimate::model::ideal_completion(Bytes::new(completion.bytes), p));
        let transfer = Transfer {
            run: self.run,
            flow: mice.name.clone(),
            start_s: completion.start.as_secs_f64(),
            bytes: completion.bytes,
            completion_ns: completion.took.map(units::nanos),
            ideal_ns: ideal.map(units::nanos),
            error,
        };
        self.outcomes.add(&transfer);
        (self.observe)(&LabRecord::Transfer(transfer));
    }

    /// Records what is left at the end of the run, and its totals.
    fn conclude(mut self, interrupted: bool) -> LabRunEnd {
        if !interrupted && !self.scenario.mice.is_empty() {
            self.world.run_until(self.scenario.duration + TRANSFER_TIMEOUT);
        }
        self.record_transfers();
        for completion in self.world.incomplete() {
            self.record_transfer(completion, Some("the run ended before the transfer was complete".to_owned()));
        }
        let (mut flows, mut totals) = (Vec::new(), Vec::new());
        for (number, recorder) in std::mem::take(&mut self.flows).into_iter().enumerate() {
            let (intervals, total) = recorder.finish(self.link_start, self.world.flow(number));
            flows.push(traffic::received(&intervals));
            intervals.into_iter().for_each(|i| (self.observe)(&LabRecord::Flow(i)));
            totals.push(total);
        }
        totals.extend(self.outcomes.totals());
        let links: Vec<LinkStatistics> =
            self.wires.iter().map(|(w, t)| truth::link_statistics(w, t, 0, None)).collect();
        let spans = (self.scenario.duration, self.scenario.record.interval);
        let end = LabRunEnd {
            run: self.run,
            verdict: Verdict::Valid,
            interrupted,
            start_utc_s: None,
            route_changes: self.observations.route_changes(self.world.zero()),
            traffic: traffic::traffic(&flows, &totals, &links, spans),
            links,
            flows: totals,
            programs: self.calls.ends(self.scenario),
            full_sockets: Vec::new(),
            busiest_worker: 0.0,
            stolen_cpu: None,
            lateness: None,
        };
        (self.observe)(&LabRecord::RunEnd(end.clone()));
        end
    }
}

/// Cuts a flow into intervals that count from its start, until its data has drained or the run ends.
struct Recorder {
    flow: Flow,
    run: u32,
    interval: Duration,
    /// End of the load: the application stops.
    load_end: Duration,
    run_end: Duration,
    start: Duration,
    before: FlowState,
    intervals: Vec<FlowInterval>,
    srtt: DelayHistogram,
    /// Time from the start to the end of the load, and the bytes received by then.
    load: Option<(Duration, u64)>,
    is_done: bool,
}

impl Recorder {
    fn new(flow: &Flow, run: u32, interval: Duration, run_end: Duration) -> Self {
        let load_end = match flow.extent {
            Extent::Duration(time) => (flow.start + time).min(run_end),
            Extent::Bytes(_) => run_end,
        };
        Self {
            flow: flow.clone(),
            run,
            interval,
            load_end,
            run_end,
            start: flow.start,
            before: FlowState::default(),
            intervals: Vec::new(),
            srtt: DelayHistogram::new(),
            load: None,
            is_done: false,
        }
    }

    /// Next time at which the flow must be observed; `None` after its end.
    fn next(&self) -> Option<Duration> {
        let end = if self.load.is_none() { self.load_end } else { self.run_end };
        (!self.is_done).then(|| (self.start + self.interval).min(end))
    }

    fn is_due(&self, now: Duration) -> bool {
        self.next().is_some_and(|at| at <= now)
    }

    fn observe(&mut self, now: Duration, state: FlowState) {
        if self.is_done || now < self.flow.start {
            return;
        }
        if let Some(srtt) = state.srtt {
            self.srtt.record_nanos(units::nanos(srtt));
        }
        if let Some(arrived) = state.arrived.filter(|at| *at <= self.load_end) {
            self.end_load(arrived, state.bytes);
            self.cut(arrived.max(self.start), state);
            self.is_done = true;
            return;
        }
        if now >= self.load_end && self.load.is_none() {
            self.end_load(now, state.bytes);
        }
        let has_ended = now >= self.run_end || (self.load.is_some() && state.is_drained);
        if has_ended || now >= self.start + self.interval {
            self.cut(now, state);
        }
        self.is_done = has_ended;
    }

    fn end_load(&mut self, at: Duration, bytes: u64) {
        self.load = Some((at.saturating_sub(self.flow.start), bytes));
    }

    /// Ends the present interval.
    fn cut(&mut self, end: Duration, state: FlowState) {
        let bytes = state.bytes - self.before.bytes;
        let span = end.saturating_sub(self.start);
        if span.is_zero() && bytes == 0 {
            return;
        }
        let since = |now: Option<u64>, before: Option<u64>| now.map(|n| n.saturating_sub(before.unwrap_or(0)));
        self.intervals.push(FlowInterval {
            run: self.run,
            flow: self.flow.name.clone(),
            start_s: self.start.as_secs_f64(),
            end_s: end.as_secs_f64(),
            bytes,
            throughput_bps: rate_bps(bytes, span),
            retransmits: since(state.retransmits, self.before.retransmits),
            lost: since(state.lost, self.before.lost),
            block_rtt: None,
            srtt_ns: state.srtt.map(units::nanos),
            cwnd_bytes: state.window_bytes,
            limit: None,
        });
        (self.start, self.before) = (end, state);
    }

    /// The intervals and totals of the flow.
    fn finish(mut self, now: Duration, state: FlowState) -> (Vec<FlowInterval>, FlowTotals) {
        // A run that the user interrupted ends within an interval.
        if !self.is_done && now > self.start {
            self.end_load(now, state.bytes);
            self.cut(now, state);
        }
        let base = flow::of_intervals(&self.flow.name, &self.intervals);
        let (span, bytes) = self.load.unwrap_or_default();
        let is_tcp = self.flow.transport == Transport::Tcp;
        let segments = self.before.mss.map(|mss| base.bytes.div_ceil(u64::from(mss)));
        let totals = FlowTotals {
            throughput_bps: Some(rate_bps(bytes, span)),
            steady_bps: self.steady_bps(),
            packets: if is_tcp { segments } else { self.before.datagrams },
            retransmits: self.before.retransmits.filter(|_| is_tcp),
            kernel_srtt: self.srtt.summary(),
            ..base
        };
        (self.intervals, totals)
    }

    /// Median rate of the second half of the flow.
    fn steady_bps(&self) -> Option<u64> {
        let (start_s, (span, _)) = (self.flow.start.as_secs_f64(), self.load?);
        let second_half = start_s + span.as_secs_f64() / 2.0..start_s + span.as_secs_f64();
        let late = self.intervals.iter().filter(|i| second_half.contains(&i.start_s));
        let mut rates: Vec<u64> = late.map(|i| i.throughput_bps).collect();
        rates.sort_unstable();
        rates.get(rates.len() / 2).copied()
    }
}

fn rate_bps(bytes: u64, span: Duration) -> u64 {
    units::Rate::of(Bytes::new(bytes), span).as_bps()
}
