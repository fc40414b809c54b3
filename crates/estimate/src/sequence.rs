//! Loss, duplication, reordering and jitter of numbered datagrams at their receiver.

mod loss;
mod reordering;
mod sent_losses;
mod tracker;

pub use tracker::{Arrival, SequenceTracker};
