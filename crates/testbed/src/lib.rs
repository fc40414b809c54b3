//! Test networks of namespaces for tests and benchmarks: hosts, a router, bottlenecks, and reference measurements.
//!
//! The crate is for development only and not part of the binary. References are independent of longhaul: iproute2
//! configures and reads the network, and the probes share no code with longhaul. Namespaces are anonymous and live as
//! long as this process, so that nothing remains after a kill. All waits are bounded.
//!
//! Creating namespaces needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN); see [`or_skip`].

mod background;
mod command;
mod kill;
mod lan;
mod namespace;
mod probe;
mod qdisc;
mod serve;
mod trial;
mod undisturbed;

pub use background::Background;
pub use command::{finish, resident};
pub use kill::{Ended, kill_at_call};
pub use lan::{Lan, Place, or_skip};
pub use namespace::Namespace;
pub use probe::idle_round_trip;
pub use qdisc::{BacklogWatch, Bottleneck, Counters};
pub use serve::{Served, server_options};
pub use trial::{Outcome, client_options, plan, run_test};
pub use undisturbed::{undecided, undisturbed};
