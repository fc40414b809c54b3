//! Model of one direction of a link, with the ground truth about every packet.
//!
//! Inputs: packet trains and the time. Outputs: the segments that arrive, with their arrival times, and the outcome of
//! all others. Contract: the crate is pure (no clock, sockets, threads or OS randomness). All effects happen at logical
//! times, so that deliveries do not depend on the time at which [`Direction::poll`] is called. The same seed and the
//! same offered packets give the same outcomes. No settings and no input cause a panic.
//!
//! ```
//! use std::time::Duration;
//! use link::{Capacity, Direction, Settings, Train};
//! use units::{Instant, Rate};
//!
//! let settings = Settings {
//!     capacity: Capacity::Constant(Rate::from_bps(100_000_000)),
//!     delay: Duration::from_millis(10),
//!     ..Settings::default()
//! };
//! let mut link = Direction::new(Instant::ZERO, 1, settings);
//! link.offer(Instant::ZERO, Train { payload: "a packet", count: 1, full: 1500, last: 1500 });
//! // 1538 bytes on an Ethernet wire take 123.04 µs.
//! let at = Instant::from_nanos(10_123_040);
//! assert_eq!(link.poll_timeout(), Some(at));
//! assert_eq!(link.poll(at).map(|d| (d.payload, d.at)), Some(("a packet", at)));
//! ```

mod codel;
mod delay_line;
mod depth;
mod direction;
mod discipline;
mod distribution;
mod impairments;
mod queue;
mod settings;
mod tally;
mod time;
mod trace;
mod train;
mod transmitter;

pub use delay_line::COALESCE;
pub use direction::Direction;
pub use distribution::Distribution;
pub use settings::{Capacity, Discipline, Jitter, JitterShape, Loss, Overhead, Queue, QueueLimit, Reorder, Settings};
pub use tally::{Drops, Tally, Volume};
pub use trace::{Trace, TraceError};
pub use train::{Delivery, Train};
