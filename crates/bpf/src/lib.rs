//! The BPF programs of longhaul, and what loads them into the kernel.
//!
//! [`Classifier`] is the classifier of `longhaul shape` (`bpf/classify.bpf.c`): it returns the class of the first rule that a
//! packet meets, and remembers flows by their size. Attaching it is route netlink's affair (`kernel`). What a loaded
//! one has seen, also one that another process loaded, [`counters`] and [`flows`] read.
//!
//! The system calls are libbpf's.

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
