//! Body of the fuzz target `netlink`: see the crate `fuzzing`, which replays the committed corpus through it.

use crate::netlink::take_apart;

/// A datagram of route netlink or of socket diagnostics, whoever sent it: it is taken apart, or refused.
pub fn netlink(data: &[u8]) {
    take_apart(data);
}
