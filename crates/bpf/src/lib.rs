//! The BPF programs of longhaul and their loader.
//!
//! [`Classifier`] is the classifier of `longhaul shape` (`bpf/classify.bpf.c`): it returns the class of the first rule
//! that a packet matches, and tracks flows by size. Route netlink attaches it (`kernel`). [`counters`] and [`flows`]
//! read the state of a loaded classifier, including one that another process loaded.
//!
//! libbpf makes the system calls.

mod classifier;
pub mod congestion;
mod error;
mod expand;
mod inspect;
mod layout;
mod log;
#[cfg(test)]
mod tests;
pub mod trace;

pub use classifier::{Classifier, FLOWS_MAX, Rule, Settings, Trial};
pub use error::BpfError;
pub use expand::RULES_MAX;
pub use inspect::{Counters, FlowEntry, Hits, RunTime, RunTimeStatistics, counters, flows};
