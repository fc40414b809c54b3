//! Output of results: text, live terminal view, CSV, thrulay rows, HTML.
//!
//! Input: the [`results::Record`]s of a test in their original order, or for [`lab`] those of an experiment. Output:
//! bytes to a writer, or cells of a terminal. This crate does not measure or evaluate; it shows missing values of a
//! record as missing. Records come from another host and are untrusted, so every front end escapes their text for its
//! format.

pub mod cc;
pub mod choose;
mod closing;
mod columns;
mod csv;
mod end_text;
pub mod estimate;
pub mod evaluate;
#[cfg(test)]
mod fixture;
pub mod history;
mod html;
pub mod lab;
mod live;
pub mod model;
mod pairing;
pub mod shape;
mod sheet;
pub mod summary;
#[cfg(test)]
mod tests;
mod text;
mod thrulay;
pub mod trace;
pub mod tune;

pub use crate::csv::CsvReport;
pub use html::{Run, RunError, write_html};
pub use live::terminal_columns;
pub use live::{LiveState, LiveView, render as render_live};
pub use text::TextReport;
pub use thrulay::ThrulayReport;
