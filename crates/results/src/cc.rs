//! Records of `longhaul cc`: the congestion controls of this host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::KeyValue;

/// Name and version of the record format of `longhaul cc`.
pub const CC_SCHEMA: &str = "longhaul.cc/2";

/// One line of the output of `longhaul cc`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum CcRecord {
    /// First line: the host.
    Start(CcStart),
    /// One congestion control.
    Control(CcControl),
}

/// The host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CcStart {
    /// Name and version of this format: `longhaul.cc/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Default congestion control of new connections in this network namespace (net.ipv4.tcp_congestion_control).
    pub default: String,
}

/// Origin of a congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CcOrigin {
    /// The kernel, or another program.
    Kernel,
    /// `longhaul cc load`.
    Longhaul,
}

/// One congestion control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CcControl {
    /// Name for the socket option TCP_CONGESTION.
    pub name: String,
    /// Origin of the congestion control.
    pub origin: CcOrigin,
    /// Whether connections can use it now; false: longhaul contains it, but it is not loaded.
    pub available: bool,
    /// Whether programs without privileges can use it (net.ipv4.tcp_allowed_congestion_control, or its own flag).
    pub unprivileged: bool,
    /// Short description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Parameters of a congestion control of longhaul: the current ones, or those set by loading it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<KeyValue>,
    /// Time since it was loaded, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
    /// Approximate number of connections on the whole host that use it, as reported by the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}
