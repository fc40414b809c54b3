//! The overlay: members tunnel traffic of their hosts and networks over each other, and send each flow where TCP is predicted to be fastest.
//!
//! A driver: it owns a tunnel device, UDP sockets and threads. For each queue one thread takes packets from the device and seals them (`outbound`),
//! and one takes datagrams, opens them and hands them to the device or passes them on (`inbound`). One thread decides (`core`): sessions, link
//! monitoring, gossip and the choice of paths. `core` knows no clock, no socket and no randomness of the system, so that a run can be repeated.
//! One thread serves the status page. The threads of the queues read a table that never changes and is replaced as a whole (`table`).

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
