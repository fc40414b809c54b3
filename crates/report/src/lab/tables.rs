//! Tables of the end records and of the summary.

use std::collections::BTreeSet;

use results::DelaySummary;
use results::lab::{
    Drops, FlowTotals, LinkStatistics, PointSummary, ProgramEnd, PublishedValue, SizeBin, Traffic, Verdict, Volume,
};

use super::format::{arrow, causes, estimate, link_label, metric_name, metric_value, point_label, span};
use super::points;
use super::records::{LabReport, RunRecords};
use crate::html::markup::Html;
use crate::summary::{bytes, nanos, percent, rate, ratio};

/// Maximum number of rows of a table that grows with the experiment; the result file has all.
const ROWS_MAX: usize = 512;

/// Maximum number of columns in the table of means; an experiment of two hundred links has more metrics than fit on a
/// page.
const METRICS_MAX: usize = 48;

/// Maximum number of flows whose means are not folded.
const FLOWS_OPEN_MAX: usize = 8;

/// A table with one row for each thing and one column for each quantity; columns without values are omitted. A line
/// break in a cell starts smaller text below.
pub(super) struct Table<'a, T> {
    things: &'a [T],
    columns: Vec<(String, Vec<Option<String>>)>,
}

impl<'a, T> Table<'a, T> {
    pub(super) const fn new(things: &'a [T]) -> Self {
        Self { things, columns: Vec::new() }
    }

    pub(super) fn column(&mut self, label: impl Into<String>, cell: impl Fn(&T) -> Option<String>) {
        let cells: Vec<Option<String>> = self.things.iter().take(ROWS_MAX).map(cell).collect();
        if cells.iter().any(Option::is_some) {
            self.columns.push((label.into(), cells));
        }
    }

    pub(super) fn write(&self, h: &mut Html) {
        h.raw("<div class=\"scroll\"><table><thead><tr>");
        for (label, _) in &self.columns {
            h.element("th", label);
        }
        h.raw("</tr></thead><tbody>");
        for row in 0..self.things.len().min(ROWS_MAX) {
            h.raw("<tr>");
            for (i, (_, cells)) in self.columns.iter().enumerate() {
                let tag = if i == 0 { "th" } else { "td" };
                match cells[row].as_deref().map(|text| text.split_once('\n').unwrap_or((text, ""))) {
                    Some((text, "")) => h.element(tag, text),
                    Some((text, below)) => h.raw("<td>").text(text).classed("span", "below", below).raw("</td>"),
                    None => h.raw("<td class=\"none\">&ndash;</td>"),
                };
            }
            h.raw("</tr>");
        }
        h.raw("</tbody></table></div>");
        if self.things.len() > ROWS_MAX {
            let text = format!("and {} more", self.things.len() - ROWS_MAX);
            h.classed("p", "hint", text);
        }
    }
}

/// Every run with its verdict.
pub(super) fn runs(h: &mut Html, report: &LabReport) {
    if report.runs.len() < 2 && report.runs.iter().all(|r| r.reasons().is_empty()) {
        return;
    }
    h.raw("<section><h2>Runs</h2><div class=\"scroll\"><table class=\"runs\"><thead><tr><th>run</th><th>point</th>");
    h.raw("<th>repetition</th><th>seed</th><th>verdict</th><th>lateness, 99 %</th><th>busiest worker</th>");
    h.raw("<th>scheduling</th><th>why</th>");
    h.raw("</tr></thead><tbody>");
    for r in report.runs.iter().take(ROWS_MAX) {
        let end = r.end.as_ref();
        let point = if r.start.values.is_empty() { "\u{2013}".to_owned() } else { point_label(&r.start.values) };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "\u{2013}".to_owned());
        let (state, is_good) = r.state();
        h.raw("<tr>").element("th", r.start.run).element("td", point).element("td", r.start.repetition + 1);
        h.element("td", r.start.seed).raw("<td>");
        h.classed("span", if is_good { "badge good" } else { "badge bad" }, state).raw("</td>");
        h.element("td", or_dash(end.and_then(|e| e.lateness.as_ref()).map(|d| nanos(d.p99_ns))));
        h.element("td", or_dash(end.map(|e| percent(e.busiest_worker))));
        h.element("td", or_dash((!r.scheduling.is_empty()).then(|| r.scheduling.join(", "))));
        h.classed("td", "reasons", r.reasons().join("; ")).raw("</tr>");
    }
    h.raw("</tbody></table></div>");
    if report.runs.len() > ROWS_MAX {
        h.classed("p", "hint", format_args!("and {} more runs", report.runs.len() - ROWS_MAX));
    }
    h.raw("</section>");
}

/// Means over the repetitions of each point.
pub(super) fn means(h: &mut Html, report: &LabReport) {
    let Some(summary) = &report.summary else { return };
    let metrics: BTreeSet<&String> = summary.points.iter().flat_map(|p| p.metrics.keys()).collect();
    if metrics.is_empty() || (summary.points.len() < 2 && report.experiment.repetitions < 2) {
        return;
    }
    // Less important metrics are folded away, so that a row fits on the page.
    let are_many =
        metrics.iter().filter(|m| m.starts_with("flow.") && m.ends_with(".throughput_bps")).count() > FLOWS_OPEN_MAX;
    let folds = |m: &&String| m.starts_with("link.") || m.contains(".block_rtt_") || are_many && m.starts_with("flow.");
    let (mut folded, mut shown): (Vec<&String>, Vec<&String>) = metrics.into_iter().partition(folds);
    shown.sort_by_key(|m| (subject(m), rank(m)));
    folded.sort_by_key(|m| !m.starts_with("link."));
    let kind = |of: &str| shown.iter().copied().filter(|m| m.starts_with(of)).collect::<Vec<_>>();
    let [of_all, of_flows, of_mice] = ["run.", "flow.", "mice."].map(kind);
    h.raw("<section><h2>").raw(if summary.points.len() > 1 { "All points" } else { "Means over the repetitions" });
    h.raw(
        "</h2><p class=\"hint\">Mean and half the 95 % confidence interval (Student's t) over the valid runs of each ",
    );
    h.raw("point; a number in brackets is the number of runs, if smaller. The interval assumes independent, roughly normal repetitions; ");
    h.raw("of two or three runs it is wide.</p>");
    let write = |h: &mut Html, metrics: &[&String]| {
        let mut table = Table::new(&summary.points);
        table.column("point", |p| Some(point_name(p)));
        table.column("valid runs", |p| Some(points::runs(p).to_string()));
        for m in metrics.iter().take(METRICS_MAX) {
            table.column(metric_name(m), |p| p.metrics.get(*m).map(|e| arrow(&points::cell(p, m, e))));
        }
        table.write(h);
        if metrics.len() > METRICS_MAX {
            let text = format!("and {} more metrics in the result file", metrics.len() - METRICS_MAX);
            h.classed("p", "hint", text);
        }
    };
    for metrics in [&of_flows, &of_mice, &of_all].into_iter().filter(|m| !m.is_empty()) {
        write(h, metrics);
    }
    if !folded.is_empty() {
        h.raw(if shown.is_empty() { "<details open>" } else { "<details>" });
        h.raw("<summary>Links, block round trips and transfers by size at all points");
        h.raw(if are_many { ", and each flow</summary>" } else { "</summary>" });
        write(h, &folded);
        h.raw("</details>");
    }
    h.raw("</section>");
}

/// `flow.elephant` of `flow.elephant.steady_bps`.
pub(super) fn subject(metric: &str) -> &str {
    metric.rsplit_once('.').map_or(metric, |(subject, _)| subject)
}

/// Order of the most important metrics.
pub(super) fn rank(metric: &str) -> usize {
    const ORDER: [&str; 9] = [
        "goodput_bps",
        "throughput_bps",
        "steady_bps",
        "retransmits",
        "rtt_p50_s",
        "rtt_p95_s",
        "completion_p50_s",
        "completion_p95_s",
        "completion_p99_s",
    ];
    ORDER.iter().position(|quantity| metric.ends_with(&format!(".{quantity}"))).unwrap_or(ORDER.len())
}

fn point_name(p: &PointSummary) -> String {
    if p.values.is_empty() { "all runs".to_owned() } else { point_label(&p.values) }
}

/// Tables of one run.
pub(super) fn of_run(h: &mut Html, report: &LabReport, run: &RunRecords) {
    let Some(end) = &run.end else {
        h.raw("<p class=\"warning\">This run has no end record: it has no totals and no verdict.</p>");
        return;
    };
    if let Verdict::Invalid { reasons } = &end.verdict {
        h.raw("<p class=\"warning invalid\"><b>INVALID</b>: ").text(reasons.join("; ")).raw("</p>");
    }
    if end.interrupted {
        h.raw("<p class=\"warning\">Interrupted by the user before its planned end.</p>");
    }
    let (mice, flows): (Vec<&FlowTotals>, Vec<&FlowTotals>) =
        end.flows.iter().partition(|f| f.completion.is_some() || f.incomplete.is_some());
    let point = report.point(run.start.point);
    bulk(h, point, &flows);
    small(h, point, &mice);
    by_size(h, point, &mice);
    if let Some(traffic) = &end.traffic {
        all_traffic(h, point, traffic);
    }
    for f in end.flows.iter().filter(|f| f.failure.is_some()) {
        let why = f.failure.as_deref().unwrap_or_default();
        h.classed("p", "warning", format_args!("{} failed: {why}", f.flow));
    }
    links(h, report, run, &end.links);
    programs(h, &end.programs);
}

/// Mean of a metric over several repetitions of a point.
fn over_runs(point: Option<&PointSummary>, metric: &str) -> Option<String> {
    let e = point?.metrics.get(metric).filter(|e| e.runs > 1)?;
    Some(arrow(&estimate(metric, e)))
}

/// Value of one run, with the mean over the repetitions below.
fn below(value: String, point: Option<&PointSummary>, metric: &str) -> String {
    over_runs(point, metric).map_or_else(|| value.clone(), |mean| format!("{value}\nmean {mean}"))
}

fn bulk(h: &mut Html, point: Option<&PointSummary>, flows: &[&FlowTotals]) {
    if flows.is_empty() {
        return;
    }
    let mut t = Table::new(flows);
    t.column("flow", |f| Some(f.flow.clone()));
    t.column("received", |f| Some(bytes(f.bytes)));
    t.column("goodput", |f| Some(below(rate(f.throughput_bps?), point, &format!("flow.{}.throughput_bps", f.flow))));
    t.column("steady", |f| f.steady_bps.map(rate));
    t.column("settled after", |f| f.settled_s.map(span));
    t.column("variation in 1 s", |f| f.variation_1s.or(f.variation).map(percent));
    t.column("in 100 ms", |f| f.variation_100ms.map(percent));
    t.column("packets", |f| f.packets.map(|n| n.to_string()));
    t.column("retransmitted", |f| f.retransmits.map(|n| n.to_string()));
    t.column("window / throughput", |f| f.window_ratio.map(|r| metric_value("window_ratio", r)));
    t.column("RTT, median", |f| {
        let median = nanos(f.kernel_srtt.as_ref()?.p50_ns);
        Some(below(median, point, &format!("flow.{}.rtt_p50_s", f.flow)))
    });
    t.column("RTT, 95 %", |f| f.kernel_srtt.as_ref().map(|d| nanos(d.p95_ns)));
    t.column("block round trip, median", |f| f.block_rtt.as_ref().map(|d| nanos(d.p50_ns)));
    t.column("block round trip, 95 %", |f| f.block_rtt.as_ref().map(|d| nanos(d.p95_ns)));
    t.column("limited mostly by", |f| f.limit.clone());
    h.raw("<h3>Flows</h3>");
    t.write(h);
}

fn small(h: &mut Html, point: Option<&PointSummary>, mice: &[&FlowTotals]) {
    if mice.is_empty() {
        return;
    }
    let completion = |of: fn(&DelaySummary) -> u64| move |f: &&FlowTotals| f.completion.as_ref().map(|d| nanos(of(d)));
    let mut t = Table::new(mice);
    t.column("small transfers", |f| Some(f.flow.clone()));
    t.column("received", |f| Some(bytes(f.bytes)));
    t.column("completed", |f| f.completion.as_ref().map(|d| d.count.to_string()));
    t.column("not completed", |f| f.incomplete.map(|n| n.to_string()));
    t.column("completion, median", |f| {
        let median = nanos(f.completion.as_ref()?.p50_ns);
        Some(below(median, point, &format!("mice.{}.completion_p50_s", f.flow)))
    });
    t.column("95 %", completion(|d| d.p95_ns));
    t.column("99 %", completion(|d| d.p99_ns));
    t.column("longest", completion(|d| d.max_ns));
    t.column("slowdown, median", |f| Some(factor(f.slowdown?.p50)));
    t.column("slowdown, 99 %", |f| Some(factor(f.slowdown?.p99)));
    h.raw("<h3>Small transfers</h3>");
    t.write(h);
}

/// Formats a slowdown factor.
fn factor(value: f64) -> String {
    metric_value("slowdown", value)
}

/// Small transfers by their size.
fn by_size(h: &mut Html, point: Option<&PointSummary>, mice: &[&FlowTotals]) {
    let bins: Vec<(&str, &SizeBin)> =
        mice.iter().flat_map(|f| f.sizes.iter().map(|bin| (f.flow.as_str(), bin))).collect();
    // With a single size, the table above has the same values.
    if bins.len() <= mice.len() {
        return;
    }
    let mut t = Table::new(&bins);
    t.column("small transfers", |(flow, bin)| Some(format!("{flow} {}", bin.sizes)));
    t.column("completed", |(_, bin)| Some(bin.completed.to_string()));
    t.column("not completed", |(_, bin)| Some(bin.incomplete.to_string()));
    t.column("completion, median", |(_, bin)| Some(nanos(bin.completion.as_ref()?.p50_ns)));
    t.column("99 %", |(_, bin)| Some(nanos(bin.completion.as_ref()?.p99_ns)));
    t.column("slowdown, median", |(_, bin)| Some(factor(bin.slowdown?.p50)));
    t.column("slowdown, 99 %", |(flow, bin)| {
        Some(below(factor(bin.slowdown?.p99), point, &format!("bin.{flow}.{}.slowdown_p99", bin.sizes)))
    });
    h.raw("<h3>Small transfers by size</h3><p class=\"hint\">Slowdown: completion time over the time that the transfer would ");
    h.raw("take alone on the path: a round trip for the handshake, one for the request, slow start from 10 segments, ");
    h.raw("and its bytes at the rate of the slowest link.</p>");
    t.write(h);
}

fn all_traffic(h: &mut Html, point: Option<&PointSummary>, traffic: &Traffic) {
    let mean = |value: String, quantity: &str| below(value, point, &format!("run.{quantity}"));
    let all = [traffic];
    let mut t = Table::new(&all);
    t.column("", |_| Some("all traffic".to_owned()));
    t.column("goodput", |t| Some(mean(rate(t.goodput_bps), "goodput_bps")));
    t.column("of flows", |t| Some(mean(rate(t.flows_bps), "flows_bps")));
    t.column("of small transfers", |t| (t.mice_bps > 0).then(|| mean(rate(t.mice_bps), "mice_bps")));
    t.column("packets of flows", |t| (t.packets > 0).then(|| mean(t.packets.to_string(), "packets")));
    t.column("Jain's index", |t| Some(mean(metric_value("jain", t.jain?), "jain")));
    t.column("over", |t| t.jain_over_s.map(span));
    t.column("busiest link", |t| Some(mean(metric_value("utilisation", t.utilisation?), "utilisation")));
    h.raw("<h3>All traffic</h3><p class=\"hint\">Over the planned length of the run. Jain's index: of the flows that were active in a ");
    h.raw("whole second, averaged over the seconds with at least two.</p>");
    t.write(h);
}

/// Published values beside the means of this experiment.
pub(super) fn published(h: &mut Html, report: &LabReport) {
    let all = &report.experiment.published;
    if all.is_empty() {
        return;
    }
    let ours = |p: &PublishedValue| report.point(0)?.metrics.get(&p.metric);
    let mut t = Table::new(all);
    t.column("metric", |p| Some(metric_name(&p.metric)));
    t.column("here", |p| Some(ours(p).map_or_else(|| "not measured".to_owned(), |e| arrow(&estimate(&p.metric, e)))));
    t.column("published", |p| Some(metric_value(&p.metric, p.value)));
    t.column("here / published", |p| Some(metric_value("ratio", ours(p)?.mean / p.value)));
    t.column("source", |p| Some(p.source.clone()));
    h.raw("<section><h2>Published values</h2>");
    if report.experiment.points > 1 {
        h.raw("<p class=\"hint\">Compared with the first point of the sweep.</p>");
    }
    t.write(h);
    h.raw("</section>");
}

fn volume(v: &Volume) -> String {
    format!("{}\n{} packets", bytes(v.bytes), v.packets)
}

/// Name of a link direction in the summary: the first direction is `forward`, or `up` for a LAN port.
fn metric_prefix(run: &RunRecords, point: &PointSummary, l: &LinkStatistics) -> Option<String> {
    let of_link: Vec<_> = run.start.links.iter().filter(|d| d.link == l.link).collect();
    let at = of_link.iter().position(|d| d.from == l.from && d.to == l.to)?;
    let names: [&str; 2] = if at == 0 { ["forward", "up"] } else { ["backward", "down"] };
    let prefixes = names.map(|name| format!("link.{}.{name}.", l.link));
    prefixes.into_iter().find(|p| point.metrics.keys().any(|k| k.starts_with(p)))
}

fn links(h: &mut Html, report: &LabReport, run: &RunRecords, all: &[LinkStatistics]) {
    let mut busy: Vec<&LinkStatistics> = all.iter().filter(|l| l.offered.packets > 0).collect();
    if busy.is_empty() {
        return;
    }
    busy.sort_by_key(|l| core::cmp::Reverse(l.offered.bytes));
    let point = report.point(run.start.point);
    let mean = |l: &LinkStatistics, value: String, quantity: &str| match point.and_then(|p| metric_prefix(run, p, l)) {
        Some(prefix) => below(value, point, &format!("{prefix}{quantity}")),
        None => value,
    };
    h.raw("<h3>Links: packets</h3>");
    traffic(&busy, &mean).write(h);
    h.raw("<h3>Links: queues and delay</h3>");
    queues(&busy, &mean).write(h);
    let idle = all.len() - busy.len();
    if idle > 0 {
        h.classed("p", "hint", format_args!("{idle} link directions without traffic are left out."));
    }
}

/// Adds the mean over the repetitions to a value of a link.
type WithMean<'a> = dyn Fn(&LinkStatistics, String, &str) -> String + 'a;

fn traffic<'a, 'b>(busy: &'a [&'b LinkStatistics], mean: &WithMean<'_>) -> Table<'a, &'b LinkStatistics> {
    let mut t = Table::new(busy);
    t.column("link direction", |l| Some(arrow(&link_label(&l.link, &l.from, &l.to))));
    t.column("offered", |l| Some(volume(&l.offered)));
    t.column("delivered", |l| Some(volume(&l.delivered)));
    t.column("utilisation", |l| l.utilisation.map(|u| mean(l, metric_value("utilisation", u), "utilisation")));
    t.column("dropped", |l| Some(mean(l, l.dropped.total().to_string(), "dropped")));
    if busy.iter().any(|l| l.dropped.total() > 0) {
        t.column("share", |l| Some(ratio(l.dropped.total() as f64 / l.offered.packets.max(1) as f64)));
    }
    for (i, (cause, _)) in causes(&Drops::default()).into_iter().enumerate() {
        if busy.iter().any(|l| causes(&l.dropped)[i].1 > 0) {
            t.column(format!("by {cause}"), |l| Some(causes(&l.dropped)[i].1.to_string()));
        }
    }
    if busy.iter().any(|l| l.duplicated > 0) {
        t.column("copies", |l| Some(l.duplicated.to_string()));
    }
    if busy.iter().any(|l| l.reordered > 0) {
        t.column("held for reordering", |l| Some(l.reordered.to_string()));
    }
    t
}

fn queues<'a, 'b>(busy: &'a [&'b LinkStatistics], mean: &WithMean<'_>) -> Table<'a, &'b LinkStatistics> {
    let mut t = Table::new(busy);
    t.column("link direction", |l| Some(arrow(&link_label(&l.link, &l.from, &l.to))));
    t.column("queue, median", |l| Some(bytes(l.queue.p50_bytes)));
    t.column("queue, 95 %", |l| Some(bytes(l.queue.p95_bytes)));
    t.column("queue, 99 %", |l| Some(bytes(l.queue.p99_bytes)));
    t.column("queue, largest", |l| Some(bytes(l.queue.max_bytes)));
    t.column("waiting time, median", |l| l.wait.as_ref().map(|d| nanos(d.p50_ns)));
    t.column("waiting time, 95 %", |l| l.wait.as_ref().map(|d| mean(l, nanos(d.p95_ns), "wait_p95_s")));
    t.column("waiting time, largest", |l| l.wait.as_ref().map(|d| nanos(d.max_ns)));
    t.column("lateness, 99 %", |l| l.lateness.as_ref().map(|d| nanos(d.p99_ns)));
    t
}

fn programs(h: &mut Html, all: &[ProgramEnd]) {
    if all.is_empty() {
        return;
    }
    let mut t = Table::new(all);
    t.column("program", |p| Some(p.program.clone()));
    t.column("node", |p| Some(p.node.clone()));
    t.column("end", |p| Some(p.status.clone()));
    t.column("", |p| p.failed.then(|| "FAILED".to_owned()));
    h.raw("<h3>Programs</h3>");
    t.write(h);
}

/// One line on the engine over the whole run.
pub(super) fn engine_line(run: &RunRecords) -> Option<String> {
    // A simulated run has no emulator.
    let end = run.end.as_ref().filter(|end| end.busiest_worker > 0.0)?;
    let late = end.lateness.as_ref().map_or_else(String::new, |d| {
        format!("lateness median {}, 99 % {}, largest {}; ", nanos(d.p50_ns), nanos(d.p99_ns), nanos(d.max_ns))
    });
    let planned = span(run.start.duration_s);
    let threads = match run.scheduling.as_slice() {
        [] => String::new(),
        policies => format!(", threads scheduled as {}", policies.join(", then ")),
    };
    let stolen = end
        .stolen_cpu
        .filter(|s| *s > 0.0)
        .map_or_else(String::new, |s| format!(", {} of the machine's CPU time stolen by the hypervisor", percent(s)));
    Some(format!(
        "Emulator: {late}busiest worker {} of one CPU{threads}{stolen}; planned length {planned}.",
        percent(end.busiest_worker)
    ))
}
