//! `--omit`: the beginning of a test, which is run and shown but left out of its summary.

use std::collections::BTreeMap;
use std::time::Duration;

use results::{DelayHistogram, Direction, DirectionSummary, EndRecord, IntervalRecord, Limit, Record, Role};
use units::{Bytes, Rate};

/// Marks the intervals that begin within the first `omit` of the load, and adds up the others.
#[derive(Debug, Default)]
pub(crate) struct Omit {
    omit: Duration,
    rest: BTreeMap<Direction, Rest>,
}

/// What the intervals after the beginning have seen, in memory that does not grow with them.
#[derive(Debug, Default)]
struct Rest {
    /// First begin and last end of the receiver's intervals, in seconds.
    span: Option<(f64, f64)>,
    bytes: u64,
    block_rtt: DelayHistogram,
    /// Seconds for which each factor was the limit.
    limits: BTreeMap<Limit, f64>,
}

impl Omit {
    pub(crate) fn new(omit: Duration) -> Self {
        Self { omit, rest: BTreeMap::new() }
    }

    /// The record as it goes to the outputs.
    pub(crate) fn apply(&mut self, record: &Record) -> Record {
        match record {
            Record::Interval(interval) if !self.omit.is_zero() => {
                let omitted = interval.begin_s < self.omit.as_secs_f64();
                if !omitted {
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

    /// The summary without the beginning; unchanged where nothing came after it.
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
                let first = self.span.map_or(interval.begin_s, |(first, _)| first);
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
                    *self.limits.entry(limit.limit).or_default() += interval.end_s - interval.begin_s;
                }
            }
        }
    }

    fn replace(&self, summary: &mut DirectionSummary) {
        let Some((first, last)) = self.span.filter(|(first, last)| last > first) else { return };
        let time = Duration::try_from_secs_f64(last - first).unwrap_or_default();
        summary.throughput_bps = Rate::of(Bytes::new(self.bytes), time).as_bps();
        summary.omitted_s = Some(first);
        summary.block_rtt = self.block_rtt.summary().or_else(|| summary.block_rtt.take());
        let total: f64 = self.limits.values().sum();
        if total > 0.0 {
            summary.limits = self.limits.iter().map(|(limit, time)| (*limit, time / total)).collect();
        }
    }
}
