use std::time::Duration;

use estimate::Schedule;
use results::{TestPlan, Transport};
use units::{Bytes, Instant, Rate};
use wire::DatagramHeader;
use wire::thrulay::{NtpTime, ThrulayDatagram};

use crate::load::share_of;

/// Traffic of one stream according to its plan.
///
/// The rate of a stream counts UDP payload, with the 24-byte header and without IP and UDP headers, as `-b` of iperf3
/// does.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    rate: Rate,
    /// Bytes of UDP payload of a datagram.
    pub(crate) size: usize,
    /// Seed of the Poisson schedule; absent for equal gaps.
    poisson: Option<u64>,
    /// Offset of the first departure: the streams of a direction depart in turn instead of in one burst.
    offset: Duration,
    duration: Option<Duration>,
    budget: Option<u64>,
    header: Header,
}

/// Format of the header of a datagram. Both formats have the same length and fields except for the format of the time.
#[derive(Debug, Clone, Copy)]
enum Header {
    Native,
    Thrulay,
}

impl Traffic {
    /// Creates a stream for a thrulay server: `packets` datagrams of one length.
    pub(crate) fn thrulay(plan: &TestPlan, packets: u64) -> Self {
        let plan = Self::new(plan, 0);
        let budget = packets.saturating_mul(plan.size as u64);
        Self { duration: None, budget: Some(budget), header: Header::Thrulay, ..plan }
    }

    /// Header of datagram `sequence` that the kernel receives at `now`.
    pub(crate) fn header(&self, token: [u8; 8], sequence: u64, now: Instant) -> [u8; wire::DATAGRAM_HEADER_BYTES] {
        match self.header {
            Header::Native => DatagramHeader { token, sequence, sent: now }.encode(),
            Header::Thrulay => {
                let (seconds, nanos) = kernel::utc_seconds();
                let sent = NtpTime::from_unix_nanos(seconds.saturating_mul(1_000_000_000) + u64::from(nanos));
                ThrulayDatagram { nonce: token, sequence, sent }.encode()
            }
        }
    }

    pub(crate) fn new(plan: &TestPlan, stream: u32) -> Self {
        let (streams, index) = (plan.streams.max(1), stream % plan.streams.max(1));
        let mut traffic = Self {
            rate: plan.rate_bps.map_or(Rate::ZERO, Rate::from_bps),
            size: usize::try_from(plan.block_bytes).unwrap_or(usize::MAX).max(wire::DATAGRAM_HEADER_BYTES),
            poisson: (plan.transport == Transport::UdpPoisson).then(|| plan.seed.wrapping_add(u64::from(stream))),
            offset: Duration::ZERO,
            duration: plan.duration_ns.map(Duration::from_nanos),
            budget: plan.bytes.map(|b| share_of(b, streams, index)),
            header: Header::Native,
        };
        if traffic.poisson.is_none() {
            traffic.offset = (traffic.gap() / streams).saturating_mul(index);
        }
        traffic
    }

    /// Mean time between two departures.
    pub(crate) fn gap(&self) -> Duration {
        self.rate.time_for(self.bytes()).unwrap_or(Duration::MAX)
    }

    pub(crate) fn schedule(&self, start: Instant) -> Schedule {
        let schedule = match self.poisson {
            None => Schedule::constant(self.rate, self.bytes()),
            Some(seed) => Schedule::poisson(self.rate, self.bytes(), seed),
        };
        schedule.starting_at(start + self.offset)
    }

    /// End of the transmission, if the test is limited by time.
    pub(crate) fn end(&self, start: Instant) -> Option<Instant> {
        self.duration.map(|d| start + d)
    }

    /// Approximate end of the transmission, for either limit.
    pub(crate) fn likely_end(&self, start: Instant) -> Instant {
        let by_bytes = || self.budget.and_then(|b| self.rate.time_for(Bytes::new(b)));
        start + self.duration.or_else(by_bytes).unwrap_or(Duration::MAX)
    }

    /// Maximum number of datagrams of this stream: the sender sends no more, and the receiver rejects higher numbers.
    pub(crate) fn planned_max(&self) -> u64 {
        if let Some(budget) = self.budget {
            return budget.div_ceil(self.size as u64);
        }
        let ns = self.duration.map_or(0, |d| d.as_nanos());
        let bits_ns = self.size as u128 * 8 * 1_000_000_000;
        let mean =
            u64::try_from(ns.saturating_mul(u128::from(self.rate.as_bps())).div_ceil(bits_ns)).unwrap_or(u64::MAX);
        // A Poisson count exceeds its mean by eight standard deviations in one of 10^15 tests.
        let spread = if self.poisson.is_some() { 8 * mean.isqrt() + 8 } else { 0 };
        mean.saturating_add(spread)
    }

    /// Bytes of datagram `sequence`. The last one of a data amount contains the remaining bytes, at least its header.
    pub(crate) fn size_of(&self, sequence: u64) -> usize {
        let Some(budget) = self.budget else { return self.size };
        let left = budget.saturating_sub(sequence.saturating_mul(self.size as u64));
        usize::try_from(left).unwrap_or(usize::MAX).clamp(wire::DATAGRAM_HEADER_BYTES, self.size)
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.size as u64)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use results::Direction;

    pub(crate) fn plan(transport: Transport, rate_bps: u64, block_bytes: u64) -> TestPlan {
        TestPlan {
            transport,
            directions: vec![Direction::Up],
            streams: 1,
            duration_ns: Some(1_000_000_000),
            bytes: None,
            interval_ns: 100_000_000,
            block_bytes,
            window_bytes: None,
            congestion_control: None,
            rate_bps: Some(rate_bps),
            dscp: None,
            mss_bytes: None,
            notsent_lowat_bytes: None,
            zero_copy: false,
            seed: 1,
        }
    }

    #[test]
    fn the_rate_counts_payload_bits() {
        let t = Traffic::new(&plan(Transport::UdpConstant, 8_000_000, 1000), 0);
        assert_eq!(t.gap(), Duration::from_millis(1));
        assert_eq!(t.planned_max(), 1000);
        let t = Traffic::new(&plan(Transport::UdpPoisson, 8_000_000, 1000), 0);
        assert!((1200..1300).contains(&t.planned_max()), "eight sigma of 1000 above 1000");
        Traffic::new(&plan(Transport::UdpPoisson, u64::MAX, 24), 255).planned_max();
    }

    #[test]
    fn streams_depart_in_turn() {
        let p = TestPlan { streams: 4, ..plan(Transport::UdpConstant, 8_000_000, 1000) };
        let first = |n| Traffic::new(&p, n).schedule(Instant::ZERO).deadline().as_nanos();
        assert_eq!([first(0), first(1), first(3), first(5)], [0, 250_000, 750_000, 250_000]);
    }

    #[test]
    fn an_amount_of_data_ends_with_a_short_datagram() {
        let p = TestPlan { duration_ns: None, bytes: Some(10_500), ..plan(Transport::UdpConstant, 8_000_000, 1000) };
        let t = Traffic::new(&p, 0);
        assert_eq!((t.planned_max(), t.size_of(9), t.size_of(10)), (11, 1000, 500));
        assert_eq!((0..11).map(|n| t.size_of(n)).sum::<usize>(), 10_500);
        assert_eq!(t.likely_end(Instant::ZERO), Instant::from_nanos(10_500_000));
    }
}
