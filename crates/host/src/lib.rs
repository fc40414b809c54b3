//! What longhaul changes on a host, and how it takes it back.
//!
//! Every change is planned by a pure crate, written to a journal before it is made, read back after, and undone from the
//! journal, also by a later process.

pub mod shape;
pub mod state;
pub mod tune;
