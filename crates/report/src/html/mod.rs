//! One self-contained HTML file for one or several runs.
//!
//! The page needs no network and no server: it contains style, script (uPlot, MIT) and data. Bars, strips and tables
//! work without the script; the charts over time need it. A content security policy forbids everything from outside the
//! page, so that text of a hostile record has no effect even after a failure of the escaping.

mod axis;
mod bars;
mod compare;
mod data;
pub(crate) mod document;
pub(crate) mod grid;
mod hosts;
pub(crate) mod markup;
mod page;
mod run;
mod strip;
mod tables;
mod verdict;

use std::io::{self, Write};

pub use run::{Run, RunError};

use crate::summary::direction_name;
use document::Parts;
use markup::Html;
use run::Track;

/// Parts of a test's page besides the shared ones of all charts.
const PARTS: Parts = Parts {
    script: concat!(include_str!("../../assets/charts.js"), include_str!("../../assets/report.js")),
    style: "",
};

/// Number of colours for series in the style sheet; further series reuse them.
const COLOURS: usize = 8;

/// One direction of one run, as it appears in charts and tables.
pub(crate) struct Series<'a> {
    pub(crate) run: &'a Run,
    pub(crate) track: &'a Track,
    pub(crate) label: String,
    number: usize,
}

impl Series<'_> {
    /// Writes a mark in the colour of the series.
    fn swatch(&self, h: &mut Html) {
        h.raw("<i class=\"swatch\" style=\"background:var(--t").number((self.number % COLOURS) as f64).raw(")\"></i>");
    }

    fn heading(&self, h: &mut Html) {
        h.raw("<h3>");
        self.swatch(h);
        h.text(&self.label).raw("</h3>");
    }
}

/// All directions of all runs; the label contains only the parts that differ.
fn series(runs: &[Run]) -> Vec<Series<'_>> {
    let label = |run: &Run, track: &Track| match (runs.len(), run.tracks.len()) {
        (1, _) => direction_name(track.direction).to_owned(),
        (_, 1) => run.label(),
        _ => format!("{} {}", run.label(), direction_name(track.direction)),
    };
    runs.iter()
        .flat_map(|run| run.tracks.iter().map(move |track| (run, track)))
        .enumerate()
        .map(|(number, (run, track))| Series { run, track, label: label(run, track), number })
        .collect()
}

/// Writes a page of `runs`; several runs share the charts.
///
/// # Errors
/// Errors of the writer.
pub fn write_html(mut out: impl Write, runs: &[Run], title: &str) -> io::Result<()> {
    let series = series(runs);
    let end_s = runs.iter().map(Run::end_s).fold(0.0, f64::max);
    let mut body = Html::new();
    page::header(&mut body, runs, &series, title);
    if series.len() > 1 {
        compare::section(&mut body, &series);
    }
    page::charts(&mut body, &series);
    bars::section(&mut body, &series, end_s);
    strip::section(&mut body, &series, end_s);
    tables::summary(&mut body, &series);
    tables::rfc6349(&mut body, &series);
    tables::loss_episodes(&mut body, &series);
    tables::udp(&mut body, &series);
    tables::streams(&mut body, &series);
    hosts::sockets(&mut body, runs);
    hosts::hosts(&mut body, runs);
    hosts::quality(&mut body, runs);
    page::footer(&mut body, runs);
    document::write_document(&mut out, title, PARTS, &body, &data::chart_data(&series, end_s))
}

#[cfg(test)]
mod tests;
