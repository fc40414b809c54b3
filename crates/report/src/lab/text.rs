//! Plain lines for a pipe or a log: a header, some lines a run, the means at the end.

use std::io::{self, Write};

use results::lab::{FlowTotals, LabExperiment, LabRecord, LabRun, LabRunEnd, LabSummary, LinkTotals, Verdict};

use super::words::{causes, estimate, link_label, metric_name, point_label, utc};
use crate::sheet::Sheet;
use crate::summary::{bytes, nanos, percent, printable, rate, ratio};

/// Links with drops that are listed one by one, the worst first.
const LINKS_LISTED: usize = 8;

/// Metrics of links in the summary; an experiment with more of them is for the page.
const LINK_METRICS_LISTED: usize = 8;

/// Widest name that the columns make room for.
const NAME: usize = 24;

/// Writes the records of an experiment as plain lines, at most 110 columns wide (a long name of the reader's own aside).
#[derive(Debug)]
pub struct LabText<W> {
    out: W,
    experiment: Option<LabExperiment>,
    run: Option<LabRun>,
    begun: u64,
}

impl<W: Write> LabText<W> {
    /// Writes to `out`, line by line; hand in a `LineWriter` or flush it yourself when lines must appear at once.
    pub const fn new(out: W) -> Self {
        Self { out, experiment: None, run: None, begun: 0 }
    }

    /// Prints what `record` makes known: intervals and single transfers print nothing.
    ///
    /// # Errors
    /// The writer's.
    pub fn record(&mut self, record: &LabRecord) -> io::Result<()> {
        match record {
            LabRecord::Experiment(e) => {
                self.experiment = Some(e.clone());
                header(&mut Sheet::new(&mut self.out), e)
            }
            LabRecord::Run(r) => {
                self.begun += 1;
                self.run = Some(r.clone());
                Ok(())
            }
            LabRecord::RunEnd(e) => {
                let heading = self.heading(e);
                run_end(&mut Sheet::new(&mut self.out), &heading, e)
            }
            LabRecord::Summary(s) => summary(&mut Sheet::new(&mut self.out), s),
            LabRecord::Link(_) | LabRecord::Flow(_) | LabRecord::Transfer(_) | LabRecord::Engine(_) => Ok(()),
        }
    }

    /// `run 3 (4 of 8), VALID: path.loss = 0.001, repetition 1 of 2`.
    fn heading(&self, end: &LabRunEnd) -> String {
        let planned = self.experiment.as_ref().map(|e| u64::from(e.points) * u64::from(e.repetitions));
        let of = planned.map_or_else(String::new, |n| format!(" of {n}"));
        let mut text = format!("run {} ({}{of}), {}", end.run, self.begun, verdict(&end.verdict));
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
        if !parts.is_empty() {
            text.push_str(&format!(": {}", parts.join(", ")));
        }
        text
    }
}

const fn verdict(v: &Verdict) -> &'static str {
    match v {
        Verdict::Valid => "VALID",
        Verdict::Invalid { .. } => "INVALID",
    }
}

fn because(v: &Verdict) -> &[String] {
    match v {
        Verdict::Valid => &[],
        Verdict::Invalid { because } => because,
    }
}

fn header<W: Write>(sheet: &mut Sheet<'_, W>, e: &LabExperiment) -> io::Result<()> {
    sheet.heading(&format!("experiment {}", e.name))?;
    if !e.about.is_empty() {
        sheet.item("about", &e.about)?;
    }
    sheet.item("begun", &format!("{}, seed {}, privilege: {}", utc(e.began_utc_s), e.seed, e.privilege))?;
    let (points, repetitions) = (e.points, e.repetitions);
    sheet.item("runs", &format!("{points} points x {repetitions} repetitions"))?;
    let h = &e.host;
    sheet.item("machine", &format!("{}, {} CPUs, Linux {} {}", h.hostname, h.cpus, h.kernel, h.machine))?;
    e.overrides.iter().try_for_each(|o| sheet.item("changed", &format!("{} = {}", o.key, o.value)))
}

fn run_end<W: Write>(sheet: &mut Sheet<'_, W>, heading: &str, e: &LabRunEnd) -> io::Result<()> {
    sheet.blank()?;
    sheet.heading(heading)?;
    because(&e.verdict).iter().try_for_each(|why| sheet.item("INVALID", why))?;
    let mut lossy: Vec<&LinkTotals> = e.links.iter().filter(|l| l.dropped.total() > 0).collect();
    lossy.sort_by_key(|l| core::cmp::Reverse(l.dropped.total()));
    let names = e.flows.iter().map(|f| f.flow.clone());
    let links = lossy.iter().take(LINKS_LISTED).map(|l| link_label(&l.link, &l.from, &l.to));
    let width = names.chain(links).map(|n| n.chars().count()).max().unwrap_or(0).clamp(8, NAME);
    for f in &e.flows {
        sheet.line(&format!("  {:<width$}  {}", printable(&f.flow), flow(f)))?;
    }
    for l in lossy.iter().take(LINKS_LISTED) {
        let name = link_label(&l.link, &l.from, &l.to);
        sheet.line(&format!("  {:<width$}  {}", printable(&name), link(l)))?;
    }
    if lossy.len() > LINKS_LISTED {
        sheet.line(&format!("  and {} more link directions with drops", lossy.len() - LINKS_LISTED))?;
    }
    for p in e.programs.iter().filter(|p| p.failed) {
        sheet.item("FAILED", &format!("program {} on {}: {}", p.program, p.node, p.status))?;
    }
    let late = e
        .lateness
        .as_ref()
        .map_or_else(String::new, |d| format!("lateness 99 % {}, largest {}; ", nanos(d.p99_ns), nanos(d.max_ns)));
    sheet.line(&format!("  {:<width$}  {late}busiest worker {} of a CPU", "emulator", percent(e.busiest_worker)))
}

fn flow(f: &FlowTotals) -> String {
    if let Some(why) = &f.failure {
        return format!("FAILED: {}", printable(why));
    }
    if f.completion.is_some() || f.incomplete.is_some() {
        let done = f.completion.as_ref().map_or_else(
            || "none completed".to_owned(),
            |d| {
                let (p50, p95, p99) = (nanos(d.p50_ns), nanos(d.p95_ns), nanos(d.p99_ns));
                format!("{} completed, median {p50}, 95 % {p95}, 99 % {p99}", d.count)
            },
        );
        let lost = f.incomplete.filter(|n| *n > 0).map_or_else(String::new, |n| format!(", {n} NOT completed"));
        return format!("{done}{lost}");
    }
    let rates = f.throughput_bps.map_or_else(|| format!("{:>12}", bytes(f.bytes)), |bps| format!("{:>12}", rate(bps)));
    let steady = f.steady_bps.map_or_else(String::new, |bps| format!("  steady {:>12}", rate(bps)));
    let lost = f.retransmits.map_or_else(String::new, |n| format!("  retr {n:>6}"));
    let rtt = f
        .block_rtt
        .as_ref()
        .map_or_else(String::new, |d| format!("  RTT {:>8} / {:>8}", nanos(d.p50_ns), nanos(d.p95_ns)));
    let limit = f.limit.as_ref().map_or_else(String::new, |l| format!("  {}", printable(l)));
    format!("{rates}{steady}{lost}{rtt}{limit}")
}

fn link(l: &LinkTotals) -> String {
    let share = l.dropped.total() as f64 / l.offered.packets.max(1) as f64;
    let by: Vec<String> =
        causes(&l.dropped).iter().filter(|(_, n)| *n > 0).map(|(cause, n)| format!("{cause} {n}")).collect();
    let wait = l.wait.as_ref().map_or_else(String::new, |d| format!("; waiting 95 % {}", nanos(d.p95_ns)));
    let used = l.utilisation.map_or_else(String::new, |u| format!("; used {}", percent(u)));
    format!("dropped {} of {} ({}): {}{wait}{used}", l.dropped.total(), l.offered.packets, ratio(share), by.join(", "))
}

fn summary<W: Write>(sheet: &mut Sheet<'_, W>, s: &LabSummary) -> io::Result<()> {
    sheet.blank()?;
    sheet.heading(&format!("{}: {} of {} runs valid", verdict(&s.verdict), s.valid_runs, s.runs))?;
    because(&s.verdict).iter().try_for_each(|why| sheet.item("INVALID", why))?;
    if s.interrupted {
        sheet.item("interrupted", "what was measured until then counts")?;
    }
    let mut metrics: Vec<&String> = s.points.iter().flat_map(|p| p.metrics.keys()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let of_links = metrics.iter().filter(|m| m.starts_with("link.")).count();
    if of_links > LINK_METRICS_LISTED {
        metrics.retain(|m| !m.starts_with("link."));
    }
    let name = |p: &results::lab::PointSummary| match p.values.is_empty() {
        true => "mean".to_owned(),
        false => printable(&point_label(&p.values)),
    };
    let width = s.points.iter().map(|p| name(p).chars().count()).max().unwrap_or(0);
    for m in metrics {
        sheet.line(&format!("  {}", printable(&metric_name(m))))?;
        for p in &s.points {
            let value = p.metrics.get(m).map_or_else(|| "no valid run".to_owned(), |e| estimate(m, e));
            sheet.line(&format!("    {:<width$}  {value}", name(p)))?;
        }
    }
    if of_links > LINK_METRICS_LISTED {
        sheet.line(&format!("  and {of_links} metrics of links in the result file"))?;
    }
    Ok(())
}
