use std::collections::BTreeSet;

use results::estimate::{Caveat, ProbeLoss, Quantity, RateBound};
use units::{Duration, Rate};

use crate::samples::rate;

/// How many times its lower end the upper end of an interval may be: a wider one tells no more than its upper end.
const WIDEST: u64 = 10;

/// How far above a rate that the same run has seen an available bandwidth may be before it is contradicted: a step of
/// pathChirp, 10 %, and the 5 % to which the methods aim.
const CONTRADICTED: f64 = 1.15;

/// A rate, and between which rates it lies. A bound is an interval that is open to one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The best single answer.
    pub value: Rate,
    /// Lower end.
    pub low: Rate,
    /// Upper end.
    pub high: Rate,
}

impl Interval {
    /// From b/s in floating point; what is below zero is zero.
    pub(crate) fn from_bps(value: f64, low: f64, high: f64) -> Self {
        Self { value: rate(value), low: rate(low), high: rate(high) }
    }

    /// One rate without an interval around it, in b/s.
    pub(crate) fn exactly(bps: f64) -> Self {
        Self::from_bps(bps, bps, bps)
    }

    /// This or less.
    pub fn at_most(most: Rate) -> Self {
        Self { value: most, low: Rate::ZERO, high: most }
    }

    /// This or more.
    pub fn at_least(least: Rate) -> Self {
        Self { value: least, low: least, high: Rate::from_bps(u64::MAX) }
    }

    /// On which side of the value the truth lies, where the interval is open to one.
    pub fn bound(&self) -> Option<RateBound> {
        if self.high.as_bps() == u64::MAX {
            return Some(RateBound::AtLeast);
        }
        (self.low == Rate::ZERO && self.value == self.high).then_some(RateBound::AtMost)
    }

    /// Whether it holds this rate.
    pub fn holds(&self, rate: Rate) -> bool {
        (self.low..=self.high).contains(&rate)
    }

    /// The same, or its upper end as a bound where that is all that it tells.
    fn telling(self) -> Self {
        let is_wide = self.bound().is_none() && self.low.as_bps().saturating_mul(WIDEST) < self.high.as_bps();
        if is_wide { Self::at_most(self.high) } else { self }
    }

    /// The same, no part of it above `most`, which the same run has seen; a bound where they contradict each other.
    #[must_use]
    pub(super) fn below(self, most: Rate) -> Self {
        let contradicts = self.low > most || self.value.as_bps() as f64 > most.as_bps() as f64 * CONTRADICTED;
        if contradicts { Self::at_most(self.high.min(most)) } else { self.within(most) }
    }

    /// The middle of two ends, in either order.
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

    /// The same, no part of it above `most`.
    #[must_use]
    pub fn within(self, most: Rate) -> Self {
        Self { value: self.value.min(most), low: self.low.min(most), high: self.high.min(most) }
    }
}

/// What a method found out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the value is an estimate of.
    pub quantity: Quantity,
    /// In bits of IP packets; `None`: the probes did not tell.
    pub interval: Option<Interval>,
    /// What else the same probes told.
    pub also: Vec<(Quantity, Interval)>,
    /// Probes that came one by one: how many were lost.
    pub loss: Option<ProbeLoss>,
    /// How long the longest queue was that the probes filled until it lost packets; `None`: they filled none.
    pub queue: Option<Duration>,
    /// What stood in the way.
    pub caveats: BTreeSet<Caveat>,
}

impl Outcome {
    /// No value, for this reason.
    pub fn nothing(quantity: Quantity, caveat: Caveat) -> Self {
        Self { caveats: BTreeSet::from([caveat]), ..Self::of(quantity, None) }
    }

    /// A value and nothing else.
    pub fn of(quantity: Quantity, interval: Option<Interval>) -> Self {
        let caveats = if interval.is_none() { BTreeSet::from([Caveat::TooFewSamples]) } else { BTreeSet::new() };
        Self { quantity, interval, also: Vec::new(), loss: None, queue: None, caveats }
    }

    /// The answer as it is told: without what the same run contradicts, and what is only a bound as one.
    ///
    /// - A rate with [`Caveat::LowerBound`] or [`Caveat::UpperBound`] is a bound; with both it is nothing. A sender that
    ///   was too slow bounds what else its trains told, too.
    /// - An interval whose upper end is more than ten times its lower end is a bound.
    /// - What is left is no more than the capacity, or than long trains came at.
    #[must_use]
    pub fn concluded(mut self) -> Self {
        let (least, most) = (self.caveats.contains(&Caveat::LowerBound), self.caveats.contains(&Caveat::UpperBound));
        let is_senders = least && self.caveats.contains(&Caveat::SenderTooSlow);
        let as_told = |i: Interval, is_least: bool| if is_least { Interval::at_least(i.low) } else { i.telling() };
        self.also.iter_mut().for_each(|(_, i)| *i = as_told(*i, is_senders && i.bound().is_none()));
        let seen = |(q, i): &(Quantity, Interval)| {
            let is_ceiling = matches!(q, Quantity::Capacity | Quantity::AsymptoticDispersion);
            (is_ceiling && i.bound() != Some(RateBound::AtLeast)).then_some(i.high)
        };
        let ceiling = self.also.iter().filter_map(seen).min();
        let is_left = |q: Quantity| q == Quantity::AvailableBandwidth;
        let below = |i: Interval, q: Quantity| ceiling.filter(|_| is_left(q)).map_or(i, |most| i.below(most));
        let main = |i: Interval| match (least, most) {
            (true, true) => None,
            (true, false) => Some(as_told(i, true)),
            (false, true) => Some(below(Interval::at_most(i.high), self.quantity)),
            (false, false) => Some(below(i.telling(), self.quantity)),
        };
        self.interval = self.interval.and_then(main);
        self.also.iter_mut().for_each(|(q, i)| *i = below(*i, *q));
        if self.interval.and_then(|i| i.bound()) == Some(RateBound::AtMost) {
            self.caveats.insert(Caveat::UpperBound);
        }
        self
    }

    /// The same with one more caveat, if there is one.
    #[must_use]
    pub fn troubled(mut self, caveat: impl IntoIterator<Item = Caveat>) -> Self {
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

    fn left(value: u64, low: u64, high: u64) -> Outcome {
        let interval = Interval { value: mbps(value), low: mbps(low), high: mbps(high) };
        Outcome::of(Quantity::AvailableBandwidth, Some(interval))
    }

    fn beside(mut outcome: Outcome, quantity: Quantity, low: u64, high: u64) -> Outcome {
        outcome.also.push((quantity, Interval::between(mbps(low), mbps(high))));
        outcome
    }

    #[test]
    fn an_upper_bound_is_no_more_than_what_the_same_run_saw() {
        // Pathload on an idle link of 50 Mb/s whose host was busy.
        let told = beside(left(282, 0, 282), Quantity::AsymptoticDispersion, 48, 49).troubled([Caveat::UpperBound]);
        assert_eq!(told.concluded().interval, Some(Interval::at_most(mbps(49))));
        // pathChirp, 119 of a link that long trains left at 85.
        let told = beside(left(119, 60, 180), Quantity::AsymptoticDispersion, 80, 85).concluded();
        assert_eq!(told.interval, Some(Interval::at_most(mbps(85))));
        assert!(told.caveats.contains(&Caveat::UpperBound));
        // A little more is within what both are good for.
        let told = beside(left(105, 95, 110), Quantity::Capacity, 99, 101).concluded();
        assert_eq!(told.interval, Some(Interval { value: mbps(101), low: mbps(95), high: mbps(101) }));
        assert!(told.caveats.is_empty());
    }

    #[test]
    fn an_interval_that_begins_near_nothing_is_its_upper_end() {
        for low in [0, 5] {
            let told = beside(left(20, low, 58), Quantity::Capacity, 57, 59).concluded();
            assert_eq!(told.interval, Some(Interval::at_most(mbps(58))), "{low}");
        }
        assert_eq!(left(20, 6, 58).concluded(), left(20, 6, 58));
    }

    #[test]
    fn a_sender_that_is_too_slow_tells_what_the_path_carries_at_least() {
        let caveats = [Caveat::SenderTooSlow, Caveat::LowerBound];
        let told = beside(left(100, 95, 105), Quantity::Capacity, 98, 102).troubled(caveats).concluded();
        assert_eq!(told.interval, Some(Interval::at_least(mbps(95))));
        assert_eq!(told.also, [(Quantity::Capacity, Interval::at_least(mbps(98)))]);
        let neither = left(100, 95, 105).troubled([Caveat::UpperBound, Caveat::LowerBound]).concluded();
        assert_eq!(neither.interval, None);
    }
}
