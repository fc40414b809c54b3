//! Live view of a running test on a terminal.
//!
//! [`LiveState`] collects records, and [`render()`] draws it into any ratatui frame without access to a terminal.
//! [`LiveView`] owns the terminal: raw mode and alternate screen, both restored at the end, on drop and on a panic. It
//! draws on standard error; standard output is for results.

pub(crate) mod chart;
mod history;
mod panels;
mod render;
mod small;
mod state;
pub(crate) mod terminal;

pub use render::render;
pub use state::LiveState;
pub use terminal::{LiveView, terminal_columns};

#[cfg(test)]
mod tests;
