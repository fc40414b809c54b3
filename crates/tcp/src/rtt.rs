//! Round-trip time, its variation and minimum, and the retransmission timeout.

/// Maximum retransmission timeout: 120 s (TCP_RTO_MAX).
const RTO_US_MAX: u64 = 120_000_000;
/// Period of the minimum's filter: 300 s (`tcp_min_rtt_wlen`).
const MINIMUM_WINDOW_US: u64 = 300_000_000;
/// Timeout before the first sample: 1 s (RFC 6298, 2.1).
const RTO_US_INITIAL: u64 = 1_000_000;

/// Estimator of RFC 6298 with the kernel's variance (tcp_rtt_estimator): the variation decreases only once a round
/// trip, and is never below the minimum timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RttEstimator {
    rto_min_us: u64,
    /// Smoothed round-trip time in 1/8 us; 0: no sample.
    srtt_eighths: u64,
    /// Mean deviation in 1/4 us, and its maximum in this round trip.
    deviation: u64,
    deviation_max: u64,
    /// Smoothed maximum of the deviation in 1/4 us.
    variation: u64,
    /// The round trip ends when this byte is acknowledged.
    round_end: u64,
    minimum: Option<Minimum>,
}

/// A minimum and the time of its sample, in us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Minimum {
    rtt_us: u64,
    at_us: u64,
}

impl RttEstimator {
    pub(crate) const fn new(rto_min_us: u64) -> Self {
        Self { rto_min_us, srtt_eighths: 0, deviation: 0, deviation_max: 0, variation: 0, round_end: 0, minimum: None }
    }

    /// Smoothed round-trip time in us; `None` before the first sample.
    pub(crate) fn smoothed_us(&self) -> Option<u64> {
        (self.srtt_eighths > 0).then_some(self.srtt_eighths >> 3)
    }

    /// Minimum round-trip time of the last five minutes in us; `u64::MAX` before the first sample.
    pub(crate) fn minimum_us(&self) -> u64 {
        self.minimum.map_or(u64::MAX, |m| m.rtt_us)
    }

    /// Timeout in us, without backoff.
    pub(crate) fn timeout_us(&self) -> u64 {
        match self.srtt_eighths {
            0 => RTO_US_INITIAL,
            srtt => ((srtt >> 3) + self.variation).min(RTO_US_MAX),
        }
    }

    /// Handles a sample for the minimum (tcp_update_rtt_min). One sample is kept instead of the kernel's three.
    pub(crate) fn sample_minimum(&mut self, now_us: u64, rtt_us: u64) {
        let rtt_us = rtt_us.max(1);
        if self.minimum.is_none_or(|m| rtt_us <= m.rtt_us || now_us.saturating_sub(m.at_us) > MINIMUM_WINDOW_US) {
            self.minimum = Some(Minimum { rtt_us, at_us: now_us });
        }
    }

    /// Handles a sample. `acknowledged` and `next` are the first unacknowledged and the next byte.
    pub(crate) fn sample(&mut self, rtt_us: u64, acknowledged: u64, next: u64) {
        if self.srtt_eighths == 0 {
            self.srtt_eighths = (rtt_us << 3).max(1);
            self.deviation = rtt_us << 1;
            self.variation = self.deviation.max(self.rto_min_us);
            self.deviation_max = self.variation;
            self.round_end = next;
            return;
        }
        let error = rtt_us.cast_signed() - (self.srtt_eighths >> 3).cast_signed();
        self.srtt_eighths = self.srtt_eighths.saturating_add_signed(error).max(1);
        let mut change = error.unsigned_abs().cast_signed() - (self.deviation >> 2).cast_signed();
        // A decreasing round trip must not increase the timeout: the deviation then grows by an eighth of the usual.
        if error < 0 && change > 0 {
            change >>= 3;
        }
        self.deviation = self.deviation.saturating_add_signed(change);
        if self.deviation > self.deviation_max {
            self.deviation_max = self.deviation;
            self.variation = self.variation.max(self.deviation_max);
        }
        if acknowledged > self.round_end {
            if self.deviation_max < self.variation {
                self.variation -= (self.variation - self.deviation_max) >> 2;
            }
            self.round_end = next;
            self.deviation_max = self.rto_min_us;
        }
    }

    /// Doubles a timeout.
    pub(crate) fn backed_off(rto_us: u64) -> u64 {
        rto_us.saturating_mul(2).min(RTO_US_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_of_a_steady_path_is_the_round_trip_and_200_ms() {
        let mut rtt = RttEstimator::new(200_000);
        assert_eq!(rtt.timeout_us(), 1_000_000);
        rtt.sample(100_000, 0, 10);
        // RFC 6298, 2.2: SRTT + 4 x R/2.
        assert_eq!(rtt.timeout_us(), 300_000);
        for round in 1..200 {
            rtt.sample(100_000, 20 * round, 20 * round + 10);
        }
        assert_eq!(rtt.smoothed_us(), Some(100_000));
        // The variation converges to its floor of 200 ms, by a quarter of the difference each round trip.
        assert!((300_000..300_004).contains(&rtt.timeout_us()), "{}", rtt.timeout_us());
    }

    #[test]
    fn the_minimum_expires_after_five_minutes() {
        let mut rtt = RttEstimator::new(200_000);
        rtt.sample_minimum(0, 10_000);
        rtt.sample_minimum(MINIMUM_WINDOW_US, 20_000);
        assert_eq!(rtt.minimum_us(), 10_000);
        rtt.sample_minimum(MINIMUM_WINDOW_US + 1, 20_000);
        assert_eq!(rtt.minimum_us(), 20_000);
    }
}
