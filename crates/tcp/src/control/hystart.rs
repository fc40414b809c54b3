//! HyStart: S. Ha, I. Rhee, "Hybrid slow start for high-bandwidth and long-distance networks", PFLDnet 2008. Linux has
//! this algorithm (tcp_cubic.c), not HyStart++ (RFC 9406).

use super::RoundState;

/// Minimum window in packets (`hystart_low_window`).
const WINDOW_PACKETS_MIN: u32 = 16;
/// Maximum gap between two acknowledgements of one train (`hystart_ack_delta_us`).
const GAP_US_MAX: u64 = 2_000;
/// Number of samples of a round before the delay is examined (HYSTART_MIN_SAMPLES).
const SAMPLES_MIN: u32 = 8;
/// Bounds of the increase of the delay that ends slow start (HYSTART_DELAY_MIN, HYSTART_DELAY_MAX).
const INCREASE_US_MIN: u64 = 4_000;
const INCREASE_US_MAX: u64 = 16_000;
/// Maximum payload of an offloaded packet in bytes.
const OFFLOAD_BYTES: u64 = 65_536;

/// State of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hystart {
    start_us: u64,
    latest_us: u64,
    /// The round ends when this byte is acknowledged.
    end: u64,
    minimum_us: u64,
    samples: u32,
    found: bool,
}

impl Hystart {
    /// Whether slow start has ended.
    pub(crate) const fn has_ended(&self) -> bool {
        self.found
    }

    /// Handles the round-trip time of an acknowledgement in slow start. `lowest_us` is the minimum of the connection.
    /// Returns whether slow start ends.
    pub(crate) fn update(
        &mut self,
        (now_us, rtt_us, lowest_us): (u64, u64, u64),
        window: u32,
        round: &RoundState,
    ) -> bool {
        if round.acknowledged > self.end || self.start_us == 0 {
            *self = Self { start_us: now_us, latest_us: now_us, end: round.next, minimum_us: u64::MAX, ..*self };
            self.samples = 0;
        }
        if window < WINDOW_PACKETS_MIN {
            return false;
        }
        if now_us.saturating_sub(self.latest_us) <= GAP_US_MAX {
            self.latest_us = now_us;
            self.found |= now_us.saturating_sub(self.start_us) > train_threshold(lowest_us, round);
        }
        self.minimum_us = self.minimum_us.min(rtt_us);
        if self.samples < SAMPLES_MIN {
            self.samples += 1;
        } else {
            let increase = (lowest_us >> 3).clamp(INCREASE_US_MIN, INCREASE_US_MAX);
            self.found |= self.minimum_us > lowest_us.saturating_add(increase);
        }
        self.found
    }
}

/// Length of a train that ends slow start: the minimum round trip and the time of four offloaded packets; half of it if
/// the sender does not pace (hystart_ack_delay).
fn train_threshold(lowest_us: u64, round: &RoundState) -> u64 {
    let burst = (OFFLOAD_BYTES * 4 * 1_000_000).checked_div(round.pacing_rate).unwrap_or(0).min(1_000);
    let threshold = lowest_us.saturating_add(burst);
    if round.is_paced { threshold } else { threshold / 2 }
}
