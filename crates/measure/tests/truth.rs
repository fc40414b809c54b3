//! Results of tests compared with independent knowledge of the network.
//!
//! The tolerances hold on a loaded machine with two cores; each has its reason beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "the helpers belong to the tests")]

#[path = "truth/counts.rs"]
mod counts;
#[path = "truth/delay.rs"]
mod delay;
#[path = "truth/fair_queueing.rs"]
mod fair_queueing;
#[path = "truth/limits.rs"]
mod limits;
#[path = "truth/pacing.rs"]
mod pacing;
#[path = "truth/path_mtu.rs"]
mod path_mtu;
#[path = "truth/rate.rs"]
mod rate;

use std::time::Duration;

use results::{Completion, TestPlan};
use testbed::{Lan, Outcome, Served, client_options, run_test, server_options};

/// Runs a test across `lan` that must succeed.
fn complete(lan: &Lan, plan: TestPlan) -> Outcome {
    let served = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    // The load, the clock exchanges before and after it, and ten times that for a loaded machine.
    let limit = Duration::from_secs(20) + Duration::from_nanos(plan.duration_ns.unwrap_or(0)) * 2;
    let outcome = run_test(&lan.client, client_options(lan.server_ip(), served.port(), plan), limit).unwrap();
    assert_eq!(outcome.end.completion, Completion::Complete, "{:?}", outcome.end.warnings);
    outcome
}

/// Milliseconds of a duration in nanoseconds, for messages.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
