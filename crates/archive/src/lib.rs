//! Earlier measurements of paths in a small SQLite file of the user, and the expectations derived from them.
//!
//! A path is a far address, a local address and a direction ([`PathKey`]). A host name does not identify a path,
//! because a name may have several addresses and may move. The far address alone does not suffice either: a host that
//! changes networks or has two interfaces reaches the same far end over different paths, which the local address
//! distinguishes. Ports are not part of the key, because they rarely influence the route. Two networks that assign the
//! same private address to a host share one path; the level shifts of [`estimate::history`] separate their values.
//!
//! A program opens the archive, reads the [expected](Archive::expected) value, and [adds](Archive::add) its
//! measurement:
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
