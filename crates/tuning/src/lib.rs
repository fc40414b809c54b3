//! Recommended settings of a host for bulk transfers over long paths, with reasons.
//!
//! Inputs: [`Facts`], the present settings, and the rate and round-trip time of the [`Path`]. Outputs: [`advise`]
//! returns one row per setting with its source; [`planned`] the resulting changes; [`compare()`] the result of a
//! measurement.
//! Contract: the crate is pure; values larger than necessary are lowered only if they do harm; [`Setting`] covers
//! everything that may be changed.

mod catalogue;
mod compare;
mod facts;
mod path;
mod plan;
mod rules;
mod setting;

pub use catalogue::{advise, sysctls};
pub use compare::{Pair, compare};
pub use facts::{Device, Facts, Interrupt, OffloadState, Reading, Rings, Softnet};
pub use path::Path;
pub use plan::{Change, PlanError, persistent, planned, summary};
pub use setting::{Offload, Setting, UnknownSetting, same_value};
