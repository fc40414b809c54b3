//! Names of causes, states and inner state of samples, shared by text, table and page.

use results::trace::{HtcpState, TraceCause, TraceSample, TraceState};

use crate::summary::nanos;

/// Cause of a sample, unless it is an acknowledgement.
pub(super) fn event(s: &TraceSample) -> &'static str {
    match s.cause {
        TraceCause::Ack => "",
        TraceCause::State => state(s.state),
        TraceCause::Retransmission => "retransmission",
        TraceCause::End => "end",
    }
}

/// A state of the kernel's congestion avoidance.
pub(super) const fn state(state: TraceState) -> &'static str {
    match state {
        TraceState::Open => "open",
        TraceState::Disorder => "disorder",
        TraceState::Reduced => "reduced",
        TraceState::Recovery => "recovery",
        TraceState::Loss => "loss",
    }
}

/// Inner state of FAST TCP or H-TCP; empty for other congestion controls.
pub(super) fn inner(s: &TraceSample) -> String {
    if let Some(fast) = &s.fast {
        let (base, average) = (nanos(fast.base_rtt_ns), nanos(fast.average_rtt_ns));
        return format!("base {base}, mean {average}, queue {:.0}", fast.queue_segments);
    }
    let parameters = |h: &HtcpState| format!("alpha {:.1}, beta {:.2}", h.alpha_segments, h.beta);
    s.htcp.as_ref().map(parameters).unwrap_or_default()
}

pub(super) fn absent() -> String {
    "-".to_owned()
}
