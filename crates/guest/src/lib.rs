//! A guest kernel in virtual time.
//!
//! The guest is user-mode Linux (UML) with time travel: a real Linux kernel that runs as a process of the user, whose
//! clock stands still while code runs and jumps to the next timer when nothing is runnable. CPU time therefore costs no
//! virtual time, and the load of the host changes no result. The guest sees the file system of the host, read-only
//! except for the directories of a [`Task`].
//!
//! [`Image`] finds, checks and builds the kernel; [`run`] starts it on the host; [`run_init`] is its first process.

mod error;
mod image;
mod init;
mod machine;
mod task;

pub use error::GuestError;
pub use image::{Image, PACKAGES, Source};
pub use init::run_init;
pub use machine::{Machine, Progress, run};
pub use task::{Task, VARIABLE};
