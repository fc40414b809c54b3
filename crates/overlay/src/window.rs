use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Frames that may overtake each other on a path: at 10 Gb/s and 1400 bytes, 890,000 frames a second, 73 ms.
pub(crate) const WINDOW: u64 = 65_536;
/// Without a frame for so long a queue's packet number space has rested, microseconds: what it lost last may show when it is used again, though its path may have been dark and be no
/// more.
const REST: u32 = 5_000_000;
/// Numbers in a word.
const NUMBERS: u64 = 32;
const WORDS: usize = (WINDOW / NUMBERS) as usize;

/// Why a sequence number is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stale {
    Replayed,
    /// Before the window: it cannot be told whether it was there before.
    TooOld,
}

/// Which sequence numbers below 2^48 of a packet number space and queue were there, against replays: a ring of bits as in RFC 6479. Any thread may use it, without
/// waiting for another: the upper half of each word says for which lap of the ring the bits in its lower half are, so that one comparison and
/// exchange takes a number, and each number is taken once.
pub(crate) struct Window {
    words: Box<[AtomicU64; WORDS]>,
    /// One more than the highest that was there.
    end: AtomicU64,
    /// When the last one came, microseconds, modulo 2^32.
    came: AtomicU32,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { words: Box::new([const { AtomicU64::new(0) }; WORDS]), end: AtomicU64::new(0), came: AtomicU32::new(0) }
    }

    /// Whether `sequence` can still be taken; another thread may be quicker.
    pub(crate) fn check(&self, sequence: u64) -> Result<(), Stale> {
        // The oldest word is being reused by the newest numbers.
        if self.end.load(Ordering::Relaxed).saturating_sub(sequence) > WINDOW - NUMBERS {
            return Err(Stale::TooOld);
        }
        with(self.word(sequence).load(Ordering::Relaxed), sequence).map(drop)
    }

    /// Takes `sequence`, which came at that time, microseconds. Gives by how much the highest number grew by it, but for those that are missing behind a rest: they were
    /// lost before it, and tell nothing of now. Only an authenticated frame may be noted.
    pub(crate) fn note(&self, sequence: u64, came: u32) -> Result<u64, Stale> {
        let rested = came.wrapping_sub(self.came.load(Ordering::Relaxed));
        let is_first = self.end.load(Ordering::Relaxed) == 0;
        let ahead = self.note_all(sequence, came)?;
        // What another thread has taken a moment later has come in the future, which is no rest.
        let is_rested = !is_first && (REST..1 << 31).contains(&rested);
        Ok(if is_rested { ahead.min(1) } else { ahead })
    }

    /// The same with all that are missing.
    pub(crate) fn note_all(&self, sequence: u64, came: u32) -> Result<u64, Stale> {
        let taken = self.word(sequence).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |w| with(w, sequence).ok());
        if let Err(word) = taken {
            with(word, sequence)?;
        }
        let end = self.end.fetch_max(sequence + 1, Ordering::Relaxed);
        // No exchange: whichever of two threads is the last one, it is the same moment.
        self.came.store(came, Ordering::Relaxed);
        Ok((sequence + 1).saturating_sub(end))
    }

    fn word(&self, sequence: u64) -> &AtomicU64 {
        &self.words[(sequence / NUMBERS % WORDS as u64) as usize]
    }
}

/// The word in which `sequence` has been taken, too.
fn with(word: u64, sequence: u64) -> Result<u64, Stale> {
    let (lap, bit) = (sequence / WINDOW, 1 << (sequence % NUMBERS));
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
        fn each_number_is_taken_once(steps in proptest::collection::vec((0..3_u8, 0..200_000_u64), 1..300)) {
            let (window, mut seen, mut end) = (Window::new(), BTreeSet::new(), 0_u64);
            for (kind, by) in steps {
                let sequence = match kind { 0 => end, 1 => end + by % 2000 * by % 7, _ => end.saturating_sub(by) };
                let checked = window.check(sequence);
                if seen.contains(&sequence) {
                    prop_assert!(checked.is_err() && window.note(sequence, 0).is_err());
                } else if sequence + WINDOW - NUMBERS >= end {
                    prop_assert_eq!(checked, Ok(()));
                }
                if checked.is_ok() {
                    prop_assert_eq!(window.note(sequence, 0), Ok((sequence + 1).saturating_sub(end)));
                    prop_assert_eq!(window.note(sequence, 0), Err(Stale::Replayed));
                    seen.insert(sequence);
                    end = end.max(sequence + 1);
                }
            }
        }
    }

    #[test]
    fn a_jump_forgets_what_was_before_it() {
        let window = Window::new();
        assert_eq!(window.note(5, 0), Ok(6));
        assert_eq!((window.check(5), window.check(4)), (Err(Stale::Replayed), Ok(())));
        let far = (1 << 47) + 5;
        assert_eq!(window.note(far, 0), Ok(far - 5));
        assert_eq!((window.check(5), window.note(5, 0)), (Err(Stale::TooOld), Err(Stale::TooOld)));
        assert_eq!(window.check(far - 5), Ok(()));
    }

    #[test]
    fn what_is_missing_behind_a_rest_is_no_loss_of_now() {
        let window = Window::new();
        let at = |s: f64| (u32::MAX - 3_000_000).wrapping_add((s * 1e6) as u32);
        // The first ones are: they are of this session. The clock wraps meanwhile.
        assert_eq!(window.note(2, at(0.0)), Ok(3));
        assert_eq!(window.note(7, at(4.9)), Ok(5), "four of them are missing");
        assert_eq!(window.note(107, at(10.0)), Ok(1), "and a hundred before it rested");
        assert_eq!((window.note(108, at(10.1)), window.note(110, at(10.0))), (Ok(1), Ok(2)));
        assert_eq!(window.note(107, at(10.2)), Err(Stale::Replayed));
        // One that was overtaken by the first one comes as well: no more has come than was to come.
        let (window, arrivals) = (Window::new(), crate::arrivals::Arrivals::new());
        for (sequence, came) in [(0, 0.0), (2, 10.0), (1, 10.0)] {
            arrivals.note(window.note(sequence, at(came)).unwrap(), 100, at(came), at(came));
        }
        assert_eq!(arrivals.counts(), (3, 3));
    }

    #[test]
    fn what_is_fifty_milliseconds_late_at_ten_gigabits_is_taken_once() {
        let window = Window::new();
        // 10^10 b/s * 0.05 s of 1400 bytes each.
        let behind = 44_643;
        assert!((0..=behind).filter(|n| *n != 1).all(|n| window.note(n, 0).is_ok()));
        assert_eq!((window.note(1, 0), window.note(1, 0)), (Ok(0), Err(Stale::Replayed)));
    }

    #[test]
    fn of_threads_that_take_the_same_numbers_one_gets_each() {
        const NUMBERS: u64 = 4 * WINDOW;
        let window = Window::new();
        // Each thread goes through all numbers, in blocks that two of them begin from different ends.
        let take = |backwards: bool| -> Vec<u64> {
            let blocks = (0..NUMBERS).step_by(1024);
            let mine = blocks.flat_map(|b| (b..b + 1024).map(move |n| if backwards { 2 * b + 1023 - n } else { n }));
            mine.filter(|n| window.note(*n, 0).is_ok()).collect()
        };
        let taken: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = [false, true, false].map(|b| scope.spawn(move || take(b))).into_iter().collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let all: BTreeSet<u64> = taken.iter().flatten().copied().collect();
        assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), all.len(), "none twice");
        // A thread that lags by more than a window finds its numbers too old; who is first finds none.
        assert!(all.len() as u64 >= WINDOW && all.contains(&(NUMBERS - 1)));
    }
}
