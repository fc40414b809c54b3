//! Choice of the blocks whose path through the kernel is recorded.

use std::time::Duration;

use units::Instant;

/// Sampled blocks per second and stream. Each costs four more system calls: at this rate far below 1 % of a CPU. Each
/// also ends a packet buffer, and so at most one segment, early.
const SAMPLES_PER_SECOND: u64 = 200;

/// Maximum number of sampled blocks per second of one end, over all its streams: that of 16 streams. Records hold the
/// stages of all streams together, for which thousands of samples a second suffice; each takes memory until its last
/// stamp.
const SAMPLES_PER_SECOND_MAX: u64 = 3200;

/// Mean gap between samples in blocks while the rate is unknown: during the first round trip.
const FIRST_GAP: u64 = 8;

/// Minimum time over which the rate is measured.
const RATE_WINDOW_MIN: Duration = Duration::from_millis(20);

/// Chooses the sampled blocks of one stream: block 0, then random gaps around the desired rate, so that the samples do
/// not synchronise with periodic behaviour of the path.
///
/// The block rate is that of the echoes. Writes are bursts whenever the socket has room, and a gap chosen from the rate
/// within a burst would last for seconds on a slow path.
#[derive(Debug)]
pub(crate) struct SampleTap {
    next: u32,
    current: Option<u32>,
    mean_gap: u64,
    per_second: u64,
    since: Option<(u64, Instant)>,
    state: u64,
}

impl SampleTap {
    /// Creates the tap of one of `streams` streams, which samples block 0 first.
    pub(crate) fn new(seed: u64, streams: u32) -> Self {
        let per_second = (SAMPLES_PER_SECOND_MAX / u64::from(streams.max(1))).clamp(1, SAMPLES_PER_SECOND);
        Self { next: 0, current: None, mean_gap: FIRST_GAP, per_second, since: None, state: seed | 1 }
    }

    /// Whether this block is sampled.
    pub(crate) fn is_due(&self, block: u32) -> bool {
        block == self.next || self.current == Some(block)
    }

    /// Number of the next sampled block, announced in every header.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Records that block `block` is offered to the kernel as a sample when `echoed` blocks have been echoed. The first
    /// call for a block chooses the next sample.
    ///
    /// A full socket can refuse the block any number of times. It stays the sample; otherwise blocks that had to wait
    /// would be missing from the samples.
    pub(crate) fn handle_offered(&mut self, block: u32, echoed: u64, now: Instant) {
        if self.current == Some(block) {
            return;
        }
        self.current = Some(block);
        self.measure(echoed, now);
        let gap = 1 + self.random() % (2 * self.mean_gap - 1);
        self.next = block.wrapping_add(gap as u32);
    }

    fn measure(&mut self, echoed: u64, now: Instant) {
        let (before, at) = *self.since.get_or_insert((echoed, now));
        let elapsed = now.saturating_since(at);
        if elapsed >= RATE_WINDOW_MIN && echoed > before {
            let per_second = u128::from(echoed - before) * 1_000_000_000 / elapsed.as_nanos();
            self.mean_gap = u64::try_from(per_second).unwrap_or(u64::MAX) / self.per_second;
            self.mean_gap = self.mean_gap.clamp(1, 1 << 20);
            self.since = Some((echoed, now));
        }
    }

    /// xorshift64*: the sampling must be aperiodic, not unpredictable.
    fn random(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples_in_a_second(blocks_per_second: u64, streams: u32) -> usize {
        let mut tap = SampleTap::new(7, streams);
        let mut taken = 0;
        for b in 0..2 * blocks_per_second {
            let now = Instant::from_nanos(b * 1_000_000_000 / blocks_per_second);
            if tap.is_due(b as u32) {
                tap.handle_offered(b as u32, b, now);
                taken += usize::from(b >= blocks_per_second);
            }
        }
        taken
    }

    #[test]
    fn a_refused_block_stays_the_sample() {
        let mut tap = SampleTap::new(3, 1);
        tap.handle_offered(0, 0, Instant::ZERO);
        let next = tap.next();
        tap.handle_offered(0, 0, Instant::from_nanos(5));
        assert!(tap.is_due(0) && tap.next() == next);
    }

    #[test]
    fn a_burst_into_an_empty_socket_does_not_starve_a_slow_stream() {
        let mut tap = SampleTap::new(9, 1);
        // A hundred blocks in 1 ms fill the socket; then one block leaves every 10 ms as its echo arrives.
        let (mut taken, mut blocks) = (0, 0_u32);
        for (echoed, now_us) in (0..100).map(|i| (0, i * 10)).chain((0..100).map(|i| (i, 1_000 + i * 10_000))) {
            if tap.is_due(blocks) {
                tap.handle_offered(blocks, echoed, Instant::from_nanos(now_us * 1000));
                taken += usize::from(now_us >= 1_000);
            }
            blocks += 1;
        }
        // 100 blocks a second are below the sampling rate: all but those of the first gaps are sampled.
        assert!(taken > 80, "{taken}");
    }

    #[test]
    fn slow_streams_sample_every_block_and_fast_ones_about_two_hundred_a_second() {
        assert_eq!(samples_in_a_second(50, 1), 50);
        assert_eq!(samples_in_a_second(250, 16), 250);
        let fast = samples_in_a_second(100_000, 16);
        // Gaps are uniform on 1..2*mean: a hundred of them have a relative error of about 6 %; five sigma allow 30 %.
        assert!((140..=260).contains(&fast), "{fast}");
        // 128 streams share 3200 a second: 25 each, of which 30 gaps have a relative error of about 11 %.
        let shared = samples_in_a_second(100_000, 128);
        assert!((11..=39).contains(&shared), "{shared}");
    }
}
