//! Emulated experiments: a page, plain lines, a line of progress.
//!
//! Input: the [`results::lab::LabRecord`]s of an experiment. As elsewhere in this crate nothing is measured or judged anew:
//! the verdict of each run is the one that its end record gives, means and intervals are those of the summary.

mod bars;
mod compare;
mod data;
#[cfg(test)]
mod fixture;
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
mod words;

pub use compare::write_lab_comparison;
pub use page::write_lab_html;
pub use progress::LabProgress;
pub use records::{LabError, LabReport};
pub use text::LabText;
