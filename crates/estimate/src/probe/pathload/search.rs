//! Which rate to try next: doubling, then bisection around a grey region.

use units::Rate;

use super::fleet::Verdict;
use super::parameters::Resolution;
use crate::probe::Interval;
use crate::samples::rate;

/// Rates this close are the same (1.3.2: within 2 %).
pub(super) const SAME: f64 = 1.02;

/// Width in b/s that is narrow enough when no dispersion rate is known (1.3.2: 2 Mb/s)...
const UNKNOWN_WIDTH: f64 = 2e6;

/// ...but on slow paths this part of the upper end, for 2 Mb/s would be any answer.
const UNKNOWN_RATIO: f64 = 0.1;

/// Distance in b/s of a grey region from the other rates that is small enough on fast paths (1.3.2).
const GREY: f64 = 12e6;

/// What to do after a fleet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// Try this rate in b/s.
    Try(f64),
    /// The range is narrow enough.
    Found,
    /// The rate looked for is above the highest or below the lowest that can be sent.
    Edge,
    /// The sender does not get to the rate that is asked for.
    Stuck,
}

/// The state of the search; all rates in b/s.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Search {
    limits: (f64, f64),
    resolution: Resolution,
    dispersion: Option<f64>,
    /// Whether packets came in batches, which allows a wider range (1.3.2).
    pub(super) is_batched: bool,
    /// Highest rate without trend.
    low: Option<f64>,
    /// Lowest rate with one.
    high: Option<f64>,
    /// Lowest and highest rate around which what is left varies.
    grey: Option<(f64, f64)>,
    edges: u32,
}

impl Search {
    /// Between these rates, for a path of this dispersion rate.
    pub(super) fn new(limits: (f64, f64), dispersion: Option<f64>, resolution: Resolution) -> Self {
        Self { limits, resolution, dispersion, is_batched: false, low: None, high: None, grey: None, edges: 0 }
    }

    /// The rate to begin with (1.3.2): the dispersion rate, or the middle of what can be sent.
    pub(super) fn first(&self) -> f64 {
        let (least, most) = self.limits;
        self.dispersion.filter(|r| (least..=most).contains(r)).unwrap_or_else(|| f64::midpoint(least, most))
    }

    /// A fleet was to be sent at `asked`, was at `sent`, and said this.
    pub(super) fn take(&mut self, asked: f64, sent: f64, verdict: Verdict) -> Next {
        let short = |low: f64| sent <= low && asked > low;
        let beyond = |high: f64| sent >= high && asked < high;
        if self.low.is_some_and(short) || self.high.is_some_and(beyond) {
            // As near as the sender's own precision: no finer answer is to be had.
            return if sent.max(asked) <= sent.min(asked) * SAME { Next::Found } else { Next::Stuck };
        }
        // Without an upper end the sender has to get ahead, or doubling would not end.
        let stalled = |low: f64| sent <= low * SAME && asked > low * SAME;
        let stuck = self.high.is_none() && self.low.is_some_and(stalled);
        self.note(sent, verdict);
        if stuck { Next::Stuck } else { self.next(sent) }
    }

    fn note(&mut self, sent: f64, verdict: Verdict) {
        match verdict {
            Verdict::Increasing => {
                self.high = Some(sent);
                self.grey = self.grey.filter(|g| g.0 < sent).map(|g| (g.0, g.1.min(sent)));
            }
            Verdict::NoTrend => {
                self.low = Some(sent);
                self.grey = self.grey.filter(|g| g.1 > sent).map(|g| (g.0.max(sent), g.1));
            }
            Verdict::Grey => {
                let (low, high) = self.grey.unwrap_or((sent, sent));
                self.grey = Some((low.min(sent), high.max(sent)));
            }
        }
    }

    fn next(&mut self, last: f64) -> Next {
        let low = self.low.unwrap_or(0.0);
        let wanted = match (self.grey, self.high) {
            (None, None) => low * 2.0,
            (Some((_, top)), None) => top * 1.5,
            (None, Some(high)) if high - low <= self.width() => return Next::Found,
            (None, Some(high)) => f64::midpoint(low, high),
            (Some((bottom, top)), Some(high)) => {
                let (above, below) = (high - top > self.grey_distance(), bottom - low > self.grey_distance());
                match (above, below) {
                    _ if high - low <= self.width() => return Next::Found,
                    (false, false) => return Next::Found,
                    // Go on where the last fleet was.
                    (true, true) if last < top => f64::midpoint(low, bottom),
                    (true, _) => f64::midpoint(high, top),
                    (false, true) => f64::midpoint(low, bottom),
                }
            }
        };
        self.within_limits(wanted)
    }

    /// A rate that can be sent; the second time that one is wanted which cannot is the end (1.3.2).
    fn within_limits(&mut self, wanted: f64) -> Next {
        let (least, most) = self.limits;
        self.edges += u32::from(wanted < least || wanted > most);
        if self.edges >= 2 { Next::Edge } else { Next::Try(wanted.clamp(least, most)) }
    }

    fn width(&self) -> f64 {
        let high = self.high.unwrap_or(f64::INFINITY);
        match (self.resolution, self.dispersion) {
            (Resolution::Ratio(ratio), _) => ratio * high,
            (Resolution::OfDispersion, Some(rate)) => rate * if self.is_batched { 0.05 } else { 0.02 },
            (Resolution::OfDispersion, None) => UNKNOWN_WIDTH.min(UNKNOWN_RATIO * high),
        }
    }

    fn grey_distance(&self) -> f64 {
        let high = self.high.unwrap_or(f64::INFINITY);
        match (self.resolution, self.dispersion) {
            (Resolution::Ratio(ratio), _) => ratio / 2.0 * high,
            (Resolution::OfDispersion, Some(rate)) => GREY.min(0.05 * rate),
            (Resolution::OfDispersion, None) => self.width(),
        }
    }

    /// Whether the grey region is the answer: both its ends are near the rates that are not grey. The tools report a
    /// region of a single rate as such; a range that cannot hold the truth is none, so here it has to have some width.
    fn is_told_by_grey(&self, low: f64, high: f64, (bottom, top): (f64, f64)) -> bool {
        let distance = self.grey_distance();
        let wide = match self.resolution {
            Resolution::OfDispersion => top - bottom >= distance,
            Resolution::Ratio(_) => true,
        };
        wide && high - top <= distance && bottom - low <= distance
    }

    /// What is known so far.
    pub(super) fn range(&self) -> Range {
        let low = self.low.unwrap_or(0.0);
        match (self.low, self.high, self.grey) {
            (_, Some(high), Some((bottom, top))) if self.is_told_by_grey(low, high, (bottom, top)) => {
                Range::Both(Interval::between(rate(bottom), rate(top)))
            }
            (Some(low), Some(high), _) => Range::Both(Interval::between(rate(low), rate(high))),
            (None, Some(high), Some((bottom, top))) => {
                let value = rate(f64::midpoint(bottom, top));
                Range::Both(Interval { value, low: Rate::ZERO, high: rate(high).max(value) })
            }
            (None, Some(high), None) => Range::AtMost(rate(high)),
            (Some(low), None, None) => Range::AtLeast(Interval::between(rate(low), rate(low))),
            (_, None, Some((bottom, top))) => {
                Range::AtLeast(Interval::between(rate(self.low.unwrap_or(bottom)), rate(top)))
            }
            (None, None, None) => Range::Unknown,
        }
    }
}

/// What a search has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Range {
    /// Nothing.
    Unknown,
    /// Between two rates.
    Both(Interval),
    /// This or more.
    AtLeast(Interval),
    /// This or less.
    AtMost(Rate),
}

#[cfg(test)]
mod tests;
