/// Smallest window that an algorithm chooses by itself, in packets.
pub const MIN_WINDOW: u32 = 2;

/// State of a TCP connection, for any congestion control. Names and units of the kernel's struct tcp_sock in
/// parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Time of what happens now, in microseconds from any origin (`tcp_mstamp`).
    pub now_us: u64,
    /// Congestion window in packets (`snd_cwnd`).
    pub window: u32,
    /// Acknowledged packets that count towards the next increase of the window (`snd_cwnd_cnt`).
    pub window_count: u32,
    /// Slow start threshold in packets (`snd_ssthresh`).
    pub threshold: u32,
    /// Largest window (`snd_cwnd_clamp`).
    pub clamp: u32,
    /// Window before the last reduction (`prior_cwnd`).
    pub prior_window: u32,
    /// Packets delivered in all, modulo 2^32 (`delivered`).
    pub delivered: u32,
    /// Whether the window, not the application or the receiver, holds the sender back (`tcp_is_cwnd_limited`).
    pub limited: bool,
    /// Whether nothing is amiss (`TCP_CA_Open`).
    pub open: bool,
    /// Whether something came out of order, and nothing is thought lost (`TCP_CA_Disorder`).
    pub disorder: bool,
}

/// Information from one acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Packets that it acknowledges.
    pub packets: u32,
    /// Round trip of the youngest of them in microseconds; `None` when it was sent twice.
    pub rtt_us: Option<u32>,
    /// Packets that were delivered between sending that packet and now: those in flight when it was sent.
    pub flight: u32,
}

impl Connection {
    /// A connection with the initial window of RFC 6928, at time zero.
    pub fn new() -> Self {
        Self {
            now_us: 0,
            window: 10,
            window_count: 0,
            // TCP_INFINITE_SSTHRESH of the kernel.
            threshold: 0x7fff_ffff,
            clamp: u32::MAX,
            prior_window: 0,
            delivered: 0,
            limited: true,
            open: true,
            disorder: false,
        }
    }

    /// Slow start by as many packets as were acknowledged (RFC 5681, 3.1; RFC 3465); gives those beyond the threshold.
    pub(crate) fn slow_start(&mut self, acked: u32) -> u32 {
        let used = acked.min(self.threshold.saturating_sub(self.window));
        self.window = (self.window + used).min(self.clamp);
        acked - used
    }

    /// The window to go back to when a reduction was for nothing (tcp_reno_undo_cwnd).
    pub(crate) fn before_reduction(&self) -> u32 {
        self.window.max(self.prior_window)
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}
