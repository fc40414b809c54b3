use super::{BPS_MAX, Value};
use crate::samples::mean;

/// Weight of the newest value in the level of Holt-Winters (He, Dovrolis, Ammar 2005: 0.8).
const HOLT_LEVEL: f64 = 0.8;

/// Weight of the newest change in the trend (the same: 0.2).
const HOLT_TREND: f64 = 0.2;

/// Weight of the newest value in the exponential average, this crate's choice: its memory lies between those of the
/// averages of 5 and of 10 (2 / (n + 1) gives 0.33 and 0.18).
const EWMA_WEIGHT: f64 = 0.25;

/// A rule that derives the next value from the earlier ones. All rules count values and not time, because the values
/// are few and sporadic; the interval takes the spacing into account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// Mean of the last ten.
    MovingAverage10,
    /// Mean of the last five.
    MovingAverage5,
    /// Exponentially weighted mean, with a quarter for the newest value.
    Ewma,
    /// The last value.
    Last,
    /// Level and trend, double exponential smoothing.
    HoltWinters,
}

impl Predictor {
    /// All predictors, the steadiest first: of equal ones the earlier is taken.
    pub const ALL: [Self; 5] = [Self::MovingAverage10, Self::MovingAverage5, Self::Ewma, Self::Last, Self::HoltWinters];

    /// Name for the user.
    pub const fn text(self) -> &'static str {
        match self {
            Self::MovingAverage10 => "moving average of 10",
            Self::MovingAverage5 => "moving average of 5",
            Self::Ewma => "exponentially weighted average",
            Self::Last => "last value",
            Self::HoltWinters => "Holt-Winters",
        }
    }

    /// The next value in b/s, from fewer values if there are not enough. `None` without a value.
    pub fn next(self, values: &[Value]) -> Option<f64> {
        match self {
            Self::MovingAverage10 => moving_average(values, 10),
            Self::MovingAverage5 => moving_average(values, 5),
            Self::Ewma => values.iter().map(|v| v.rate_bps).reduce(|mean, rate| mean + EWMA_WEIGHT * (rate - mean)),
            Self::Last => values.last().map(|v| v.rate_bps),
            Self::HoltWinters => holt_winters(values),
        }
        .filter(|bps| bps.is_finite())
    }
}

fn moving_average(values: &[Value], n: usize) -> Option<f64> {
    let last = values.get(values.len().saturating_sub(n)..)?;
    mean(last.iter().map(|v| v.rate_bps))
}

/// The non-seasonal method: it starts from the first value and the first change, and returns level plus trend. The
/// result is limited to the range of valid rates.
fn holt_winters(values: &[Value]) -> Option<f64> {
    let (first, rest) = values.split_first()?;
    let mut level = first.rate_bps;
    let mut trend = rest.first().map_or(0.0, |second| second.rate_bps - level);
    for value in rest {
        let next = HOLT_LEVEL * value.rate_bps + (1.0 - HOLT_LEVEL) * (level + trend);
        trend = HOLT_TREND * (next - level) + (1.0 - HOLT_TREND) * trend;
        level = next;
    }
    Some((level + trend).clamp(0.0, BPS_MAX))
}
