//! The model of one direction of a link, and the truth about every packet.
//!
//! Inputs: packet trains and the time. Outputs: which segments arrive when, and what became of the others. Contract: the
//! crate is pure (no clock, sockets, threads or OS randomness); all effects happen at logical times, so that what is delivered
//! when does not depend on how late [`Direction::poll`] is called; the same seed and the same offered packets give the same
//! fates.

mod chance;
mod codel;
mod depth;
mod direction;
mod discipline;
mod distribution;
mod line;
mod queue;
mod settings;
mod tally;
mod trace;
mod train;
mod transmitter;

pub use direction::Direction;
pub use distribution::Distribution;
pub use line::COALESCE;
pub use settings::{Capacity, Discipline, Jitter, JitterShape, Loss, Overhead, Queue, QueueLimit, Reorder, Settings};
pub use tally::{Drops, Tally, Volume};
pub use trace::{Trace, TraceError};
pub use train::{Delivery, Train};
