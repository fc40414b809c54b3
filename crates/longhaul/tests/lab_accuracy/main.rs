//! Accuracy of the lab: plain sockets in its nodes, compared with arithmetic and with the lab's records.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::unwrap_in_result,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests are tests too; measured values are shown on demand"
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
