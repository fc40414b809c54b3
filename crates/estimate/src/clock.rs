//! Offset and drift between two hosts' clocks, with a bound that assumes no symmetry of the path.

mod envelope;
mod estimator;
mod feasible;
mod model;

pub use estimator::{ClockEstimator, Exchange};
pub use model::ClockModel;
