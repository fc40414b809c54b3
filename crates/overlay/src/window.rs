//! The replay window of a packet number space and queue.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Size of the replay window in frames, which bounds reordering: 73 ms at 10 Gb/s and 1400 bytes (890,000 frames per
/// second).
pub(crate) const WINDOW: u64 = 65_536;
/// Time without a frame after which a packet number space and queue is idle, microseconds. Losses from before an idle
/// period appear only with the next frame, and say nothing about the present state of the path.
const IDLE_US: u32 = 5_000_000;
/// Sequence numbers per word.
const NUMBERS_PER_WORD: u64 = 32;
const WORDS: usize = (WINDOW / NUMBERS_PER_WORD) as usize;

/// Reason to reject a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stale {
    Replayed,
    /// Below the window, where a replay cannot be detected.
    TooOld,
}

/// Replay window over the sequence numbers below 2^48 of a packet number space and queue: a ring of bits as in RFC
/// 6479. It is lock-free: the upper half of each word is the lap of the ring that the bits in the lower half belong to,
/// so one compare-and-swap accepts a number, and only one thread succeeds.
pub(crate) struct Window {
    words: Box<[AtomicU64; WORDS]>,
    /// Highest accepted sequence number plus one.
    end: AtomicU64,
    /// Receive time of the last accepted frame, microseconds modulo 2^32.
    last_received_at: AtomicU32,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            words: Box::new([const { AtomicU64::new(0) }; WORDS]),
            end: AtomicU64::new(0),
            last_received_at: AtomicU32::new(0),
        }
    }

    /// Whether `sequence` is acceptable now. A concurrent thread may still accept it first.
    pub(crate) fn check(&self, sequence: u64) -> Result<(), Stale> {
        // The newest numbers reuse the oldest word.
        if self.end.load(Ordering::Relaxed).saturating_sub(sequence) > WINDOW - NUMBERS_PER_WORD {
            return Err(Stale::TooOld);
        }
        with_number(self.word(sequence).load(Ordering::Relaxed), sequence).map(drop)
    }

    /// Accepts `sequence` of an authenticated frame received at `received_at` (microseconds). Returns the increase of
    /// the highest number; after an idle period at most 1, as the missing numbers were lost before it.
    pub(crate) fn accept(&self, sequence: u64, received_at: u32) -> Result<u64, Stale> {
        let idle_us = received_at.wrapping_sub(self.last_received_at.load(Ordering::Relaxed));
        let is_first = self.end.load(Ordering::Relaxed) == 0;
        let ahead = self.accept_with_gaps(sequence, received_at)?;
        // A concurrent thread may have stored a slightly later time; the difference is then negative, not an idle
        // period.
        let was_idle = !is_first && (IDLE_US..1 << 31).contains(&idle_us);
        Ok(if was_idle { ahead.min(1) } else { ahead })
    }

    /// Accepts `sequence` and returns the full increase of the highest number, also after an idle period.
    pub(crate) fn accept_with_gaps(&self, sequence: u64, received_at: u32) -> Result<u64, Stale> {
        let word = self.word(sequence);
        let update = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |w| with_number(w, sequence).ok());
        if let Err(word) = update {
            with_number(word, sequence)?;
        }
        let end = self.end.fetch_max(sequence + 1, Ordering::Relaxed);
        // A plain store suffices: the times of concurrent threads are practically equal.
        self.last_received_at.store(received_at, Ordering::Relaxed);
        Ok((sequence + 1).saturating_sub(end))
    }

    fn word(&self, sequence: u64) -> &AtomicU64 {
        &self.words[(sequence / NUMBERS_PER_WORD % WORDS as u64) as usize]
    }
}

/// The word with `sequence` added, or the reason to reject it.
fn with_number(word: u64, sequence: u64) -> Result<u64, Stale> {
    let (lap, bit) = (sequence / WINDOW, 1 << (sequence % NUMBERS_PER_WORD));
    match (word >> 32).cmp(&lap) {
        std::cmp::Ordering::Less => Ok(lap << 32 | bit),
        std::cmp::Ordering::Equal if word & bit == 0 => Ok(word | bit),
        std::cmp::Ordering::Equal => Err(Stale::Replayed),
        std::cmp::Ordering::Greater => Err(Stale::TooOld),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_number_is_accepted_once(steps in proptest::collection::vec((0..3_u8, 0..200_000_u64), 1..300)) {
            let (window, mut seen, mut end) = (Window::new(), BTreeSet::new(), 0_u64);
            for (kind, by) in steps {
                let sequence = match kind { 0 => end, 1 => end + by % 2000 * by % 7, _ => end.saturating_sub(by) };
                let checked = window.check(sequence);
                if seen.contains(&sequence) {
                    prop_assert!(checked.is_err() && window.accept(sequence, 0).is_err());
                } else if sequence + WINDOW - NUMBERS_PER_WORD >= end {
                    prop_assert_eq!(checked, Ok(()));
                }
                if checked.is_ok() {
                    prop_assert_eq!(window.accept(sequence, 0), Ok((sequence + 1).saturating_sub(end)));
                    prop_assert_eq!(window.accept(sequence, 0), Err(Stale::Replayed));
                    seen.insert(sequence);
                    end = end.max(sequence + 1);
                }
            }
        }
    }

    #[test]
    fn numbers_below_a_jump_are_too_old() {
        let window = Window::new();
        assert_eq!(window.accept(5, 0), Ok(6));
        assert_eq!((window.check(5), window.check(4)), (Err(Stale::Replayed), Ok(())));
        let far = (1 << 47) + 5;
        assert_eq!(window.accept(far, 0), Ok(far - 5));
        assert_eq!((window.check(5), window.accept(5, 0)), (Err(Stale::TooOld), Err(Stale::TooOld)));
        assert_eq!(window.check(far - 5), Ok(()));
    }

    #[test]
    fn a_gap_across_an_idle_period_is_not_counted_as_loss() {
        let window = Window::new();
        let at = |s: f64| (u32::MAX - 3_000_000).wrapping_add((s * 1e6) as u32);
        // Numbers missing before the first frame count, as the session is new. The clock wraps during the test.
        assert_eq!(window.accept(2, at(0.0)), Ok(3));
        assert_eq!(window.accept(7, at(4.9)), Ok(5), "four numbers are missing");
        assert_eq!(window.accept(107, at(10.0)), Ok(1), "100 numbers are missing, all lost before the idle period");
        assert_eq!((window.accept(108, at(10.1)), window.accept(110, at(10.0))), (Ok(1), Ok(2)));
        assert_eq!(window.accept(107, at(10.2)), Err(Stale::Replayed));
        // A frame reordered across the idle period is counted as sent as well.
        let (window, arrivals) = (Window::new(), crate::arrivals::Arrivals::new());
        for (sequence, came) in [(0, 0.0), (2, 10.0), (1, 10.0)] {
            arrivals.note(window.accept(sequence, at(came)).unwrap(), 100, at(came), at(came));
        }
        assert_eq!(arrivals.counts(), (3, 3));
    }

    #[test]
    fn a_frame_fifty_milliseconds_late_at_ten_gigabits_is_accepted_once() {
        let window = Window::new();
        // 10^10 b/s * 0.05 s of 1400 bytes each.
        let behind = 44_643;
        assert!((0..=behind).filter(|n| *n != 1).all(|n| window.accept(n, 0).is_ok()));
        assert_eq!((window.accept(1, 0), window.accept(1, 0)), (Ok(0), Err(Stale::Replayed)));
    }

    #[test]
    fn concurrent_threads_accept_each_number_once() {
        const NUMBERS: u64 = 4 * WINDOW;
        let window = Window::new();
        // Each thread tries all numbers in blocks; one of them goes backwards through each block.
        let accept = |backwards: bool| -> Vec<u64> {
            let blocks = (0..NUMBERS).step_by(1024);
            let mine = blocks.flat_map(|b| (b..b + 1024).map(move |n| if backwards { 2 * b + 1023 - n } else { n }));
            mine.filter(|n| window.accept(*n, 0).is_ok()).collect()
        };
        let accepted: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = [false, true, false].map(|b| scope.spawn(move || accept(b))).into_iter().collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let all: BTreeSet<u64> = accepted.iter().flatten().copied().collect();
        assert_eq!(accepted.iter().map(Vec::len).sum::<usize>(), all.len(), "none twice");
        // A thread that lags by more than a window finds its numbers too old; the leading thread does not.
        assert!(all.len() as u64 >= WINDOW && all.contains(&(NUMBERS - 1)));
    }
}
