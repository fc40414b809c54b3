//! Settings to reproduce a run: links, flows with their commands, schedule.

use super::format::{arrow, link_label};
use super::records::RunRecords;
use crate::html::markup::Html;
use crate::summary::seconds;

/// Maximum number of links and changes in the list; the result file has all.
const LISTED_MAX: usize = 512;

pub(super) fn section(h: &mut Html, run: &RunRecords) {
    let start = &run.start;
    h.raw("<details class=\"settings\"><summary>Settings of this run: links, flows with their commands, schedule</summary>");
    h.raw("<p class=\"hint\">").text(format_args!("Seed {}.", start.seed));
    for v in &start.values {
        h.raw(" <code>").text(format_args!("{} = {}", v.key, v.value)).raw("</code>");
    }
    h.raw("</p>");
    if !start.links.is_empty() {
        h.raw("<div class=\"scroll\"><table class=\"words\"><thead><tr><th>link direction</th><th>settings at the start</th>");
        h.raw("</tr></thead><tbody>");
        for l in start.links.iter().take(LISTED_MAX) {
            h.raw("<tr>")
                .element("th", arrow(&link_label(&l.link, &l.from, &l.to)))
                .element("td", &l.settings)
                .raw("</tr>");
        }
        h.raw("</tbody></table></div>");
        more(h, start.links.len(), "link directions");
    }
    if !start.flows.is_empty() {
        h.raw("<div class=\"scroll\"><table class=\"words\"><thead><tr><th>flow</th><th>from, to</th><th>settings and command</th>");
        h.raw("</tr></thead><tbody>");
        for f in &start.flows {
            h.raw("<tr>").element("th", &f.flow).element("td", format_args!("{} \u{2192} {}", f.from, f.to));
            h.raw("<td>").text(&f.settings);
            if let Some(command) = &f.command {
                h.raw("<br><code>").verbatim(command).raw("</code>");
            }
            h.raw("</td></tr>");
        }
        h.raw("</tbody></table></div>");
    }
    if !start.changes.is_empty() {
        h.raw("<div class=\"scroll\"><table class=\"words\"><thead><tr><th>at</th><th>change by the schedule</th></tr></thead><tbody>");
        for c in start.changes.iter().take(LISTED_MAX) {
            h.raw("<tr>").element("th", seconds(c.at_s)).element("td", &c.text).raw("</tr>");
        }
        h.raw("</tbody></table></div>");
        more(h, start.changes.len(), "changes");
    }
    h.raw("</details>");
}

fn more(h: &mut Html, count: usize, noun: &'static str) {
    if count > LISTED_MAX {
        h.raw("<p class=\"hint\">").text(format_args!("and {} more {noun}", count - LISTED_MAX)).raw("</p>");
    }
}
