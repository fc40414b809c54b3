//! Mean of a few repetitions, and its confidence interval.

use results::lab::Estimate;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Share of such intervals that contain the true mean.
const CONFIDENCE: f64 = 0.95;

/// Mean and 95 % confidence interval of independent repetitions; `None` without any.
///
/// Half the width is `t(1 - 0.05/2, n - 1) s / sqrt(n)` with `s` over `n - 1` (NIST/SEMATECH e-Handbook of Statistical
/// Methods, §1.3.5.2), absent for a single repetition. It assumes repetitions that are independent and roughly normal;
/// neither is tested here. NaN and infinite values are left out and not counted in `runs`.
pub fn confidence(values: &[f64]) -> Option<Estimate> {
    let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let runs = u32::try_from(values.len()).ok()?;
    if runs == 0 {
        return None;
    }
    let n = f64::from(runs);
    let mean = values.iter().map(|v| v / n).sum::<f64>();
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let half_width = (runs > 1)
        .then(|| student(n - 1.0).map(|t| t * (squares / (n - 1.0)).sqrt() / n.sqrt()))
        .flatten()
        .filter(|w| w.is_finite());
    Some(Estimate { mean, half_width, runs })
}

/// The factor of the standard error for a two-sided interval, by degrees of freedom.
fn student(freedom: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(t.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)))
}

/// Wilson's interval, `z` standard deviations to each side, of the probability behind `hits` hits in `of` draws (Wilson
/// 1927; equation 4 in Brown, Cai and DasGupta 2001). Counts can be fractions, as decayed ones are. Without draws it is
/// 0 to 1.
pub fn wilson(hits: f64, of: f64, z: f64) -> (f64, f64) {
    if of.is_nan() || of <= 0.0 {
        return (0.0, 1.0);
    }
    let share = (hits / of).clamp(0.0, 1.0);
    let middle = (share + z * z / (2.0 * of)) / (1.0 + z * z / of);
    let half = z / (1.0 + z * z / of) * (share * (1.0 - share) / of + z * z / (4.0 * of * of)).sqrt();
    // Rounding must not exclude the share itself.
    ((middle - half).clamp(0.0, share), (middle + half).clamp(share, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factors_are_those_of_the_published_table() {
        // NIST Technical Note 1297, table B.1, column 95 %.
        for (freedom, factor) in [
            (1.0, 12.71),
            (2.0, 4.30),
            (3.0, 3.18),
            (4.0, 2.78),
            (9.0, 2.26),
            (19.0, 2.09),
            (30.0, 2.04),
            (50.0, 2.01),
            (100.0, 1.984),
        ] {
            let got = student(freedom).unwrap();
            assert!((got - factor).abs() <= 0.005, "{freedom}: {got} against {factor}");
        }
    }

    #[test]
    fn five_repetitions_give_the_interval_of_the_textbook() {
        // Mean 100, s = sqrt(10/4) = 1.5811, standard error 0.70711, t = 2.776.
        let e = confidence(&[98.0, 99.0, 100.0, 101.0, 102.0]).unwrap();
        assert!((e.mean - 100.0).abs() < 1e-12);
        assert!((e.half_width.unwrap() - 1.9632).abs() < 1e-3, "{e:?}");
        assert_eq!(e.runs, 5);
    }

    #[test]
    fn few_hits_have_the_interval_of_the_textbook() {
        // Newcombe 1998 (Statistics in Medicine 17, 857-872), table I, method 3: 81/263, 15/148, 0/20, 1/29.
        for (hits, of, low, high) in [
            (81.0, 263.0, 0.2553, 0.3662),
            (15.0, 148.0, 0.0624, 0.1605),
            (0.0, 20.0, 0.0, 0.1611),
            (1.0, 29.0, 0.0061, 0.1718),
        ] {
            let (l, h) = wilson(hits, of, 1.959_964);
            assert!((l - low).abs() < 5e-5 && (h - high).abs() < 5e-5, "{hits}/{of}: {l} {h}");
        }
        assert_eq!(wilson(0.0, 0.0, 2.0), (0.0, 1.0));
    }

    #[test]
    fn one_repetition_has_a_mean_and_no_interval() {
        assert_eq!(confidence(&[7.0]), Some(Estimate { mean: 7.0, half_width: None, runs: 1 }));
        assert_eq!(confidence(&[]), None);
    }

    #[test]
    fn equal_repetitions_have_an_interval_of_width_zero() {
        assert_eq!(confidence(&[4.0, 4.0, 4.0, 4.0]).unwrap().half_width, Some(0.0));
    }

    #[test]
    fn invalid_numbers_do_not_count() {
        let e = confidence(&[f64::NAN, 1.0, f64::INFINITY, 3.0]).unwrap();
        assert_eq!((e.mean, e.runs), (2.0, 2));
        let huge = confidence(&[f64::MAX, f64::MAX, -f64::MAX]).unwrap();
        assert!(huge.mean.is_finite() && huge.half_width.is_none());
    }
}
