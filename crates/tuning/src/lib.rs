//! Recommended settings of a host for bulk transfers over long paths, with reasons.
//!
//! Inputs: [`Facts`], the settings as found, and the [`Path`]'s rate and round trip. Outputs: [`advise`] gives one row for each
//! setting, with its source; [`planned`] the changes that follow, [`compare()`] what a measurement says about them.
//! Contract: the crate is pure, a larger value than needed is never lowered unless it does harm, and [`Setting`] names everything
//! that may be changed at all.

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
