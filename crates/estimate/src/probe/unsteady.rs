//! Whether the load changed while it was measured.

use crate::confidence;

/// Difference between the halves, over the larger of them, below which a change does not matter: methods that tell what
/// is left to 10 % are good ones.
const MATTERS: f64 = 0.1;

/// Whether the first half of the samples, in the order in which they were taken, is clearly unlike the second.
///
/// The 95 % intervals of both halves lie apart, which chance does to one of some 200 steady series (2.8 standard errors).
pub(super) fn changed(samples: &[f64]) -> bool {
    let (early, late) = samples.split_at(samples.len() / 2);
    let (Some(a), Some(b)) = (confidence(early), confidence(late)) else { return false };
    let (Some(wide_a), Some(wide_b)) = (a.half_width, b.half_width) else { return false };
    let apart = (a.mean - b.mean).abs();
    apart > wide_a + wide_b && apart > MATTERS * a.mean.abs().max(b.mean.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_change_and_noise_is_none() {
        let noise = |i: i32| f64::from(i % 5);
        let steady: Vec<f64> = (0..40).map(|i| 50.0 + noise(i)).collect();
        let step: Vec<f64> = (0..40).map(|i| if i < 20 { 50.0 } else { 80.0 } + noise(i)).collect();
        assert!(!changed(&steady));
        assert!(changed(&step));
        // Clearly apart, and 4 % of the value: nothing that matters.
        let slight: Vec<f64> = (0..40).map(|i| if i < 20 { 50.0 } else { 52.0 } + noise(i) / 100.0).collect();
        assert!(!changed(&slight));
        assert!(!changed(&[]) && !changed(&[1.0]) && !changed(&[1.0, 9.0]));
    }
}
