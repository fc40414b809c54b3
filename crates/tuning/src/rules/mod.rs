//! The rules, by what they concern. Each gives for a value found the value advised, and why.

pub(crate) mod control;
pub(crate) mod device;
pub(crate) mod machine;
pub(crate) mod queues;
#[cfg(test)]
mod tests;
pub(crate) mod windows;
mod words;

/// The kernel's own description of its variables.
const IP_SYSCTL: &str = "kernel: Documentation/networking/ip-sysctl.rst";
/// The same for `net.core`.
const NET_SYSCTL: &str = "kernel: Documentation/admin-guide/sysctl/net.rst";
/// The same for spreading packets over CPUs.
const SCALING: &str = "kernel: Documentation/networking/scaling.rst";
/// Advice of the operators of a research network to hosts of bulk transfers.
const ESNET: &str = "ESnet fasterdata, Linux tuning";
