use std::time::Duration;

use super::*;
use crate::Reorder;

fn losing(loss: Loss) -> Settings {
    Settings { loss, ..Settings::default() }
}

fn lost(seed: u64, count: u64, settings: &Settings) -> Vec<u64> {
    let mut impairments = Impairments::new(seed);
    (0..count).filter(|i| impairments.outcome(*i, settings).end == Arrival::Lost).collect()
}

fn jitters(seed: u64, count: u64, shape: JitterShape) -> Vec<f64> {
    let jitter = Jitter { amount: Duration::from_millis(1), shape, reorders: true };
    let settings = Settings { jitter, ..Settings::default() };
    let mut impairments = Impairments::new(seed);
    (0..count).map(|i| impairments.outcome(i, &settings).jitter_ns as f64 / 1e6).collect()
}

/// The expected numbers come from another implementation of ChaCha with 8 rounds (RFC 8439 §2.3 with fewer rounds and a
/// 64-bit counter and nonce).
#[test]
fn a_seed_gives_the_same_results_in_every_release() {
    assert_eq!(lost(1, 100, &losing(Loss::Independent(0.1))), [6, 17, 25, 38, 55]);

    let chain = Loss::GilbertElliott { to_bad: 0.1, to_good: 0.3, loss_bad: 0.8, loss_good: 0.01 };
    let expected = [0, 8, 9, 10, 11, 12, 13, 14, 29, 34, 35, 37, 38, 39, 40, 41, 42, 44, 46, 47, 81, 82, 84];
    assert_eq!(lost(5, 100, &losing(chain)), expected);

    let twice = Settings { duplicate: 0.05, ..Settings::default() };
    let mut impairments = Impairments::new(2);
    let copied: Vec<u64> = (0..100).filter(|i| impairments.outcome(*i, &twice).copied).collect();
    assert_eq!(copied, [60, 61, 66, 81]);

    let uniform: Vec<i64> = jitters(3, 5, JitterShape::Uniform).iter().map(|ms| (ms * 1e6).round() as i64).collect();
    assert_eq!(uniform, [-512_260, -397_606, 775_822, -332_714, -27_722]);
}

#[test]
fn a_draw_depends_on_its_index_and_not_on_earlier_draws() {
    let reorder = Reorder { probability: 0.1, by: Duration::from_millis(1) };
    let settings = Settings { reorder, ..Settings::default() };
    let mut impairments = Impairments::new(7);
    let held = |impairments: &mut Impairments, i| impairments.outcome(i, &settings).held_ns > 0;
    assert!(!held(&mut impairments, 3));
    let late: Vec<u64> = (1_000_000..1_000_060).filter(|i| held(&mut impairments, *i)).map(|i| i - 1_000_000).collect();
    assert_eq!(late, [11, 20, 37, 54, 56], "from the other ChaCha implementation");
}

#[test]
fn one_impairment_does_not_change_another() {
    let loss = Loss::Independent(0.02);
    let alone = lost(9, 5000, &losing(loss));
    let company = Settings {
        loss,
        duplicate: 0.5,
        reorder: Reorder { probability: 0.3, by: Duration::from_millis(1) },
        jitter: Jitter { amount: Duration::from_millis(3), shape: JitterShape::Normal, reorders: true },
        ..Settings::default()
    };
    assert_eq!(lost(9, 5000, &company), alone);
    assert_ne!(lost(10, 5000, &company), alone, "another seed gives other losses");
}

#[test]
fn a_higher_loss_rate_loses_a_superset_of_packets() {
    let few = lost(4, 20_000, &losing(Loss::Independent(0.01)));
    let many = lost(4, 20_000, &losing(Loss::Independent(0.02)));
    assert!(few.iter().all(|i| many.contains(i)));
}

#[test]
fn probabilities_zero_and_one_are_exact() {
    for p in [0.0, -1.0, f64::NAN] {
        assert_eq!(lost(1, 10_000, &losing(Loss::Independent(p))).len(), 0, "{p}");
    }
    for p in [1.0, 7.0, f64::INFINITY] {
        assert_eq!(lost(1, 10_000, &losing(Loss::Independent(p))).len(), 10_000, "{p}");
    }
}

/// The limit is 2.576 standard deviations of a binomial distribution: 99 % of all seeds pass, including these.
#[test]
fn independent_loss_has_its_rate() {
    let n = 1_000_000;
    for (seed, p) in [(1, 1e-4), (2, 1e-3), (3, 0.01), (4, 0.5)] {
        let count = lost(seed, n, &losing(Loss::Independent(p))).len() as f64;
        let (mean, deviation) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
        assert!((count - mean).abs() < 2.576 * deviation, "seed {seed}: {count} of {mean}");
    }
}

/// Gilbert 1960: the chain is in the bad state for to_bad / (to_bad + to_good) of the packets, and for 1 / to_good
/// packets at a time.
#[test]
fn burst_loss_has_the_mean_and_the_bursts_of_its_chain() {
    let (to_bad, to_good) = (0.002, 0.2);
    let n = 2_000_000u64;
    let gilbert = Loss::GilbertElliott { to_bad, to_good, loss_bad: 1.0, loss_good: 0.0 };
    let at = lost(11, n, &losing(gilbert));
    let bursts = 1 + at.windows(2).filter(|w| w[1] != w[0] + 1).count();
    let share = at.len() as f64 / n as f64;
    let mean = at.len() as f64 / bursts as f64;
    // About 4000 bursts of geometric length give a standard error of about 2 %, so that 5 % are 2.6 standard errors.
    assert!((share / (to_bad / (to_bad + to_good)) - 1.0).abs() < 0.06, "{share}");
    assert!((mean / (1.0 / to_good) - 1.0).abs() < 0.05, "{mean}");

    let elliott = Loss::GilbertElliott { to_bad, to_good, loss_bad: 0.5, loss_good: 0.001 };
    let share = lost(11, n, &losing(elliott)).len() as f64 / n as f64;
    let bad = to_bad / (to_bad + to_good);
    let expected = bad * 0.5 + (1.0 - bad) * 0.001;
    assert!((share / expected - 1.0).abs() < 0.06, "{share} of {expected}");
}

#[test]
fn jitter_has_its_shape() {
    let n = 200_000;
    let moments = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        (mean, (x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64).sqrt())
    };
    let extent = |x: &[f64]| x.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
    // Three standard errors of a mean are 3 / 447 of the standard deviation, which is 1 / sqrt(3) for the uniform
    // distribution.
    for (shape, mean, deviation, low, high) in [
        (JitterShape::Uniform, 0.0, 0.577_35, -1.0, 1.0),
        (JitterShape::Normal, 0.0, 1.0, -NORMAL_BOUND, NORMAL_BOUND),
        (JitterShape::Exponential, 1.0, 1.0, 0.0, EXPONENTIAL_BOUND),
    ] {
        let x = jitters(22, n, shape);
        let (m, d) = moments(&x);
        let (least, most) = extent(&x);
        assert!((m - mean).abs() < 0.007 && (d - deviation).abs() < 0.01, "{shape:?}: {m} {d}");
        assert!(least >= low && most <= high, "{shape:?}: {least} {most}");
    }
    let normal = jitters(22, n, JitterShape::Normal);
    let within = normal.iter().filter(|v| v.abs() < 1.0).count() as f64 / n as f64;
    assert!((within - 0.6827).abs() < 0.003, "68.27 % lie within one deviation: {within}");
}
