//! Whether the sender uses its congestion window: RFC 7661 in spirit, tcp_cwnd_validate in detail.

use congestion::Connection;

/// Use of the congestion window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage {
    /// Whether the window limited the sender in this round.
    is_limited: bool,
    /// Maximum number of packets in flight in this round.
    packets_max: u32,
    /// The round ends when this byte is acknowledged.
    round_end: u64,
    /// Maximum number of packets in flight since the window was last used, and that time.
    used: u32,
    used_at_us: u64,
}

impl Usage {
    /// Whether the congestion window limits the sender (tcp_is_cwnd_limited).
    pub(crate) const fn is_limited(&self, c: &Connection) -> bool {
        self.is_limited || (c.window < c.threshold && c.window < self.packets_max.saturating_mul(2))
    }

    /// Updates the use after a transmission. Returns the used window if the application has used less than the window
    /// for a timeout.
    pub(crate) fn validate(
        &mut self,
        c: &Connection,
        is_limited: bool,
        packets_out: u32,
        (acknowledged, next): (u64, u64),
        rto_us: u64,
    ) -> Option<u32> {
        if acknowledged >= self.round_end || is_limited || (!self.is_limited && packets_out > self.packets_max) {
            self.is_limited = is_limited;
            self.packets_max = packets_out;
            self.round_end = next;
        }
        if self.is_limited(c) {
            self.restart(c.now_us);
            return None;
        }
        self.used = self.used.max(packets_out);
        let is_due = c.now_us.saturating_sub(self.used_at_us) >= rto_us;
        is_due.then(|| {
            let used = self.used;
            self.restart(c.now_us);
            used
        })
    }

    pub(crate) const fn restart(&mut self, now_us: u64) {
        self.used = 0;
        self.used_at_us = now_us;
    }
}
