//! Changes that longhaul makes to a host, and their reversal.
//!
//! A pure crate plans every change. The change is written to a journal before it is made, read back afterwards, and
//! undone from the journal, also by a later process.

pub mod shape;
pub mod state;
pub mod tune;
