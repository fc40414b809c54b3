//! State of each connection: statistics of all samples, and thinned samples for charts.

use std::collections::BTreeMap;

use results::DelayHistogram;
use results::trace::{TraceCause, TraceEnd, TraceFlow, TraceRecord, TraceSample, TraceStart, TraceState};

/// Maximum number of connections. A new one replaces an ended one with the least traffic, or else any with the least
/// traffic.
const FLOWS_MAX: usize = 256;
/// Maximum number of samples per connection, more than the columns of a screen.
const SAMPLES_MAX: usize = 2000;
/// Maximum number of state changes and retransmissions per connection; retransmissions are dropped first.
const EVENTS_MAX: usize = 2000;

/// Report of a trace, in bounded memory.
#[derive(Debug, Default)]
pub struct TraceReport {
    pub(super) start: Option<TraceStart>,
    pub(super) flows: BTreeMap<u32, FlowTrace>,
    pub(super) end: Option<TraceEnd>,
    /// Number of dropped connections.
    pub(super) forgotten: u64,
}

impl TraceReport {
    /// Adds a record.
    pub fn record(&mut self, record: &TraceRecord) {
        match record {
            TraceRecord::Start(start) => self.start = Some(start.clone()),
            TraceRecord::Flow(flow) => {
                if self.flows.len() == FLOWS_MAX {
                    self.drop_one();
                }
                self.flows.insert(flow.flow, FlowTrace::new(flow.clone()));
            }
            TraceRecord::Sample(sample) => {
                if let Some(flow) = self.flows.get_mut(&sample.flow) {
                    flow.add(sample);
                }
            }
            TraceRecord::End(end) => self.end = Some(end.clone()),
        }
    }

    /// Connections in descending order of traffic.
    pub(super) fn busiest(&self) -> Vec<&FlowTrace> {
        let mut all: Vec<&FlowTrace> = self.flows.values().collect();
        all.sort_by_key(|f| (std::cmp::Reverse(f.acked_bytes()), f.flow.flow));
        all
    }

    fn drop_one(&mut self) {
        let dropped =
            self.flows.iter().min_by_key(|(_, f)| (!f.has_ended(), f.acked_bytes())).map(|(number, _)| *number);
        if let Some(number) = dropped {
            self.flows.remove(&number);
            self.forgotten += 1;
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct FlowTrace {
    pub(super) flow: TraceFlow,
    pub(super) samples: u64,
    first: Option<TraceSample>,
    pub(super) last: Option<TraceSample>,
    pub(super) cwnd_max: u32,
    pub(super) srtt: DelayHistogram,
    /// Numbers of fast recoveries and of timeouts.
    pub(super) recoveries: u64,
    pub(super) timeouts: u64,
    pub(super) curve: Thinned,
    pub(super) events: Vec<TraceSample>,
    /// Retransmissions that are not among `events`.
    pub(super) events_left_out: u64,
}

impl FlowTrace {
    fn new(flow: TraceFlow) -> Self {
        Self {
            flow,
            samples: 0,
            first: None,
            last: None,
            cwnd_max: 0,
            srtt: DelayHistogram::new(),
            recoveries: 0,
            timeouts: 0,
            curve: Thinned::default(),
            events: Vec::new(),
            events_left_out: 0,
        }
    }

    fn add(&mut self, sample: &TraceSample) {
        self.samples += 1;
        self.cwnd_max = self.cwnd_max.max(sample.cwnd_segments);
        self.srtt.record_nanos(sample.srtt_ns);
        if sample.cause == TraceCause::State {
            self.recoveries += u64::from(sample.state == TraceState::Recovery);
            self.timeouts += u64::from(sample.state == TraceState::Loss);
        }
        match sample.cause {
            TraceCause::Ack => {}
            TraceCause::Retransmission if self.events.len() >= EVENTS_MAX / 2 => self.events_left_out += 1,
            _ if self.events.len() >= EVENTS_MAX => self.events_left_out += 1,
            TraceCause::Retransmission | TraceCause::State | TraceCause::End => self.events.push(sample.clone()),
        }
        self.curve.add(sample);
        self.first.get_or_insert_with(|| sample.clone());
        self.last = Some(sample.clone());
    }

    fn has_ended(&self) -> bool {
        self.last.as_ref().is_some_and(|s| s.cause == TraceCause::End)
    }

    /// Bytes acknowledged during the trace.
    pub(super) fn acked_bytes(&self) -> u64 {
        self.between(|s| s.acked_bytes)
    }

    /// Packets retransmitted during the trace.
    pub(super) fn retransmitted(&self) -> u64 {
        self.between(|s| u64::from(s.retransmitted_segments))
    }

    /// Time from the first sample to the last, in seconds.
    pub(super) fn span_s(&self) -> f64 {
        let at = |s: &Option<TraceSample>| s.as_ref().map_or(0.0, |s| s.at_s);
        at(&self.last) - at(&self.first)
    }

    /// Mean rate of acknowledged bytes; absent for a connection with one sample.
    pub(super) fn acked_bps(&self) -> Option<u64> {
        let span = self.span_s();
        (span > 0.0).then(|| (self.acked_bytes() as f64 * 8.0 / span) as u64)
    }

    fn between(&self, of: fn(&TraceSample) -> u64) -> u64 {
        let at = |s: &Option<TraceSample>| s.as_ref().map_or(0, of);
        at(&self.last).saturating_sub(at(&self.first))
    }
}

/// All samples up to a maximum, then every second, every fourth and so on.
#[derive(Debug)]
pub(super) struct Thinned {
    pub(super) samples: Vec<TraceSample>,
    pub(super) one_in: u64,
    seen: u64,
}

impl Default for Thinned {
    fn default() -> Self {
        Self { samples: Vec::new(), one_in: 1, seen: 0 }
    }
}

impl Thinned {
    fn add(&mut self, sample: &TraceSample) {
        if self.seen.is_multiple_of(self.one_in) {
            if self.samples.len() == SAMPLES_MAX {
                let mut number = 0;
                self.samples.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.one_in *= 2;
            }
            if self.seen.is_multiple_of(self.one_in) {
                self.samples.push(sample.clone());
            }
        }
        self.seen += 1;
    }
}

#[cfg(test)]
mod thinning {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_connections_with_the_most_traffic_are_kept() {
        let mut report = TraceReport::default();
        for n in 1..=1000 {
            report.record(&super::super::tests::flow(n, "cubic"));
            let carried = if n == 700 { 1_000_000 } else { u64::from(n % 100) };
            report.record(&sample(n, 0.0, 10, 0));
            report.record(&sample(n, 1.0, 10, carried));
        }
        assert_eq!((report.flows.len(), report.forgotten), (FLOWS_MAX, 744));
        assert!(report.flows.contains_key(&700), "the elephant that came late");
    }

    #[test]
    fn a_long_trace_is_thinned_evenly_and_its_statistics_cover_all_samples() {
        let mut report = TraceReport::default();
        report.record(&super::super::tests::flow(1, "cubic"));
        for n in 0..100_000_u32 {
            report.record(&sample(1, f64::from(n) / 1000.0, 10 + n % 7, u64::from(n) * 1000));
        }
        let flow = &report.flows[&1];
        assert_eq!((flow.samples, flow.cwnd_max, flow.acked_bytes()), (100_000, 16, 99_999_000));
        assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&flow.curve.samples.len()));
        let gaps: Vec<f64> = flow.curve.samples.windows(2).map(|w| w[1].at_s - w[0].at_s).collect();
        let expected = flow.curve.one_in as f64 / 1000.0;
        assert!(gaps.iter().all(|g| (g - expected).abs() < 1e-9), "every {}th, evenly", flow.curve.one_in);
        // 99 999 000 bytes in 99.999 s.
        assert_eq!(flow.acked_bps(), Some(8_000_000));
    }
}
