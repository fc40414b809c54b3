//! Choosing which blocks are followed through the kernel.

use std::time::Duration;

use units::Instant;

/// Blocks per second and stream whose way through the kernel is followed; each costs four more system calls, so that at
/// this rate the cost stays far below one per cent of a CPU.
const SAMPLES_PER_SECOND: u64 = 200;

/// Chooses the sampled blocks of one stream: block 0, then with random gaps around the wanted rate, so that
/// sampling locks onto no periodic behaviour of the path.
#[derive(Debug)]
pub(crate) struct SampleTap {
    next: u32,
    current: Option<u32>,
    last: Option<(u32, Instant)>,
    state: u64,
}

impl SampleTap {
    pub(crate) fn new(seed: u64) -> Self {
        Self { next: 0, current: None, last: None, state: seed | 1 }
    }

    /// Whether this block is sampled.
    pub(crate) fn is_due(&self, block: u32) -> bool {
        block == self.next || self.current == Some(block)
    }

    /// The next sampled block, announced in every header.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Block `block` is offered to the kernel as a sample: chooses the one after it, once.
    ///
    /// A full socket can refuse the block any number of times; it stays the sample, or blocks that had to wait
    /// would be missing from the samples.
    pub(crate) fn offered(&mut self, block: u32, now: Instant) {
        if self.current == Some(block) {
            return;
        }
        self.current = Some(block);
        let gap = match self.last {
            Some((b, t)) => {
                let elapsed = now.saturating_since(t).max(Duration::from_nanos(1));
                let per_second = u128::from(block.wrapping_sub(b)) * 1_000_000_000 / elapsed.as_nanos();
                let mean = (per_second as u64 / SAMPLES_PER_SECOND).clamp(1, 1 << 20);
                1 + self.random() % (2 * mean - 1)
            }
            None => 1,
        };
        self.last = Some((block, now));
        self.next = block.wrapping_add(gap as u32);
    }

    /// xorshift64*: which blocks are sampled needs to be aperiodic, not unpredictable.
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

    fn samples_in_a_second(blocks_per_second: u64) -> usize {
        let mut tap = SampleTap::new(7);
        let mut taken = 0;
        for b in 0..2 * blocks_per_second {
            let now = Instant::from_nanos(b * 1_000_000_000 / blocks_per_second);
            if tap.is_due(b as u32) {
                tap.offered(b as u32, now);
                taken += usize::from(b >= blocks_per_second);
            }
        }
        taken
    }

    #[test]
    fn a_refused_block_stays_the_sample() {
        let mut tap = SampleTap::new(3);
        tap.offered(0, Instant::ZERO);
        let next = tap.next();
        tap.offered(0, Instant::from_nanos(5));
        assert!(tap.is_due(0) && tap.next() == next);
    }

    #[test]
    fn slow_streams_sample_every_block_and_fast_ones_about_two_hundred_a_second() {
        assert_eq!(samples_in_a_second(50), 50);
        let fast = samples_in_a_second(100_000);
        // Gaps are uniform on 1..2*mean: a hundred of them have a relative error of about 6 %; five sigma allow 30 %.
        assert!((140..=260).contains(&fast), "{fast}");
    }
}
