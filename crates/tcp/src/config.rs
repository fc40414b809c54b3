use units::{Duration, Rate};

/// Period of the kernel's clock at HZ = 250, the setting of most distributions.
const TICK: Duration = Duration::from_millis(4);

/// Parameters of a sender. The defaults are those of Linux over an MTU of 1500 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderConfig {
    /// Payload of a full segment in bytes: MTU - 40 - 12 for timestamps over IPv4.
    pub mss: u32,
    /// Initial congestion window in segments (RFC 6928).
    pub initial_window: u32,
    /// Maximum congestion window in segments (`snd_cwnd_clamp`).
    pub window_max: u32,
    /// Maximum number of bytes in flight, as the send buffer allows.
    pub send_buffer: u64,
    /// Pacing rate (SO_MAX_PACING_RATE); `None`: no pacing.
    pub pacing: Option<Rate>,
    /// Maximum payload of an offloaded packet in bytes: GSO_LEGACY_MAX_SIZE - MAX_TCP_HEADER - 1. 1 switches
    /// segmentation offload off.
    pub offload_bytes: u64,
    /// Minimum retransmission timeout (TCP_RTO_MIN).
    pub rto_min: Duration,
    /// Period of the kernel's clock, 1/HZ. Timers and CUBIC are as coarse.
    pub tick: Duration,
    /// Whether the window decays after an idle period (`tcp_slow_start_after_idle`, RFC 2861).
    pub slow_start_after_idle: bool,
    /// Initial degree of reordering in segments (`tcp_reordering`).
    pub reordering: u32,
    /// First byte beyond the initial receive window of the peer.
    pub peer_window: u64,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_window: 10,
            window_max: u32::MAX,
            send_buffer: u64::MAX,
            pacing: None,
            offload_bytes: 65_536 - 320 - 1,
            rto_min: Duration::from_millis(200),
            tick: TICK,
            slow_start_after_idle: true,
            reordering: 3,
            peer_window: 65_160,
        }
    }
}

/// Parameters of a receiver. The defaults are those of Linux over an MTU of 1500 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Receive window at the beginning in bytes.
    pub window: u64,
    /// Maximum receive window in bytes. Equal to `window`: a fixed window (SO_RCVBUF).
    pub window_max: u64,
    /// Round-trip time of the handshake, which bounds the compression of SACKs.
    pub rtt: Duration,
    /// Period of the kernel's clock, 1/HZ.
    pub tick: Duration,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self { mss: 1448, window: 65_160, window_max: 64 << 20, rtt: Duration::from_millis(20), tick: TICK }
    }
}
