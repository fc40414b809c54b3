//! The page of an experiment: one file that needs no network and no server.

use std::io::{self, Write};

use super::data::{LabData, lab_data};
use super::records::{LabReport, RunRecords};
use super::{head, settings, tables};
use crate::html::document::{Parts, write_document};
use crate::html::markup::Html;

const PARTS: Parts = Parts {
    script: concat!(include_str!("../../assets/charts.js"), include_str!("../../assets/lab.js")),
    style: include_str!("../../assets/lab.css"),
};

/// Writes the page of an experiment: verdict, sweep, charts of a run over one time axis, tables, settings.
///
/// # Errors
/// Errors of the writer.
pub fn write_lab_html(mut out: impl Write, report: &LabReport, title: &str) -> io::Result<()> {
    let data = lab_data(report);
    let mut h = Html::new();
    head::header(&mut h, report, title);
    sweep(&mut h, report, &data);
    tables::published(&mut h, report);
    tables::means(&mut h, report);
    tables::runs(&mut h, report);
    runs(&mut h, report, &data);
    head::machine(&mut h, report);
    footer(&mut h, report);
    write_document(&mut out, title, PARTS, &h, &data)
}

fn sweep(h: &mut Html, report: &LabReport, data: &LabData<'_>) {
    let Some(plot) = &data.plot else { return };
    h.raw("<section class=\"chart\" id=\"sweep\"><h2>").text(capital(plot.y_name)).raw(" over ").text(&plot.x_name);
    h.raw("</h2><p class=\"hint\">Means over the valid runs of each point; bars are 95 % confidence intervals");
    if report.experiment.repetitions < 2 {
        h.raw(", which a single run does not have");
    }
    h.raw(".").raw(if plot.has_models() { " Dashed grey curves are formulas, not measurements.</p>" } else { "</p>" });
    if !plot.left_out.is_empty() {
        h.classed("p", "warning", format_args!("Not in the plot: {}.", plot.left_out.join("; ")));
    }
    h.raw("<p class=\"controls\"></p><p class=\"warning empty\" id=\"sweep-left-out\"></p><div class=\"canvas\"></div></section>");
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// Places for the charts of one run, by id, heading and hint; the script fills them and hides those without data.
const CHARTS: [(&str, &str, &str); 12] = [
    ("throughput", "Throughput", "Bytes that the receiving application read."),
    (
        "losses",
        "Losses of the links",
        "Share of the offered packets of all senders that a link lost at random, without drops of its queue.",
    ),
    (
        "window",
        "Congestion window",
        "Of all streams of a flow, at the end of each interval, as TCP reports it (TCP_INFO). Over the round \
         trip below it is the throughput that the window allows; the table of the flows shows how near that comes to \
         the one above.",
    ),
    (
        "rtt",
        "Round trip",
        "The smoothed round trip of TCP at the end of each interval, mean over the streams of a flow: the network's.",
    ),
    (
        "block-rtt",
        "Block round trip",
        "Of the flows' own blocks, the wait in the sender's socket buffer included: what an application feels. Solid: \
         median, dashed: 95 %.",
    ),
    (
        "completion",
        "Completion times of small transfers",
        "From the start of the handshake to the last byte, at the time of the start. Ticks at the foot: not completed.",
    ),
    (
        "waiting",
        "Waiting time in the links",
        "By the model, of the packets that left the queue. Over packets, not over time.",
    ),
    ("queue", "Queue depth", "Bytes that waited in the link. Quantiles over time, not over packets."),
    ("drops", "Drops per interval", "Stacked by cause, over the links that are ticked above; hover for each link."),
    ("utilisation", "Utilisation", "Share of the capacity of each link direction that was used."),
    ("lateness", "Emulator: lateness", "Delay of packets behind the time of the model, all links."),
    ("cpu", "Emulator: CPU", "Share of one CPU that each worker used; of the machine: share of all its CPUs."),
];

fn runs(h: &mut Html, report: &LabReport, data: &LabData<'_>) {
    if data.runs.is_empty() {
        return;
    }
    h.raw("<section id=\"run\"><h2>One run</h2>");
    for text in &data.left_out {
        h.classed("p", "warning", text);
    }
    h.raw("<noscript><p class=\"hint\">The charts need JavaScript; the tables do not.</p></noscript>");
    h.raw("<p class=\"controls\" id=\"run-controls\"></p><p class=\"hint\">All charts share one time axis. Drag to zoom, ");
    h.raw("double-click to reset.");
    if data.runs.iter().any(|r| r.data.has_marks()) {
        h.raw(" Dashed vertical lines are changes by the schedule, route changes of an overlay, or the planned end; hover for their text.");
    }
    h.raw("</p>");
    h.raw("<div id=\"run-notes\"></div>");
    for (id, heading, hint) in CHARTS {
        if id == "waiting" {
            h.raw("<details id=\"links\"><summary></summary><p class=\"controls\"></p></details>");
        }
        h.raw("<section class=\"chart\" id=\"").raw(id).raw("\"><h3>").raw(heading).raw("</h3><p class=\"hint\">");
        h.raw(hint).raw("</p><p class=\"controls\"></p><div class=\"canvas\"></div></section>");
    }
    for run in report.runs.iter().filter(|r| data.runs.iter().any(|d| d.run == r.start.run)) {
        run_tables(h, report, run);
    }
    h.raw("</section>");
}

/// Tables of one run; the script shows those of the selected run.
fn run_tables(h: &mut Html, report: &LabReport, run: &RunRecords) {
    h.raw("<div class=\"of-run\" data-run=\"").text(run.start.run).raw("\"><h3 class=\"run-name\">");
    let (state, is_good) = run.state();
    h.text(report.run_label(run)).raw(" ").classed("span", if is_good { "badge good" } else { "badge bad" }, state);
    h.raw("</h3>");
    if let Some(text) = tables::engine_line(run) {
        h.classed("p", "hint", text);
    }
    tables::of_run(h, report, run);
    settings::section(h, run);
    h.raw("</div>");
}

fn footer(h: &mut Html, report: &LabReport) {
    h.raw(
        "<footer><p><b>What the numbers mean.</b> Queue depth: quantiles over time, the state that a look at a random ",
    );
    h.raw("moment finds. Waiting time, lateness, round trips, completion: quantiles over packets, blocks or transfers. All ");
    h.raw("delay quantiles are good to 0.1 % of their value. Waiting times are those of the model: what a link with these ");
    h.raw("settings would have done to these packets. Lateness is the delay behind the time of the model at which a packet was handed ");
    h.raw("over, by the emulator's clock; it adds to what the flows saw and is in no waiting time. How long packets had lain ");
    h.raw("in the device before the emulator saw them is known only as an upper bound. Delivered counts what left the queue ");
    h.raw("and was not lost, copies included; it arrives a propagation delay later, so that offered, delivered and dropped ");
    h.raw("of one interval need not add up: the rest waits. Confidence intervals are of the mean over repetitions, not of a ");
    h.raw("single run, and only valid runs are in them.</p><p>longhaul ").text(env!("CARGO_PKG_VERSION"));
    h.raw(", records of ").text(&report.experiment.schema).raw(". Charts: uPlot 1.6.32, MIT licence.</p></footer>");
}
