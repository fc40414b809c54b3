//! Decomposition of the delay of sampled blocks: joins the timestamps of one block into stages.

mod histograms;
mod joiner;
mod pending;

pub use histograms::StageHistograms;
pub use joiner::{RemoteTimes, Stages, StampKind};
