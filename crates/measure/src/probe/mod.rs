//! Packet trains over real sockets, for `longhaul estimate` and for its far end in `longhaul serve`.
//!
//! The estimation methods are in crate `estimate` and use no sockets. A [`Prober`] executes the steps of a method: it
//! sends a train, or requests one from the server, and joins the times of both ends. The session has the handshake, the
//! key and the address validation of a test. Its plan limits the probe bytes, and either end enforces the limit.

mod exchange;
mod fair_queueing;
mod port;
mod prober;
mod responder;
mod train;

pub use prober::{ProbeOptions, Prober, Progress};
pub(crate) use responder::Responder;

use std::time::Duration;

/// Maximum duration of a train, which the probes of RON (1000 s) must fit.
const TRAIN_DURATION_MAX: Duration = Duration::from_secs(3600);
