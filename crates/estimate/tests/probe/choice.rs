//! Success rate of a choice between two paths, as `longhaul choose` makes it: alternating runs, until the result is
//! certain enough.

use std::time::Duration;

use estimate::choice::{rank, stopping_probability};
use estimate::probe::TwoRates;
use estimate::rounds::Rounds;

use crate::path::{Cross, Hop, VirtualPath, mbps};
use crate::receiver::{ThroughReceiver, late_wakes};

const BUDGET: u64 = 500_000;
const CONFIDENCE: f64 = 0.95;
const PAIRS: u64 = 60;

/// Half of the pairs have a load of 30 % and receivers that take packets up to 50 us late.
fn path(bps: f64, is_loaded: bool, seed: u64) -> VirtualPath {
    let cross = if is_loaded { Cross::Poisson(mbps(bps * 0.3 / 1e6)) } else { Cross::Idle };
    VirtualPath::new(seed, &[Hop::new(bps as u64, cross)])
}

/// The path chosen as the best, if any.
fn chosen(rates: [f64; 2], is_loaded: bool, seed: u64) -> Option<usize> {
    let mut paths = [0, 1].map(|i| path(rates[i], is_loaded, seed * 2 + i as u64));
    let mut rounds = [Rounds::default(), Rounds::default()];
    let each = Rounds::bytes_of_each(BUDGET);
    let mut spent = 0;
    while spent + each <= BUDGET {
        spent += each;
        for (path, rounds) in paths.iter_mut().zip(&mut rounds) {
            let method = TwoRates::new(path.known()).for_budget(each);
            let delay_max = if is_loaded { Duration::from_micros(50) } else { Duration::ZERO };
            let seed = path.seed * 1000 + spent;
            rounds.add(&path.run_within(&mut ThroughReceiver(method, late_wakes(delay_max, seed)), each));
        }
        let belief = |i: usize| Rounds::belief(&rounds[i].predicted(&paths[i].known(), None)?);
        let ranking = rank(&[belief(0), belief(1)], seed);
        let sure = stopping_probability(CONFIDENCE, spent as f64 / BUDGET as f64);
        let best = ranking.best.filter(|b| ranking.probability[*b] >= sure && rounds.iter().all(Rounds::are_enough));
        if best.is_some() {
            return best;
        }
    }
    None
}

#[test]
fn of_decisions_at_95_percent_95_of_100_are_right() {
    let (mut decided, mut right) = (0, 0);
    for difference in [0.0, 0.05, 0.3] {
        let (mut first, mut second) = (0, 0);
        for seed in 0..PAIRS {
            // The better path takes either position.
            let (slow, fast) = (50e6, 50e6 * (1.0 + difference));
            let better = (seed % 2) as usize;
            let rates = if better == 0 { [fast, slow] } else { [slow, fast] };
            match chosen(rates, seed % 4 < 2, seed + (difference * 1e4) as u64) {
                Some(best) if best == better => first += 1,
                Some(_) => second += 1,
                None => {}
            }
        }
        println!(
            "{:2.0} % difference: {first} took the better one, {second} the other, of {PAIRS}",
            difference * 100.0
        );
        if difference > 0.0 {
            (decided, right) = (decided + first + second, right + first);
        } else {
            // Of two equal paths neither is better: every decision is wrong, and 5 in 100 are allowed.
            assert!((first + second) * 20 <= PAIRS, "{first} {second}");
            decided += first + second;
        }
        // Three quarters: full certainty takes more bytes than these.
        assert!(difference < 0.2 || first * 4 >= PAIRS * 3, "{first}: a third more is seen");
    }
    assert!(right * 100 >= decided * 95, "{right} of {decided}");
}
