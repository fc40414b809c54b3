use statrs::distribution::{ContinuousCDF, Normal};

use super::Measurement;

/// Spread of the truths. Pairs that are far apart are easy, so that success rates of ensembles with different spreads
/// are not comparable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Number of truths above zero.
    pub measurements: usize,
    /// Geometric mean in b/s: the median of a log-normal distribution.
    pub centre_bps: f64,
    /// Standard deviation of the natural logarithm, over n - 1. The paths of 2002: about 1.9 (see [`implied_sigma`]).
    pub sigma_ln: f64,
}

/// `None` with fewer than two truths above zero.
pub fn spread<E>(measurements: &[Measurement<E>]) -> Option<Spread> {
    let logs: Vec<f64> =
        measurements.iter().filter_map(Measurement::truth).map(f64::ln).filter(|l| l.is_finite()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let squares: f64 = logs.iter().map(|l| (l - mean).powi(2)).sum();
    let sigma_ln = (squares / (n - 1.0)).sqrt();
    (logs.len() > 1).then(|| Spread { measurements: logs.len(), centre_bps: mean.exp(), sigma_ln })
}

/// The [`Spread::sigma_ln`] of log-normal truths for which random choice is correct this often at this variation.
///
/// The logarithm of the ratio of two has the standard deviation `sigma sqrt(2)`, and `2 (share - 0.5)` of all ratios
/// are within the variation. The row *random choice* of Table 5.1 gives 1.91 by its last column and 1.84 by 2.00.
/// `None` for a share outside 0.5 to 1 or a variation that is not above 1.
pub fn implied_sigma(share: f64, variation: f64) -> Option<f64> {
    let sound = share > 0.5 && share < 1.0 && variation > 1.0 && variation.is_finite();
    let normal = Normal::new(0.0, 1.0).ok().filter(|_| sound)?;
    // The share within plus or minus z is 2 (share - 0.5): z is the quantile of the normal distribution at `share`.
    Some(variation.ln() / std::f64::consts::SQRT_2 / normal.inverse_cdf(share))
}

/// Correlation of the logarithms of estimate and truth at which choices are correct this often, if both are log-normal:
/// `cos(pi (1 - share))` (Sheppard 1899, the orthant probability). `None` for an invalid share.
pub fn log_correlation(share: f64) -> Option<f64> {
    (0.0..=1.0).contains(&share).then(|| (std::f64::consts::PI * (1.0 - share)).cos())
}
