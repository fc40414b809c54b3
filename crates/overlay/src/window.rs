/// Frames that may overtake each other on a path: at 10 Gb/s and 1400 bytes, 890,000 frames a second, 73 ms.
pub(crate) const WINDOW: u64 = 65_536;
const WORDS: usize = (WINDOW / 64) as usize;

/// What a sequence number is to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fresh {
    New,
    Replayed,
    /// Before the window: it cannot be told whether it was there before.
    TooOld,
}

/// Which sequence numbers of a lane were there, against replays: a ring of bits (RFC 6479).
pub(crate) struct Window {
    bits: Box<[u64; WORDS]>,
    /// One more than the highest that was there.
    end: u64,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { bits: Box::new([0; WORDS]), end: 0 }
    }

    /// What `sequence` would be. Only an authenticated frame may be noted.
    pub(crate) fn check(&self, sequence: u64) -> Fresh {
        if sequence >= self.end {
            return Fresh::New;
        }
        // The oldest word is being reused by the newest numbers.
        if self.end - sequence > WINDOW - 64 {
            return Fresh::TooOld;
        }
        let (word, bit) = place(sequence);
        if self.bits[word] & bit == 0 { Fresh::New } else { Fresh::Replayed }
    }

    /// Notes that `sequence` was there.
    pub(crate) fn note(&mut self, sequence: u64) {
        if sequence >= self.end {
            let (first, last) = (self.end.div_ceil(64), sequence / 64);
            for word in (first..=last).rev().take(WORDS) {
                self.bits[(word % WORDS as u64) as usize] = 0;
            }
            self.end = sequence + 1;
        }
        let (word, bit) = place(sequence);
        self.bits[word] |= bit;
    }
}

fn place(sequence: u64) -> (usize, u64) {
    ((sequence / 64 % WORDS as u64) as usize, 1 << (sequence % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_number_is_new_once(steps in proptest::collection::vec((0..3_u8, 0..200_000_u64), 1..300)) {
            let (mut window, mut seen, mut end) = (Window::new(), BTreeSet::new(), 0_u64);
            for (kind, by) in steps {
                let sequence = match kind { 0 => end, 1 => end + by % 2000 * by % 7, _ => end.saturating_sub(by) };
                let fresh = window.check(sequence);
                if seen.contains(&sequence) {
                    prop_assert_ne!(fresh, Fresh::New);
                } else if sequence + WINDOW - 64 >= end {
                    prop_assert_eq!(fresh, Fresh::New);
                }
                if fresh == Fresh::New {
                    window.note(sequence);
                    seen.insert(sequence);
                    end = end.max(sequence + 1);
                }
            }
        }
    }

    #[test]
    fn a_jump_forgets_what_was_before_it() {
        let mut window = Window::new();
        window.note(5);
        assert_eq!((window.check(5), window.check(4)), (Fresh::Replayed, Fresh::New));
        window.note(u64::MAX / 2);
        assert_eq!(window.check(5), Fresh::TooOld);
        assert_eq!(window.check(u64::MAX / 2 - 5), Fresh::New);
    }
}
