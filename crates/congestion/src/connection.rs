/// Minimum congestion window that an algorithm sets, in packets.
pub const WINDOW_PACKETS_MIN: u32 = 2;

/// State of a TCP connection that all congestion controls share. Parentheses give the names of the kernel's struct
/// tcp_sock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Current time in microseconds from any origin (`tcp_mstamp`).
    pub now_us: u64,
    /// Congestion window in packets (`snd_cwnd`).
    pub window: u32,
    /// Acknowledged packets that count towards the next increase of the window (`snd_cwnd_cnt`).
    pub window_count: u32,
    /// Slow start threshold in packets (`snd_ssthresh`).
    pub threshold: u32,
    /// Maximum window in packets (`snd_cwnd_clamp`).
    pub clamp: u32,
    /// Window in packets before the last reduction (`prior_cwnd`).
    pub prior_window: u32,
    /// Total packets delivered, modulo 2^32 (`delivered`).
    pub delivered: u32,
    /// Whether the congestion window limits the sender, and not the application or the receiver
    /// (`tcp_is_cwnd_limited`).
    pub limited: bool,
    /// Whether the connection has neither disorder nor loss (`TCP_CA_Open`).
    pub open: bool,
    /// Whether packets arrived out of order, without assumed loss (`TCP_CA_Disorder`).
    pub disorder: bool,
}

/// Information from one acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Number of acknowledged packets.
    pub packets: u32,
    /// Round-trip time of the most recently sent of these packets in microseconds; `None` if it was retransmitted.
    pub rtt_us: Option<u32>,
    /// Packets delivered since that packet was sent, which equals the packets in flight at its transmission.
    pub flight: u32,
}

impl Connection {
    /// Creates a connection with the initial window of RFC 6928, at time zero.
    pub fn new() -> Self {
        Self {
            now_us: 0,
            window: 10,
            window_count: 0,
            // Value of TCP_INFINITE_SSTHRESH in the kernel.
            threshold: 0x7fff_ffff,
            clamp: u32::MAX,
            prior_window: 0,
            delivered: 0,
            limited: true,
            open: true,
            disorder: false,
        }
    }

    /// Slow start by the number of acknowledged packets (RFC 5681, 3.1; RFC 3465). Returns the packets beyond the
    /// threshold.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let used = acked.min(self.threshold.saturating_sub(self.window));
        self.window = (self.window + used).min(self.clamp);
        acked - used
    }

    /// Window to restore after a spurious reduction (tcp_reno_undo_cwnd).
    pub fn before_reduction(&self) -> u32 {
        self.window.max(self.prior_window)
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}
