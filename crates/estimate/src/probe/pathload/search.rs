//! Search for the next rate: doubling, then bisection around a grey region.

use units::Rate;

use super::fleet::Verdict;
use super::parameters::Resolution;
use crate::probe::Interval;
use crate::samples::rate;

/// Maximum ratio of rates that count as equal (1.3.2: within 2 %).
pub(super) const SAME_RATE_RATIO_MAX: f64 = 1.02;

/// Maximum width of the result in b/s if no dispersion rate is known (1.3.2: 2 Mb/s).
const WIDTH_BPS_MAX: f64 = 2e6;

/// Maximum width of the result as a share of the upper end if no dispersion rate is known. On slow paths 2 Mb/s would
/// accept any result.
const WIDTH_SHARE_MAX: f64 = 0.1;

/// Maximum distance in b/s of a grey region from the other rates on fast paths (1.3.2).
const GREY_DISTANCE_BPS_MAX: f64 = 12e6;

/// Next action after a fleet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// Try this rate in b/s.
    Try(f64),
    /// The range is narrow enough.
    Found,
    /// The available bandwidth is above the highest or below the lowest rate that can be sent.
    Edge,
    /// The sender does not reach the requested rate.
    Stuck,
}

/// State of the search; all rates in b/s.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Search {
    limits: (f64, f64),
    resolution: Resolution,
    dispersion: Option<f64>,
    /// Whether packets arrived in batches, which allows a wider range (1.3.2).
    pub(super) is_batched: bool,
    /// Highest rate without trend.
    low: Option<f64>,
    /// Lowest rate with a trend.
    high: Option<f64>,
    /// Lowest and highest rate around which the available bandwidth varies.
    grey: Option<(f64, f64)>,
    edges: u32,
}

impl Search {
    /// Creates a search between these rates, for a path of this dispersion rate.
    pub(super) fn new(limits: (f64, f64), dispersion: Option<f64>, resolution: Resolution) -> Self {
        Self { limits, resolution, dispersion, is_batched: false, low: None, high: None, grey: None, edges: 0 }
    }

    /// The first rate (1.3.2): the dispersion rate, or the middle of the possible rates.
    pub(super) fn first(&self) -> f64 {
        let (low_limit, high_limit) = self.limits;
        self.dispersion
            .filter(|r| (low_limit..=high_limit).contains(r))
            .unwrap_or_else(|| f64::midpoint(low_limit, high_limit))
    }

    /// Takes the verdict of a fleet that was requested at `requested` and sent at `sent`.
    pub(super) fn add(&mut self, requested: f64, sent: f64, verdict: Verdict) -> Next {
        let short = |low: f64| sent <= low && requested > low;
        let beyond = |high: f64| sent >= high && requested < high;
        if self.low.is_some_and(short) || self.high.is_some_and(beyond) {
            // The remaining width is within the sender's precision; a finer result is not possible.
            return if sent.max(requested) <= sent.min(requested) * SAME_RATE_RATIO_MAX {
                Next::Found
            } else {
                Next::Stuck
            };
        }
        // Without an upper end the sender must exceed the lower one, or doubling would not end.
        let stalled = |low: f64| sent <= low * SAME_RATE_RATIO_MAX && requested > low * SAME_RATE_RATIO_MAX;
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
        let next_rate = match (self.grey, self.high) {
            (None, None) => low * 2.0,
            (Some((_, top)), None) => top * 1.5,
            (None, Some(high)) if high - low <= self.width() => return Next::Found,
            (None, Some(high)) => f64::midpoint(low, high),
            (Some((bottom, top)), Some(high)) => {
                let (above, below) = (high - top > self.grey_distance(), bottom - low > self.grey_distance());
                match (above, below) {
                    _ if high - low <= self.width() => return Next::Found,
                    (false, false) => return Next::Found,
                    // Continue on the side of the last fleet.
                    (true, true) if last < top => f64::midpoint(low, bottom),
                    (true, _) => f64::midpoint(high, top),
                    (false, true) => f64::midpoint(low, bottom),
                }
            }
        };
        self.within_limits(next_rate)
    }

    /// Limits a rate to those that can be sent; the second rate outside ends the search (1.3.2).
    fn within_limits(&mut self, next_rate: f64) -> Next {
        let (low_limit, high_limit) = self.limits;
        self.edges += u32::from(next_rate < low_limit || next_rate > high_limit);
        if self.edges >= 2 { Next::Edge } else { Next::Try(next_rate.clamp(low_limit, high_limit)) }
    }

    fn width(&self) -> f64 {
        let high = self.high.unwrap_or(f64::INFINITY);
        match (self.resolution, self.dispersion) {
            (Resolution::Ratio(ratio), _) => ratio * high,
            (Resolution::OfDispersion, Some(rate)) => rate * if self.is_batched { 0.05 } else { 0.02 },
            (Resolution::OfDispersion, None) => WIDTH_BPS_MAX.min(WIDTH_SHARE_MAX * high),
        }
    }

    fn grey_distance(&self) -> f64 {
        let high = self.high.unwrap_or(f64::INFINITY);
        match (self.resolution, self.dispersion) {
            (Resolution::Ratio(ratio), _) => ratio / 2.0 * high,
            (Resolution::OfDispersion, Some(rate)) => GREY_DISTANCE_BPS_MAX.min(0.05 * rate),
            (Resolution::OfDispersion, None) => self.width(),
        }
    }

    /// Whether the grey region is the result: both its ends are near the rates that are not grey. The tools report a
    /// region of a single rate as such. A range of zero width cannot contain the truth, so that the region must have
    /// some width here.
    fn is_grey_region_final(&self, low: f64, high: f64, (bottom, top): (f64, f64)) -> bool {
        let distance = self.grey_distance();
        let wide = match self.resolution {
            Resolution::OfDispersion => top - bottom >= distance,
            Resolution::Ratio(_) => true,
        };
        wide && high - top <= distance && bottom - low <= distance
    }

    /// The range found so far.
    pub(super) fn range(&self) -> Range {
        let low = self.low.unwrap_or(0.0);
        match (self.low, self.high, self.grey) {
            (_, Some(high), Some((bottom, top))) if self.is_grey_region_final(low, high, (bottom, top)) => {
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

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Range {
    /// No result.
    Unknown,
    /// Between two rates.
    Both(Interval),
    /// A lower bound.
    AtLeast(Interval),
    /// An upper bound.
    AtMost(Rate),
}

#[cfg(test)]
mod tests;
