//! Plain lines for a pipe or a log: a header, some lines for each run, the means at the end.

use std::io::{self, Write};

use results::DelaySummary;
use results::lab::{
    FlowTotals, LabExperiment, LabRecord, LabRun, LabRunEnd, LabSummary, LinkStatistics, PublishedValue, SizeBin,
    Slowdown, Traffic, Verdict,
};

use super::format::{causes, link_label, metric_value, point_label, run_count_text, span, spread, utc};
use super::points;
use crate::columns::Columns;
use crate::sheet::Sheet;
use crate::summary::{bytes, nanos, percent, rate, ratio};

/// Maximum number of link directions in the list: those with drops, the worst first, or all of a small network.
const LINKS_LISTED_MAX: usize = 8;

/// Maximum number of link directions with traffic for a list of all of them.
const SMALL_NETWORK_LINKS_MAX: usize = 4;

/// Maximum width of a name.
const NAME_WIDTH_MAX: usize = 34;

/// Writes the records of an experiment as plain lines, at most 110 columns wide except for long names of experiments.
#[derive(Debug)]
pub struct LabText<W> {
    out: W,
    experiment: Option<LabExperiment>,
    run: Option<LabRun>,
    started: u64,
    /// Scheduling policy of the threads of the current run.
    scheduling: String,
}

impl<W: Write> LabText<W> {
    /// Writes to `out` line by line. For immediate output, pass a `LineWriter` or flush it.
    pub const fn new(out: W) -> Self {
        Self { out, experiment: None, run: None, started: 0, scheduling: String::new() }
    }

    /// Prints the lines that `record` completes; intervals and single transfers print nothing.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn record(&mut self, record: &LabRecord) -> io::Result<()> {
        match record {
            LabRecord::Experiment(e) => {
                self.experiment = Some(e.clone());
                header(&mut Sheet::new(&mut self.out), e)
            }
            LabRecord::Run(r) => {
                self.started += 1;
                self.run = Some(r.clone());
                self.scheduling.clear();
                Ok(())
            }
            LabRecord::RunEnd(e) => {
                let heading = self.heading(e);
                let is_only = self.planned() == 1;
                run_end(&mut Sheet::new(&mut self.out), &heading, &self.scheduling, is_only, e)
            }
            LabRecord::Engine(e) => {
                // The last interval may have no report of a worker.
                if !e.scheduling.is_empty() {
                    self.scheduling.clone_from(&e.scheduling);
                }
                Ok(())
            }
            LabRecord::Summary(s) => summary(&mut Sheet::new(&mut self.out), s, self.experiment.as_ref()),
            LabRecord::Link(_) | LabRecord::Flow(_) | LabRecord::Transfer(_) => Ok(()),
        }
    }

    /// `run 3 (4 of 8), VALID: loss 0.001, repetition 1 of 2`; without an experiment `path, VALID`.
    fn heading(&self, end: &LabRunEnd) -> String {
        let mut text = self.subject(end);
        text.push_str(&format!(", {}", verdict(&end.verdict)));
        if end.interrupted {
            text.push_str(", interrupted");
        }
        let Some(run) = self.run.as_ref().filter(|r| r.run == end.run) else { return text };
        let mut parts = Vec::new();
        if !run.values.is_empty() {
            parts.push(point_label(&run.values));
        }
        if let Some(n) = self.experiment.as_ref().map(|e| e.repetitions).filter(|n| *n > 1) {
            parts.push(format!("repetition {} of {n}", run.repetition + 1));
        }
        if run.attempt > 0 {
            parts.push(format!("attempt {}", run.attempt + 1));
        }
        if !parts.is_empty() {
            text.push_str(&format!(": {}", parts.join(", ")));
        }
        text
    }

    /// Number of planned runs; 1 without an experiment record.
    fn planned(&self) -> u64 {
        self.experiment.as_ref().map_or(1, LabExperiment::planned_runs)
    }

    fn subject(&self, end: &LabRunEnd) -> String {
        match (&self.experiment, &self.run) {
            (None, None) if !end.links.is_empty() => {
                let one = end.links.iter().all(|l| l.link == end.links[0].link);
                if one { end.links[0].link.clone() } else { "emulation".to_owned() }
            }
            _ if self.planned() == 1 => format!("run {}", end.run),
            _ => format!("run {} ({} of {})", end.run, self.started, self.planned().max(self.started)),
        }
    }
}

const fn verdict(v: &Verdict) -> &'static str {
    match v {
        Verdict::Valid => "VALID",
        Verdict::Invalid { .. } => "INVALID",
    }
}

fn reasons(v: &Verdict) -> &[String] {
    match v {
        Verdict::Valid => &[],
        Verdict::Invalid { reasons } => reasons,
    }
}

fn header<W: Write>(sheet: &mut Sheet<'_, W>, e: &LabExperiment) -> io::Result<()> {
    sheet.heading(&format!("experiment {}", e.name))?;
    if !e.about.is_empty() {
        sheet.item("about", &e.about)?;
    }
    sheet.item("started", &format!("{}, seed {}, privilege: {}", utc(e.start_utc_s), e.seed, e.privilege))?;
    sheet.item("size", &run_count_text(e.points, e.repetitions, e.selected_runs))?;
    let h = &e.host;
    let cpus = if h.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", h.cpus) };
    sheet.item("engine", e.engine.text())?;
    sheet.item("machine", &format!("{}, {cpus}, Linux {} {}", h.hostname, h.kernel, h.machine))?;
    e.overrides.iter().try_for_each(|o| sheet.item("changed", &format!("{} = {}", o.key, o.value)))
}

fn run_end<W: Write>(
    sheet: &mut Sheet<'_, W>,
    heading: &str,
    scheduling: &str,
    is_only: bool,
    e: &LabRunEnd,
) -> io::Result<()> {
    sheet.blank()?;
    sheet.heading(heading)?;
    reasons(&e.verdict).iter().try_for_each(|why| sheet.item("INVALID", why))?;
    let (mice, bulk): (Vec<&FlowTotals>, Vec<&FlowTotals>) =
        e.flows.iter().partition(|f| f.completion.is_some() || f.incomplete.is_some());
    flows(sheet, &bulk)?;
    small_transfers(sheet, &mice)?;
    e.traffic.as_ref().map_or(Ok(()), |t| all_traffic(sheet, t))?;
    links(sheet, &e.links, is_only)?;
    for f in &e.flows {
        if let Some(why) = &f.failure {
            sheet.item("FAILED", &format!("flow {}: {why}", f.flow))?;
        }
    }
    for p in e.programs.iter().filter(|p| p.failed) {
        sheet.item("FAILED", &format!("program {} on {}: {}", p.program, p.node, p.status))?;
    }
    for full in &e.full_sockets {
        let text = format!(
            "node {}: {} arrived and found the socket's receive buffer full",
            full.node,
            crate::summary::plural(full.datagrams, "datagram")
        );
        sheet.item("note", &text)?;
    }
    // A simulated run has no emulator.
    if e.busiest_worker <= 0.0 {
        return Ok(());
    }
    let late = e.lateness.as_ref().map(|d| format!("lateness p99 {}, largest {}", nanos(d.p99_ns), nanos(d.max_ns)));
    let busy = Some(format!("busiest worker {} of a CPU", percent(e.busiest_worker)));
    let stolen = e.stolen_cpu.filter(|s| *s > 0.0).map(|s| format!("{} of the machine's CPU time stolen", percent(s)));
    let scheduling = (!scheduling.is_empty()).then(|| scheduling.to_owned());
    sheet.item("emulator", &[late, busy, stolen, scheduling].into_iter().flatten().collect::<Vec<_>>().join("; "))
}

fn flows<W: Write>(sheet: &mut Sheet<'_, W>, all: &[&FlowTotals]) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let delay = |d: Option<&DelaySummary>, of: fn(&DelaySummary) -> u64| d.map(|d| nanos(of(d)));
    let mut t = Columns::new(all.iter().map(|f| f.flow.clone()), NAME_WIDTH_MAX);
    t.number("", "goodput", all.iter().map(|f| Some(f.throughput_bps.map_or_else(|| bytes(f.bytes), rate))));
    t.number("", "steady", all.iter().map(|f| f.steady_bps.map(rate)));
    t.number("", "retr", all.iter().map(|f| f.retransmits.map(|n| n.to_string())));
    t.number("", "RTT p50", all.iter().map(|f| delay(f.kernel_srtt.as_ref(), |d| d.p50_ns)));
    t.number("", "RTT p95", all.iter().map(|f| delay(f.kernel_srtt.as_ref(), |d| d.p95_ns)));
    t.number("", "block RTT p50", all.iter().map(|f| delay(f.block_rtt.as_ref(), |d| d.p50_ns)));
    t.text("", "limited by", all.iter().map(|f| f.limit.clone()));
    t.write(sheet).map(|_| ())
}

fn small_transfers<W: Write>(sheet: &mut Sheet<'_, W>, all: &[&FlowTotals]) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let time = |of: fn(&DelaySummary) -> u64| all.iter().map(move |f| f.completion.as_ref().map(|d| nanos(of(d))));
    let mut t = Columns::new(all.iter().map(|f| f.flow.clone()), NAME_WIDTH_MAX);
    let count = |f: &&FlowTotals| f.completion.as_ref().map_or(0, |d| d.count);
    t.number("", "completed", all.iter().map(|f| Some(count(f).to_string())));
    t.number("", "NOT completed", all.iter().map(|f| f.incomplete.filter(|n| *n > 0).map(|n| n.to_string())));
    t.number("", "completion p50", time(|d| d.p50_ns));
    t.number("", "p95", time(|d| d.p95_ns));
    t.number("", "p99", time(|d| d.p99_ns));
    let slowdown = |of: fn(&Slowdown) -> f64| all.iter().map(move |f| f.slowdown.as_ref().map(|s| factor(of(s))));
    t.number("", "slowdown p50", slowdown(|s| s.p50));
    t.number("", "p99", slowdown(|s| s.p99));
    t.write(sheet)?;
    by_size(sheet, all)
}

/// Formats a slowdown factor.
fn factor(value: f64) -> String {
    metric_value("slowdown", value)
}

fn by_size<W: Write>(sheet: &mut Sheet<'_, W>, all: &[&FlowTotals]) -> io::Result<()> {
    let bins: Vec<(&str, &SizeBin)> =
        all.iter().flat_map(|f| f.sizes.iter().map(|bin| (f.flow.as_str(), bin))).collect();
    // With a single size, the lines above have the same values.
    if bins.len() <= all.len() {
        return Ok(());
    }
    let time =
        |of: fn(&DelaySummary) -> u64| bins.iter().map(move |(_, b)| b.completion.as_ref().map(|d| nanos(of(d))));
    let slowdown = |of: fn(&Slowdown) -> f64| bins.iter().map(move |(_, b)| b.slowdown.as_ref().map(|s| factor(of(s))));
    let mut t = Columns::new(bins.iter().map(|(flow, bin)| format!("{flow} {}", bin.sizes)), NAME_WIDTH_MAX);
    t.number("", "completed", bins.iter().map(|(_, b)| Some(b.completed.to_string())));
    t.number(
        "",
        "NOT completed",
        bins.iter().map(|(_, b)| Some(b.incomplete).filter(|n| *n > 0).map(|n| n.to_string())),
    );
    t.number("", "completion p50", time(|d| d.p50_ns));
    t.number("", "p99", time(|d| d.p99_ns));
    t.number("", "slowdown p50", slowdown(|s| s.p50));
    t.number("", "p99", slowdown(|s| s.p99));
    t.write(sheet).map(|_| ())
}

fn all_traffic<W: Write>(sheet: &mut Sheet<'_, W>, traffic: &Traffic) -> io::Result<()> {
    let mut text = format!("goodput {}", rate(traffic.goodput_bps));
    if traffic.mice_bps > 0 && traffic.flows_bps > 0 {
        text.push_str(&format!(" (flows {}, small transfers {})", rate(traffic.flows_bps), rate(traffic.mice_bps)));
    }
    if let (Some(index), Some(time)) = (traffic.jain, traffic.jain_over_s) {
        text.push_str(&format!("; Jain's index {} over {}", metric_value("jain", index), span(time)));
    }
    if let Some(share) = traffic.utilisation {
        text.push_str(&format!("; busiest link used {}", percent(share)));
    }
    sheet.item("all traffic", &text)
}

/// Published values beside the means of the first point.
fn published<W: Write>(sheet: &mut Sheet<'_, W>, s: &LabSummary, all: &[PublishedValue]) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let ours = |p: &PublishedValue| s.points.first().and_then(|point| point.metrics.get(&p.metric));
    let mut t = Columns::new(all.iter().map(|p| p.metric.clone()), NAME_WIDTH_MAX);
    t.number("", "here", all.iter().map(|p| ours(p).map(|e| spread(&p.metric, e))));
    t.number("", "published", all.iter().map(|p| Some(metric_value(&p.metric, p.value))));
    t.number("", "here / published", all.iter().map(|p| ours(p).map(|e| metric_value("ratio", e.mean / p.value))));
    t.text("", "source", all.iter().map(|p| Some(p.source.clone())));
    t.write(sheet).map(|_| ())
}

/// All link directions of a single run of a small network, otherwise those with drops, or the busiest.
fn listed(all: &[LinkStatistics], is_only: bool) -> (Vec<&LinkStatistics>, usize) {
    let mut busy: Vec<&LinkStatistics> = all.iter().filter(|l| l.offered.packets > 0).collect();
    let carrying = busy.len();
    if carrying > SMALL_NETWORK_LINKS_MAX || !is_only {
        busy.sort_by_key(|l| core::cmp::Reverse((l.dropped.total(), l.offered.bytes)));
        let lossy = busy.iter().filter(|l| l.dropped.total() > 0).count();
        busy.truncate(lossy.clamp(1, LINKS_LISTED_MAX));
    }
    let remaining = carrying - busy.len();
    (busy, remaining)
}

fn links<W: Write>(sheet: &mut Sheet<'_, W>, all: &[LinkStatistics], is_only: bool) -> io::Result<()> {
    let (shown, remaining) = listed(all, is_only);
    if shown.is_empty() {
        return if all.is_empty() { Ok(()) } else { sheet.item("links", "no packet entered any link") };
    }
    let mut t = Columns::new(shown.iter().map(|l| link_label(&l.link, &l.from, &l.to)), NAME_WIDTH_MAX);
    t.number("", "packets", shown.iter().map(|l| Some(l.offered.packets.to_string())));
    t.number("", "bytes", shown.iter().map(|l| Some(bytes(l.offered.bytes))));
    t.number("", "dropped", shown.iter().map(|l| Some(dropped(l))));
    t.number("", "used", shown.iter().map(|l| l.utilisation.map(percent)));
    t.number("", "wait p95", shown.iter().map(|l| l.wait.as_ref().map(|d| nanos(d.p95_ns))));
    t.number("", "late p99", shown.iter().map(|l| l.lateness.as_ref().map(|d| nanos(d.p99_ns))));
    t.text("", "by cause", shown.iter().map(|l| by_cause(l)));
    t.write(sheet)?;
    let lossy = all.iter().filter(|l| l.dropped.total() > 0).count().saturating_sub(shown.len());
    match (remaining, lossy) {
        (0, _) => Ok(()),
        // This line appears only for a single run.
        (_, 0) if !is_only => Ok(()),
        (n, 0) => sheet.line(&format!("  and {n} more link directions with traffic, none with drops")),
        (n, lossy) => sheet.line(&format!("  and {n} more link directions with traffic, {lossy} of them with drops")),
    }
}

fn dropped(l: &LinkStatistics) -> String {
    match l.dropped.total() {
        0 => "0".to_owned(),
        n => format!("{n} ({})", ratio(n as f64 / l.offered.packets.max(1) as f64)),
    }
}

fn by_cause(l: &LinkStatistics) -> Option<String> {
    let by: Vec<String> =
        causes(&l.dropped).iter().filter(|(_, n)| *n > 0).map(|(cause, n)| format!("{cause} {n}")).collect();
    (!by.is_empty()).then(|| by.join(", "))
}

fn summary<W: Write>(sheet: &mut Sheet<'_, W>, s: &LabSummary, e: Option<&LabExperiment>) -> io::Result<()> {
    sheet.blank()?;
    sheet.heading(&format!("{}: {} of {} runs valid", verdict(&s.verdict), s.valid_runs, s.runs))?;
    let repetitions = e.map_or(1, |e| e.repetitions);
    published(sheet, s, e.map_or(&[], |e| &e.published))?;
    // A single run has already printed everything.
    if s.points.len() < 2 && repetitions < 2 {
        return Ok(());
    }
    reasons(&s.verdict).iter().try_for_each(|why| sheet.item("INVALID", why))?;
    if s.interrupted {
        sheet.item("interrupted", "the results cover the time until then")?;
    }
    points::write(sheet, s, e.and_then(|e| e.plot.as_ref()), repetitions)
}
