//! Converts the engine's reports to records: intervals as they arrive, totals at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::CpuSnapshot;
use link::Tally;
use results::lab::{
    Drops, EngineInterval, LabRecord, LabRunEnd, LinkInterval, LinkStatistics, QueueDepth, Verdict, Volume,
};
use results::{DelayHistogram, DelaySummary};
use scenario::{Validity, Wire};

use crate::engine::Report;
use crate::verdict::{ValidityChecks, tolerance};

/// Collects the reports of the workers.
pub(crate) struct Truth {
    run: u32,
    workers: usize,
    wires: Vec<Total>,
    /// Reports of intervals that some workers have not reported yet.
    pending: BTreeMap<Duration, Vec<Report>>,
    lateness: DelayHistogram,
    uncertainty: DelayHistogram,
    busiest: f64,
    scheduling: &'static str,
    /// CPU times at the start of the run and at the end of the last interval.
    cpu: (CpuSnapshot, CpuSnapshot),
}

/// Totals of one wire over the whole run.
struct Total {
    info: Wire,
    tally: Option<Tally>,
    lateness: DelayHistogram,
    emulator: u64,
}

impl Truth {
    pub(crate) fn new(run: u32, workers: usize, wires: &[Wire]) -> Self {
        let total =
            |info: &Wire| Total { info: info.clone(), tally: None, lateness: DelayHistogram::new(), emulator: 0 };
        let cpu = CpuSnapshot::read();
        Self {
            run,
            workers,
            wires: wires.iter().map(total).collect(),
            pending: BTreeMap::new(),
            lateness: DelayHistogram::new(),
            uncertainty: DelayHistogram::new(),
            busiest: 0.0,
            scheduling: "",
            cpu: (cpu.clone(), cpu),
        }
    }

    /// Handles a report of a run that ends at `end`, like [`Self::handle`]. Later packets, with which flows exchange
    /// results, do not count.
    pub(crate) fn handle_until(&mut self, report: Report, end: Duration) -> Vec<LabRecord> {
        if report.end <= end { self.handle(report) } else { Vec::new() }
    }

    /// Handles the report of a worker. Returns the records of the interval once all workers have reported it.
    pub(crate) fn handle(&mut self, report: Report) -> Vec<LabRecord> {
        let start = report.start;
        let all = self.pending.entry(start).or_default();
        all.push(report);
        if all.len() < self.workers {
            return Vec::new();
        }
        let mut reports = self.pending.remove(&start).unwrap_or_default();
        reports.sort_by_key(|r| r.worker);
        let mut lateness = DelayHistogram::new();
        let count = |r| self.count_links(r, &mut lateness);
        let mut links: Vec<(usize, LinkInterval)> = reports.iter().flat_map(count).collect();
        // The links are in the order of the plan, independent of the assignment to workers.
        links.sort_by_key(|(wire, _)| *wire);
        let mut records: Vec<LabRecord> = links.into_iter().map(|(_, l)| LabRecord::Link(l)).collect();
        records.push(LabRecord::Engine(self.count_engine(&reports, &lateness)));
        records
    }

    /// Adds the counts of a worker's links to the totals, and their lateness to `all`.
    fn count_links(&mut self, report: &Report, all: &mut DelayHistogram) -> Vec<(usize, LinkInterval)> {
        let mut links = Vec::new();
        for wire in &report.wires {
            let Some(total) = self.wires.get_mut(wire.wire) else { continue };
            let mut lateness = DelayHistogram::new();
            wire.lateness.iter().for_each(|ns| lateness.record_nanos(u64::from(*ns)));
            total.lateness.merge(&lateness);
            all.merge(&lateness);
            total.emulator += wire.lost;
            match &mut total.tally {
                Some(sum) => sum.merge(&wire.tally),
                None => total.tally = Some(wire.tally.clone()),
            }
            let span = (report.start, report.end);
            let interval = link_interval(self.run, &total.info, span, &wire.tally, wire.lost, lateness.summary());
            links.push((wire.wire, interval));
        }
        links
    }

    fn count_engine(&mut self, reports: &[Report], lateness: &DelayHistogram) -> EngineInterval {
        let mut uncertainty = DelayHistogram::new();
        let (mut start, mut end) = (Duration::MAX, Duration::ZERO);
        let (mut worker_cpu, mut held_bytes) = (Vec::new(), 0);
        for report in reports {
            (start, end) = (start.min(report.start), end.max(report.end));
            let span = report.end.saturating_sub(report.start);
            worker_cpu.push(report.cpu.as_secs_f64() / span.as_secs_f64().max(1e-9));
            held_bytes += report.held;
            report.uncertainty.iter().for_each(|ns| uncertainty.record_nanos(u64::from(*ns)));
        }
        self.lateness.merge(lateness);
        self.uncertainty.merge(&uncertainty);
        self.scheduling = reports.first().map_or("", |r| r.scheduling);
        self.busiest = worker_cpu.iter().copied().fold(self.busiest, f64::max);
        let cpu = CpuSnapshot::read();
        let (machine_cpu, stolen_cpu) = (cpu.busy_since(&self.cpu.1), cpu.stolen_since(&self.cpu.1));
        self.cpu.1 = cpu;
        EngineInterval {
            run: self.run,
            start_s: start.as_secs_f64(),
            end_s: end.as_secs_f64(),
            worker_cpu,
            machine_cpu,
            stolen_cpu,
            lateness: lateness.summary(),
            arrival_uncertainty: uncertainty.summary(),
            scheduling: self.scheduling.to_owned(),
            held_bytes,
        }
    }

    /// Adds packets that a node's device dropped because the engine did not read them in time.
    pub(crate) fn add_device_drops(&mut self, wire: usize, packets: u64) {
        if let Some(total) = self.wires.get_mut(wire) {
            total.emulator += packets;
        }
    }

    /// Adds the reasons against the validity of the run, within the limits of the scenario.
    pub(crate) fn judge(&self, limits: &Validity, checks: &mut ValidityChecks) {
        let configured = limits.lateness_p99;
        let p99 = |h: &DelayHistogram| h.summary().map_or(Duration::ZERO, |s| Duration::from_nanos(s.p99_ns));
        for wire in &self.wires {
            let place = format!("{} ({} > {})", wire.info.link, wire.info.from, wire.info.to);
            checks.late(&place, p99(&wire.lateness), tolerance(configured, wire.info.settings.delay));
            checks.lost(&place, wire.emulator);
        }
        checks.stolen(self.stolen_cpu(), limits.stolen_cpu);
        if self.scheduling != "SCHED_FIFO" {
            checks.advise("run as root to give the emulator real-time priority (SCHED_FIFO)");
        }
        let shortest = self.wires.iter().map(|w| w.info.settings.delay).min().unwrap_or_default();
        checks.waited(p99(&self.uncertainty), tolerance(configured, shortest));
    }

    /// Totals of each wire.
    pub(crate) fn totals(&self) -> Vec<LinkStatistics> {
        let total = |wire: &Total| {
            let tally = wire.tally.clone().unwrap_or_default();
            link_statistics(&wire.info, &tally, wire.emulator, wire.lateness.summary())
        };
        self.wires.iter().map(total).collect()
    }

    /// The last record of a run without flows and programs.
    pub(crate) fn end(&self, verdict: Verdict) -> LabRunEnd {
        LabRunEnd {
            run: self.run,
            verdict,
            interrupted: false,
            start_utc_s: None,
            links: self.totals(),
            flows: Vec::new(),
            traffic: None,
            programs: Vec::new(),
            full_sockets: Vec::new(),
            route_changes: Vec::new(),
            busiest_worker: self.busiest,
            stolen_cpu: self.stolen_cpu(),
            lateness: self.lateness.summary(),
        }
    }

    /// Share of the machine's CPU time that the hypervisor stole, from the start of the run to the last report.
    pub(crate) fn stolen_cpu(&self) -> Option<f64> {
        self.cpu.1.stolen_since(&self.cpu.0)
    }

    pub(crate) fn lateness(&self) -> Option<DelaySummary> {
        self.lateness.summary()
    }

    pub(crate) fn busiest_worker(&self) -> f64 {
        self.busiest
    }
}

/// The record of a wire in one interval. `emulator` is the number of packets that the emulator lost.
pub(crate) fn link_interval(
    run: u32,
    wire: &Wire,
    (start, end): (Duration, Duration),
    tally: &Tally,
    emulator: u64,
    lateness: Option<DelaySummary>,
) -> LinkInterval {
    LinkInterval {
        run,
        start_s: start.as_secs_f64(),
        end_s: end.as_secs_f64(),
        statistics: link_statistics(wire, tally, emulator, lateness),
    }
}

/// The statistics of a wire: one direction of a link.
pub(crate) fn link_statistics(
    wire: &Wire,
    tally: &Tally,
    emulator: u64,
    lateness: Option<DelaySummary>,
) -> LinkStatistics {
    LinkStatistics {
        link: wire.link.clone(),
        from: wire.from.clone(),
        to: wire.to.clone(),
        offered: volume(tally.offered),
        delivered: volume(tally.delivered),
        duplicated: tally.duplicated.packets,
        reordered: tally.reordered,
        dropped: drops(tally, emulator),
        queue: depth(tally),
        wait: wait(tally),
        utilisation: tally.utilisation(),
        lateness,
    }
}

fn volume(v: link::Volume) -> Volume {
    Volume { packets: v.packets, bytes: v.bytes }
}

fn drops(tally: &Tally, emulator: u64) -> Drops {
    let d = &tally.dropped;
    Drops {
        queue: d.queue.packets,
        codel: d.codel.packets,
        loss: d.loss.packets,
        listed: d.listed.packets,
        outage: d.outage.packets,
        mtu: d.mtu.packets,
        emulator,
    }
}

fn depth(tally: &Tally) -> QueueDepth {
    let quantile = |q| tally.queue_bytes.quantile(q).unwrap_or(0);
    QueueDepth {
        p50_bytes: quantile(0.5),
        p95_bytes: quantile(0.95),
        p99_bytes: quantile(0.99),
        max_bytes: quantile(1.0),
    }
}

fn wait(tally: &Tally) -> Option<DelaySummary> {
    let mut histogram = DelayHistogram::new();
    tally.wait_ns.buckets().for_each(|(ns, packets)| histogram.record_many(ns, packets));
    histogram.summary()
}

#[cfg(test)]
mod tests;
