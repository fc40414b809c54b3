use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of one end that determine the performance of a transfer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostReport {
    /// Host name.
    pub hostname: String,
    /// Version of longhaul.
    pub version: String,
    /// Kernel release, as printed by `uname -r`.
    pub kernel: String,
    /// Machine architecture, as printed by `uname -m`.
    pub machine: String,
    /// Number of CPUs that this process may use.
    pub cpus: u32,
    /// Kernel clock source (`/sys/devices/system/clocksource`); absent if unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clocksource: Option<String>,
    /// Resolution of the monotonic clock.
    pub clock_resolution_ns: u64,
    /// Network settings by the name of their sysctl, as far as this network namespace can read them.
    pub sysctls: BTreeMap<String, String>,
    /// Interface of the test: its MTU, queueing discipline and offloads, as far as readable.
    pub interface: BTreeMap<String, String>,
}
