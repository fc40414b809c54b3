//! The rate that Linux computes for every connection, the size of offloaded packets that follows from it, and pacing.

use congestion::Connection;
use units::{Duration, Instant};

use crate::config::SenderConfig;
use crate::rtt::RttEstimator;

/// Per cent of window / round trip in slow start and after it (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
const SLOW_START_PERCENT: u64 = 200;
const AVOIDANCE_PERCENT: u64 = 120;
/// An offloaded packet holds the bytes of 1/1024 s at the pacing rate (`sk_pacing_shift`).
const PACKET_SHIFT: u32 = 10;
/// The allowance for short paths halves with each 2^9 us of the minimum round trip (`tcp_tso_rtt_log`).
const RTT_SHIFT: u32 = 9;
/// Minimum number of segments in an offloaded packet (`tcp_min_tso_segs`).
const SEGMENTS_MIN: u64 = 2;
/// Number of packets that leave before pacing starts.
const UNPACED_PACKETS: u64 = 10;

/// Pacing state.
#[derive(Debug, Clone)]
pub(crate) struct Pacing {
    /// Configured rate in bytes per second; `None`: the connection is not paced.
    limit: Option<u64>,
    /// `sk_pacing_rate` in bytes per second.
    rate: u64,
    /// Earliest time of the next transmission.
    next: Instant,
    sent: u64,
}

impl Pacing {
    pub(crate) fn new(config: &SenderConfig) -> Self {
        let limit = config.pacing.map(|rate| rate.as_bytes_per_second().max(1));
        Self { limit, rate: limit.unwrap_or(u64::MAX), next: Instant::ZERO, sent: 0 }
    }

    pub(crate) const fn is_paced(&self) -> bool {
        self.limit.is_some()
    }

    /// Rate in bytes per second.
    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Computes the rate (tcp_update_pacing_rate).
    pub(crate) fn update(&mut self, c: &Connection, packets_out: u32, mss: u32, rtt: &RttEstimator) {
        let percent = if c.window < c.threshold / 2 { SLOW_START_PERCENT } else { AVOIDANCE_PERCENT };
        let bytes = u128::from(mss) * u128::from(c.window.max(packets_out));
        let us = u128::from(rtt.smoothed_us().unwrap_or(1).max(1));
        let rate = bytes * 1_000_000 * u128::from(percent) / 100 / us;
        self.rate = u64::try_from(rate).unwrap_or(u64::MAX).min(self.limit.unwrap_or(u64::MAX));
    }

    /// Maximum number of segments in an offloaded packet (tcp_tso_autosize).
    pub(crate) fn segments_max(&self, config: &SenderConfig, minimum_rtt_us: u64) -> u64 {
        let mss = u64::from(config.mss.max(1));
        if config.offload_bytes < 2 * mss {
            return 1;
        }
        let halvings = minimum_rtt_us >> RTT_SHIFT;
        let allowance = if halvings < 32 { config.offload_bytes >> halvings } else { 0 };
        let bytes = ((self.rate >> PACKET_SHIFT) + allowance).min(config.offload_bytes);
        (bytes / mss).max(SEGMENTS_MIN)
    }

    /// Time before which nothing may be sent; `None`: now.
    pub(crate) fn blocked_until(&self, now: Instant) -> Option<Instant> {
        (self.is_paced() && self.next > now).then_some(self.next)
    }

    /// Accounts for a transmission (tcp_update_skb_after_send).
    pub(crate) fn sent(&mut self, now: Instant, bytes: u64) {
        self.sent += 1;
        if !self.is_paced() || self.rate == 0 || self.sent <= UNPACED_PACKETS {
            return;
        }
        let length = u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(self.rate)).unwrap_or(u64::MAX);
        // A late transmission earns back up to half of its length.
        let credit = now.saturating_since(self.next);
        let earned = units::nanos(credit).min(length / 2);
        self.next = now.max(self.next) + Duration::from_nanos(length - earned);
    }
}
