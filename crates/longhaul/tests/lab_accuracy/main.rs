//! How exact the lab is: what plain sockets in its nodes see, beside hand arithmetic and beside the lab's own truth.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::unwrap_in_result,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests are tests too; figures are shown on demand"
)]

#[path = "../common/mod.rs"]
mod common;

mod capture;
mod delay;
mod goodput;
mod impairments;
mod queue;
mod schedule;
mod tcp;
mod transfers;
