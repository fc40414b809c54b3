//! Observations at each gap setting, and the turning point of the search.

use super::gaps::{Tolerance, TrainGaps};

/// The trains of each gap setting, those that were sent at once first.
#[derive(Debug)]
pub(super) struct Settings {
    tolerance: Tolerance,
    seen: Vec<Vec<TrainGaps>>,
}

impl Settings {
    pub(super) fn new(tolerance: Tolerance) -> Self {
        Self { tolerance, seen: Vec::new() }
    }

    /// Adds a train of this setting; `None` if it was not usable.
    pub(super) fn add(&mut self, setting: usize, seen: Option<TrainGaps>) {
        self.seen.resize_with(self.seen.len().max(setting + 1), Vec::new);
        self.seen.get_mut(setting).into_iter().for_each(|trains| trains.extend(seen));
    }

    /// The trains of a setting.
    pub(super) fn of(&self, setting: usize) -> &[TrainGaps] {
        self.seen.get(setting).map_or(&[], Vec::as_slice)
    }

    /// The last setting with a usable train, except the trains that were sent at once.
    pub(super) fn last(&self) -> Option<usize> {
        (1..self.seen.len()).rev().find(|s| !self.of(*s).is_empty())
    }

    /// Mean gaps of all trains of a setting, at the sender and at the receiver.
    pub(super) fn means(&self, setting: usize) -> Option<(f64, f64)> {
        let seen = self.of(setting);
        let mean = |field: fn(&TrainGaps) -> f64| seen.iter().map(field).sum::<f64>() / seen.len() as f64;
        (!seen.is_empty()).then(|| (mean(|s| s.sent_ns), mean(|s| s.received_ns)))
    }

    /// Whether the trains of a setting passed unchanged. Shorter gaps also count as equal, because no queue built up.
    pub(super) fn is_equal(&self, setting: usize) -> Option<bool> {
        self.means(setting).map(|(sent, received)| !self.tolerance.is_wider(received, sent))
    }

    /// Whether the trains of a setting were widened by twice the tolerance, which chance rarely causes.
    pub(super) fn is_clearly_wider(&self, setting: usize) -> bool {
        let Tolerance { share, ns } = self.tolerance;
        let clear = Tolerance { share: 2.0 * share, ns: 2.0 * ns };
        self.means(setting).is_some_and(|(sent, received)| clear.is_wider(received, sent))
    }

    /// The first complete setting whose trains passed unchanged, together with those of the next one.
    pub(super) fn turned(&self, complete: usize) -> Option<usize> {
        let is_equal = |s: usize| self.is_equal(s) == Some(true);
        (1..complete.saturating_sub(1)).find(|s| is_equal(*s) && is_equal(s + 1))
    }

    /// Whether the trains of a complete setting passed unchanged and those of a slower one were clearly widened.
    pub(super) fn is_contradicted(&self, complete: usize) -> bool {
        let mut settings = 1..complete;
        settings.any(|s| self.is_equal(s) == Some(true)) && settings.any(|s| self.is_clearly_wider(s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings of one train each, given by the ratio of the gaps at receiver and sender.
    fn settings(stretches: &[f64]) -> Settings {
        let mut settings = Settings::new(Tolerance { share: 0.05, ns: 0.0 });
        for (setting, stretch) in stretches.iter().enumerate() {
            settings.add(setting, Some(TrainGaps { sent_ns: 100.0, received_ns: 100.0 * stretch, load: None }));
        }
        settings
    }

    #[test]
    fn the_search_turns_where_two_consecutive_settings_pass_unchanged() {
        let s = settings(&[9.0, 1.5, 1.04, 1.06, 0.98, 1.04]);
        assert_eq!((s.turned(5), s.turned(6)), (None, Some(4)));
        // 6 % more is not clearly more.
        assert!(!s.is_contradicted(6));
        assert!(settings(&[9.0, 1.04, 1.2]).is_contradicted(3));
    }
}
