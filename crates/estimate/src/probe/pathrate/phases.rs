//! The adaptive parts of a run: the length of trains, and pairs of many sizes.

use super::plan::{DISPERSION_NS_MIN, PAIR_BYTES_MIN, PAIR_BYTES_STEP, Plan};

/// Lossy trains after which a longer one is no longer tried (2.4.1: more than three).
const LOSSY_MAX: u32 = 3;

/// Search for the longest train that passes without loss.
#[derive(Debug)]
pub(super) struct Lengths {
    rising: bool,
    limit: u32,
    next: u32,
    lossy: u32,
    /// Packets of the longest train that passed; 0 if none did.
    pub(super) longest: u32,
}

impl Lengths {
    pub(super) fn new(plan: &Plan) -> Self {
        let next = if plan.rising { 2 } else { plan.longest };
        Self { rising: plan.rising, limit: plan.longest, next, lossy: 0, longest: 0 }
    }

    /// The next train length to try.
    pub(super) fn next_packets(&self) -> Option<u32> {
        (2..=self.limit).contains(&self.next).then_some(self.next)
    }

    /// Takes whether the train passed without loss, and whether its duration was too long.
    pub(super) fn observe(&mut self, whole: bool, too_long: bool) {
        let length = self.next;
        // There is nothing shorter than a pair, whatever its duration.
        let passed = whole && (self.rising || !too_long || length < 4);
        if passed {
            self.longest = length;
        } else {
            self.lossy += 1;
        }
        // 2.4.1: steps of 1 below 6, of 2 below 12, of 4 from there on.
        let step = match length {
            0..6 => 1,
            6..12 => 2,
            _ => 4,
        };
        self.next = match (self.rising, passed) {
            (true, true) if !too_long => length + step,
            (true, false) if self.lossy <= LOSSY_MAX => length,
            (false, false) => length / 2,
            (true | false, true | false) => 0,
        };
    }
}

/// Phase I: packet pairs of many sizes, so that no packet size of cross traffic makes a mode.
#[derive(Debug)]
pub(super) struct Pairs {
    size: u32,
    /// Requested pairs of this size.
    requested: u32,
    implausible: u32,
    length: u32,
    /// Bytes by which packets are enlarged.
    longer: u32,
    given_up: bool,
    /// Rates in b/s.
    pub(super) rates: Vec<f64>,
}

impl Pairs {
    pub(super) fn new() -> Self {
        Self { size: 0, requested: 0, implausible: 0, length: 2, longer: 0, given_up: false, rates: Vec::new() }
    }

    /// Packets of the next pair and their bytes, at most `largest`.
    pub(super) fn next_packets(&self, plan: &Plan, largest: u32) -> Option<(u32, u32)> {
        let range = largest.saturating_sub(PAIR_BYTES_MIN);
        let step = range.checked_mul(self.size).and_then(|s| s.checked_div(plan.sizes.saturating_sub(1)));
        let bytes = PAIR_BYTES_MIN.saturating_add(step.unwrap_or(range)).saturating_add(self.longer).min(largest);
        (!self.given_up && self.size < plan.sizes).then_some((self.length, bytes))
    }

    /// Takes the rate of the pair in b/s and its duration at the receiver in ns; `None` if it did not arrive
    /// completely.
    pub(super) fn observe(&mut self, plan: &Plan, longest: u32, dispersion: Option<(f64, u64)>) {
        self.requested += 1;
        match dispersion {
            Some((_, ns)) if ns < DISPERSION_NS_MIN => self.implausible += 1,
            Some((rate, _)) => self.rates.push(rate),
            None => {}
        }
        if self.requested < plan.pairs {
            return;
        }
        if self.implausible > plan.implausible_max {
            (self.length, self.longer) = (self.length + 1, self.longer.saturating_add(PAIR_BYTES_STEP));
            // Trains of a quarter of the maximum length are no longer pairs.
            self.given_up = self.length > (longest / 4).max(2);
        }
        if self.given_up {
            self.rates.clear();
        }
        (self.size, self.requested, self.implausible) = (self.size + 1, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{FAITHFUL, MODERN};
    use super::*;

    fn tried(plan: &Plan, mut passes: impl FnMut(u32) -> bool) -> (Vec<u32>, u32) {
        let mut lengths = Lengths::new(plan);
        let mut all = Vec::new();
        while let Some(length) = lengths.next_packets() {
            all.push(length);
            lengths.observe(passes(length), false);
        }
        (all, lengths.longest)
    }

    #[test]
    fn lengths_rise_by_the_steps_of_the_original() {
        let (all, longest) = tried(&FAITHFUL, |_| true);
        assert_eq!(all, [2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48]);
        assert_eq!(longest, 48);
        // A queue of ten packets: four trains of 12 lose some.
        let (all, longest) = tried(&FAITHFUL, |length| length <= 10);
        assert_eq!((&all[7..], longest), ([12; 4].as_slice(), 10));
    }

    #[test]
    fn one_train_is_enough_without_losses_in_the_modern_form() {
        assert_eq!(tried(&MODERN, |_| true), (vec![40], 40));
        assert_eq!(tried(&MODERN, |length| length <= 10), (vec![40, 20, 10], 10));
        assert_eq!(tried(&MODERN, |_| false), (vec![40, 20, 10, 5, 2], 0));
    }

    #[test]
    fn pairs_go_through_all_sizes_from_600_bytes_to_the_largest() {
        let mut pairs = Pairs::new();
        let mut sizes = Vec::new();
        while let Some((length, bytes)) = pairs.next_packets(&FAITHFUL, 1500) {
            assert_eq!(length, 2);
            sizes.push(bytes);
            pairs.observe(&FAITHFUL, 48, Some((1e6, 100_000)));
        }
        assert_eq!((sizes.len(), pairs.rates.len()), (1000, 1000));
        assert_eq!((sizes[0], sizes[999]), (600, 1500));
        sizes.dedup();
        assert_eq!(sizes.len(), 40);
    }

    #[test]
    fn implausibly_short_pairs_become_longer_trains_and_then_end() {
        let mut pairs = Pairs::new();
        let mut longest = 0;
        while let Some((length, _)) = pairs.next_packets(&FAITHFUL, 1500) {
            longest = length;
            pairs.observe(&FAITHFUL, 20, Some((1e9, 2_999)));
        }
        assert_eq!(longest, 5, "a quarter of 20");
        assert!(pairs.rates.is_empty());
    }
}
