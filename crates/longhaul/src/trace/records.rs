//! Converts kernel events to records.

use std::collections::BTreeMap;

use bpf::trace::{Event, EventKind, Inner, Sample};
use results::trace::{FastState, HtcpState, TraceCause, TraceFlow, TraceRecord, TraceSample, TraceState};

/// Slow-start threshold that means none (the kernel's TCP_INFINITE_SSTHRESH).
const SSTHRESH_NONE: u32 = 0x7fff_ffff;
/// Minimum RTT that means no sample yet.
const MIN_RTT_NONE_US: u32 = u32::MAX;

/// Numbers connections in the order of their first events.
pub(super) struct FlowNumbers {
    start_ns: u64,
    flows: BTreeMap<u64, u32>,
    seen: u32,
    samples: u64,
}

impl FlowNumbers {
    /// Creates an empty table; record times count from `start_ns`.
    pub(super) fn new(start_ns: u64) -> Self {
        Self { start_ns, flows: BTreeMap::new(), seen: 0, samples: 0 }
    }

    /// Numbers of connections and samples so far.
    pub(super) fn counts(&self) -> (u32, u64) {
        (self.seen, self.samples)
    }

    pub(super) fn convert(&mut self, event: &Event) -> Option<TraceRecord> {
        let at_s = event.time_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        let (cause, sample) = match &event.kind {
            EventKind::Flow(flow) => {
                self.seen += 1;
                self.flows.insert(event.cookie, self.seen);
                return Some(TraceRecord::Flow(TraceFlow {
                    flow: self.seen,
                    at_s,
                    local: flow.local.to_string(),
                    remote: flow.remote.to_string(),
                    congestion_control: flow.congestion_control.clone(),
                }));
            }
            EventKind::Sample(sample) => (TraceCause::Ack, sample),
            EventKind::State(sample) => (TraceCause::State, sample),
            EventKind::Retransmission(sample) => (TraceCause::Retransmission, sample),
            EventKind::End(sample) => (TraceCause::End, sample),
        };
        // Events of a connection whose first event was lost are dropped.
        let flow = *self.flows.get(&event.cookie)?;
        if cause == TraceCause::End {
            self.flows.remove(&event.cookie);
        }
        self.samples += 1;
        Some(TraceRecord::Sample(record(flow, at_s, cause, state(event.state), sample)))
    }
}

/// Converts the kernel's state number (enum tcp_ca_state).
pub(super) fn state(number: u32) -> TraceState {
    match number {
        0 => TraceState::Open,
        1 => TraceState::Disorder,
        2 => TraceState::Reduced,
        3 => TraceState::Recovery,
        _ => TraceState::Loss,
    }
}

fn ns(us: u32) -> u64 {
    u64::from(us) * 1000
}

fn record(flow: u32, at_s: f64, cause: TraceCause, state: TraceState, s: &Sample) -> TraceSample {
    TraceSample {
        flow,
        at_s,
        cause,
        state,
        cwnd_segments: s.window,
        ssthresh_segments: (s.threshold < SSTHRESH_NONE).then_some(s.threshold),
        in_flight_segments: s.in_flight(),
        srtt_ns: ns(s.srtt_us),
        rttvar_ns: ns(s.rttvar_us),
        min_rtt_ns: (s.min_rtt_us != MIN_RTT_NONE_US).then(|| ns(s.min_rtt_us)),
        delivery_rate_bps: s.delivery_bps(),
        pacing_rate_bps: (s.pacing_rate != u64::MAX).then(|| s.pacing_rate.saturating_mul(8)),
        lost_segments: s.lost_out,
        retransmitted_segments: s.total_retrans,
        acked_bytes: s.bytes_acked,
        mss_bytes: s.mss,
        peer_window_bytes: u64::from(s.peer_window),
        application_limited: s.application_limited,
        window_limited: Some(s.window_limited),
        fast: fast(s),
        htcp: htcp(s),
    }
}

fn fast(s: &Sample) -> Option<FastState> {
    let Some(Inner::Fast { base_us, average_us, flight, target, resting }) = s.inner else { return None };
    // Little's law: the queue is the data in flight beyond the bandwidth-delay product of the empty path.
    let waiting = f64::from(average_us.saturating_sub(base_us)) / f64::from(average_us.max(1));
    Some(FastState {
        base_rtt_ns: ns(base_us),
        average_rtt_ns: ns(average_us),
        queue_segments: f64::from(flight) * waiting,
        target_segments: target,
        holding: resting,
    })
}

fn htcp(s: &Sample) -> Option<HtcpState> {
    let Some(Inner::Htcp { min_rtt_us, max_rtt_us, alpha, beta, .. }) = s.inner else { return None };
    Some(HtcpState { min_rtt_ns: ns(min_rtt_us), max_rtt_ns: ns(max_rtt_us), alpha_segments: alpha, beta })
}
