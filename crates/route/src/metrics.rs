use serde::{Deserialize, Serialize};
use units::{Duration, Rate};

use crate::serial;

/// What is known of one directed link between two members, or of a path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Rate of the narrow link; `None`: not measured.
    #[serde(rename = "capacity_bps", default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Rate>,
    /// Round trip of the idle link, there and back: a minimum over some time, so that the queue that our own load builds is not in it.
    #[serde(rename = "rtt_ns", with = "serial::nanos")]
    pub rtt: Duration,
    /// Share of the packets that are lost in the direction of the link.
    pub loss: f64,
    /// Lower end of the 95 % interval of `loss`.
    pub loss_low: f64,
    /// Upper end of the 95 % interval of `loss`: what a loss counted from few packets may be in truth.
    pub loss_high: f64,
    /// How much whoever measured trusts all of this, 0 to 1.
    pub confidence: f64,
    /// How old the measurement was when it was handed over.
    #[serde(rename = "age_ns", with = "serial::nanos")]
    pub age: Duration,
}

/// What numbers are rounded to before anything is computed from them: their text in a record then gives them back exactly, whatever the
/// reader's last digit is, and a replay has the same input. A loss of a billionth limits no TCP.
const GRAIN: f64 = 1e-9;

impl Metrics {
    /// Exactly known: without doubt and without age.
    pub const fn exact(capacity: Option<Rate>, rtt: Duration, loss: f64) -> Self {
        Self { capacity, rtt, loss, loss_low: loss, loss_high: loss, confidence: 1.0, age: Duration::ZERO }
    }

    /// Whether all shares are within 0 and 1 and in order. What a member says of its links may be anything.
    pub fn is_valid(&self) -> bool {
        let shares = [0.0, self.loss_low, self.loss, self.loss_high, 1.0];
        shares.windows(2).all(|pair| pair[0] <= pair[1]) && (0.0..=1.0).contains(&self.confidence)
    }

    /// With shares in whole billionths.
    #[must_use]
    pub fn rounded(self) -> Self {
        let [loss, loss_low, loss_high, confidence] =
            [self.loss, self.loss_low, self.loss_high, self.confidence].map(|x| (x / GRAIN).round() * GRAIN);
        Self { loss, loss_low, loss_high, confidence, ..self }
    }

    /// This link and then `next`: capacity is the minimum (of those that are known), delay the sum, survival the product. The least
    /// confident and the oldest decide.
    ///
    /// Losses are taken as independent between links. The product of the ends of the intervals is wider than 95 %: on the safe side.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        let lost = |a: f64, b: f64| 1.0 - (1.0 - a) * (1.0 - b);
        Self {
            capacity: match (self.capacity, next.capacity) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            rtt: self.rtt.saturating_add(next.rtt),
            loss: lost(self.loss, next.loss),
            loss_low: lost(self.loss_low, next.loss_low),
            loss_high: lost(self.loss_high, next.loss_high),
            confidence: self.confidence.min(next.confidence),
            age: self.age.max(next.age),
        }
    }

    /// With `factor` times the distance of the loss to either end of its interval.
    #[must_use]
    pub fn widened(self, factor: f64) -> Self {
        let loss_low = (self.loss - factor * (self.loss - self.loss_low)).max(0.0);
        let loss_high = (self.loss + factor * (self.loss_high - self.loss)).min(1.0);
        Self { loss_low, loss_high, ..self }
    }
}

#[cfg(test)]
mod tests;
