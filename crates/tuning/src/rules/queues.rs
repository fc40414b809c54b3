//! Rules for queues of the host that belong to no device.

use super::NET_SYSCTL;
use crate::catalogue::{Context, Finding, Paper, SysctlRule};

/// Maximum harmless share of packets at which the receive path runs out of budget.
const SQUEEZES_PER_PACKET_MAX: f64 = 1e-3;

pub(crate) const RULES: &[SysctlRule] = &[
    SysctlRule {
        key: "net.core.default_qdisc",
        source: "ESnet fasterdata, packet pacing; tc-fq(8)",
        paper: Some(Paper {
            advised: "pfifo with txqueuelen 10000",
            differs: true,
            why: "fq paces each connection and serves them in turn; a long fifo only adds a standing queue.",
        }),
        changes: true,
        judge: default_qdisc,
    },
    SysctlRule {
        key: "net.core.netdev_max_backlog",
        source: NET_SYSCTL,
        paper: Some(Paper {
            advised: "250000",
            differs: true,
            why: "Only a backlog that overflows needs more room; the kernel counts its drops (softnet_stat).",
        }),
        changes: true,
        judge: backlog,
    },
    SysctlRule { key: "net.core.netdev_budget", source: NET_SYSCTL, paper: None, changes: true, judge: budget },
];

fn default_qdisc(context: &Context<'_>, value: &str) -> Finding {
    let why = "Discipline of devices that come up from now on; fq spaces a connection's packets, worth 2 to 4 times where a sender outruns its receiver over 50 to 80 ms (ESnet).";
    match (value, context.facts.has_fq) {
        ("fq", _) => Finding::good(why),
        ("fq_codel" | "cake", Some(false) | None) => Finding::good(
            "It shares the device among connections and keeps the queue short; TCP paces by itself since Linux 4.13.",
        ),
        (_, Some(true)) => Finding::change("fq", why),
        (_, Some(false)) => Finding::good(
            "This kernel has no fq; TCP paces by itself since Linux 4.13 on request (bbr, SO_MAX_PACING_RATE).",
        ),
        (_, None) => Finding::unknown("fq would be better; whether this kernel has it cannot be determined."),
    }
}

fn backlog(context: &Context<'_>, value: &str) -> Finding {
    let (Ok(found), Some(counted)) = (value.parse::<u64>(), context.facts.softnet) else {
        return Finding::unknown(
            "The number of packets dropped for a full backlog cannot be read (/proc/net/softnet_stat).",
        );
    };
    if counted.dropped == 0 {
        return Finding::good(format!("No packet of {} was dropped for a full backlog.", counted.processed));
    }
    let why = format!("{} of {} packets were dropped for a full backlog.", counted.dropped, counted.processed);
    Finding::change(found.saturating_mul(2), why)
}

fn budget(context: &Context<'_>, value: &str) -> Finding {
    let (Ok(found), Some(counted)) = (value.parse::<u64>(), context.facts.softnet) else {
        return Finding::unknown("How often the budget was used up cannot be read (/proc/net/softnet_stat).");
    };
    let why = format!(
        "The budget of packets in one round of receiving was used up {} times in {} packets.",
        counted.squeezed, counted.processed
    );
    if counted.squeezed as f64 <= counted.processed as f64 * SQUEEZES_PER_PACKET_MAX {
        return Finding::good(why);
    }
    Finding::change(found.saturating_mul(2), why)
}
