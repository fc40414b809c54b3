//! Cost of evaluating a method on a million measurements: half a trillion pairs, at the eight allowed variations of the
//! thesis.
//!
//! ```sh
//! cargo run --release -p estimate --example decisions
//! ```
//!
//! The measurements are log-normal, with the spread of the paths of 2002 (1.9 nats) and a method about as good as ADR
//! was.
#![allow(clippy::print_stdout, reason = "it prints a table")]
#![allow(clippy::disallowed_methods, reason = "the time that the pure crate takes is read outside it")]

use std::time::Instant;

use estimate::evaluation::{Measurement, Pairs, VARIATIONS, agreement, decision_rates, random_choice};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

const MEASUREMENTS: u32 = 1_000_000;
const SIGMA: f64 = 1.9;
/// Correlation of the logarithms that a share of 0.803 correct choices implies.
const RHO: f64 = 0.815;
/// About as many as in the thesis: paths with a common end are one in forty.
const HOSTS: u32 = 80;

fn main() {
    let measurements = measurements();
    for (name, pairs) in [
        ("all pairs", Pairs::all(&measurements)),
        ("pairs with an end in common", Pairs::common_endpoint(&measurements)),
    ] {
        let start = Instant::now();
        let rates = decision_rates(&measurements, 0, &pairs, &VARIATIONS);
        let seconds = start.elapsed().as_secs_f64();
        println!("{name}: {seconds:.2} s for {} variations", rates.len());
        for rate in rates {
            let random = random_choice(&measurements, &pairs, rate.variation).unwrap_or(f64::NAN);
            println!("  {:4.2}  {:.4} of {} pairs, random choice {random:.4}", rate.variation, rate.share, rate.pairs);
        }
    }
    let start = Instant::now();
    let agreed = agreement(&measurements, 0, 1, &Pairs::all(&measurements), 1.05).unwrap_or(f64::NAN);
    println!("agreement with a second method at 1.05: {agreed:.4} in {:.2} s", start.elapsed().as_secs_f64());
}

fn measurements() -> Vec<Measurement<u32>> {
    let mut rng = ChaCha12Rng::seed_from_u64(2002);
    let one = |_| {
        let (truth, error, other) = (normal(&mut rng), normal(&mut rng), normal(&mut rng));
        let estimate = |error: f64| Some((SIGMA * (RHO * truth + (1.0 - RHO * RHO).sqrt() * error)).exp() * 1e7);
        let mut host = || rng.next_u32() % HOSTS;
        let (from, to) = (host(), host());
        Measurement {
            from,
            to,
            truth_bps: (SIGMA * truth).exp() * 1e7,
            estimates: vec![estimate(error), estimate(other)],
        }
    };
    (0..MEASUREMENTS).map(one).collect()
}

/// Box and Muller 1958.
fn normal(rng: &mut ChaCha12Rng) -> f64 {
    let mut even = || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let (radius, angle) = ((-2.0 * (1.0 - even()).ln()).sqrt(), std::f64::consts::TAU * even());
    radius * angle.cos()
}
