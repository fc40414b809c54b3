//! Earlier measurements of paths, in a small SQLite file of the user, and the expectations derived from them.
//!
//! A path is a far address, a local address and a direction ([`PathKey`]). Not the host's name: a name may stand for
//! several addresses at different places, and moves. Not the far address alone: a laptop that changes networks, or a host
//! with two interfaces, reaches the same far end over different paths, and the local address is what tells them apart.
//! Ports are no part of it: they choose a service, seldom a way. Two networks that give a host the same private address
//! are one path here; the level shifts of [`estimate::history`] then keep the values of the one apart from those of the
//! other.
//!
//! A program that has measured opens the archive, asks what is [expected](Archive::expected) before, and
//! [adds](Archive::add) what it found:
//!
//! ```no_run
//! # fn measured(entry: archive::Entry, now_s: f64) -> Result<(), archive::ArchiveError> {
//! if let Some(mut archive) = archive::Archive::open_default()? {
//!     let expected = archive.expected(&entry.path, entry.quantity, entry.layer, now_s)?;
//!     archive.add(&[entry])?;
//! }
//! # Ok(())
//! # }
//! ```

mod entry;
mod error;
mod expectation;
mod place;
mod rows;
mod schema;
mod store;
#[cfg(test)]
mod tests;

pub use entry::{Entry, Filter, PathKey, PathSummary};
pub use error::ArchiveError;
pub use expectation::{Replay, replay};
pub use place::{Place, VARIABLE};
pub use store::{Archive, ENTRIES_MAX};
