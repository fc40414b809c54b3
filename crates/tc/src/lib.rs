//! The kernel's traffic control as values: queueing disciplines, classes and filters, their route netlink messages, the
//! arithmetic of HTB, and the equivalent `tc` commands.
//!
//! Inputs: objects, and bytes from the kernel. Outputs: bytes to send, differences between two sets of objects, text.
//! Contract: the crate is pure, makes no system calls, and no input causes a panic.

mod arithmetic;
mod attribute;
mod command;
mod decode;
mod encode;
mod filter;
mod handle;
mod message;
mod object;
mod statistics;
mod tree;

pub use arithmetic::{burst_bytes, kernel_burst, kernel_codel_time, kernel_rate, largest_of_bucket, quantum_from_rate};
pub use decode::{DecodeError, decode};
pub use filter::{BpfProgram, Classifier, Filter, Key};
pub use handle::Handle;
pub use message::{Message, Operation};
pub use object::{Class, Discipline, HtbClass, HtbRoot, Object, OtherClass, Qdisc, Statistics, TokenBucket};
pub use tree::{Difference, Tree};
