//! Everything that shows results: text, live terminal view, CSV, thrulay rows, HTML.
//!
//! Input: the [`results::Record`]s of a test, in the order in which they were made; for [`lab`] those of an experiment. Output: bytes to a writer, or cells
//! of a terminal. Nothing here measures or judges anew; what a record does not hold is shown as missing. Records come
//! from another host and are shown as data: every front end escapes what would mean something to its reader.

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
