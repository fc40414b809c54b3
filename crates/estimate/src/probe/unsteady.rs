//! Detects a change of load during a measurement.

use crate::confidence;

/// Minimum difference between the halves, as a share of the larger one, that matters: good methods measure the
/// available bandwidth to 10 %.
const CHANGE_SHARE_MIN: f64 = 0.1;

/// Whether the first half of the samples, in order of time, clearly differs from the second.
///
/// The 95 % intervals of the halves are disjoint, which happens by chance in one of about 200 steady series (2.8
/// standard errors).
pub(super) fn changed(samples: &[f64]) -> bool {
    let (early, late) = samples.split_at(samples.len() / 2);
    let (Some(a), Some(b)) = (confidence(early), confidence(late)) else { return false };
    let (Some(wide_a), Some(wide_b)) = (a.half_width, b.half_width) else { return false };
    let difference = (a.mean - b.mean).abs();
    difference > wide_a + wide_b && difference > CHANGE_SHARE_MIN * a.mean.abs().max(b.mean.abs())
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
        // The halves are disjoint but differ by 4 % only, which does not matter.
        let slight: Vec<f64> = (0..40).map(|i| if i < 20 { 50.0 } else { 52.0 } + noise(i) / 100.0).collect();
        assert!(!changed(&slight));
        assert!(!changed(&[]) && !changed(&[1.0]) && !changed(&[1.0, 9.0]));
    }
}
