//! Records of `longhaul cc`: congestion controls of this host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::KeyValue;

/// Name and version of the record format of `longhaul cc`.
pub const CC_SCHEMA: &str = "longhaul.cc/2";

/// One line of what `longhaul cc` writes.
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
    /// What new connections of this network namespace get (net.ipv4.tcp_congestion_control).
    pub default: String,
}

/// Who brought a congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CcOrigin {
    /// The kernel or somebody else's program.
    Kernel,
    /// `longhaul cc load`.
    Longhaul,
}

/// One congestion control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CcControl {
    /// Its name, as TCP_CONGESTION takes it.
    pub name: String,
    /// Who brought it.
    pub origin: CcOrigin,
    /// Whether connections can choose it now; false: longhaul has it, and it is not loaded.
    pub available: bool,
    /// Whether programs without privilege can (net.ipv4.tcp_allowed_congestion_control, or its own flag).
    pub unprivileged: bool,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Parameters of one of longhaul's: those in force, or those that loading gives it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<KeyValue>,
    /// Seconds since it was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
    /// Connections that use it, on the whole host, as the kernel estimates them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}
