use super::Measurement;

/// Comparison of estimates with the truth: the ratios estimate / truth, whose distribution figures 6-1 to 6-7 show.
///
/// Above 1 the estimate was too high. The thesis is inconsistent: by its §6.1 and figures 6-2 and 6-5 to 6-7 it plots
/// truth / estimate, by figure 6-1 and §6.3 (a median of 0.3 called an underestimate) the reverse. See
/// [`Self::inverted`].
#[derive(Debug, Clone, PartialEq)]
pub struct Ratios {
    sorted: Vec<f64>,
}

impl Ratios {
    /// Ratios of one method. They exclude measurements without a truth or an estimate, estimates below zero, and ratios
    /// of two zeros or of two infinities. A truth of zero with an estimate above it is infinitely wrong, and counts.
    pub fn new<E>(measurements: &[Measurement<E>], method: usize) -> Self {
        let ratio = |m: &Measurement<E>| Some(m.estimate(method)? / m.truth()?);
        Self::of(measurements.iter().filter_map(ratio))
    }

    /// The ratios truth / estimate.
    #[must_use]
    pub fn inverted(&self) -> Self {
        Self::of(self.sorted.iter().map(|r| 1.0 / r))
    }

    fn of(ratios: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = ratios.filter(|r| *r >= 0.0).map(|r| r + 0.0).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Self { sorted }
    }

    /// Number of ratios.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there is no ratio.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The points of the distribution, ascending: a ratio, and the share of ratios that do not exceed it.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let n = self.sorted.len() as f64;
        let each = self.sorted.chunk_by(|a, b| a == b).scan(0, move |before, equal| {
            *before += equal.len();
            equal.first().map(|r| (*r, *before as f64 / n))
        });
        each.collect::<Vec<_>>().into_iter()
    }

    /// The smallest ratio that this share of the ratios (0 to 1) does not exceed; 0.5 gives the median. `None` without
    /// a ratio, or for an invalid share.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let sound = (0.0..=1.0).contains(&share);
        let rank = (share * self.sorted.len() as f64).ceil().max(1.0) as usize;
        self.sorted.get(rank - 1).copied().filter(|_| sound)
    }

    /// Share with an estimate off by at most this part of the truth: 0.2 for within 20 %, as in §6.2. `None` without
    /// any ratio.
    pub fn share_within(&self, part: f64) -> Option<f64> {
        // The same test for both sides, in a form that rounds 0.8 and 1.2 alike.
        self.share(|r| (r - 1.0).abs() <= part + f64::EPSILON)
    }

    /// Share with an estimate off by at most this factor in either direction: 2, 10. `None` without any ratio.
    pub fn share_within_factor(&self, factor: f64) -> Option<f64> {
        self.share(|r| r <= factor && r * factor >= 1.0)
    }

    /// Share with an estimate that is not below the truth: 1 for ADR on the paths of 2002 (§6.4).
    pub fn share_not_below(&self) -> Option<f64> {
        self.share(|r| r >= 1.0)
    }

    fn share(&self, test: impl Fn(f64) -> bool) -> Option<f64> {
        let count = self.sorted.iter().filter(|r| test(**r)).count();
        (!self.is_empty()).then(|| count as f64 / self.len() as f64)
    }
}
