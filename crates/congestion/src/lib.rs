//! Congestion controls as pure functions: FAST TCP and H-TCP.
//!
//! Inputs: a [`Connection`], which is what the kernel's TCP keeps for all congestion controls, and what happens to it, in the shape of the
//! kernel's hooks (struct tcp_congestion_ops): an ACK, a loss, a timeout, an undo, an idle time. Outputs: its window and threshold.
//! Contract: the arithmetic is that of the BPF programs (`bpf/fast.h`, `bpf/htcp.h`), to the bit; the tests of crate `bpf` run
//! both on the same sequence. Nothing here reads a clock.

mod connection;
mod fast;
mod htcp;
mod parameters;

pub use connection::{Ack, Connection, MIN_WINDOW};
pub use fast::{Fast, FastSettings};
pub use htcp::{Htcp, HtcpSettings};
pub use parameters::{Algorithm, Parameter, ParameterError, Settings};
