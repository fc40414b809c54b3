use std::collections::BTreeSet;

use results::estimate::{Caveat, ProbeLoss, Quantity, RateBound};
use units::{Duration, Rate};

use crate::samples::rate;

/// Maximum ratio of the ends of an interval. A wider interval carries no more information than its upper end.
const ENDS_RATIO_MAX: u64 = 10;

/// Maximum ratio of an available bandwidth to a rate that the same run measured; a larger one contradicts it. It is a
/// step of pathChirp, 10 %, and the 5 % to which the methods aim.
const CONTRADICTION_RATIO: f64 = 1.15;

/// A rate with its interval. A bound is an interval that is open on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Best single estimate.
    pub value: Rate,
    /// Lower end.
    pub low: Rate,
    /// Upper end.
    pub high: Rate,
}

impl Interval {
    /// Creates an interval from b/s in floating point; negative values become zero.
    pub(crate) fn from_bps(value: f64, low: f64, high: f64) -> Self {
        Self { value: rate(value), low: rate(low), high: rate(high) }
    }

    /// Creates an interval of zero width, in b/s.
    pub(crate) fn exactly(bps: f64) -> Self {
        Self::from_bps(bps, bps, bps)
    }

    /// Creates an upper bound.
    pub fn at_most(high: Rate) -> Self {
        Self { value: high, low: Rate::ZERO, high }
    }

    /// Creates a lower bound.
    pub fn at_least(low: Rate) -> Self {
        Self { value: low, low, high: Rate::from_bps(u64::MAX) }
    }

    /// Side of the value on which the true rate lies, if the interval is open on one side.
    pub fn bound(&self) -> Option<RateBound> {
        if self.high.as_bps() == u64::MAX {
            return Some(RateBound::AtLeast);
        }
        (self.low == Rate::ZERO && self.value == self.high).then_some(RateBound::AtMost)
    }

    /// Whether the interval contains this rate.
    pub fn contains(&self, rate: Rate) -> bool {
        (self.low..=self.high).contains(&rate)
    }

    /// Replaces an interval that is too wide by its upper end as a bound.
    fn bounded_if_wide(self) -> Self {
        let is_wide = self.bound().is_none() && self.low.as_bps().saturating_mul(ENDS_RATIO_MAX) < self.high.as_bps();
        if is_wide { Self::at_most(self.high) } else { self }
    }

    /// Limits the interval to `max`, which the same run measured; the result is an upper bound if the two contradict
    /// each other.
    #[must_use]
    pub(super) fn below(self, max: Rate) -> Self {
        let contradicts = self.low > max || self.value.as_bps() as f64 > max.as_bps() as f64 * CONTRADICTION_RATIO;
        if contradicts { Self::at_most(self.high.min(max)) } else { self.within(max) }
    }

    /// Creates an interval from two ends in either order; the value is their middle.
    pub fn between(a: Rate, b: Rate) -> Self {
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        Self { value: Rate::from_bps(low.as_bps().midpoint(high.as_bps())), low, high }
    }

    /// Mean of samples in b/s with the 95 % confidence interval of the mean (Student). `None` without samples.
    pub fn of_mean(samples: &[f64]) -> Option<Self> {
        let mean = crate::confidence(samples)?;
        let half = mean.half_width.unwrap_or(0.0);
        Some(Self::from_bps(mean.mean, mean.mean - half, mean.mean + half))
    }

    /// Limits the interval to `max`.
    #[must_use]
    pub fn within(self, max: Rate) -> Self {
        Self { value: self.value.min(max), low: self.low.min(max), high: self.high.min(max) }
    }
}

/// Result of a method.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The quantity that the value estimates.
    pub quantity: Quantity,
    /// In bits of IP packets; `None` if the probes gave no estimate.
    pub interval: Option<Interval>,
    /// Further quantities that the same probes measured.
    pub also: Vec<(Quantity, Interval)>,
    /// Loss of probes that were sent one by one.
    pub loss: Option<ProbeLoss>,
    /// Length of the longest queue that the probes filled until it lost packets; `None` if they filled none.
    pub queue: Option<Duration>,
    /// Caveats of the result.
    pub caveats: BTreeSet<Caveat>,
}

impl Outcome {
    /// A result without a value, for this reason.
    pub fn nothing(quantity: Quantity, caveat: Caveat) -> Self {
        Self { caveats: BTreeSet::from([caveat]), ..Self::of(quantity, None) }
    }

    /// A result with a value only.
    pub fn of(quantity: Quantity, interval: Option<Interval>) -> Self {
        let caveats = if interval.is_none() { BTreeSet::from([Caveat::TooFewSamples]) } else { BTreeSet::new() };
        Self { quantity, interval, also: Vec::new(), loss: None, queue: None, caveats }
    }

    /// The final result: contradictions within the run are removed, and weak intervals become bounds.
    ///
    /// - A rate with [`Caveat::LowerBound`] or [`Caveat::UpperBound`] is a bound; with both it is dropped. A sender
    ///   that was too slow also limits the other quantities of its trains to lower bounds.
    /// - An interval whose upper end is more than ten times its lower end is an upper bound.
    /// - The available bandwidth does not exceed the capacity or the rate at which long trains arrived.
    #[must_use]
    pub fn concluded(mut self) -> Self {
        let (is_lower, is_upper) =
            (self.caveats.contains(&Caveat::LowerBound), self.caveats.contains(&Caveat::UpperBound));
        let is_sender_limited = is_lower && self.caveats.contains(&Caveat::SenderTooSlow);
        let concluded =
            |i: Interval, is_lower: bool| if is_lower { Interval::at_least(i.low) } else { i.bounded_if_wide() };
        self.also.iter_mut().for_each(|(_, i)| *i = concluded(*i, is_sender_limited && i.bound().is_none()));
        let seen = |(q, i): &(Quantity, Interval)| {
            let is_ceiling = matches!(q, Quantity::Capacity | Quantity::AsymptoticDispersion);
            (is_ceiling && i.bound() != Some(RateBound::AtLeast)).then_some(i.high)
        };
        let ceiling = self.also.iter().filter_map(seen).min();
        let is_available = |q: Quantity| q == Quantity::AvailableBandwidth;
        let below = |i: Interval, q: Quantity| ceiling.filter(|_| is_available(q)).map_or(i, |max| i.below(max));
        let main = |i: Interval| match (is_lower, is_upper) {
            (true, true) => None,
            (true, false) => Some(concluded(i, true)),
            (false, true) => Some(below(Interval::at_most(i.high), self.quantity)),
            (false, false) => Some(below(i.bounded_if_wide(), self.quantity)),
        };
        self.interval = self.interval.and_then(main);
        self.also.iter_mut().for_each(|(q, i)| *i = below(*i, *q));
        if self.interval.and_then(|i| i.bound()) == Some(RateBound::AtMost) {
            self.caveats.insert(Caveat::UpperBound);
        }
        self
    }

    /// Adds caveats.
    #[must_use]
    pub fn with_caveats(mut self, caveat: impl IntoIterator<Item = Caveat>) -> Self {
        self.caveats.extend(caveat);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbps(value: u64) -> Rate {
        Rate::from_bps(value * 1_000_000)
    }

    fn available(value: u64, low: u64, high: u64) -> Outcome {
        let interval = Interval { value: mbps(value), low: mbps(low), high: mbps(high) };
        Outcome::of(Quantity::AvailableBandwidth, Some(interval))
    }

    fn with_quantity(mut outcome: Outcome, quantity: Quantity, low: u64, high: u64) -> Outcome {
        outcome.also.push((quantity, Interval::between(mbps(low), mbps(high))));
        outcome
    }

    #[test]
    fn an_upper_bound_does_not_exceed_a_rate_that_the_same_run_measured() {
        // Pathload on an idle link of 50 Mb/s with a busy host.
        let outcome = with_quantity(available(282, 0, 282), Quantity::AsymptoticDispersion, 48, 49)
            .with_caveats([Caveat::UpperBound]);
        assert_eq!(outcome.concluded().interval, Some(Interval::at_most(mbps(49))));
        // pathChirp measures 119 on a link on which long trains arrived at 85.
        let outcome = with_quantity(available(119, 60, 180), Quantity::AsymptoticDispersion, 80, 85).concluded();
        assert_eq!(outcome.interval, Some(Interval::at_most(mbps(85))));
        assert!(outcome.caveats.contains(&Caveat::UpperBound));
        // A small excess is within the precision of both.
        let outcome = with_quantity(available(105, 95, 110), Quantity::Capacity, 99, 101).concluded();
        assert_eq!(outcome.interval, Some(Interval { value: mbps(101), low: mbps(95), high: mbps(101) }));
        assert!(outcome.caveats.is_empty());
    }

    #[test]
    fn an_interval_that_starts_near_zero_becomes_its_upper_end() {
        for low in [0, 5] {
            let outcome = with_quantity(available(20, low, 58), Quantity::Capacity, 57, 59).concluded();
            assert_eq!(outcome.interval, Some(Interval::at_most(mbps(58))), "{low}");
        }
        assert_eq!(available(20, 6, 58).concluded(), available(20, 6, 58));
    }

    #[test]
    fn a_sender_that_is_too_slow_gives_a_lower_bound() {
        let caveats = [Caveat::SenderTooSlow, Caveat::LowerBound];
        let outcome =
            with_quantity(available(100, 95, 105), Quantity::Capacity, 98, 102).with_caveats(caveats).concluded();
        assert_eq!(outcome.interval, Some(Interval::at_least(mbps(95))));
        assert_eq!(outcome.also, [(Quantity::Capacity, Interval::at_least(mbps(98)))]);
        let neither = available(100, 95, 105).with_caveats([Caveat::UpperBound, Caveat::LowerBound]).concluded();
        assert_eq!(neither.interval, None);
    }
}
