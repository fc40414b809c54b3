use std::collections::BTreeSet;

use results::estimate::{ProbeLoss, Quantity, Trouble};
use units::{Duration, Rate};

use crate::samples::rate;

/// A rate, and between which rates it lies.
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
    pub troubles: BTreeSet<Trouble>,
}

impl Outcome {
    /// No value, for this reason.
    pub fn nothing(quantity: Quantity, trouble: Trouble) -> Self {
        Self { troubles: BTreeSet::from([trouble]), ..Self::of(quantity, None) }
    }

    /// A value and nothing else.
    pub fn of(quantity: Quantity, interval: Option<Interval>) -> Self {
        let troubles = if interval.is_none() { BTreeSet::from([Trouble::TooFewSamples]) } else { BTreeSet::new() };
        Self { quantity, interval, also: Vec::new(), loss: None, queue: None, troubles }
    }

    /// The same with one more trouble, if there is one.
    #[must_use]
    pub fn troubled(mut self, trouble: impl IntoIterator<Item = Trouble>) -> Self {
        self.troubles.extend(trouble);
        self
    }
}
