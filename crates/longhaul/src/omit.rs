//! `--omit`: the first part of a test, which is shown but left out of its summary.

use std::collections::BTreeMap;
use std::time::Duration;

use results::{DelayHistogram, Direction, DirectionSummary, EndRecord, IntervalRecord, Limit, Record, Role};
use units::{Bytes, Rate};

/// Marks the intervals that start within the first `omit` of the test, and sums up the remaining ones.
#[derive(Debug, Default)]
pub(crate) struct Omit {
    omit: Duration,
    /// Duration of the test; `None` if its volume is given instead.
    load: Option<Duration>,
    rest: BTreeMap<Direction, Rest>,
}

/// Totals of the remaining intervals, in constant memory.
#[derive(Debug, Default)]
struct Rest {
    /// Start of the first and end of the last interval of the receiver, in seconds.
    span: Option<(f64, f64)>,
    bytes: u64,
    block_rtt: DelayHistogram,
    /// Seconds for which each factor was the limit.
    limits: BTreeMap<Limit, f64>,
}

impl Omit {
    pub(crate) fn new(omit: Duration, load: Option<Duration>) -> Self {
        Self { omit, load, rest: BTreeMap::new() }
    }

    /// Returns the record for the outputs.
    pub(crate) fn apply(&mut self, record: &Record) -> Record {
        match record {
            Record::Interval(interval) if !self.omit.is_zero() => {
                let omitted = interval.start_s < self.omit.as_secs_f64();
                if !omitted && self.is_load(interval) {
                    self.rest.entry(interval.direction).or_default().add(interval);
                }
                let mut interval = interval.clone();
                interval.omitted = omitted;
                Record::Interval(interval)
            }
            Record::End(end) => Record::End(self.end(end)),
            Record::Start(_) | Record::Interval(_) => record.clone(),
        }
    }

    /// Whether more than half of an interval lies within the test; later intervals are drain and do not count as
    /// goodput.
    fn is_load(&self, interval: &IntervalRecord) -> bool {
        self.load.is_none_or(|load| f64::midpoint(interval.start_s, interval.end_s) < load.as_secs_f64())
    }

    /// Returns the summary without the omitted part; unchanged if no interval follows it.
    pub(crate) fn end(&self, end: &EndRecord) -> EndRecord {
        let mut end = end.clone();
        for direction in &mut end.directions {
            if let Some(rest) = self.rest.get(&direction.direction) {
                rest.replace(direction);
            }
        }
        end
    }
}

impl Rest {
    fn add(&mut self, interval: &IntervalRecord) {
        match interval.role {
            Role::Receiver => {
                let first = self.span.map_or(interval.start_s, |(first, _)| first);
                self.span = Some((first, interval.end_s));
                self.bytes = self.bytes.saturating_add(interval.bytes);
            }
            Role::Sender => {
                if let Some(histogram) =
                    interval.block_rtt.as_ref().and_then(|d| DelayHistogram::decode(&d.histogram).ok())
                {
                    self.block_rtt.merge(&histogram);
                }
                if let Some(limit) = &interval.limit {
                    *self.limits.entry(limit.limit).or_default() += interval.end_s - interval.start_s;
                }
            }
        }
    }

    fn replace(&self, summary: &mut DirectionSummary) {
        let Some((first, last)) = self.span.filter(|(first, last)| last > first) else { return };
        let time = Duration::try_from_secs_f64(last - first).unwrap_or_default();
        summary.throughput_bps = Rate::of(Bytes::new(self.bytes), time).as_bps();
        summary.omitted_s = Some(first);
        summary.measured_bytes = Some(self.bytes);
        summary.measured_s = Some(last - first);
        summary.block_rtt = self.block_rtt.summary().or_else(|| summary.block_rtt.take());
        let total: f64 = self.limits.values().sum();
        if total > 0.0 {
            summary.limits = self.limits.iter().map(|(limit, time)| (*limit, time / total)).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use results::CpuUse;

    use super::*;

    fn interval(start_s: f64, bytes: u64) -> IntervalRecord {
        serde_json::from_value(serde_json::json!({
            "test_id": "", "end": "client", "direction": "down", "role": "receiver", "index": 0,
            "start_s": start_s, "end_s": start_s + 1.0, "bytes": bytes, "throughput_bps": bytes * 8,
            "cpu": CpuUse::default(), "streams": [],
        }))
        .unwrap()
    }

    #[test]
    fn the_omitted_part_and_the_drain_are_left_out() {
        let mut omit = Omit::new(Duration::from_secs(1), Some(Duration::from_secs(3)));
        for (start_s, bytes) in [(0.0, 9_000), (1.0, 1_000), (2.0, 2_000), (3.0, 7_000)] {
            let _ = omit.apply(&Record::Interval(interval(start_s, bytes)));
        }
        let rest = &omit.rest[&Direction::Down];
        assert_eq!((rest.bytes, rest.span), (3_000, Some((1.0, 3.0))));
    }
}
