//! Rules by subject. Each rule returns the recommended value for the present value, and the reason.

pub(crate) mod control;
pub(crate) mod device;
pub(crate) mod machine;
pub(crate) mod queues;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod windows;

/// The kernel's documentation of `net.ipv4` variables.
const IP_SYSCTL: &str = "kernel: Documentation/networking/ip-sysctl.rst";
/// The kernel's documentation of `net.core` variables.
const NET_SYSCTL: &str = "kernel: Documentation/admin-guide/sysctl/net.rst";
/// The kernel's documentation of packet distribution over CPUs.
const SCALING: &str = "kernel: Documentation/networking/scaling.rst";
/// Recommendations of a research network operator for hosts with bulk transfers.
const ESNET: &str = "ESnet fasterdata, Linux tuning";
