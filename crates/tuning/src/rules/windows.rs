//! Rules for socket buffers, relative to the bandwidth-delay product.

use units::{Bytes, Rate};

use super::text::{bytes, numbers, path, rate, time, triple};
use super::{ESNET, IP_SYSCTL, NET_SYSCTL};
use crate::catalogue::{Context, Finding, Paper, SysctlRule};

/// Maximum of a buffer limit in bytes: the kernel stores it in a signed 32-bit number.
const BUFFER_BYTES_MAX: u64 = i32::MAX as u64;
/// Maximum window in bytes that TCP can announce: 65535 shifted by 14 (RFC 7323, section 2.3).
const WINDOW_BYTES_MAX: u64 = 65_535 << 14;
/// Factor by which the kernel grows the send buffer per byte in flight (tcp_sndbuf_expand, net/ipv4/tcp_input.c).
const SEND_BUFFER_FACTOR: u64 = 2;

const PAPER_MAXIMUM: &str = "67108864";

pub(crate) const RULES: &[SysctlRule] = &[
    SysctlRule {
        key: "net.ipv4.tcp_rmem",
        source: IP_SYSCTL,
        paper: Some(Paper {
            advised: "4096 87380 67108864",
            differs: true,
            why: "The maximum follows from the path now; minimum and start stay as the kernel has them, today 131072.",
        }),
        changes: true,
        judge: receive_buffer,
    },
    SysctlRule {
        key: "net.ipv4.tcp_wmem",
        source: "kernel: net/ipv4/tcp_input.c, tcp_sndbuf_expand",
        paper: Some(Paper {
            advised: "4096 65536 67108864",
            differs: true,
            why: "The maximum follows from the path now; autotuning raises a small start within a few round trips.",
        }),
        changes: true,
        judge: send_buffer,
    },
    SysctlRule {
        key: "net.ipv4.tcp_moderate_rcvbuf",
        source: IP_SYSCTL,
        paper: None,
        changes: true,
        judge: moderation,
    },
    SysctlRule {
        key: "net.ipv4.tcp_window_scaling",
        source: "RFC 7323, section 2",
        paper: None,
        changes: true,
        judge: scaling,
    },
    SysctlRule { key: "net.ipv4.tcp_adv_win_scale", source: IP_SYSCTL, paper: None, changes: false, judge: share },
    SysctlRule {
        key: "net.core.rmem_max",
        source: "socket(7), SO_RCVBUF",
        paper: Some(Paper {
            advised: PAPER_MAXIMUM,
            differs: true,
            why: "TCP tunes its buffers without it; only programs that set their own are bound by it.",
        }),
        changes: true,
        judge: explicit_buffer,
    },
    SysctlRule {
        key: "net.core.wmem_max",
        source: "socket(7), SO_SNDBUF",
        paper: Some(Paper {
            advised: PAPER_MAXIMUM,
            differs: true,
            why: "TCP tunes its buffers without it; only programs that set their own are bound by it.",
        }),
        changes: true,
        judge: explicit_buffer,
    },
    SysctlRule { key: "net.core.rmem_default", source: NET_SYSCTL, paper: None, changes: false, judge: default_buffer },
    SysctlRule { key: "net.ipv4.tcp_mem", source: IP_SYSCTL, paper: None, changes: true, judge: memory },
    SysctlRule { key: "net.core.optmem_max", source: ESNET, paper: None, changes: true, judge: optional_memory },
    SysctlRule { key: "net.ipv4.tcp_notsent_lowat", source: IP_SYSCTL, paper: None, changes: true, judge: not_sent },
    SysctlRule {
        key: "net.ipv4.tcp_limit_output_bytes",
        source: "kernel: net/ipv4/tcp_output.c, tcp_small_queue_check",
        paper: None,
        changes: true,
        judge: small_queue,
    },
];

/// Bytes of a receive buffer that are available as window.
///
/// Before Linux 6.6 the share is fixed by tcp_adv_win_scale: `1 - 2^-n`, or `2^n` for n <= 0. Later kernels measure the
/// payload share of each connection's packets, starting with one half (TCP_DEFAULT_SCALING_RATIO). Packets of 1500
/// bytes reach about 0.6; one half is the conservative value for any device.
fn window_of(context: &Context<'_>, buffer: u64) -> u64 {
    match window_scale(context) {
        n @ 1.. => buffer - buffer.checked_shr(n.unsigned_abs()).unwrap_or(0),
        n => buffer.checked_shr(n.unsigned_abs()).unwrap_or(0),
    }
}

/// Smallest buffer, in whole pages, whose window is at least `window`.
fn buffer_for(context: &Context<'_>, window: u64) -> u64 {
    let buffer = match window_scale(context) {
        // (1 - 2^-n) b >= w, so b >= w 2^n / (2^n - 1).
        n @ 1..=30 => window.saturating_mul(1 << n).div_ceil((1 << n) - 1),
        n if n > 30 => window,
        n => window.saturating_mul(1_u64.checked_shl(n.unsigned_abs()).unwrap_or(u64::MAX)),
    };
    whole_pages(context, buffer)
}

/// Scale in force: the setting before Linux 6.6, one half since then.
fn window_scale(context: &Context<'_>) -> i32 {
    if context.facts.kernel >= (6, 6) {
        return 1;
    }
    let set = context.sysctl("net.ipv4.tcp_adv_win_scale").and_then(|v| v.trim().parse().ok());
    set.unwrap_or(1)
}

fn whole_pages(context: &Context<'_>, bytes: u64) -> u64 {
    let page = context.facts.page.as_u64().max(1);
    bytes.div_ceil(page).saturating_mul(page).min(BUFFER_BYTES_MAX)
}

/// Window of a full path, limited to the maximum that TCP can announce.
fn full_window(context: &Context<'_>) -> u64 {
    context.path.bdp().as_u64().min(WINDOW_BYTES_MAX)
}

/// Rate of one connection with this window, limited to the rate of the path.
fn reach(context: &Context<'_>, window: u64) -> Rate {
    context.path.rate_of_window(Bytes::new(window))
}

fn limited(context: &Context<'_>, finding: Finding, by: &str, window: u64) -> Finding {
    let limit = reach(context, window);
    if window >= context.path.bdp().as_u64() {
        return finding.with_limit(limit);
    }
    let at = time(context.path.rtt);
    let on = rate(context.path.rate);
    let text = format!("{by}-limited to about {} at {at}, on a path of {on}", rate(limit));
    finding.with_limit(limit).with_effect(text)
}

fn receive_buffer(context: &Context<'_>, value: &str) -> Finding {
    let Some([least, start, most]) = triple(value) else { return Finding::unknown("It is not three numbers.") };
    let wanted = buffer_for(context, full_window(context));
    let window = window_of(context, most);
    let rule = if context.facts.kernel >= (6, 6) {
        "since Linux 6.6 the kernel measures how much of the buffer is payload and begins with half"
    } else {
        "before Linux 6.6 tcp_adv_win_scale sets how much of the buffer is window"
    };
    let bdp = bytes(context.path.bdp());
    if most >= wanted {
        let why = format!("The largest window, {}, covers the product of {bdp} ({rule}).", bytes(Bytes::new(window)));
        return limited(context, Finding::good(why), "window", window);
    }
    let why = format!(
        "The largest window, {}, is below the product of {bdp} for {} ({rule}).",
        bytes(Bytes::new(window)),
        path(context.path)
    );
    limited(context, Finding::change(format!("{least} {start} {wanted}"), why + several(context)), "window", window)
}

/// Note for a path whose bandwidth-delay product exceeds the maximum window of one connection.
fn several(context: &Context<'_>) -> &'static str {
    if context.path.bdp().as_u64() > WINDOW_BYTES_MAX {
        " TCP announces at most 1 GiB: one connection cannot fill this path, several can."
    } else {
        ""
    }
}

fn send_buffer(context: &Context<'_>, value: &str) -> Finding {
    let Some([least, start, most]) = triple(value) else { return Finding::unknown("It is not three numbers.") };
    let flight = full_window(context);
    let wanted = whole_pages(context, flight.saturating_mul(SEND_BUFFER_FACTOR));
    let bdp = bytes(context.path.bdp());
    if most >= wanted {
        let why = format!("Twice the product of {bdp} fits: the data in flight and the data that waits to be sent.");
        return limited(context, Finding::good(why), "send-buffer", most);
    }
    let why = format!(
        "Data in flight stays in the buffer until it is acknowledged, and autotuning needs twice that: the product is {bdp} for {}.",
        path(context.path)
    );
    limited(context, Finding::change(format!("{least} {start} {wanted}"), why), "send-buffer", most)
}

fn moderation(_: &Context<'_>, value: &str) -> Finding {
    let why = "With it the receive buffer grows with what the connection carries, up to the maximum of tcp_rmem.";
    if value == "1" { Finding::good(why) } else { Finding::change(1, why) }
}

fn scaling(context: &Context<'_>, value: &str) -> Finding {
    let why = "Without it no window is larger than 65535 bytes.";
    if value == "1" {
        return Finding::good(why);
    }
    limited(context, Finding::change(1, why), "window", 65_535)
}

fn share(context: &Context<'_>, _: &str) -> Finding {
    if context.facts.kernel >= (6, 6) {
        Finding::good("Without effect since Linux 6.6, where the kernel measures the share for each connection.")
    } else {
        Finding::good("It decides how much of a receive buffer is window; the advice for tcp_rmem counts with it.")
    }
}

/// socket(7): the kernel doubles the requested buffer for bookkeeping, so that the limit is one window and not two.
fn explicit_buffer(context: &Context<'_>, value: &str) -> Finding {
    let Ok(found) = value.parse::<u64>() else { return Finding::unknown("It is not a number.") };
    let wanted = whole_pages(context, full_window(context));
    let why = "It bounds only programs that set their buffers, and UDP; the kernel doubles what they ask for, so one product suffices.";
    if found >= wanted {
        return Finding::good(why);
    }
    let reached = rate(reach(context, found));
    Finding::change(wanted, why)
        .with_effect(format!("a program that sets its buffers is limited to {reached} at {}", time(context.path.rtt)))
}

fn default_buffer(_: &Context<'_>, _: &str) -> Finding {
    Finding::good(
        "TCP starts with the second number of tcp_rmem instead; a large default costs memory in every UDP socket.",
    )
}

fn memory(context: &Context<'_>, value: &str) -> Finding {
    let Some([low, pressure, high]) = triple(value) else { return Finding::unknown("It is not three numbers.") };
    let page = context.facts.page.as_u64().max(1);
    // The two buffers of one connection, and the same again for other traffic of the host.
    let need = buffer_for(context, full_window(context)).saturating_mul(4) / page;
    let limit = bytes(Bytes::new(pressure.saturating_mul(page)));
    if pressure >= need {
        return Finding::good(format!(
            "Buffers of all connections together may take {limit} before the kernel limits them."
        ));
    }
    let why = format!(
        "Above {limit} for all connections together the kernel shrinks windows; one connection at {} needs {}.",
        path(context.path),
        bytes(Bytes::new(need.saturating_mul(page) / 2))
    );
    let wanted = [low.max(need / 4 * 3), need, high.max(need.saturating_mul(3) / 2)];
    let too_much = context.facts.memory.is_none_or(|all| wanted[2].saturating_mul(page) > all.as_u64() / 2);
    if too_much {
        return Finding::unknown(format!("{why} Raising it would take more than half of this machine's memory."));
    }
    Finding::change(wanted.map(|n| n.to_string()).join(" "), why)
}

fn optional_memory(context: &Context<'_>, value: &str) -> Finding {
    const OPTIONAL_MEMORY_BYTES: u64 = 1 << 20;
    let Ok(found) = value.parse::<u64>() else { return Finding::unknown("It is not a number.") };
    let why = "It holds the data of MSG_ZEROCOPY in flight; copying is the limit only above some 40 Gb/s a connection.";
    if found >= OPTIONAL_MEMORY_BYTES || context.path.rate < Rate::from_bps(40_000_000_000) {
        return Finding::good(why);
    }
    Finding::change(OPTIONAL_MEMORY_BYTES, why)
}

fn not_sent(_: &Context<'_>, value: &str) -> Finding {
    const BUFFER_BYTES_MIN: u64 = 128 << 10;
    let found = numbers(value).and_then(|n| n.first().copied());
    let why = "It keeps a program from filling the send buffer ahead of the network; bulk transfers need no limit.";
    match found {
        None => Finding::unknown("It is not a number."),
        Some(found) if found < BUFFER_BYTES_MIN => {
            Finding::change(BUFFER_BYTES_MIN, why).with_effect("a busy sender is woken too late to keep the path full")
        }
        Some(_) => Finding::good(why),
    }
}

/// The host's queues may hold about one millisecond of a connection at its pacing rate, limited to this many bytes
/// (`sk_pacing_rate >> sk_pacing_shift`, shift 10).
fn small_queue(context: &Context<'_>, value: &str) -> Finding {
    let Ok(found) = value.parse::<u64>() else { return Finding::unknown("It is not a number.") };
    let wanted = whole_pages(context, context.path.rate.as_bytes_per_second() / 1024);
    let why = "Most bytes of one connection in the host's own queues; below a millisecond at the path's rate they run empty between wake-ups.";
    if found >= wanted { Finding::good(why) } else { Finding::change(wanted, why) }
}
