//! Samples from the kernel's socket diagnostics, polled periodically.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use kernel::{TcpConnection, TcpDiagnostics};
use results::trace::{TraceCause, TraceFlow, TraceRecord, TraceSample};
use units::Instant;

use super::cli::TraceOptions;
use super::process::Choice;
use super::records::state;

/// Polls at intervals and reports changes.
pub(super) struct Diagnostics {
    scope: Scope,
    address: Option<IpAddr>,
    port: Option<u16>,
    congestion: Option<String>,
    interval: Duration,
    start: Instant,
    due: Instant,
    flows: BTreeMap<u64, (u32, TraceSample)>,
    seen: u32,
    samples: u64,
}

enum Scope {
    Namespace(TcpDiagnostics),
    Processes(Choice),
}

impl Diagnostics {
    pub(super) fn open(options: &TraceOptions, choice: Option<Choice>) -> anyhow::Result<Self> {
        let scope = match choice {
            Some(choice) => Scope::Processes(choice),
            None => Scope::Namespace(TcpDiagnostics::open()?),
        };
        let start = kernel::now();
        Ok(Self {
            scope,
            address: options.address.map(|a| a.to_canonical()),
            port: options.port,
            congestion: options.congestion.clone(),
            interval: options.interval,
            start,
            due: start,
            flows: BTreeMap::new(),
            seen: 0,
            samples: 0,
        })
    }

    pub(super) fn counts(&self) -> (u32, u64) {
        (self.seen, self.samples)
    }

    pub(super) fn poll(&mut self) -> anyhow::Result<Vec<TraceRecord>> {
        let now = kernel::now();
        if now < self.due {
            return Ok(Vec::new());
        }
        // A poll that takes longer than the interval is not compensated.
        self.due = (self.due + self.interval).max(now);
        let all = match &mut self.scope {
            Scope::Namespace(diagnostics) => diagnostics.connections()?,
            Scope::Processes(choice) => choice.connections()?,
        };
        let at_s = now.saturating_since(self.start).as_secs_f64();
        let chosen: Vec<TcpConnection> = all.into_iter().filter(|c| self.is_chosen(c)).collect();
        let mut records = self.closed(&chosen, at_s);
        chosen.iter().for_each(|c| self.take(c, at_s, &mut records));
        Ok(records)
    }

    fn is_chosen(&self, c: &TcpConnection) -> bool {
        let has_address = |a: IpAddr| [c.local, c.remote].iter().any(|end| end.ip().to_canonical() == a);
        self.address.is_none_or(has_address)
            && self.port.is_none_or(|p| c.local.port() == p || c.remote.port() == p)
            && self.congestion.as_ref().is_none_or(|name| c.congestion_control.starts_with(name))
    }

    /// Ends of connections that have closed, with their last samples.
    fn closed(&mut self, present: &[TcpConnection], at_s: f64) -> Vec<TraceRecord> {
        let present: BTreeSet<u64> = present.iter().map(|c| c.cookie).collect();
        let closed: Vec<u64> = self.flows.keys().copied().filter(|c| !present.contains(c)).collect();
        let last = closed.iter().filter_map(|cookie| self.flows.remove(cookie)).map(|(_, last)| last);
        let ends: Vec<TraceRecord> =
            last.map(|last| TraceRecord::Sample(TraceSample { at_s, cause: TraceCause::End, ..last })).collect();
        self.samples += ends.len() as u64;
        ends
    }

    fn take(&mut self, c: &TcpConnection, at_s: f64, records: &mut Vec<TraceRecord>) {
        let known = self.flows.get(&c.cookie);
        let flow = known.map_or(self.seen + 1, |(number, _)| *number);
        if known.is_none() {
            self.seen = flow;
            records.push(TraceRecord::Flow(TraceFlow {
                flow,
                at_s,
                local: canonical(c.local),
                remote: canonical(c.remote),
                congestion_control: c.congestion_control.clone(),
            }));
        }
        let mut sample = sample(flow, at_s, c);
        if let Some((_, last)) = known {
            // No field has changed.
            if (TraceSample { at_s: last.at_s, cause: last.cause, ..sample.clone() }) == *last {
                return;
            }
            if sample.state != last.state {
                sample.cause = TraceCause::State;
            } else if sample.retransmitted_segments > last.retransmitted_segments {
                sample.cause = TraceCause::Retransmission;
            }
        }
        self.samples += 1;
        self.flows.insert(c.cookie, (flow, sample.clone()));
        records.push(TraceRecord::Sample(sample));
    }
}

/// Formats an address like the BPF source: IPv4-mapped addresses as IPv4.
fn canonical(end: SocketAddr) -> String {
    SocketAddr::new(end.ip().to_canonical(), end.port()).to_string()
}

fn sample(flow: u32, at_s: f64, c: &TcpConnection) -> TraceSample {
    let (t, s) = (&c.state, &c.segments);
    TraceSample {
        flow,
        at_s,
        cause: TraceCause::Ack,
        state: state(u32::from(t.ca_state)),
        cwnd_segments: s.cwnd,
        ssthresh_segments: s.ssthresh,
        in_flight_segments: s.in_flight(),
        srtt_ns: t.srtt_ns,
        rttvar_ns: t.rttvar_ns,
        min_rtt_ns: t.min_rtt_ns,
        delivery_rate_bps: (t.delivery_rate_bps > 0).then_some(t.delivery_rate_bps),
        pacing_rate_bps: t.pacing_rate_bps,
        lost_segments: s.lost,
        retransmitted_segments: u32::try_from(t.retransmits).unwrap_or(u32::MAX),
        acked_bytes: t.bytes_acked,
        mss_bytes: u32::try_from(t.mss_bytes).unwrap_or(u32::MAX),
        peer_window_bytes: t.snd_wnd_bytes,
        application_limited: t.delivery_rate_app_limited,
        window_limited: None,
        fast: None,
        htcp: None,
    }
}
