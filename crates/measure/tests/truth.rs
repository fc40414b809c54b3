//! What a test says, against what is known of the network from outside.
//!
//! Tolerances hold on a loaded machine with two cores; each says why it is as wide as it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

#[path = "truth/counts.rs"]
mod counts;
#[path = "truth/delay.rs"]
mod delay;
#[path = "truth/limits.rs"]
mod limits;
#[path = "truth/pacing.rs"]
mod pacing;
#[path = "truth/path_mtu.rs"]
mod path_mtu;
#[path = "truth/rate.rs"]
mod rate;
#[path = "truth/turns.rs"]
mod turns;

use std::time::Duration;

use results::{Completion, TestPlan};
use testbed::{Lan, Outcome, Served, client_options, run_test, server_options};

/// Runs a test across `lan` that is expected to succeed.
fn complete(lan: &Lan, plan: TestPlan) -> Outcome {
    let served = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    // The load, the idle clock exchanges around it, and ten times as long again for a loaded machine.
    let limit = Duration::from_secs(20) + Duration::from_nanos(plan.duration_ns.unwrap_or(0)) * 2;
    let outcome = run_test(&lan.client, client_options(lan.server_ip(), served.port(), plan), limit).unwrap();
    assert_eq!(outcome.end.completion, Completion::Complete, "{:?}", outcome.end.warnings);
    outcome
}

/// Seconds of a duration in nanoseconds, for messages.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
