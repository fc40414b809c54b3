//! Events of the kernel as records.

use std::collections::BTreeMap;

use bpf::trace::{Event, Inner, Sample, What};
use results::trace::{FastState, HtcpState, TraceCause, TraceFlow, TraceRecord, TraceSample, TraceState};

/// TCP_INFINITE_SSTHRESH of the kernel.
const NO_THRESHOLD: u32 = 0x7fff_ffff;
/// What the kernel has before the first sample of a round trip.
const NO_ROUND_TRIP: u32 = u32::MAX;

/// Numbers connections in the order in which they are seen.
pub(super) struct Book {
    begin_ns: u64,
    flows: BTreeMap<u64, u32>,
    seen: u32,
    samples: u64,
}

impl Book {
    /// Times count from `begin_ns`.
    pub(super) fn new(begin_ns: u64) -> Self {
        Self { begin_ns, flows: BTreeMap::new(), seen: 0, samples: 0 }
    }

    /// Connections and samples until now.
    pub(super) fn counts(&self) -> (u32, u64) {
        (self.seen, self.samples)
    }

    pub(super) fn take(&mut self, event: &Event) -> Option<TraceRecord> {
        let at_s = event.time_ns.saturating_sub(self.begin_ns) as f64 / 1e9;
        let (cause, sample) = match &event.what {
            What::Flow(flow) => {
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
            What::Sample(sample) => (TraceCause::Ack, sample),
            What::State(sample) => (TraceCause::State, sample),
            What::Retransmission(sample) => (TraceCause::Retransmission, sample),
            What::End(sample) => (TraceCause::End, sample),
        };
        // Whose first event was lost is nobody's.
        let flow = *self.flows.get(&event.cookie)?;
        if cause == TraceCause::End {
            self.flows.remove(&event.cookie);
        }
        self.samples += 1;
        Some(TraceRecord::Sample(record(flow, at_s, cause, state(event.state), sample)))
    }
}

/// State by the kernel's number (enum tcp_ca_state).
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
        ssthresh_segments: (s.threshold < NO_THRESHOLD).then_some(s.threshold),
        in_flight_segments: s.in_flight(),
        srtt_ns: ns(s.srtt_us),
        rttvar_ns: ns(s.rttvar_us),
        min_rtt_ns: (s.min_rtt_us != NO_ROUND_TRIP).then(|| ns(s.min_rtt_us)),
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
    // Little's law: what is in flight beyond what the empty path holds.
    let waiting = f64::from(average_us.saturating_sub(base_us)) / f64::from(average_us.max(1));
    Some(FastState {
        base_rtt_ns: ns(base_us),
        average_rtt_ns: ns(average_us),
        queue_segments: f64::from(flight) * waiting,
        target_segments: target,
        resting,
    })
}

fn htcp(s: &Sample) -> Option<HtcpState> {
    let Some(Inner::Htcp { min_rtt_us, max_rtt_us, alpha, beta, .. }) = s.inner else { return None };
    Some(HtcpState { min_rtt_ns: ns(min_rtt_us), max_rtt_ns: ns(max_rtt_us), alpha_segments: alpha, beta })
}
