//! Settings of this host, or of the network namespace that the calling thread is in: read, changed, and set back.
//!
//! What is to change is decided by `tuning`. Before anything is changed all of it is in the journal, with the values found; every
//! value is read back; [`undo`] works from the journal, also after the process that changed was killed in the middle.

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
