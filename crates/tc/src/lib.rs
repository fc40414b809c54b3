//! The kernel's traffic control as values: queueing disciplines, classes and filters, their messages in route netlink, the
//! arithmetic of HTB, and the `tc` commands that do the same.
//!
//! Inputs: objects, and the bytes that the kernel sent. Outputs: the bytes to send, differences between two sets of objects,
//! text. Contract: the crate is pure, makes no system call, and no bytes cause a panic.

mod filter;
mod handle;
mod object;

pub use filter::{BpfProgram, Classifier, Filter, Key};
pub use handle::Handle;
pub use object::{Class, Discipline, HtbClass, HtbRoot, Object, Qdisc, Statistics, TokenBucket};
