//! Packet trains over real sockets: what `longhaul estimate` sends, and what `serve` makes of it.
//!
//! Methods are in `estimate` and know no sockets. Here a [`Prober`] carries out what a method asks for: it sends a train
//! itself, or has the server send one, and brings together the times of both ends. The session is that of a test: the
//! same handshake, the same key, the same proof of the UDP address. Its plan names the bytes that may be sent, and either
//! end stops at them.

mod carry;
mod conversation;
mod passing;
mod port;
mod prober;
mod responder;

pub use prober::{Bounds, ProbeOptions, Prober, Progress, Run};
pub(crate) use responder::Responder;

use std::time::Duration;

/// Longest train in time: RON's probes take 1000 s.
const LONGEST_TRAIN: Duration = Duration::from_secs(3600);

/// For how long at least nothing must come before what is missing of a train is lost.
const SETTLE: Duration = Duration::from_millis(250);

/// The same as long as nothing is known of the path: a packet of 1500 bytes behind another takes 0.4 s at 64 kb/s.
const FIRST_SETTLE: Duration = Duration::from_secs(1);

/// Longest such time that a server grants.
const SETTLE_MAX: Duration = Duration::from_secs(10);
