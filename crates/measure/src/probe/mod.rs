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

pub use prober::{Bounds, ProbeOptions, Prober, Progress, Run};
pub(crate) use responder::Responder;

use std::time::Duration;

/// Maximum duration of a train, which the probes of RON (1000 s) must fit.
const TRAIN_DURATION_MAX: Duration = Duration::from_secs(3600);

/// Minimum settle time: time without an arrival after which missing packets of a train count as lost.
const SETTLE_MIN: Duration = Duration::from_millis(250);

/// Settle time on a path that has delivered no train yet: at 64 kb/s, packets of 1500 bytes are 0.2 s apart.
const SETTLE_UNKNOWN_PATH: Duration = Duration::from_secs(1);

/// Maximum settle time that a server accepts.
const SETTLE_MAX: Duration = Duration::from_secs(10);
