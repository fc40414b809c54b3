//! A packet-level simulator that runs experiment files in virtual time.
//!
//! Inputs: a [`scenario::Scenario`] and a seed. Outputs: the state of flows and small transfers at any virtual time,
//! the results of the calls of `longhaul estimate`, and the tallies of the links. Members of an overlay are inputs too
//! ([`Tunnel`]).
//! Contract: the crate is pure (no clock, sockets, threads or OS randomness). Links are those of the lab (crate `link`,
//! with the same seeds), TCP is crate `tcp`. The same scenario and seed give the same outputs on every machine.
//!
//! A host takes no time: it sends a whole offloaded packet at once, as the lab's hosts do. Each link cuts such a train
//! into runs of at most [`link::COALESCE`], which travel on as trains of their own. The receiver acknowledges each run
//! as Linux acknowledges a merged packet (GRO).

mod addressing;
mod connection;
mod controls;
mod datagrams;
mod estimates;
mod events;
mod mice;
mod packet;
mod sysctls;
mod tunnels;
mod unsupported;
mod world;

pub use datagrams::DATAGRAM_BYTES;
pub use estimates::{EstimateEnd, EstimateEvent};
pub use mice::Completion;
pub use tunnels::{Tunnel, TunnelAction};
pub use unsupported::{Unsupported, unsupported};
pub use world::{Counters, FlowState, World};
