//! From entries to what is expected.

use estimate::history::{History, Prediction, Value, predict};
use results::estimate::{Layer, Quantity};

use crate::entry::{Entry, Filter, PathKey};
use crate::error::ArchiveError;
use crate::store::Archive;

impl Archive {
    /// What predictors know of a path: the rates of one quantity in the bits of one layer, the oldest first. Scores
    /// ([`Entry::is_rate`]) are left out.
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
    /// As predictors take it.
    pub const fn value(&self) -> Value {
        Value { at_s: self.at_s, rate_bps: self.rate_bps as f64 }
    }
}

/// Values that were known at each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Expectation just before each value, from the earlier values.
    pub expected: Vec<Option<Prediction>>,
    /// The first value of each new level, in seconds since 1970.
    pub shifts_s: Vec<f64>,
}

/// Goes through the values, the oldest first, as they came.
pub fn replay(values: &[Value]) -> Replay {
    let mut history = History::new();
    let mut replay = Replay { expected: Vec::with_capacity(values.len()), shifts_s: Vec::new() };
    for value in values {
        replay.expected.push(history.predict(value.at_s));
        history.add(*value);
        let since = history.predict(value.at_s).and_then(|p| p.since_shift_s);
        let Some(begin) = since.and_then(|age| nearest(values, value.at_s - age)) else { continue };
        let known = replay.shifts_s.last().copied();
        if known == Some(begin) {
            continue;
        }
        // A value that came right after a shift and begins the level in its place: the first was an outlier, not a level.
        if known.is_some_and(|known| values.iter().filter(|v| known <= v.at_s && v.at_s < begin).count() == 1) {
            replay.shifts_s.pop();
        }
        replay.shifts_s.push(begin);
    }
    replay
}

/// The time of a value, from one that a subtraction has rounded.
fn nearest(values: &[Value], at_s: f64) -> Option<f64> {
    let times = values.iter().map(|v| v.at_s);
    times.min_by(|a, b| (a - at_s).abs().total_cmp(&(b - at_s).abs()))
}
