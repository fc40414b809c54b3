//! Kernel settings of a node, as far as they change a simulated run.

use scenario::Node;

/// Buffers of the lab's nodes in bytes: the maximum of `tcp_rmem` and `tcp_wmem`.
const BUFFER_BYTES_MAX: u64 = 128 << 20;

/// Settings that a simulated run follows.
const FOLLOWED: [&str; 3] = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_slow_start_after_idle"];
/// Settings without an effect on a simulated run: its hosts forward, save no metrics, and grant every window.
const WITHOUT_EFFECT: [&str; 5] = [
    "net.ipv4.ip_forward",
    "net.ipv4.tcp_no_metrics_save",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
];

/// Whether a simulated run can follow a setting.
pub(crate) fn is_known(key: &str) -> bool {
    FOLLOWED.contains(&key) || WITHOUT_EFFECT.contains(&key)
}

/// The keys that are followed, for messages.
pub(crate) fn followed() -> String {
    FOLLOWED.join(", ")
}

/// Maximum receive buffer of a node in bytes.
pub(crate) fn receive_buffer(node: &Node) -> u64 {
    maximum(node, FOLLOWED[0])
}

/// Maximum send buffer of a node in bytes.
pub(crate) fn send_buffer(node: &Node) -> u64 {
    maximum(node, FOLLOWED[1])
}

/// Whether the window decays after an idle period.
pub(crate) fn slow_start_after_idle(node: &Node) -> bool {
    node.sysctl.get(FOLLOWED[2]).is_none_or(|value| value.trim() != "0")
}

/// Third value of a triple of minimum, initial and maximum.
fn maximum(node: &Node, key: &str) -> u64 {
    let value = node.sysctl.get(key).and_then(|v| v.split_whitespace().nth(2)?.parse().ok());
    value.unwrap_or(BUFFER_BYTES_MAX)
}
