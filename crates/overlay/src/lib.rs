//! The overlay network: members tunnel traffic of their hosts and networks through each other, and send each flow over
//! the path on which TCP is predicted to be fastest.
//!
//! The crate is a driver with a tunnel device, UDP sockets and threads. Each queue has a transmit thread, which seals
//! packets of the device (`outbound`), and a receive thread, which decapsulates datagrams and delivers or forwards them
//! (`inbound`). The controlling thread runs the state machine `core`: sessions, link monitoring, gossip and route
//! selection. `core` takes time, datagrams and randomness as inputs, so that runs are reproducible. One thread serves
//! the status page. The packet threads read an immutable forwarding table that is replaced as a whole (`table`).

mod arrivals;
mod batch;
mod bucket;
mod certificate;
mod core;
mod counters;
mod decapsulate;
mod decision_log;
mod device;
mod encapsulate;
mod error;
mod estimators;
mod event_text;
pub mod fuzzing;
mod gauges;
mod gossip;
mod handshake;
mod handshake_limiter;
mod host_routes;
mod http;
mod identity;
mod inbound;
mod loss;
mod members;
mod node;
mod offload;
mod outbound;
mod permits;
mod placement;
mod prng;
mod quota;
mod rate_meter;
mod secrets;
mod sensor;
mod session;
mod settings;
mod signed;
mod simulated;
mod status;
mod table;
mod window;

pub use certificate::Certificate;
pub use error::OverlayError;
pub use identity::{Identity, PublicKey};
pub use members::Members;
pub use node::{Node, ask};
pub use sensor::LossSensor;
pub use settings::{
    DEFAULT_MTU, DEFAULT_PORT, Endpoint, HostPort, MemberSettings, Offload, PolicyName, Settings, joined, member_lines,
};
pub use simulated::{Action, SimulatedMember};
pub use status::Question;
