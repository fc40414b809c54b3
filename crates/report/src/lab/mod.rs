//! Emulated experiments: a page, plain lines, a line of progress.
//!
//! Input: the [`results::lab::LabRecord`]s of an experiment. The verdict of each run is that of its end record; means
//! and intervals are those of the summary.

mod agreement;
mod bars;
mod compare;
mod data;
#[cfg(test)]
mod fixture;
mod format;
mod head;
mod page;
mod points;
mod progress;
mod records;
mod settings;
mod sweep;
mod tables;
#[cfg(test)]
mod tests;
mod text;

pub use agreement::{Agreement, Comparison, Tolerance, compare, write_agreement};
pub use compare::write_lab_comparison;
pub use page::write_lab_html;
pub use progress::LabProgress;
pub use records::{LabError, LabReport};
pub use text::LabText;
