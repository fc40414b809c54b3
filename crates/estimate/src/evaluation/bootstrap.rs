use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::decisions::once;
use super::ranking::Rankings;
use super::{Measurement, Pairs};

/// Share of such intervals that contain the true value.
const CONFIDENCE: f64 = 0.95;

/// Maximum number of resamples: a percentile needs some thousand, and each takes memory.
const RESAMPLES_MAX: u32 = 100_000;

/// Resampling for an interval: *measurements* are drawn again with replacement, never pairs.
///
/// The pairs of one measurement are right or wrong together: 86320 pairs of 416 measurements are as uncertain as 416
/// numbers, not as 86320. A measurement that was drawn twice makes no pair with itself. The same seed draws the same
/// measurements for every method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// Number of resamples, at most 100 000.
    pub resamples: u32,
    /// Seed of the draws.
    pub seed: u64,
}

/// A value with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampled {
    /// Value of the original measurements.
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
    let ranking = rankings.at(variation)?;
    let value = ranking.share(&once)?;
    bootstrap.of(measurements.len(), value, |weights| ranking.share(&|i| weight(weights, i)))
}

/// Difference of the shares of correct choices of two methods, on the pairs that both decide, with the interval of the
/// difference.
///
/// The comparison is paired: a resample that is easy for one method is easy for the other, so that this interval is
/// narrower than two separate ones suggest. `None` as for [`decision_interval`].
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
    /// Evaluates a statistic over the resamples of `measurements` items; its argument are the weights of the items.
    fn of(self, measurements: usize, value: f64, statistic: impl Fn(&[u64]) -> Option<f64>) -> Option<Resampled> {
        let mut rng = ChaCha12Rng::seed_from_u64(self.seed);
        let mut weights = vec![0; measurements];
        let mut values = Vec::new();
        for _ in 0..self.resamples.min(RESAMPLES_MAX) {
            weights.fill(0);
            for _ in 0..measurements {
                // The upper half of a 64-by-64-bit product is uniform over the places except for 1 in 2^64.
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

/// Interpolated linearly between the two nearest values.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * (sorted.len().checked_sub(1)? as f64);
    let below = sorted.get(at.floor() as usize)?;
    let above = sorted.get(at.ceil() as usize)?;
    Some(below + (above - below) * at.fract())
}
