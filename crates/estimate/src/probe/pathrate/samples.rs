//! Measured values of the phases, and the capacity that follows from them.

use super::modes::{Mode, bin_width, modes, trimmed};
use super::phases::Pairs;
use super::plan::{AGREEMENT_DEVIATION_MAX, EVEN_LOAD_DEVIATION_MAX, Plan, UNCHANGED_SHARE_MIN, UNLOADED_SHARE_MIN};
use crate::samples::median;

/// Rates in b/s.
#[derive(Debug)]
pub(super) struct Samples {
    plan: &'static Plan,
    /// Rates of the trains of increasing length.
    pub(super) preliminary: Vec<f64>,
    pub(super) pairs: Pairs,
    /// Rates of the longest trains.
    pub(super) trains: Vec<f64>,
}

impl Samples {
    pub(super) fn new(plan: &'static Plan) -> Self {
        Self { plan, preliminary: Vec::new(), pairs: Pairs::new(), trains: Vec::new() }
    }

    fn width(&self) -> f64 {
        bin_width(&self.preliminary, self.plan.width_share_min)
    }

    /// The mean of the preliminary trains if they agree, which ends a run on an idle path.
    pub(super) fn agreed(&self) -> Option<f64> {
        let (mean, deviation) = trimmed(&self.preliminary, self.plan.trim_preliminary)?;
        (deviation < mean * AGREEMENT_DEVIATION_MAX).then_some(mean)
    }

    /// The capacity of an unloaded path. Short trains agree; the longest ones, if any were sent and have about that
    /// rate, are the most precise, because all their gaps share a timestamp error.
    fn without_load(&self) -> Option<f64> {
        let mean = self.agreed()?;
        let long =
            median(self.trains.iter().copied()).filter(|l| (l / mean - 1.0).abs() < 2.0 * AGREEMENT_DEVIATION_MAX);
        Some(long.unwrap_or(mean))
    }

    /// Modes of the longest trains; `None` if there are too few of them.
    fn modes_of_trains(&self) -> Option<Vec<Mode>> {
        Some(modes(&self.trains, self.width(), self.plan.mode_of_trains?))
    }

    /// Whether long trains arrived at several rates: their asymptotic rate can then be wrong.
    pub(super) fn is_unsteady(&self) -> bool {
        self.agreed().is_none() && self.modes_of_trains().is_some_and(|modes| modes.len() > 1)
    }

    /// Middle of the result of the phases.
    fn by_phases(&self) -> Option<f64> {
        let Some((mean, deviation)) = trimmed(&self.trains, self.plan.trim_trains) else {
            return trimmed(&self.preliminary, self.plan.trim_preliminary).map(|(mean, _)| mean);
        };
        let of_pairs = trimmed(&self.pairs.rates, 0).map_or(mean, |(mean, _)| mean);
        let asymptotic = match self.modes_of_trains().unwrap_or_default().as_slice() {
            [] => mean,
            // Long trains that agree and are as fast as pairs met no load.
            [one] if deviation < mean * AGREEMENT_DEVIATION_MAX && mean > of_pairs * UNLOADED_SHARE_MIN => {
                return Some(one.centre);
            }
            [_] => mean,
            many => best(many).map_or(mean, |m| m.centre),
        };
        let mut local = modes(&self.pairs.rates, self.width(), self.plan.mode);
        // Trains arrive no faster than the narrow link serves them: slower modes of pairs come from cross traffic.
        local.retain(|m| m.high > asymptotic && m.centre < asymptotic * self.plan.mode_ratio_max);
        if self.plan.by_curve && deviation < mean * EVEN_LOAD_DEVIATION_MAX {
            local.retain(|m| m.share >= UNCHANGED_SHARE_MIN || m.centre > asymptotic * (1.0 + UNCHANGED_SHARE_MIN));
        }
        Some(best(&local).map_or(asymptotic, |m| m.centre))
    }

    /// The capacity in b/s, and the bin around it.
    pub(super) fn capacity(&self) -> Option<(f64, f64, f64)> {
        let centre = self.without_load().or_else(|| self.by_phases())?;
        let half = self.width() / 2.0;
        Some((centre, centre - half, centre + half))
    }
}

fn best(modes: &[Mode]) -> Option<&Mode> {
    modes.iter().max_by(|a, b| a.merit.total_cmp(&b.merit))
}
