//! What a long transfer of one flow gets on a path.

use estimate::model::{Reno, TIMEOUT_BEYOND_RTT, cubic_with_timeouts, mathis, pftk};
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate};

use crate::Metrics;

/// Constant of SAFIRE's formula for rate-aware senders by the loss (Mark et al. 2008, §III.B, equation 2).
pub const ALPHA: f64 = 25.0;
/// The same by the round trip, taken in milliseconds: in seconds it would not matter on any path.
pub const BETA: f64 = 2.74e-3;

/// Up to this loss BBR fills what the link lets through: "BBR meets this limit up to a 5 % loss and is close up to 15 %" (Cardwell et al., "BBR:
/// Congestion-Based Congestion Control", ACM Queue 14(5), 2016, figure 8).
const RATE_BASED_FILLS: f64 = 0.15;
/// From this loss on a pacing gain of 1.25 does not make up for what is lost (1.25 (1 - p) < 1), so the estimate of the bandwidth shrinks each
/// round (the same paper, §"Steady-state behavior", for the gain).
const RATE_BASED_FAILS: f64 = 0.2;
/// Segments a round trip that BBR always keeps on its way (`BBRMinPipeCwnd`, the same paper).
const RATE_BASED_LEAST: f64 = 4.0;

/// Below this the formulas ask for windows of less than a segment; no path between two hosts is shorter.
const LEAST_RTT: Duration = Duration::from_micros(1);

/// How a sender answers to loss and delay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Model {
    /// `min(C, k MSS / (RTT sqrt(p)))` (Mark et al. 2008, equation 1; there k = 1).
    Safire {
        /// Constant of proportionality.
        k: f64,
    },
    /// Reno with timeouts (Padhye et al. 1998, in full), an acknowledgement counted for each segment as Linux does, and a timeout of 200 ms
    /// beyond the round trip.
    Pftk,
    /// CUBIC's window where losses come at random, that of its Reno-friendly region where that is larger, and what timeouts cost
    /// ([`cubic_with_timeouts`]), of 200 ms beyond the round trip.
    Cubic,
    /// A control that keeps a rate and not a window: `C (1 - p)` up to a loss of 15 %, then steeply less; see the constants.
    RateBased,
    /// `0.95 C / ((1 + alpha p)(1 + beta RTT))`, a sender that is told its rate (Mark et al. 2008, equation 2), `RTT` in milliseconds.
    RateAware {
        /// Of the loss; the paper: [`ALPHA`].
        alpha: f64,
        /// Of the round trip in milliseconds; the paper: [`BETA`].
        beta: f64,
    },
}

impl Model {
    /// Equation 2 with the paper's constants.
    pub const RATE_AWARE_2008: Self = Self::RateAware { alpha: ALPHA, beta: BETA };

    /// The model of what runs under this name in the kernel (`net.ipv4.tcp_congestion_control`).
    ///
    /// Controls that cut a window at each loss but grow it faster than Reno are taken for CUBIC. What is not known is taken for
    /// rate-based: it then counts capacity and loss, but is not thought to stop at one per cent.
    pub fn for_congestion_control(name: &str) -> Self {
        match name {
            "cubic" | "bic" | "htcp" => Self::Cubic,
            "reno" | "dctcp" | "westwood" => Self::Pftk,
            _ => Self::RateBased,
        }
    }

    /// Whether it is not for want of better that [`Model::for_congestion_control`] takes this one for what it does.
    pub fn knows(name: &str) -> bool {
        Self::for_congestion_control(name) != Self::RateBased || name == "bbr"
    }

    /// Rate of one long flow with segments of `mss`. `unknown` is the capacity of a path of which none is known.
    ///
    /// Never more than the capacity, and the capacity where nothing is lost ([`Model::RateAware`] excepted, whose formula has its own factor); never
    /// more with less capacity, more delay or more loss, which is what the search for the best path rests on.
    pub fn predict(self, metrics: &Metrics, mss: Bytes, unknown: Rate) -> Rate {
        self.rate_at(metrics, metrics.loss, mss, unknown)
    }

    /// The same at another loss.
    pub(crate) fn rate_at(self, metrics: &Metrics, loss: f64, mss: Bytes, unknown: Rate) -> Rate {
        let capacity = metrics.capacity.unwrap_or(unknown);
        if !(0.0..1.0).contains(&loss) {
            return Rate::ZERO;
        }
        let rtt = metrics.rtt.max(LEAST_RTT);
        // No rate from a formula: no loss, or a rate beyond all numbers. Neither limits.
        let limited = |by: Option<Rate>| by.map_or(capacity, |rate| rate.min(capacity));
        let timeout = rtt.saturating_add(TIMEOUT_BEYOND_RTT);
        match self {
            Self::Safire { k } => limited(mathis(mss, rtt, loss, k)),
            Self::Cubic => limited(cubic_with_timeouts(mss, rtt, loss, timeout)),
            Self::Pftk => limited(pftk(Reno { mss, rtt, loss, timeout, segments_per_ack: 1.0, window: None })),
            Self::RateBased => rate_based(capacity, rtt, loss, mss),
            Self::RateAware { alpha, beta } => {
                let divisor = (1.0 + alpha * loss) * (1.0 + beta * rtt.as_secs_f64() * 1e3);
                bps(0.95 * capacity.as_bps() as f64 / divisor).min(capacity)
            }
        }
    }
}

fn rate_based(capacity: Rate, rtt: Duration, loss: f64, mss: Bytes) -> Rate {
    let shrinks = ((RATE_BASED_FAILS - loss) / (RATE_BASED_FAILS - RATE_BASED_FILLS)).clamp(0.0, 1.0);
    let least = RATE_BASED_LEAST * mss.as_u64() as f64 * 8.0 / rtt.as_secs_f64();
    let sent = (shrinks * capacity.as_bps() as f64).max(least.min(capacity.as_bps() as f64));
    bps(sent * (1.0 - loss))
}

fn bps(value: f64) -> Rate {
    // The cast saturates, and takes what is no number for zero.
    Rate::from_bps(value.round() as u64)
}

#[cfg(test)]
mod tests;
