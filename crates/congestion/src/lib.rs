//! Congestion controls as pure functions: FAST TCP and H-TCP.
//!
//! Inputs: a [`Connection`], the state that the kernel's TCP provides to all congestion controls, and its events in the
//! form of the kernel's hooks (struct tcp_congestion_ops): an ACK, a loss, a timeout, an undo, an idle restart.
//! Outputs: window and threshold.
//! Contract: the arithmetic equals that of the BPF programs (`bpf/fast.h`, `bpf/htcp.h`) to the bit; the tests of crate
//! `bpf` run both on the same sequence. The crate reads no clock.

mod connection;
mod fast;
mod htcp;
mod parameters;

pub use connection::{Ack, Connection, WINDOW_PACKETS_MIN};
pub use fast::{Fast, FastSettings};
pub use htcp::{Htcp, HtcpSettings};
pub use parameters::{Algorithm, Parameter, ParameterError, Settings};
