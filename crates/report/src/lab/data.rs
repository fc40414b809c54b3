//! Data of the charts for the script of the page, within bounds that keep the page usable.

use results::DelaySummary;
use results::lab::{Drops, EngineInterval, FlowInterval, LabRun, LinkInterval, RouteChange, ScheduleMark, Transfer};
use serde::Serialize;

use super::format::{arrow, causes, link_label, span};
use super::records::{Intervals, LabReport, LinkKey};
use super::sweep::{self, SweepPlot};
use crate::summary::finite;

/// Maximum count of numbers in the page, all runs together: about 15 MB of text.
const VALUES_MAX: usize = 2_000_000;

/// Maximum number of points of a curve, more than the columns of a screen.
const POINTS_MAX: usize = 1500;

/// Maximum number of link directions of one run; the busiest are kept.
const LINKS_MAX: usize = 64;

/// Maximum number of small transfers of one stream.
const TRANSFERS_MAX: usize = 3000;

/// Maximum number of workers with separate curves.
const WORKERS_MAX: usize = 8;

#[derive(Debug, Serialize)]
pub(super) struct LabData<'a> {
    pub(super) plot: Option<SweepPlot>,
    pub(super) runs: Vec<Charted<'a>>,
    /// Parts that the charts leave out.
    #[serde(skip)]
    pub(super) left_out: Vec<String>,
}

/// One run that can be selected.
#[derive(Debug, Serialize)]
pub(super) struct Charted<'a> {
    pub(super) run: u32,
    label: String,
    state: &'static str,
    /// Reasons of an invalid run.
    reasons: &'a [String],
    #[serde(flatten)]
    pub(super) data: &'a RunData,
}

/// Curves of one run; each series refers to its times by an index into `times`.
#[derive(Debug, Serialize)]
pub(super) struct RunData {
    end_s: f64,
    /// Middle of each interval.
    times: Vec<Vec<f64>>,
    marks: Vec<ScheduleMark>,
    flows: Vec<FlowData>,
    mice: Vec<MiceData>,
    links: Vec<LinkData>,
    engine: Option<EngineData>,
    /// Notes on thinned data.
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FlowData {
    label: String,
    t: usize,
    bps: Vec<u64>,
    cwnd_bytes: Vec<Option<u64>>,
    srtt_ns: Vec<Option<u64>>,
    block_p50_ns: Vec<Option<u64>>,
    block_p95_ns: Vec<Option<u64>>,
}

#[derive(Debug, Serialize)]
struct MiceData {
    label: String,
    start_s: Vec<f64>,
    completion_ns: Vec<u64>,
    /// Start times of incomplete transfers.
    incomplete_s: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct LinkData {
    label: String,
    t: usize,
    wait_p50_ns: Vec<Option<u64>>,
    wait_p95_ns: Vec<Option<u64>>,
    wait_max_ns: Vec<Option<u64>>,
    queue_p50_bytes: Vec<u64>,
    queue_p95_bytes: Vec<u64>,
    queue_max_bytes: Vec<u64>,
    utilisation: Vec<Option<f64>>,
    /// Share of offered packets that were lost at random or by list; empty without such losses.
    lost: Vec<Option<f64>>,
    drops: Vec<DropData>,
}

#[derive(Debug, Serialize)]
struct DropData {
    cause: &'static str,
    packets: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct EngineData {
    t: usize,
    lateness_p99_ns: Vec<Option<u64>>,
    lateness_max_ns: Vec<Option<u64>>,
    arrival_p99_ns: Vec<Option<u64>>,
    cpus: Vec<CpuData>,
}

#[derive(Debug, Serialize)]
struct CpuData {
    label: String,
    share: Vec<Option<f64>>,
}

pub(super) fn lab_data(report: &LabReport) -> LabData<'_> {
    let mut data = LabData { plot: sweep::plot(report), runs: Vec::new(), left_out: Vec::new() };
    let mut order: Vec<_> = report.runs.iter().filter_map(|r| Some((r, r.charts.as_ref()?))).collect();
    order.sort_by_key(|(r, _)| r.rank());
    let mut room = VALUES_MAX;
    for (run, charts) in order {
        let size = charts.size();
        // The first run is always included; its size is bounded by the number of links, flows and points.
        if !data.runs.is_empty() && size > room {
            continue;
        }
        room = room.saturating_sub(size);
        data.runs.push(Charted {
            run: run.start.run,
            label: report.run_label(run),
            state: run.state().0,
            reasons: run.reasons(),
            data: charts,
        });
    }
    if data.runs.len() < report.runs.len() {
        data.left_out.push(format!(
            "The charts hold {} of {} runs, first repetitions first, to keep the page small; the tables over all runs \
             and the result file hold all.",
            data.runs.len(),
            report.runs.len()
        ));
    }
    data.runs.sort_by_key(|r| r.run);
    data
}

impl RunData {
    /// Creates the data of a run; `route_changes` are those of the overlay nodes.
    pub(super) fn new(start: &LabRun, run: &Intervals, route_changes: &[RouteChange]) -> Self {
        let mut data = Self {
            end_s: round(run.end_s().max(finite(start.duration_s))),
            times: Vec::new(),
            marks: marks(start, route_changes),
            flows: Vec::new(),
            mice: Vec::new(),
            links: Vec::new(),
            engine: None,
            notes: Vec::new(),
        };
        // An interval that ends with the plan may be some milliseconds late.
        let over = run.end_s() - finite(start.duration_s);
        if over > 1.0 {
            data.marks.push(ScheduleMark { at_s: round(start.duration_s), text: "planned end of the run".to_owned() });
            data.notes.push(format!(
                "The last records are {} later than the planned end of {}: data buffered by senders until then was \
                 still delivered.",
                span(over),
                span(start.duration_s)
            ));
        }
        flows(&mut data, start, run);
        mice(&mut data, run);
        links(&mut data, run);
        engine(&mut data, run);
        let lengths = run.links.values().map(Vec::len).chain(run.flows.values().map(Vec::len));
        let together = stride(lengths.chain([run.engine.len()]).max().unwrap_or(0));
        if together > 1 {
            data.notes.push(format!(
                "Each point stands for up to {together} intervals: the mean of rates and utilisation, the sum of \
                 drops, the largest window, and the largest quantile of delays and queues."
            ));
        }
        data
    }

    pub(super) const fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    fn size(&self) -> usize {
        let times: usize = self.times.iter().map(Vec::len).sum();
        let flows: usize = self.flows.iter().map(|f| 5 * f.bps.len()).sum();
        let mice: usize = self.mice.iter().map(|m| 2 * m.start_s.len() + m.incomplete_s.len()).sum();
        let links: usize = self.links.iter().map(|l| (7 + l.drops.len()) * l.utilisation.len()).sum();
        let engine: usize = self.engine.iter().map(|e| (3 + e.cpus.len()) * e.lateness_p99_ns.len()).sum();
        times + flows + mice + links + engine
    }

    /// Returns the index of these times; series with the same intervals share one list.
    fn times(&mut self, t: Vec<f64>) -> usize {
        self.times.iter().position(|known| *known == t).unwrap_or_else(|| {
            self.times.push(t);
            self.times.len() - 1
        })
    }
}

/// Combines the changes of one moment into one mark.
fn marks(start: &LabRun, route_changes: &[RouteChange]) -> Vec<ScheduleMark> {
    let mut all: Vec<(f64, String)> = start.changes.iter().map(|c| (round(c.at_s), c.text.clone())).collect();
    // Earlier records are the initial routes between the nodes, not changes.
    all.extend(of_flows(start, route_changes).filter(|w| w.at_s >= 0.0).map(|w| (round(w.at_s), route_change_text(w))));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut marks: Vec<ScheduleMark> = Vec::new();
    for (at_s, text) in all {
        match marks.last_mut().filter(|last| last.at_s == at_s) {
            Some(last) => last.text.push_str(&format!("; {text}")),
            None => marks.push(ScheduleMark { at_s, text }),
        }
    }
    marks
}

/// Route changes on paths of flows.
pub(super) fn of_flows<'a>(
    start: &'a LabRun,
    route_changes: &'a [RouteChange],
) -> impl Iterator<Item = &'a RouteChange> {
    route_changes.iter().filter(|w| start.flows.iter().any(|f| f.from == w.member && f.to == w.destination))
}

/// Description of a route change.
pub(super) fn route_change_text(w: &RouteChange) -> String {
    let route = |r: &Option<String>| r.clone().unwrap_or_else(|| "none".to_owned());
    format!("{} to {}: {} -> {} ({})", w.member, w.destination, route(&w.from), route(&w.to), w.reason)
}

/// Number of neighbouring intervals per point.
const fn stride(intervals: usize) -> usize {
    let together = intervals.div_ceil(POINTS_MAX);
    if together == 0 { 1 } else { together }
}

/// Groups of neighbouring intervals, one for each point.
fn groups<T>(rows: &[T]) -> core::slice::Chunks<'_, T> {
    rows.chunks(stride(rows.len()))
}

fn middles<T>(rows: &[T], span: impl Fn(&T) -> (f64, f64)) -> Vec<f64> {
    let of = |g: &[T]| {
        let start = g.first().map_or(0.0, |r| finite(span(r).0));
        let end = g.last().map_or(0.0, |r| finite(span(r).1));
        round(f64::midpoint(start, end))
    };
    groups(rows).map(of).collect()
}

fn largest<T>(rows: &[T], of: impl Fn(&T) -> Option<u64>) -> Vec<Option<u64>> {
    groups(rows).map(|g| g.iter().filter_map(&of).max()).collect()
}

fn total<T>(rows: &[T], of: impl Fn(&T) -> u64) -> Vec<u64> {
    groups(rows).map(|g| g.iter().fold(0_u64, |a, r| a.saturating_add(of(r)))).collect()
}

/// Mean by time.
fn mean<T>(rows: &[T], span: impl Fn(&T) -> (f64, f64), of: impl Fn(&T) -> Option<f64>) -> Vec<Option<f64>> {
    let one = |g: &[T]| {
        let weighted = g.iter().filter_map(|r| Some((finite(of(r)?), finite(span(r).1 - span(r).0).max(0.0))));
        let (sum, time) = weighted.fold((0.0, 0.0), |(s, t), (v, w)| (s + v * w, t + w));
        (time > 0.0).then(|| round(sum / time))
    };
    groups(rows).map(one).collect()
}

fn flows(data: &mut RunData, start: &LabRun, run: &Intervals) {
    for (name, rows) in in_order(start, run) {
        let t = data.times(middles(rows, |r| (r.start_s, r.end_s)));
        let delay = |of: fn(&DelaySummary) -> u64| largest(rows, |r| r.block_rtt.as_ref().map(of));
        data.flows.push(FlowData {
            label: name.clone(),
            t,
            bps: groups(rows).map(goodput).collect(),
            cwnd_bytes: largest(rows, |r| r.cwnd_bytes),
            srtt_ns: largest(rows, |r| r.srtt_ns),
            block_p50_ns: delay(|d| d.p50_ns),
            block_p95_ns: delay(|d| d.p95_ns),
        });
    }
}

/// Flows in the order of the experiment file, followed by flows that the file lacks.
fn in_order<'a>(start: &LabRun, run: &'a Intervals) -> Vec<(&'a String, &'a Vec<FlowInterval>)> {
    let place = |name: &str| start.flows.iter().position(|f| f.flow == name).unwrap_or(usize::MAX);
    let mut all: Vec<_> = run.flows.iter().collect();
    all.sort_by_key(|(name, _)| place(name));
    all
}

/// Recorded rate of a single interval, or mean rate of several.
fn goodput(group: &[FlowInterval]) -> u64 {
    match group {
        [one] => one.throughput_bps,
        several => {
            let bytes = several.iter().fold(0_u64, |a, r| a.saturating_add(r.bytes)) as f64;
            let time: f64 = several.iter().map(|r| finite(r.end_s - r.start_s).max(0.0)).sum();
            if time > 0.0 { (bytes * 8.0 / time) as u64 } else { 0 }
        }
    }
}

fn mice(data: &mut RunData, run: &Intervals) {
    for (name, transfers) in &run.transfers {
        let done: Vec<(f64, u64)> =
            transfers.iter().filter_map(|t: &Transfer| Some((round(t.start_s), t.completion_ns?))).collect();
        let together = done.len().div_ceil(TRANSFERS_MAX).max(1);
        let drawn: Vec<(f64, u64)> =
            done.chunks(together).filter_map(|g| g.iter().copied().max_by_key(|d| d.1)).collect();
        if together > 1 {
            data.notes.push(format!("Of every {together} transfers of {name} the slowest is drawn."));
        }
        let incomplete = transfers.iter().filter(|t| t.completion_ns.is_none()).map(|t| round(t.start_s));
        data.mice.push(MiceData {
            label: name.clone(),
            start_s: drawn.iter().map(|d| d.0).collect(),
            completion_ns: drawn.iter().map(|d| d.1).collect(),
            incomplete_s: incomplete.take(TRANSFERS_MAX).collect(),
        });
    }
}

fn links(data: &mut RunData, run: &Intervals) {
    let volume = |rows: &[LinkInterval]| rows.iter().fold(0_u64, |a, r| a.saturating_add(r.statistics.offered.bytes));
    let mut busy: Vec<(u64, &LinkKey, &Vec<LinkInterval>)> =
        run.links.iter().map(|(key, rows)| (volume(rows), key, rows)).filter(|(bytes, ..)| *bytes > 0).collect();
    busy.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let idle = run.links.len() - busy.len();
    if idle > 0 {
        data.notes.push(format!("{idle} link directions without traffic are not drawn."));
    }
    if busy.len() > LINKS_MAX {
        data.notes
            .push(format!("Of {} link directions with traffic the {LINKS_MAX} busiest can be drawn.", busy.len()));
    }
    for (_, key, rows) in busy.into_iter().take(LINKS_MAX) {
        let span = |r: &LinkInterval| (r.start_s, r.end_s);
        let t = data.times(middles(rows, span));
        let wait = |of: fn(&DelaySummary) -> u64| largest(rows, |r| r.statistics.wait.as_ref().map(of));
        let queue = |of: fn(&LinkInterval) -> u64| -> Vec<u64> {
            largest(rows, |r| Some(of(r))).into_iter().map(Option::unwrap_or_default).collect()
        };
        data.links.push(LinkData {
            label: arrow(&link_label(&key.link, &key.from, &key.to)),
            t,
            wait_p50_ns: wait(|d| d.p50_ns),
            wait_p95_ns: wait(|d| d.p95_ns),
            wait_max_ns: wait(|d| d.max_ns),
            queue_p50_bytes: queue(|r| r.statistics.queue.p50_bytes),
            queue_p95_bytes: queue(|r| r.statistics.queue.p95_bytes),
            queue_max_bytes: queue(|r| r.statistics.queue.max_bytes),
            utilisation: mean(rows, span, |r| r.statistics.utilisation),
            lost: lost(rows),
            drops: drops(rows),
        });
    }
}

fn lost(rows: &[LinkInterval]) -> Vec<Option<f64>> {
    let by_chance = |r: &LinkInterval| r.statistics.dropped.loss.saturating_add(r.statistics.dropped.listed);
    if rows.iter().all(|r| by_chance(r) == 0) {
        return Vec::new();
    }
    let sums = total(rows, by_chance).into_iter().zip(total(rows, |r| r.statistics.offered.packets));
    sums.map(|(lost, offered)| (offered > 0).then(|| round(lost as f64 / offered as f64))).collect()
}

/// Causes with at least one dropped packet.
fn drops(rows: &[LinkInterval]) -> Vec<DropData> {
    let all = causes(&Drops::default());
    let of = |(i, (cause, _)): (usize, (&'static str, u64))| DropData {
        cause,
        packets: total(rows, |r| causes(&r.statistics.dropped)[i].1),
    };
    all.into_iter().enumerate().map(of).filter(|d| d.packets.iter().any(|n| *n > 0)).collect()
}

fn engine(data: &mut RunData, run: &Intervals) {
    let rows = &run.engine;
    if rows.is_empty() {
        return;
    }
    let span = |r: &EngineInterval| (r.start_s, r.end_s);
    let late = |of: fn(&DelaySummary) -> u64| largest(rows, |r| r.lateness.as_ref().map(of));
    let workers = rows.iter().map(|r| r.worker_cpu.len()).max().unwrap_or(0);
    let mut cpus: Vec<CpuData> = Vec::new();
    if workers > WORKERS_MAX {
        let busiest = |r: &EngineInterval| r.worker_cpu.iter().copied().map(finite).reduce(f64::max);
        cpus.push(CpuData { label: format!("busiest of {workers} workers"), share: mean(rows, span, busiest) });
    } else {
        let of = |w: usize| mean(rows, span, |r| r.worker_cpu.get(w).copied());
        cpus.extend((0..workers).map(|w| CpuData { label: format!("worker {w}"), share: of(w) }));
    }
    if rows.iter().any(|r| r.machine_cpu.is_some()) {
        cpus.push(CpuData { label: "all CPUs of the machine".to_owned(), share: mean(rows, span, |r| r.machine_cpu) });
    }
    let t = data.times(middles(rows, span));
    data.engine = Some(EngineData {
        t,
        lateness_p99_ns: late(|d| d.p99_ns),
        lateness_max_ns: late(|d| d.max_ns),
        arrival_p99_ns: largest(rows, |r| r.arrival_uncertainty.as_ref().map(|d| d.p99_ns)),
        cpus,
    });
}

/// Rounds to microseconds, which suffice on a time axis of seconds and keep the file small.
fn round(v: f64) -> f64 {
    (finite(v) * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(i: u32, bytes: u64) -> FlowInterval {
        let start_s = f64::from(i);
        FlowInterval { start_s, end_s: start_s + 1.0, bytes, throughput_bps: bytes * 8, ..FlowInterval::default() }
    }

    #[test]
    fn a_curve_has_a_bounded_number_of_points_and_keeps_the_bytes() {
        let rows: Vec<FlowInterval> = (0..4000).map(|i| flow(i, u64::from(i % 3) * 1000)).collect();
        let rates: Vec<u64> = groups(&rows).map(goodput).collect();
        assert_eq!((rates.len(), middles(&rows, |r| (r.start_s, r.end_s)).len()), (1334, 1334));
        // Three intervals of 0, 1000 and 2000 bytes each: 1000 bytes a second.
        assert!(rates[..1333].iter().all(|r| *r == 8000));
        assert_eq!(total(&rows, |r| r.bytes).iter().sum::<u64>(), rows.iter().map(|r| r.bytes).sum::<u64>());
    }

    #[test]
    fn a_mean_weighs_by_time_and_a_quantile_is_the_largest() {
        let rows: Vec<FlowInterval> = (0..3001).map(|i| flow(i, 1)).collect();
        let first = mean(&rows, |r| (r.start_s, r.end_s), |r| (r.start_s < 2.0).then_some(r.start_s));
        assert_eq!((first[0], first[1]), (Some(0.5), None));
        assert_eq!(largest(&rows, |r| Some(r.start_s as u64))[0], Some(2));
    }
}
