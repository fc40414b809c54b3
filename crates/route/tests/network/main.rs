//! Route control in networks of virtual time: what it does over minutes and days.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests are tests too")]

mod churn;
mod crowd;
mod draws;
mod follow;
mod load;
mod net;
