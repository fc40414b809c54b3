//! Expected values derived from entries.

use estimate::history::{History, Prediction, Value, predict};
use results::estimate::{Layer, Quantity};

use crate::entry::{Entry, Filter, PathKey};
use crate::error::ArchiveError;
use crate::store::Archive;

impl Archive {
    /// Values of one quantity at one layer for the predictors, oldest first. Scores ([`Entry::is_rate`]) are left out.
    ///
    /// # Errors
    /// Those of [`Self::entries`].
    pub fn values(&self, path: &PathKey, quantity: Quantity, layer: Layer) -> Result<Vec<Value>, ArchiveError> {
        let (quantity, layer) = (Some(quantity), Some(layer));
        let entries = self.entries(&Filter { path: Some(*path), quantity, layer, ..Filter::default() })?;
        Ok(entries.iter().filter(|e| e.is_rate()).map(Entry::value).collect())
    }

    /// Expected value of the path at this time, in seconds since 1970; `None` without earlier measurements.
    ///
    /// # Errors
    /// Those of [`Self::entries`].
    pub fn expected(
        &self,
        path: &PathKey,
        quantity: Quantity,
        layer: Layer,
        now_s: f64,
    ) -> Result<Option<Prediction>, ArchiveError> {
        Ok(predict(&self.values(path, quantity, layer)?, now_s))
    }
}

impl Entry {
    /// Value in the predictors' form.
    pub const fn value(&self) -> Value {
        Value { at_s: self.at_s, rate_bps: self.rate_bps as f64 }
    }
}

/// Expectations and level shifts over the course of a series of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Expectation just before each value, from the earlier values.
    pub expected: Vec<Option<Prediction>>,
    /// Time of the first value of each new level, in seconds since 1970.
    pub shifts_s: Vec<f64>,
}

/// Replays the values in chronological order.
pub fn replay(values: &[Value]) -> Replay {
    let mut history = History::new();
    let mut replay = Replay { expected: Vec::with_capacity(values.len()), shifts_s: Vec::new() };
    for value in values {
        replay.expected.push(history.predict(value.at_s));
        history.add(*value);
        let since = history.predict(value.at_s).and_then(|p| p.since_shift_s);
        let Some(level_start) = since.and_then(|age| nearest(values, value.at_s - age)) else { continue };
        let known = replay.shifts_s.last().copied();
        if known == Some(level_start) {
            continue;
        }
        // If the value right after a shift starts another level, the value before it was an outlier.
        if known.is_some_and(|known| values.iter().filter(|v| known <= v.at_s && v.at_s < level_start).count() == 1) {
            replay.shifts_s.pop();
        }
        replay.shifts_s.push(level_start);
    }
    replay
}

/// Time of the nearest value to `at_s`, which subtraction has rounded.
fn nearest(values: &[Value], at_s: f64) -> Option<f64> {
    let times = values.iter().map(|v| v.at_s);
    times.min_by(|a, b| (a - at_s).abs().total_cmp(&(b - at_s).abs()))
}
