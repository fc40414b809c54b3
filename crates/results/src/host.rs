use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The settings of one end that decide what a transfer gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostReport {
    /// Host name.
    pub hostname: String,
    /// longhaul version.
    pub version: String,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Machine architecture, as `uname -m`.
    pub machine: String,
    /// Number of CPUs that this process may use.
    pub cpus: u32,
    /// Kernel clock source (`/sys/devices/system/clocksource`), when readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clocksource: Option<String>,
    /// Resolution of the monotonic clock.
    pub clock_resolution_ns: u64,
    /// Network settings by sysctl name, as readable in this network namespace.
    pub sysctls: BTreeMap<String, String>,
    /// The interface that carries the test, its MTU, queueing discipline and offloads, as readable.
    pub interface: BTreeMap<String, String>,
}
