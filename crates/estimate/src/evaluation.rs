//! Evaluation of estimates: how well they decide between paths, and how close they are to the truth, by chapters 5 and
//! 6 of J. Strauss, *Choosing Internet Paths with High Bulk Transfer Capacity* (MIT, 2002).
//!
//! The evaluation compares pairs of measurements. A million measurements have half a trillion pairs: every function
//! here takes time `n log n` (agreement with an allowed variation `n log^2 n`) and equals the result of counting each
//! pair.

mod agreement;
mod bootstrap;
mod decisions;
mod dominance;
mod fenwick;
mod measurement;
mod pairs;
mod ranking;
mod ratios;
mod spread;
#[cfg(test)]
mod tests;

pub use agreement::{agreement, same_choice};
pub use bootstrap::{Bootstrap, Resampled, decision_interval, difference};
pub use decisions::{Decisions, VARIATIONS, decision_rate, decision_rates, random_choice};
pub use measurement::Measurement;
pub use pairs::Pairs;
pub use ratios::Ratios;
pub use spread::{Spread, implied_sigma, log_correlation, spread};
