//! Route control of an overlay: the path to each destination, and the path of each flow.
//!
//! Directed links join the members of an overlay. Each member knows the metrics of all links and chooses, for each
//! other member, the path with at most three relays that has the highest predicted TCP rate (Mark et al. 2008, section
//! III.B).
//!
//! Inputs of [`Control`]: members, metrics of links, own traffic, and time. Outputs: [`Decision`]s, the routes with
//! their weights, and an [`Explanation`] on request. [`Table`](flows::Table) takes the flows of packets and keeps each
//! on its path.
//!
//! Contract: no clock, no I/O, no randomness, no iteration order that depends on the host. The same policy and events
//! give the same decisions ([`replay`]); a [`Recorder`] stores both, and a [`Replay`] compares them. A control routes
//! one class of traffic, by the model of its policy; two classes need two of them.

mod control;
mod decision;
mod explanation;
pub mod flows;
mod graph;
mod hash;
mod member;
mod metrics;
mod path;
mod policy;
mod predict;
mod record;
pub mod search;
mod serial;

pub use control::{Control, Error, Load, Weighted};
pub use decision::{Decision, Event, Inputs, Judged, Reason, replay};
pub use explanation::{Candidate, Explanation, Hold, InUse};
pub use graph::Graph;
pub use member::Member;
pub use metrics::Metrics;
pub use path::{MAX_RELAYS, Path};
pub use policy::{Policy, PolicyError};
pub use predict::{ALPHA, BETA, Model};
pub use record::{Begin, BeginError, Difference, Record, Recorder, Replay};
pub use search::Fronts;
