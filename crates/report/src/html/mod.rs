//! One self-contained HTML file for one or several runs.
//!
//! The page needs no network and no server: style, script (uPlot, MIT) and data are inside. Bars, strips and tables are
//! drawn here and work without script; the charts over time need it. A content security policy forbids everything that
//! is not inside the page, so that text of a hostile record could do nothing even if it slipped through the escaping.

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

/// Charts of a test, after what all charts share.
const PARTS: Parts = Parts {
    script: concat!(include_str!("../../assets/charts.js"), include_str!("../../assets/report.js")),
    style: "",
};

/// Colours of the style sheet for series; further series reuse them.
const COLOURS: usize = 8;

/// One direction of one run, as it appears in charts and tables.
pub(crate) struct Series<'a> {
    pub(crate) run: &'a Run,
    pub(crate) track: &'a Track,
    pub(crate) label: String,
    number: usize,
}

impl Series<'_> {
    /// The colour that stands for the series.
    fn swatch(&self, h: &mut Html) {
        h.raw("<i class=\"swatch\" style=\"background:var(--t").number((self.number % COLOURS) as f64).raw(")\"></i>");
    }

    fn heading(&self, h: &mut Html) {
        h.raw("<h3>");
        self.swatch(h);
        h.text(&self.label).raw("</h3>");
    }
}

/// All directions of all runs; the label leaves out what all have in common.
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

/// Writes a page that shows `runs`, overlaid in the same charts when there are several.
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
