//! The last lines of a test: the most important results, suitable for `tail` and tickets.

use std::io::{self, Write};

use results::{Completion, DirectionSummary, EndRecord, StartRecord};

use crate::sheet::Sheet;
use crate::summary::{self, nanos, percent, rate, ratio};

/// Two lines for each direction: goodput and limit, then delay and loss.
pub(crate) fn write_closing(out: &mut impl Write, start: Option<&StartRecord>, end: &EndRecord) -> io::Result<()> {
    let mut sheet = Sheet::new(out);
    sheet.blank()?;
    if let Completion::Failed { reason } = &end.completion {
        return sheet.line(&format!("FAILED: {}; not a result of the plan", summary::printable(reason)));
    }
    for d in &end.directions {
        let name = summary::direction_name(d.direction);
        sheet.line(&format!("{name}: {}", goodput(d)))?;
        sheet.line(&format!("    {}", delay(start, d)))?;
    }
    Ok(())
}

/// `94.13 Mb/s (47.06 MB in 4.00 s), limited by the receive window 98 %`
fn goodput(d: &DirectionSummary) -> String {
    let mut text = format!("goodput {} ({})", rate(d.throughput_bps), summary::measured(d));
    if let Some((limit, share)) = summary::limits_by_share(d).first() {
        text += &format!(", limited by {} {}", summary::limit_name(*limit), percent(*share));
    }
    text
}

/// Delay of the transport (block RTT, or one-way delay of datagrams), and losses.
fn delay(start: Option<&StartRecord>, d: &DirectionSummary) -> String {
    let mut parts = Vec::new();
    if let Some(rtt) = &d.block_rtt {
        parts.push(format!("block RTT median {}, 95 % {}", nanos(rtt.p50_ns), nanos(rtt.p95_ns)));
    } else if let Some(one_way) = d.one_way.as_ref().filter(|o| summary::one_way_is_meaningful(o)) {
        parts.push(format!("one-way delay median {}", summary::plus_minus(one_way.p50_ns, one_way.bound_ns)));
    }
    if let Some(idle) = start.and_then(|s| s.baseline_rtt_ns) {
        parts.push(format!("idle RTT {}", nanos(idle)));
    }
    match &d.udp {
        Some(u) => {
            parts.push(format!("lost {} ({}), jitter {}", u.lost, ratio(u.loss_ratio), summary::jitter(u.jitter_ns)))
        }
        None => {
            let retransmitted: u64 = d.streams.iter().fold(0, |a, s| a.saturating_add(s.retransmits));
            parts.push(format!("{retransmitted} retransmitted"));
        }
    }
    parts.join("; ")
}
