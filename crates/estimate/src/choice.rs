//! Which of several paths is the best, as far as is known.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::draw;

/// What is believed of a path's goodput: log-normal, as the goodputs of paths are (*Choosing Internet Paths*, 2002, table 5.1:
/// what random choice gets right fits a log-normal spread).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Belief {
    /// Natural logarithm of the median in b/s.
    pub log_bps: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
}

/// Least spread: the same transfer twice over the same path differs by some per cent.
const SIGMA_MIN: f64 = 0.03;

/// Half a 95 % interval in standard deviations.
const HALF: f64 = 1.96;

impl Belief {
    /// From a value and its 95 % interval, in b/s. `None` for a value of zero.
    pub fn new(value_bps: f64, low_bps: f64, high_bps: f64) -> Option<Self> {
        if !(value_bps > 0.0 && value_bps.is_finite()) {
            return None;
        }
        // An interval down to zero, or beyond all rates, is one over some orders of magnitude.
        let (low, high) = (low_bps.max(value_bps / 32.0), high_bps.min(value_bps * 32.0));
        let sigma = ((high / low).ln() / (2.0 * HALF)).max(SIGMA_MIN);
        sigma.is_finite().then(|| Self { log_bps: value_bps.ln(), sigma })
    }

    /// What two sources that err independently say together: each weighs as much as it is certain (inverse variance).
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (ours, theirs) = (self.sigma.powi(-2), other.sigma.powi(-2));
        let log_bps = (self.log_bps * ours + other.log_bps * theirs) / (ours + theirs);
        Self { log_bps, sigma: (ours + theirs).sqrt().recip() }
    }

    /// Median and both ends of the 95 % interval in b/s.
    pub fn interval(self) -> [f64; 3] {
        [0.0, -HALF, HALF].map(|sigmas| (self.log_bps + sigmas * self.sigma).exp())
    }
}

/// Of several paths, by their numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The most probable best; `None` without paths.
    pub best: Option<usize>,
    /// How probable it is of each that it is the best.
    pub probability: Vec<f64>,
    /// Share of the goodput of the true best that is lost, in the mean, by taking `best`.
    pub expected_loss: f64,
}

/// Draws of a ranking: a probability of 0.95 is then known to 0.7 %.
const DRAWS: u64 = 1000;

/// Ranks paths by drawing a goodput for each of them many times. Paths of which nothing is believed are never the best.
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

/// How probable the best must be for probing to end early, when the share `spent` of what may be spent has been: who looks after each
/// train sees chance favour one of two equals sooner or later, so what ends it falls with the root of the share to `confidence`
/// (O'Brien, Fleming, *A Multiple Testing Procedure for Clinical Trials*, Biometrics 35, 1979).
pub fn enough(confidence: f64, spent: f64) -> f64 {
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
    fn a_path_four_times_as_fast_wins_even_if_little_is_known() {
        let ranking = rank(&[belief(10e6, 2.0), belief(40e6, 2.0)], 1);
        assert_eq!(ranking.best, Some(1));
        // The difference of two logarithms with sigma 0.354 each has sigma 0.5: ln 4 is 2.77 of it, 0.9972.
        assert!((ranking.probability[1] - 0.9972).abs() < 0.005, "{ranking:?}");
        assert!(ranking.expected_loss < 0.002);
    }

    #[test]
    fn equal_paths_share_the_probability_and_nothing_is_lost_by_much() {
        let ranking = rank(&[belief(10e6, 1.05), belief(10e6, 1.05), belief(10e6, 1.05)], 7);
        // Standard error of a third over 1000 draws: 1.5 %; four of them.
        assert!(ranking.probability.iter().all(|p| (p - 1.0 / 3.0).abs() < 0.06), "{ranking:?}");
        assert!((ranking.probability.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // The best of three normal values is 0.846 sigma above the mean (order statistics), sigma being 3 %.
        assert!((ranking.expected_loss / (0.846 * SIGMA_MIN) - 1.0).abs() < 0.15, "{ranking:?}");
    }

    #[test]
    fn who_looks_early_must_be_surer() {
        // One-sided quantiles of the normal distribution: 1.645 is 0.95, twice that 0.9995.
        for (spent, least) in [(1.0, 0.95), (0.25, 0.9995), (0.0, 1.0), (7.0, 0.95)] {
            assert!((enough(0.95, spent) - least).abs() < 1e-4, "{spent}");
        }
        assert_eq!((enough(1.0, 0.5), enough(0.3, 0.1)), (1.0, 0.3));
    }

    #[test]
    fn many_looks_at_two_equals_end_at_most_twice_as_often_as_one() {
        let normal = Normal::new(0.0, 1.0).unwrap();
        let ended = |enough: &dyn Fn(f64) -> f64| {
            let trials = 2000;
            let ends = |trial: u64| {
                let mut sum = 0.0;
                // The difference of two equals, known better by each of 25 trains.
                (1..=25).any(|look: u32| {
                    sum += normal.inverse_cdf(draw(trial, look.into()).clamp(1e-9, 1.0 - 1e-9));
                    let best = normal.cdf(f64::abs(sum) / f64::from(look).sqrt());
                    best >= enough(f64::from(look) / 25.0)
                })
            };
            (0..trials).filter(|t| ends(*t)).count() as f64 / trials as f64
        };
        // Once at the end: 0.1, for each of the two may be the one. Four standard errors of 2000 trials are 0.027.
        let (once, at_each) = (ended(&|spent| if spent < 1.0 { 2.0 } else { 0.95 }), ended(&|_| 0.95));
        assert!((once - 0.1).abs() < 0.027 && at_each > 0.35, "{once} {at_each}");
        let early = ended(&|spent| enough(0.95, spent));
        // The reflection principle: a random walk that ever reaches a level is above it at the end in half of the cases.
        assert!(early < 2.0 * 0.1, "{early}");
    }

    #[test]
    fn who_cannot_be_reached_is_never_the_best() {
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
