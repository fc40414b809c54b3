//! `longhaul overlay`: nodes in an emulated network, dark links, failing relays, invalid input.
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

mod attacks;
mod classes;
mod failures;
mod figures;
mod host_routes;
mod link_local;
mod modes;
mod names;
mod networks;
mod offloads;
mod page;
mod queries;
mod queues;
mod reload;
mod routes;
mod seed;
mod settings;
mod setup;
