mod counting;
mod known;

use super::*;

const ONE: usize = 0;
const TWO: usize = 1;

/// A normal draw of variance 1 (Box and Muller 1958).
fn normal(seed: u64, index: u64) -> f64 {
    let (u, v) = (1.0 - crate::draw(seed, 2 * index), crate::draw(seed, 2 * index + 1));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// This many paths between all ends of a network, with log-normal truths, and one method for each correlation of the
/// logarithms.
fn ensemble(n: u64, sigma: f64, correlations: &[f64], seed: u64) -> Vec<Measurement<u64>> {
    let stride = correlations.len() as u64 + 1;
    let one = |i: u64| {
        let truth = normal(seed, i * stride);
        let estimate = |(k, rho): (u64, &f64)| {
            let own = normal(seed, i * stride + k);
            Some((sigma * (rho * truth + (1.0 - rho * rho).sqrt() * own)).exp() * 3e7)
        };
        let estimates = (1..).zip(correlations).map(estimate).collect();
        Measurement { from: i % 12, to: i / 12 % 12, truth_bps: (sigma * truth).exp() * 1e7, estimates }
    };
    (0..n).map(one).collect()
}

fn measurement(truth_bps: f64, estimate: f64) -> Measurement<u64> {
    Measurement { from: 0, to: 0, truth_bps, estimates: vec![Some(estimate)] }
}
