use std::time::Duration;

use units::{Bytes, Rate};

/// Path for which the settings are recommended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Rate of the narrow link.
    pub rate: Rate,
    /// Round-trip time without queueing.
    pub rtt: Duration,
}

impl Path {
    /// Bandwidth-delay product: bytes in flight on a full path (RFC 6349, section 3.3.1).
    pub fn bdp(&self) -> Bytes {
        self.rate.bytes_in(self.rtt)
    }

    /// Rate of one connection with this window: one window per round trip.
    pub fn rate_of_window(&self, window: Bytes) -> Rate {
        Rate::of(window, self.rtt)
    }
}
