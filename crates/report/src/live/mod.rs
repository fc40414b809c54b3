//! Live view of a running test on a terminal.
//!
//! [`LiveState`] collects records, [`render()`] draws it into any ratatui frame without touching a terminal,
//! [`LiveView`] owns the terminal: raw mode, alternate screen, both given back at the end, on drop and on a panic. It
//! draws on standard error; standard output stays free for results.

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
