//! Head of the page: description, verdict and overrides.

use results::lab::LabEngine;

use super::format::{run_count_text, span, utc};
use super::records::{ExperimentVerdict, LabReport};
use crate::html::grid::Grid;
use crate::html::markup::Html;
use crate::summary::nanos;

/// Maximum number of reasons in the banner; the list of runs has all.
const REASONS_LISTED_MAX: usize = 20;

pub(super) fn header(h: &mut Html, report: &LabReport, title: &str) {
    let e = &report.experiment;
    h.raw("<header>").element("h1", title);
    if e.name != title {
        h.classed("p", "meta", format_args!("experiment {}", e.name));
    }
    banner(h, report);
    if !e.about.is_empty() {
        h.classed("p", "verdict", &e.about);
    }
    h.classed("p", "meta", meta(report));
    for o in &e.overrides {
        h.raw("<p class=\"note\">Changed on the command line: <code>").text(&o.key).raw(" = ").text(&o.value);
        h.raw("</code></p>");
    }
    if report.strays > 0 {
        let text = format!("{} records belong to no started run and are not shown.", report.strays);
        h.classed("p", "warning", text);
    }
    h.raw("</header>");
}

fn banner(h: &mut Html, report: &LabReport) {
    let ended = report.runs.iter().filter(|r| r.end.is_some()).count() as u64;
    let valid = report.runs.iter().filter(|r| r.is_valid() == Some(true)).count();
    let planned = report.planned_runs();
    let count = format!("{valid} of {ended} runs valid");
    match report.standing() {
        ExperimentVerdict::Valid => {
            h.raw("<div class=\"banner valid\" role=\"status\"><b>VALID</b> ").text(count);
            h.raw(match report.engine() {
                LabEngine::Kernel | LabEngine::VirtualKernel => ". The machine carried the emulation.",
                LabEngine::Simulator => ". Links, TCP and the kernel's statistics are those of a model.",
            });
        }
        ExperimentVerdict::Invalid(reasons) => {
            h.raw("<div class=\"banner invalid\" role=\"alert\"><b>INVALID</b> ").text(count);
            h.raw(". Numbers of invalid runs describe the machine, not the experiment.<ul>");
            for reason in reasons.iter().take(REASONS_LISTED_MAX) {
                h.element("li", reason);
            }
            if reasons.len() > REASONS_LISTED_MAX {
                h.element("li", format_args!("and {} more reasons", reasons.len() - REASONS_LISTED_MAX));
            }
            h.raw("</ul>");
        }
        ExperimentVerdict::Unfinished => {
            h.raw("<div class=\"banner unfinished\" role=\"alert\"><b>UNFINISHED</b> ").text(count);
            h.raw(". There is no verdict on the whole experiment.");
        }
    }
    for text in incomplete(report, ended, planned) {
        h.classed("p", "why", text);
    }
    h.raw("</div>");
}

/// Missing parts of an experiment.
fn incomplete(report: &LabReport, ended: u64, planned: u64) -> Vec<String> {
    let mut all = Vec::new();
    if report.is_interrupted() {
        all.push("Interrupted by the user; the results cover the time until then.".to_owned());
    }
    if report.runs.is_empty() {
        all.push("No run started.".to_owned());
    }
    if report.summary.is_none() {
        all.push("The records have no summary: the experiment did not complete, so there are no means.".to_owned());
    }
    if ended < planned {
        all.push(format!("{ended} of {planned} planned runs completed."));
    }
    all
}

fn meta(report: &LabReport) -> String {
    let e = &report.experiment;
    let runs = run_count_text(e.points, e.repetitions, e.selected_runs).replace(" x ", " \u{d7} ");
    let length = report.runs.first().map_or_else(String::new, |r| format!(" of {}", span(r.start.duration_s)));
    format!(
        "{} \u{b7} {runs}{length} \u{b7} seed {} \u{b7} {} \u{b7} privilege: {} \u{b7} {}, {} CPU{}, Linux {} {} \u{b7} longhaul {}",
        utc(e.start_utc_s),
        e.seed,
        e.engine.text(),
        e.privilege,
        if e.host.hostname.is_empty() { "this machine" } else { &e.host.hostname },
        e.host.cpus,
        if e.host.cpus == 1 { "" } else { "s" },
        e.host.kernel,
        e.host.machine,
        e.version
    )
}

/// Properties of the emulating machine.
pub(super) fn machine(h: &mut Html, report: &LabReport) {
    let host = &report.experiment.host;
    let name = if host.hostname.is_empty() { "machine" } else { &host.hostname };
    let mut grid = Grid::new(vec![name.to_owned()]);
    grid.row("longhaul", vec![Some(host.version.clone())]);
    grid.row("kernel", vec![Some(host.kernel.clone())]);
    grid.row("machine", vec![Some(host.machine.clone())]);
    grid.row("CPUs", vec![Some(host.cpus.to_string())]);
    grid.row("clock source", vec![host.clocksource.clone()]);
    grid.row("clock resolution", vec![Some(nanos(host.clock_resolution_ns))]);
    for (key, value) in host.interface.iter().chain(&host.sysctls) {
        grid.row(key, vec![Some(value.clone())]);
    }
    h.raw("<section><h2>Machine</h2>");
    grid.write(h);
    h.raw("</section>");
}
