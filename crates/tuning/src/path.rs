use std::time::Duration;

use units::{Bytes, Rate};

/// The path that the advice is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Rate of its narrow link.
    pub rate: Rate,
    /// Round trip without queues.
    pub rtt: Duration,
}

impl Path {
    /// Bytes in flight when the path is full: the bandwidth-delay product (RFC 6349, section 3.3.1).
    pub fn bdp(&self) -> Bytes {
        self.rate.bytes_in(self.rtt)
    }

    /// Rate of one connection that may have this many bytes in flight: a window each round trip.
    pub fn rate_of_window(&self, window: Bytes) -> Rate {
        Rate::of(window, self.rtt)
    }
}
