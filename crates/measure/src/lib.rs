//! Drivers of the bulk test, `serve` and `test`, with their threads, sockets and clocks.
//!
//! A test has one control connection and one data connection for each stream. The control connection carries the
//! handshake, clock exchanges, interval reports and the final report, so that none of them waits behind the load. The
//! logic is in `estimate` (statistics of samples) and `wire` (encodings); system calls are in `kernel`.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "each state accepts some messages; any other message violates the protocol"
)]

mod address;
mod client;
mod control;
mod data;
mod error;
mod load;
pub mod probe;
mod random;
mod server;
mod thrulay;
mod udp;
mod utc;

pub use client::{ClientOptions, Family, run_test};
pub use control::{HANDSHAKE_TIMEOUT, PEER_TIMEOUT};
pub use error::MeasureError;
pub use load::{Disk, PACED_UNSENT};
pub use server::{Server, ServerOptions};
pub use utc::{at as utc_at, now as utc_now};

/// Version of longhaul as it appears in records and in the handshake.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
