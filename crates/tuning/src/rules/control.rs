//! Rules for congestion control, acknowledgements and probing.

use super::text::time;
use super::{ESNET, IP_SYSCTL};
use crate::catalogue::{Context, Finding, Paper, SysctlRule};

/// Initial window in bytes: segments (RFC 6928) of a usual size, for the calculation of a restart.
const INITIAL_WINDOW_BYTES: f64 = 10.0 * 1448.0;

pub(crate) const RULES: &[SysctlRule] = &[
    SysctlRule {
        key: "net.ipv4.tcp_congestion_control",
        source: "RFC 9438; ESnet fasterdata, Linux tuning",
        paper: Some(Paper {
            advised: "htcp",
            differs: true,
            why: "ESnet sees about twice Reno from htcp and the same from cubic, which kernels have by default.",
        }),
        changes: true,
        judge: congestion_control,
    },
    SysctlRule {
        key: "net.ipv4.tcp_available_congestion_control",
        source: IP_SYSCTL,
        paper: None,
        changes: false,
        judge: available,
    },
    SysctlRule {
        key: "net.ipv4.tcp_mtu_probing",
        source: "RFC 4821; ESnet fasterdata, Linux tuning",
        paper: Some(Paper {
            advised: "1",
            differs: false,
            why: "Jumbo frames meet routers that drop them and do not say so, today as then.",
        }),
        changes: true,
        judge: mtu_probing,
    },
    SysctlRule { key: "net.ipv4.tcp_no_metrics_save", source: ESNET, paper: None, changes: true, judge: metrics },
    SysctlRule {
        key: "net.ipv4.tcp_sack",
        source: "RFC 2018; RFC 8985",
        paper: Some(Paper {
            advised: "1 (0 as an option, not used)",
            differs: false,
            why: "Loss recovery (RACK) rests on it today; off, each loss in a window costs a round trip.",
        }),
        changes: true,
        judge: sack,
    },
    SysctlRule {
        key: "net.ipv4.tcp_timestamps",
        source: "RFC 7323, sections 4 and 5",
        paper: Some(Paper {
            advised: "1 (0 as an option, and for 10 Gb/s)",
            differs: true,
            why: "At 10 Gb/s sequence numbers wrap within 4 s: without them old segments cannot be distinguished from new ones.",
        }),
        changes: true,
        judge: timestamps,
    },
    SysctlRule {
        key: "net.ipv4.tcp_slow_start_after_idle",
        source: "tuned, profile network-throughput; against RFC 5681, section 4.1",
        paper: None,
        changes: true,
        judge: idle,
    },
];

fn congestion_control(context: &Context<'_>, value: &str) -> Finding {
    let available = context.sysctl("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    let has_cubic = available.split_whitespace().any(|name| name == "cubic");
    match value {
        "cubic" => {
            Finding::good("It regains its window after a loss in a time that does not depend on the round trip.")
        }
        "bbr" => Finding::good(
            "It does not halve its window at random loss; version 1 takes more than its share beside cubic and has no bound on its loss.",
        ),
        "htcp" => {
            Finding::good("Made for long fat paths; it regains its window faster the longer the last loss is past.")
        }
        "reno" if has_cubic => Finding::change(
            "cubic",
            "After a loss it adds one segment each round trip: half a large window takes minutes to regain.",
        )
        .with_effect(reno_recovery(context)),
        "dctcp" if has_cubic => Finding::change(
            "cubic",
            "It is for data centres whose switches mark early, and unfair elsewhere (RFC 8257, section 5).",
        ),
        "reno" | "dctcp" => Finding::unknown("Not the best for long paths, and the kernel offers no cubic at present."),
        _ => Finding::unknown("Nothing is known here of how it does on long paths: compare it by `longhaul test -C`."),
    }
}

/// Time to regain half a window by one segment per round trip.
fn reno_recovery(context: &Context<'_>) -> String {
    let segments = context.path.bdp().as_u64() as f64 / 1448.0;
    let seconds = segments / 2.0 * context.path.rtt.as_secs_f64();
    let regained = std::time::Duration::try_from_secs_f64(seconds).unwrap_or(std::time::Duration::MAX);
    format!("{} to regain the window after one loss on this path (segments of 1448 bytes)", time(regained))
}

fn available(_: &Context<'_>, _: &str) -> Finding {
    Finding::good("Congestion controls available now; loading a module (tcp_NAME) adds one.")
}

fn mtu_probing(_: &Context<'_>, value: &str) -> Finding {
    let why = "TCP finds a segment size that passes where a router drops large packets without a message.";
    match value {
        "1" | "2" => Finding::good(why),
        "0" => Finding::change(1, why),
        _ => Finding::unknown("The value is not known to longhaul."),
    }
}

fn metrics(_: &Context<'_>, value: &str) -> Finding {
    let why = "Otherwise a new connection starts with the slow-start threshold cached from an earlier lossy one to the same host.";
    if value == "1" { Finding::good(why) } else { Finding::change(1, why) }
}

fn sack(_: &Context<'_>, value: &str) -> Finding {
    let why = "It reports to the sender exactly which segments are missing.";
    if value == "1" {
        Finding::good(why)
    } else {
        Finding::change(1, why).with_effect("without it one lost segment is repaired each round trip")
    }
}

fn timestamps(context: &Context<'_>, value: &str) -> Finding {
    let why = "They give a round trip for every acknowledgement and protect against wrapped sequence numbers.";
    // Time to send 2^32 bytes at the path's rate.
    let wraps = context.path.rate.time_for(units::Bytes::new(1 << 32));
    match value {
        "1" | "2" => Finding::good(why),
        _ => {
            let effect =
                wraps.map_or_else(String::new, |t| format!("sequence numbers wrap within {} at this rate", time(t)));
            Finding::change(1, why).with_effect(effect)
        }
    }
}

fn idle(context: &Context<'_>, value: &str) -> Finding {
    let why = "A transfer that pauses longer than a retransmission timeout otherwise restarts with the initial window.";
    if value == "0" {
        return Finding::good(why);
    }
    let trips = (context.path.bdp().as_u64() as f64 / INITIAL_WINDOW_BYTES).max(1.0).log2().ceil();
    let lost = context.path.rtt.mul_f64(trips);
    let effect = format!("{trips:.0} round trips, {}, to fill this path again after each pause", time(lost));
    Finding::change(0, why).with_effect(effect)
}
