//! Choice of the best of several paths by uncertain estimates.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::draw;

/// Belief about a path's goodput: log-normal, as the goodputs of paths are (*Choosing Internet Paths*, 2002, table 5.1:
/// the success of random choice fits a log-normal spread).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Belief {
    /// Natural logarithm of the median in b/s.
    pub log_bps: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
}

/// Minimum spread: two transfers over the same path differ by some per cent.
const SIGMA_MIN: f64 = 0.03;

/// Half a 95 % interval in standard deviations.
const HALF_INTERVAL_SIGMAS: f64 = 1.96;

impl Belief {
    /// Creates a belief from a value and its 95 % interval, in b/s. `None` for a value of zero.
    pub fn new(value_bps: f64, low_bps: f64, high_bps: f64) -> Option<Self> {
        if !(value_bps > 0.0 && value_bps.is_finite()) {
            return None;
        }
        // An interval down to zero, or without an upper end, is limited to some orders of magnitude.
        let (low, high) = (low_bps.max(value_bps / 32.0), high_bps.min(value_bps * 32.0));
        let sigma = ((high / low).ln() / (2.0 * HALF_INTERVAL_SIGMAS)).max(SIGMA_MIN);
        sigma.is_finite().then(|| Self { log_bps: value_bps.ln(), sigma })
    }

    /// Combines two sources with independent errors, weighted by their certainty (inverse variance).
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (ours, theirs) = (self.sigma.powi(-2), other.sigma.powi(-2));
        let log_bps = (self.log_bps * ours + other.log_bps * theirs) / (ours + theirs);
        Self { log_bps, sigma: (ours + theirs).sqrt().recip() }
    }

    /// Median and both ends of the 95 % interval in b/s.
    pub fn interval(self) -> [f64; 3] {
        [0.0, -HALF_INTERVAL_SIGMAS, HALF_INTERVAL_SIGMAS].map(|sigmas| (self.log_bps + sigmas * self.sigma).exp())
    }
}

/// Ranking of several paths, by their indices.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The path that is most probably the best; `None` without paths.
    pub best: Option<usize>,
    /// Probability of each path that it is the best.
    pub probability: Vec<f64>,
    /// Mean share of the goodput of the true best that the choice of `best` loses.
    pub expected_loss: f64,
}

/// Draws per ranking: a probability of 0.95 is then known to 0.7 %.
const DRAWS: u64 = 1000;

/// Ranks paths by drawing a goodput for each of them many times. A path without a belief is never the best.
pub fn rank(beliefs: &[Option<Belief>], seed: u64) -> Ranking {
    let mut wins = vec![0_u64; beliefs.len()];
    let mut rounds = Vec::new();
    let Ok(normal) = Normal::new(0.0, 1.0) else {
        return Ranking { best: None, probability: vec![0.0; beliefs.len()], expected_loss: 0.0 };
    };
    for round in 0..DRAWS {
        let of = |(i, b): (usize, &Option<Belief>)| {
            let at = draw(seed, round * beliefs.len() as u64 + i as u64).clamp(1e-9, 1.0 - 1e-9);
            b.map(|b| b.log_bps + b.sigma * normal.inverse_cdf(at))
        };
        let drawn: Vec<Option<f64>> = beliefs.iter().enumerate().map(of).collect();
        let best = largest(drawn.iter().copied());
        if let Some(i) = best {
            wins[i] += 1;
            rounds.push((drawn, i));
        }
    }
    let probability: Vec<f64> = wins.iter().map(|w| *w as f64 / rounds.len().max(1) as f64).collect();
    let best = largest(beliefs.iter().zip(&probability).map(|(b, p)| b.map(|_| *p)));
    let loss = |(drawn, winner): &(Vec<Option<f64>>, usize)| {
        let (ours, theirs) = (best.and_then(|b| drawn[b]), drawn[*winner]);
        ours.zip(theirs).map_or(0.0, |(o, t)| 1.0 - (o - t).exp())
    };
    let expected_loss = rounds.iter().map(loss).sum::<f64>() / rounds.len().max(1) as f64;
    Ranking { best, probability, expected_loss }
}

/// Probability of the best path at which probing can stop early, if the share `spent` of the budget has been used.
/// Repeated tests favour one of two equal paths by chance sooner or later. The required certainty decreases with the
/// root of the share to `confidence` (O'Brien, Fleming, *A Multiple Testing Procedure for Clinical Trials*, Biometrics
/// 35, 1979).
pub fn stopping_probability(confidence: f64, spent: f64) -> f64 {
    let Ok(normal) = Normal::new(0.0, 1.0) else { return 1.0 };
    let deviations = normal.inverse_cdf(confidence.clamp(0.0, 1.0));
    normal.cdf(deviations / spent.clamp(f64::MIN_POSITIVE, 1.0).sqrt()).max(confidence)
}

fn largest(values: impl Iterator<Item = Option<f64>>) -> Option<usize> {
    values.enumerate().filter_map(|(i, v)| Some((i, v?))).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn belief(value: f64, factor: f64) -> Option<Belief> {
        Belief::new(value, value / factor, value * factor)
    }

    #[test]
    fn a_path_four_times_as_fast_wins_even_with_little_certainty() {
        let ranking = rank(&[belief(10e6, 2.0), belief(40e6, 2.0)], 1);
        assert_eq!(ranking.best, Some(1));
        // The difference of two logarithms with sigma 0.354 each has sigma 0.5: ln 4 is 2.77 of it, 0.9972.
        assert!((ranking.probability[1] - 0.9972).abs() < 0.005, "{ranking:?}");
        assert!(ranking.expected_loss < 0.002);
    }

    #[test]
    fn equal_paths_share_the_probability_and_the_expected_loss_is_small() {
        let ranking = rank(&[belief(10e6, 1.05), belief(10e6, 1.05), belief(10e6, 1.05)], 7);
        // Standard error of a third over 1000 draws: 1.5 %; four of them.
        assert!(ranking.probability.iter().all(|p| (p - 1.0 / 3.0).abs() < 0.06), "{ranking:?}");
        assert!((ranking.probability.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // The best of three normal values is 0.846 sigma above the mean (order statistics), with a sigma of 3 %.
        assert!((ranking.expected_loss / (0.846 * SIGMA_MIN) - 1.0).abs() < 0.15, "{ranking:?}");
    }

    #[test]
    fn an_early_stop_requires_more_certainty() {
        // One-sided quantiles of the normal distribution: 1.645 is 0.95, twice that 0.9995.
        for (spent, expected) in [(1.0, 0.95), (0.25, 0.9995), (0.0, 1.0), (7.0, 0.95)] {
            assert!((stopping_probability(0.95, spent) - expected).abs() < 1e-4, "{spent}");
        }
        assert_eq!((stopping_probability(1.0, 0.5), stopping_probability(0.3, 0.1)), (1.0, 0.3));
    }

    #[test]
    fn repeated_tests_of_two_equal_paths_stop_at_most_twice_as_often_as_one() {
        let normal = Normal::new(0.0, 1.0).unwrap();
        let ended = |stopping_probability: &dyn Fn(f64) -> f64| {
            let trials = 2000;
            let ends = |trial: u64| {
                let mut sum = 0.0;
                // The difference of two equal paths, known more precisely after each of 25 trains.
                (1..=25).any(|test: u32| {
                    sum += normal.inverse_cdf(draw(trial, test.into()).clamp(1e-9, 1.0 - 1e-9));
                    let best = normal.cdf(f64::abs(sum) / f64::from(test).sqrt());
                    best >= stopping_probability(f64::from(test) / 25.0)
                })
            };
            (0..trials).filter(|t| ends(*t)).count() as f64 / trials as f64
        };
        // A single test at the end: 0.1, because each of the two can win. Four standard errors of 2000 trials are
        // 0.027.
        let (once, at_each) = (ended(&|spent| if spent < 1.0 { 2.0 } else { 0.95 }), ended(&|_| 0.95));
        assert!((once - 0.1).abs() < 0.027 && at_each > 0.35, "{once} {at_each}");
        let early = ended(&|spent| stopping_probability(0.95, spent));
        // The reflection principle: a random walk that reaches a level is above it at the end in half of the cases.
        assert!(early < 2.0 * 0.1, "{early}");
    }

    #[test]
    fn a_path_without_a_belief_is_never_the_best() {
        let ranking = rank(&[None, belief(1.0, 1.1), None], 1);
        assert_eq!((ranking.best, ranking.probability), (Some(1), vec![0.0, 1.0, 0.0]));
        assert_eq!(rank(&[None], 1).best, None);
        assert_eq!(rank(&[], 1).best, None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Belief::new(bad, 0.0, 1.0).is_none());
        }
        assert!(Belief::new(1e6, 0.0, f64::INFINITY).is_some_and(|b| b.sigma < 2.0));
    }
}
