use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::decisions::once;
use super::ranking::Rankings;
use super::{Measurement, Pairs};

/// Share of such intervals that hold the true value.
const CONFIDENCE: f64 = 0.95;

/// Resamples beyond which no more are drawn: a percentile needs some thousand, and each keeps a number.
const RESAMPLES_MAX: u32 = 100_000;

/// How an interval is made: *measurements* are drawn again with replacement, never pairs.
///
/// The pairs of one measurement are right or wrong together: 86320 pairs of 416 measurements are as uncertain as 416
/// numbers, not as 86320. A measurement that was drawn twice makes no pair with itself. The same seed draws the same
/// measurements for every method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// How many times; at most 100 000 are.
    pub resamples: u32,
    /// The draws are a function of this.
    pub seed: u64,
}

/// A value and how far chance moves it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampled {
    /// From the measurements as they are.
    pub value: f64,
    /// Lower end of the 95 % interval (percentiles).
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Standard deviation over the resamples.
    pub standard_error: f64,
}

/// A method's share of correct choices, with its interval.
///
/// `None` without a pair or a resample, or for a variation below 1.
pub fn decision_interval<E>(
    measurements: &[Measurement<E>],
    method: usize,
    pairs: &Pairs,
    variation: f64,
    bootstrap: Bootstrap,
) -> Option<Resampled> {
    let rankings = Rankings::new(measurements, pairs, |m| m.estimate(method));
    let judged = rankings.at(variation)?;
    let value = judged.share(&once)?;
    bootstrap.of(measurements.len(), value, |weights| judged.share(&|i| weight(weights, i)))
}

/// By how much one method's share of correct choices exceeds another's, on the pairs that both decide, with the
/// interval of the difference.
///
/// Paired: what a resample makes easy for one method it makes easy for the other, so this interval is narrower than two
/// separate ones suggest. `None` as for [`decision_interval`].
pub fn difference<E>(
    measurements: &[Measurement<E>],
    method: usize,
    other: usize,
    pairs: &Pairs,
    variation: f64,
    bootstrap: Bootstrap,
) -> Option<Resampled> {
    let one = Rankings::new(measurements, pairs, |m| m.both(method, other).map(|both| both.0));
    let two = Rankings::new(measurements, pairs, |m| m.both(method, other).map(|both| both.1));
    let (one, two) = (one.at(variation)?, two.at(variation)?);
    let value = one.share(&once)? - two.share(&once)?;
    bootstrap.of(measurements.len(), value, |weights| {
        Some(one.share(&|i| weight(weights, i))? - two.share(&|i| weight(weights, i))?)
    })
}

fn weight(weights: &[u64], measurement: usize) -> u64 {
    weights.get(measurement).copied().unwrap_or(0)
}

impl Bootstrap {
    /// What a statistic comes to over the resamples of `measurements` things, whose weights it is given.
    fn of(self, measurements: usize, value: f64, statistic: impl Fn(&[u64]) -> Option<f64>) -> Option<Resampled> {
        let mut rng = ChaCha12Rng::seed_from_u64(self.seed);
        let mut weights = vec![0; measurements];
        let mut values = Vec::new();
        for _ in 0..self.resamples.min(RESAMPLES_MAX) {
            weights.fill(0);
            for _ in 0..measurements {
                // The upper half of a product of 64 by 64 bits is even over the places but for 1 in 2^64.
                let place = (u128::from(rng.next_u64()) * measurements as u128) >> 64;
                if let Some(w) = weights.get_mut(place as usize) {
                    *w += 1;
                }
            }
            values.extend(statistic(&weights));
        }
        values.sort_unstable_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let (low, high) = (percentile(&values, tail)?, percentile(&values, 1.0 - tail)?);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Some(Resampled { value, low, high, standard_error: (squares / (n - 1.0).max(1.0)).sqrt() })
    }
}

/// Between the two values around it, in proportion.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * (sorted.len().checked_sub(1)? as f64);
    let below = sorted.get(at.floor() as usize)?;
    let above = sorted.get(at.ceil() as usize)?;
    Some(below + (above - below) * at.fract())
}
