//! Body of the fuzz target `netlink`: see the crate `fuzzing`, which replays the committed corpus through it.

use crate::netlink::take_apart;

/// Parses a datagram of route netlink or of socket diagnostics from any sender: it is decoded or rejected.
pub fn netlink(data: &[u8]) {
    take_apart(data);
}
