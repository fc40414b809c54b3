//! Route control of an overlay: which path each destination gets, and which flow takes which path.
//!
//! Members of an overlay are joined by directed links. Each member knows the metrics of all links and chooses, for each other member, the path
//! with at most three relays on which TCP is predicted to be fastest (Mark et al. 2008, §III.B).
//!
//! Inputs: [`Control`] is told who is there, the metrics of links, what our own traffic carries, and the time. Outputs: [`Decision`]s, the paths in use
//! with their weights, and an [`Explanation`] for who asks why. [`Table`](flows::Table) is given the packets' flows and keeps each on its path.
//!
//! Contract: no clock, no I/O, no randomness, no iteration order that depends on the host. From the same policy and the same events follow
//! the same decisions ([`replay`]); a [`Recorder`] keeps both, and a [`Replay`] compares them. Control routes one class of traffic, by the model of its policy; who routes two classes keeps two of them.

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
