//! Hostile, faulty and vanishing peers: each receives an answer or a close, is released, and affects no other session.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "the helpers belong to the tests"
)]

#[path = "faults/handshake.rs"]
mod handshake;
#[path = "faults/load.rs"]
mod load;
#[path = "faults/peer.rs"]
mod peer;
#[path = "faults/probe.rs"]
mod probe;
#[path = "faults/proxy.rs"]
mod proxy;
#[path = "faults/vanish.rs"]
mod vanish;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use measure::{MeasureError, ServerOptions};
use results::{Completion, TestPlan};
use testbed::{Namespace, Outcome, Served, client_options, plan, run_test, server_options};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Time limit of a step on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a server on the loopback device with changed options.
fn serve(change: impl FnOnce(&mut ServerOptions)) -> Served {
    let mut options = server_options(LOCAL);
    change(&mut options);
    Served::start(&Namespace::here(), options).unwrap()
}

/// A test with a low rate, so that many of them do not overload the machine. The limit of unsent bytes avoids a send
/// buffer that needs seconds to drain at this rate.
fn small(duration: Duration) -> TestPlan {
    TestPlan { rate_bps: Some(10_000_000), block_bytes: 4096, notsent_lowat_bytes: Some(16_384), ..plan(duration) }
}

/// Runs a test against `served`.
fn attempt(served: &Served, plan: TestPlan) -> Result<Outcome, MeasureError> {
    run_test(&Namespace::here(), client_options(LOCAL, served.port(), plan), STEP_TIMEOUT)
}

/// Asserts that a short test succeeds, and that no session is left afterwards.
fn assert_healthy(served: &Served) {
    let outcome = attempt(served, small(Duration::from_millis(200))).unwrap();
    assert_eq!(outcome.end.completion, Completion::Complete);
    let agreement = &outcome.end.directions[0].agreement;
    assert!(agreement.agree, "{agreement:?}");
    assert!(served.has_sessions_within(0, STEP_TIMEOUT), "{} sessions are left", served.sessions());
}
