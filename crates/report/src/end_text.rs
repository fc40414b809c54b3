//! The summary at the end of a test in plain lines.

use std::io::{self, Write};

use results::{
    ClockSummary, Completion, Decomposition, DelaySummary, DirectionSummary, EndRecord, Limit, LossEpisode, Rfc6349,
    StartRecord, UdpSummary,
};

use crate::closing::write_closing;
use crate::sheet::Sheet;
use crate::summary::{self, StageQuantile, bytes, finite, nanos, percent, rate, ratio, seconds, signed_nanos};

/// Maximum number of loss episodes in the list.
const EPISODES_LISTED_MAX: usize = 8;

/// Maximum number of streams in the list.
const STREAMS_LISTED_MAX: usize = 16;

/// Width of the bar of a stage's share, in columns.
const BAR_WIDTH: usize = 40;

pub(crate) fn write_end(out: &mut impl Write, start: Option<&StartRecord>, end: &EndRecord) -> io::Result<()> {
    let mut sheet = Sheet::new(out);
    let failed = matches!(end.completion, Completion::Failed { .. });
    if failed {
        sheet.blank()?;
        sheet.heading(&completion(&end.completion))?;
    }
    for d in &end.directions {
        sheet.blank()?;
        direction(&mut sheet, start, d, failed)?;
    }
    sheet.blank()?;
    sheet.heading("test")?;
    sheet.item("completion", &completion(&end.completion))?;
    match &end.clock {
        Some(c) => clock(&mut sheet, c)?,
        None if start.is_some_and(|s| s.server.is_some()) => {
            sheet.item("clocks", "not compared: no exchange was answered")?;
        }
        None => sheet.item("clocks", "not compared (the server's protocol cannot)")?,
    }
    let m = &end.memory;
    let grown = |from, to| if to == 0 { "unknown".to_owned() } else { format!("{} to {}", bytes(from), bytes(to)) };
    let client = grown(m.client_rss_start_bytes, m.client_rss_end_bytes);
    let server = grown(m.server_rss_start_bytes, m.server_rss_end_bytes);
    sheet.item("memory", &format!("client {client}, server {server}"))?;
    end.warnings.iter().try_for_each(|w| sheet.item("WARNING", w))?;
    write_closing(out, start, end)
}

/// Description of the end of a test.
pub(crate) fn completion(c: &Completion) -> String {
    match c {
        Completion::Complete => "complete".to_owned(),
        Completion::Interrupted => "interrupted; the results cover the time until then".to_owned(),
        Completion::Failed { reason } => format!("FAILED: {reason}; not a result of the plan"),
    }
}

fn direction<W: Write>(
    sheet: &mut Sheet<'_, W>,
    start: Option<&StartRecord>,
    d: &DirectionSummary,
    failed: bool,
) -> io::Result<()> {
    let name = summary::direction_name(d.direction);
    let route = start.map_or_else(String::new, |s| format!(": {}", summary::route(s, d.direction)));
    sheet.heading(&format!("{name}{route}"))?;
    let (tx, rx) = (&d.sender, &d.receiver);
    if failed {
        sheet.item("moved", &summary::moved(d))?;
    } else {
        goodput(sheet, d)?;
    }
    sheet.item("bytes", &agreement(d, start.is_none_or(|s| s.server.is_some())))?;
    delays(sheet, d)?;
    if let Some(r) = d.rfc6349.as_ref().filter(|_| !failed) {
        rfc6349(sheet, d, r)?;
    }
    if let Some(r) = &d.ramp_up {
        let rtts = r.time_to_90_rtts.map_or_else(String::new, |n| format!(" ({:.1} RTTs)", finite(n)));
        let (steady, after) = (rate(r.steady_bps), seconds(r.time_to_90_s));
        let (volume, step) = (bytes(r.bytes_to_90), seconds(r.resolution_s));
        sheet.item("ramp-up", &format!("90 % of {steady} after {after}{rtts} and {volume}; resolution {step}"))?;
    }
    if let Some(u) = &d.udp {
        let outages = start.map_or_else(Vec::new, |s| summary::outages(d, u, s.plan.interval_ns));
        udp(sheet, u, &outages)?;
    } else {
        losses(sheet, d)?;
    }
    limits(sheet, d)?;
    streams(sheet, d)?;
    let (cpu_tx, cpu_rx) = (finite(tx.cpu_s_per_gb), finite(rx.cpu_s_per_gb));
    sheet.item(
        "CPU",
        &format!("sender {} ({cpu_tx:.2} s/GB), receiver {} ({cpu_rx:.2} s/GB)", seconds(tx.cpu_s), seconds(rx.cpu_s)),
    )
}

fn goodput<W: Write>(sheet: &mut Sheet<'_, W>, d: &DirectionSummary) -> io::Result<()> {
    let rx = &d.receiver;
    sheet.item("goodput", &format!("{} ({})", rate(d.throughput_bps), summary::measured(d)))?;
    if let Some(s) = d.omitted_s {
        let left_out = seconds(s);
        sheet.sub(&format!(
            "goodput, block RTT and limits without the first {left_out}; all other values are of the whole test"
        ))?;
    }
    let Some(drained) = rx.drain_bytes else { return Ok(()) };
    sheet.sub(&format!("and {} in {} after the test (drain)", bytes(drained), seconds(rx.drain_s.unwrap_or(0.0))))
}

/// Volumes sent and received, and whether the counts match. A thrulay server reports no counts.
pub(crate) fn agreement(d: &DirectionSummary, has_server: bool) -> String {
    let a = &d.agreement;
    if a.is_missing() {
        return format!("{}: {}", summary::moved(d), results::Agreement::MISSING);
    }
    let counts = format!("sent {}, received {}", bytes(a.sent_bytes), bytes(a.received_bytes));
    let echoed = if d.udp.is_none() { format!(", {} blocks echoed", a.echoed_blocks) } else { String::new() };
    let verdict = match (&a.explanation, a.agree) {
        (None, true) => "counts of both ends match".to_owned(),
        (Some(why), true) => format!("counts of both ends match ({why})"),
        (Some(why), false) if !has_server => why.clone(),
        (Some(why), false) => format!("COUNTS DIFFER: {why}"),
        (None, false) => "COUNTS DIFFER".to_owned(),
    };
    format!("{counts}{echoed}: {verdict}")
}

/// One line with the quantiles of a delay.
pub(crate) fn quantiles(d: &DelaySummary) -> String {
    format!(
        "median {}, 95 % {}, 99 % {}, min {}, max {} ({} samples)",
        nanos(d.p50_ns),
        nanos(d.p95_ns),
        nanos(d.p99_ns),
        nanos(d.min_ns),
        nanos(d.max_ns),
        d.count
    )
}

/// Delays of application, kernel and stages, and one-way delays.
fn delays<W: Write>(sheet: &mut Sheet<'_, W>, d: &DirectionSummary) -> io::Result<()> {
    if let Some(rtt) = &d.block_rtt {
        sheet.item("block RTT", &format!("{}; as seen by the application", quantiles(rtt)))?;
    }
    if let Some(rtt) = &d.kernel_srtt {
        let min = d.kernel_min_rtt_ns.map_or_else(String::new, |ns| format!(", minimum {}", nanos(ns)));
        let text = format!("smoothed: median {}, 95 % {}{min}", nanos(rtt.p50_ns), nanos(rtt.p95_ns));
        sheet.item("kernel RTT", &format!("{text}; what TCP measures"))?;
    } else if let Some(ns) = d.kernel_min_rtt_ns {
        sheet.item("kernel RTT", &format!("minimum {}; what TCP measures", nanos(ns)))?;
    }
    if let Some(stages) = &d.decomposition {
        decomposition(sheet, stages)?;
    }
    for (label, delay) in [("one-way delay", &d.one_way), ("  echoes back", &d.one_way_return)] {
        let Some(o) = delay else { continue };
        let caveat = if summary::one_way_is_meaningful(o) { "" } else { "; smaller than the clock error" };
        sheet.item(label, &format!("{}{caveat}", summary::one_way(o)))?;
    }
    Ok(())
}

fn decomposition<W: Write>(sheet: &mut Sheet<'_, W>, d: &Decomposition) -> io::Result<()> {
    let Some((name, ns, share)) = summary::largest_stage(d) else {
        return sheet.item("delay sits in", &format!("unknown: {}", d.missing.join("; ")));
    };
    let samples = d.samples;
    sheet
        .item("delay sits in", &format!("{name} {} ({}), from {samples} sampled blocks", nanos(ns), percent(share)))?;
    let medians = summary::stage_nanos(d, StageQuantile::Median);
    let total = medians.iter().fold(0_u64, |a, b| a.saturating_add(*b)).max(1) as f64;
    for stage in summary::stages(d) {
        let Some(delay) = stage.delay else {
            sheet.sub(&format!("{:<14}{:>9}", stage.name, "-"))?;
            continue;
        };
        let share = delay.p50_ns as f64 / total;
        let bar = "#".repeat((share * BAR_WIDTH as f64).round() as usize);
        let (median, p95) = (nanos(delay.p50_ns), nanos(delay.p95_ns));
        sheet.sub(&format!("{:<14}{median:>9} {:>6}  |{bar:<BAR_WIDTH$}|  95 % {p95}", stage.name, percent(share)))?;
    }
    d.missing.iter().try_for_each(|m| sheet.sub(&format!("missing: {m}")))
}

fn rfc6349<W: Write>(sheet: &mut Sheet<'_, W>, d: &DirectionSummary, r: &Rfc6349) -> io::Result<()> {
    let given = if r.bottleneck_given { "given" } else { "highest over several round trips" };
    let verified = if r.path_mtu_verified { "verified" } else { "not verified" };
    sheet.item(
        "RFC 6349",
        &format!(
            "transfer time ratio {:.2}, TCP efficiency {:.2} %, buffer delay {}",
            finite(r.transfer_time_ratio),
            finite(r.tcp_efficiency_percent),
            summary::buffer_delay(r)
        ),
    )?;
    sheet.sub(&format!(
        "bottleneck {} ({given}), ideal TCP throughput {}, path MTU {} B ({verified})",
        rate(r.bottleneck_bps),
        rate(r.ideal_throughput_bps),
        r.path_mtu_bytes
    ))?;
    let by_loss = summary::limits_by_share(d).first().is_some_and(|(limit, _)| *limit == Limit::Loss);
    if by_loss && !r.bottleneck_given {
        sheet.sub("loss kept the transfer below the link's rate, so the bottleneck and the ratio need --link-rate")?;
    }
    let connections = r.connections_needed.map_or_else(String::new, |n| format!(", {n} connections needed"));
    sheet.sub(&format!(
        "baseline RTT {} (kernel minimum), mean RTT under load {}, BDP {}{connections}",
        nanos(r.baseline_rtt_ns),
        nanos(r.mean_rtt_ns),
        bytes(r.bdp_bytes)
    ))
}

fn losses<W: Write>(sheet: &mut Sheet<'_, W>, d: &DirectionSummary) -> io::Result<()> {
    let retransmits = d.streams.iter().fold(0_u64, |a, s| a.saturating_add(s.retransmits));
    let episodes = d.loss_episode_count;
    let plural = if episodes == 1 { "episode" } else { "episodes" };
    let segments = if retransmits == 1 { "segment" } else { "segments" };
    sheet.item("loss", &format!("{episodes} {plural}, {retransmits} {segments} retransmitted"))?;
    for e in d.loss_episodes.iter().take(EPISODES_LISTED_MAX) {
        sheet.sub(&episode(e))?;
    }
    let shown = d.loss_episodes.len().min(EPISODES_LISTED_MAX) as u64;
    if episodes > shown {
        sheet.sub(&format!("and {} more", episodes - shown))?;
    }
    Ok(())
}

fn episode(e: &LossEpisode) -> String {
    let rtts = e.recovery_rtts.map_or_else(String::new, |n| format!(" ({:.1} RTTs)", finite(n)));
    let recovery = e.recovery_s.map_or_else(
        || "not recovered before the end".to_owned(),
        |s| format!("back at 90 % after {}{rtts}", seconds(s)),
    );
    let depth = if e.depth > 0.0 { format!("window -{}", percent(e.depth)) } else { "window unchanged".to_owned() };
    format!("at {} stream {}: {} retransmitted, {depth}, {recovery}", seconds(e.start_s), e.stream, e.retransmits)
}

fn udp<W: Write>(sheet: &mut Sheet<'_, W>, u: &UdpSummary, outages: &[String]) -> io::Result<()> {
    sheet.item("datagrams", &format!("{} sent, {} received, waiting time {}", u.sent, u.received, nanos(u.tmax_ns)))?;
    let runs: Vec<_> = u.loss_runs.iter().take(12).map(|(len, n)| format!("{n} x {len}")).collect();
    let runs = if runs.is_empty() { String::new() } else { format!("; runs (number x length): {}", runs.join(", ")) };
    sheet.item("loss", &format!("{} ({}){runs}", u.lost, ratio(u.loss_ratio)))?;
    outages.iter().try_for_each(|o| sheet.sub(o))?;
    let n: Vec<_> = u.n_reordering.iter().take(12).map(u64::to_string).collect();
    let n = if n.is_empty() { String::new() } else { format!("; n-reordering from n = 1: {}", n.join(", ")) };
    sheet.item("reordered", &format!("{} ({}){n}", u.reordered, ratio(u.reordered_ratio)))?;
    sheet.item("duplicates", &format!("{} ({})", u.duplicates, ratio(u.duplicate_ratio)))?;
    sheet.item("jitter", &format!("{} (RFC 3550)", summary::jitter(u.jitter_ns)))?;
    let lag = nanos(u.sender_lag_max_ns);
    sheet.item(
        "generator",
        &format!("{} sent late, lag at most {lag}, {} rejected by the kernel", u.sender_late, u.send_errors),
    )
}

fn limits<W: Write>(sheet: &mut Sheet<'_, W>, d: &DirectionSummary) -> io::Result<()> {
    let shares = summary::limits_by_share(d);
    if shares.is_empty() {
        return Ok(());
    }
    let text = |(limit, share): &(Limit, f64)| format!("{} {}", summary::limit_name(*limit), percent(*share));
    sheet.item("limited by", &shares.iter().map(text).collect::<Vec<_>>().join(", "))?;
    if shares.first().is_some_and(|(limit, _)| *limit == Limit::Bottleneck) {
        return sheet.sub(&summary::path_full(d));
    }
    let remedy = shares.first().and_then(|(limit, _)| summary::limit_remedy(*limit));
    remedy.map_or(Ok(()), |r| sheet.sub(r))
}

fn streams<W: Write>(sheet: &mut Sheet<'_, W>, d: &DirectionSummary) -> io::Result<()> {
    if d.streams.len() < 2 {
        return Ok(());
    }
    sheet.item(
        "streams",
        &format!("{:>4} {:>12} {:>11} {:>7}   block RTT median / 95 %", "no", "goodput", "received", "retr"),
    )?;
    for s in d.streams.iter().take(STREAMS_LISTED_MAX) {
        let rtt = s
            .block_rtt
            .as_ref()
            .map_or_else(|| "-".to_owned(), |r| format!("{} / {}", nanos(r.p50_ns), nanos(r.p95_ns)));
        let (goodput, received) = (rate(s.throughput_bps), bytes(s.received_bytes));
        sheet.item("", &format!("{:>4} {goodput:>12} {received:>11} {:>7}   {rtt}", s.stream, s.retransmits))?;
    }
    if d.streams.len() > STREAMS_LISTED_MAX {
        sheet.sub(&format!("and {} more", d.streams.len() - STREAMS_LISTED_MAX))?;
    }
    Ok(())
}

fn clock<W: Write>(sheet: &mut Sheet<'_, W>, c: &ClockSummary) -> io::Result<()> {
    let n = format!("{} + {} + {}", c.exchanges_before, c.exchanges_during, c.exchanges_after);
    sheet.item(
        "clocks",
        &format!(
            "server - client {} +/- {}, drift {:.3} +/- {:.3} ppm, from {n} exchanges before, during and after the test",
            signed_nanos(c.offset_ns),
            nanos(c.bound_ns),
            finite(c.drift_ppm),
            finite(c.drift_bound_ppm)
        ),
    )?;
    let after = c.idle_rtt_after_ns.map_or_else(|| "not measured".to_owned(), nanos);
    let before = Some(c.idle_rtt_before_ns).filter(|ns| *ns > 0).map_or_else(|| "not measured".to_owned(), nanos);
    sheet.item("idle RTT", &format!("before {before}, after {after}; between the two programs"))
}
