//! Settings of this host, or of the calling thread's network namespace: reading, changing and restoring them.
//!
//! `tuning` decides the changes. The journal holds all of them with the original values before the first one is made,
//! and every value is read back. [`undo`] works from the journal, also after the changing process was killed.

mod device;
mod error;
mod gather;
mod journal;
mod machine;
mod persist;
mod session;
mod setting;
#[cfg(test)]
mod tests;

pub use error::TuneError;
pub use gather::{devices, gather, is_host, pick_device};
pub use journal::Journal;
pub use persist::{PERSISTENT, Persistent};
pub use session::{Session, undo};
pub use setting::{read, write};
