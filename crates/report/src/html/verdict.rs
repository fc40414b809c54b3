//! Summary of a run in one sentence per direction.

use results::{DirectionSummary, Limit, Transport};

use super::run::{Run, Track};
use crate::summary::{self, limit_name, nanos, percent, rate, ratio};

/// Summarises a direction: throughput, limit, delay and its largest stage.
pub(crate) fn sentence(run: &Run, track: &Track) -> String {
    let route = summary::route(&run.start, track.direction).replace(" -> ", " \u{2192} ");
    if let Some(d) = track.summary.as_ref().filter(|_| track.failed) {
        return format!("{route}: {}.", summary::moved(d));
    }
    let Some(bps) = track.throughput_bps else {
        return format!("{route}: nothing was measured.");
    };
    let end = track.summary.as_ref();
    let mut text = format!("{route}: {} of {}", rate(bps), transport(run));
    if let Some(d) = end {
        text.push_str(&format!(" ({})", summary::measured(d)));
    }
    if let Some((limit, share)) = track.limits.first().filter(|(l, _)| *l != Limit::Unknown) {
        text.push_str(&format!(", limited mostly by {} ({} of the time)", limit_name(*limit), percent(*share)));
        if let Some(d) = end.filter(|_| *limit == Limit::Bottleneck) {
            text.push_str(&format!(", {}", summary::path_full(d)));
        }
    }
    text.push('.');
    if let Some(rtt) = &track.block_rtt {
        text.push_str(&format!(
            " The block round trip was {} (median; 95 %: {})",
            nanos(rtt.p50_ns),
            nanos(rtt.p95_ns)
        ));
        if let Some(idle) = run.start.baseline_rtt_ns {
            text.push_str(&format!(" on a path of {} idle", nanos(idle)));
        }
        if let Some((stage, ns, share)) = track.decomposition().and_then(summary::largest_stage) {
            text.push_str(&format!("; most of it in the {stage} ({}, {})", nanos(ns), percent(share)));
        }
        text.push('.');
    }
    if let Some(d) = end {
        text.push_str(&datagrams(d));
        if !d.agreement.agree && !d.agreement.is_missing() && run.start.server.is_some() {
            text.push_str(" The byte counts of the two ends differ.");
        }
    }
    text
}

fn transport(run: &Run) -> String {
    let plan = &run.start.plan;
    let name = if plan.transport == Transport::Tcp { "TCP" } else { "UDP" };
    let streams = if plan.streams == 1 { String::new() } else { format!(" over {} streams", plan.streams) };
    format!("{name}{streams}")
}

fn datagrams(d: &DirectionSummary) -> String {
    let Some(u) = &d.udp else { return String::new() };
    let delay = d.one_way.as_ref().map_or_else(String::new, |o| {
        format!(" One-way delay {} (median).", summary::plus_minus(o.p50_ns, o.bound_ns))
    });
    format!(" {} of {} datagrams were lost ({}).{delay}", u.lost, u.sent, ratio(u.loss_ratio))
}
