//! Tables of the end record.

use results::{DelaySummary, DirectionSummary, Rfc6349, UdpSummary};

use super::Series;
use super::grid::Grid;
use super::markup::Html;
use crate::end_text::agreement;
use crate::summary::{self, bytes, finite, nanos, percent, rate, ratio, seconds};

/// Maximum number of rows of a table that grows with the test; the record stream has all.
const ROWS_MAX: usize = 256;

/// A table over all series, one function per row.
struct Rows<'a, 's> {
    grid: Grid,
    series: &'a [Series<'s>],
}

impl<'a, 's> Rows<'a, 's> {
    fn new(series: &'a [Series<'s>]) -> Self {
        Self { grid: Grid::new(series.iter().map(|s| s.label.clone()).collect()), series }
    }

    fn track(&mut self, label: &str, cell: impl Fn(&Series<'s>) -> Option<String>) {
        self.grid.row(label, self.series.iter().map(cell).collect());
    }

    /// Adds a row with values of the end record; series without one have no value.
    fn end(&mut self, label: &str, cell: impl Fn(&DirectionSummary) -> Option<String>) {
        self.track(label, |s| s.track.summary.as_ref().and_then(&cell));
    }

    fn write(self, h: &mut Html, heading: &'static str) {
        if !self.grid.is_empty() {
            h.raw("<section>").element("h2", heading);
            self.grid.write(h);
            h.raw("</section>");
        }
    }
}

pub(crate) fn summary(h: &mut Html, series: &[Series<'_>]) {
    let mut rows = Rows::new(series);
    rows.track("goodput", |s| s.track.throughput_bps.map(rate));
    rows.end("received", |d| Some(summary::measured(d)));
    rows.end("drained after the test", |d| {
        let r = &d.receiver;
        Some(format!("{} in {}", bytes(r.drain_bytes?), seconds(r.drain_s.unwrap_or(0.0))))
    });
    rows.track("counts of both ends", |s| s.track.summary.as_ref().map(|d| agreement(d, s.run.start.server.is_some())));
    let rtt = |s: &Series<'_>, of: fn(&DelaySummary) -> u64| s.track.block_rtt.as_ref().map(|d| nanos(of(d)));
    rows.track("block RTT, median", |s| rtt(s, |d| d.p50_ns));
    rows.track("block RTT, 95 %", |s| rtt(s, |d| d.p95_ns));
    rows.track("block RTT, 99 %", |s| rtt(s, |d| d.p99_ns));
    rows.track("block RTT, 99.9 %", |s| rtt(s, |d| d.p999_ns));
    rows.track("block RTT, range", |s| {
        s.track.block_rtt.as_ref().map(|d| format!("{} to {} ({} blocks)", nanos(d.min_ns), nanos(d.max_ns), d.count))
    });
    rows.end("kernel smoothed RTT, median", |d| d.kernel_srtt.as_ref().map(|r| nanos(r.p50_ns)));
    rows.end("kernel smoothed RTT, 95 %", |d| d.kernel_srtt.as_ref().map(|r| nanos(r.p95_ns)));
    rows.end("kernel minimum RTT", |d| d.kernel_min_rtt_ns.map(nanos));
    rows.track("idle RTT before the test", |s| s.run.start.baseline_rtt_ns.map(nanos));
    rows.end("one-way delay", |d| d.one_way.as_ref().map(summary::one_way));
    rows.end("one-way delay of the echoes", |d| d.one_way_return.as_ref().map(summary::one_way));
    rows.end("ramp-up to 90 %", |d| {
        let r = d.ramp_up.as_ref()?;
        let rtts = r.time_to_90_rtts.map_or_else(String::new, |n| format!(" = {:.1} RTTs", finite(n)));
        Some(format!("{}{rtts}, {} (of {})", seconds(r.time_to_90_s), bytes(r.bytes_to_90), rate(r.steady_bps)))
    });
    rows.end("retransmitted segments", |d| d.udp.is_none().then(|| retransmits(d).to_string()));
    rows.end("CPU of the sender", |d| Some(cpu(d.sender.cpu_s, d.sender.cpu_s_per_gb)));
    rows.end("CPU of the receiver", |d| Some(cpu(d.receiver.cpu_s, d.receiver.cpu_s_per_gb)));
    rows.write(h, "Summary");
}

pub(crate) fn retransmits(d: &DirectionSummary) -> u64 {
    d.streams.iter().fold(0_u64, |a, s| a.saturating_add(s.retransmits))
}

fn cpu(s: f64, per_gb: f64) -> String {
    format!("{} ({:.2} s/GB)", seconds(s), finite(per_gb))
}

pub(crate) fn rfc6349(h: &mut Html, series: &[Series<'_>]) {
    let mut rows = Rows::new(series);
    let mut row = |label: &str, cell: fn(&Rfc6349) -> Option<String>| {
        rows.end(label, |d| d.rfc6349.as_ref().and_then(cell));
    };
    row("TCP transfer time ratio (4.1)", |r| Some(format!("{:.3}", finite(r.transfer_time_ratio))));
    row("TCP efficiency (4.2)", |r| Some(format!("{:.3} %", finite(r.tcp_efficiency_percent))));
    row("buffer delay (4.3)", |r| Some(summary::buffer_delay(r)));
    row("path MTU (3.1)", |r| {
        Some(format!("{} B, {}", r.path_mtu_bytes, if r.path_mtu_verified { "verified" } else { "not verified" }))
    });
    row("baseline RTT (3.2), kernel minimum", |r| Some(nanos(r.baseline_rtt_ns)));
    row("mean RTT under load", |r| Some(nanos(r.mean_rtt_ns)));
    row("bottleneck bandwidth", |r| {
        Some(format!(
            "{} ({})",
            rate(r.bottleneck_bps),
            if r.bottleneck_given { "given" } else { "highest over several round trips" }
        ))
    });
    row("ideal TCP throughput (3.3.2)", |r| Some(rate(r.ideal_throughput_bps)));
    row("bandwidth-delay product (3.3.1)", |r| Some(bytes(r.bdp_bytes)));
    row("connections needed (5.1)", |r| r.connections_needed.map(|n| n.to_string()));
    rows.write(h, "RFC 6349");
}

pub(crate) fn udp(h: &mut Html, series: &[Series<'_>]) {
    let mut rows = Rows::new(series);
    let mut row = |label: &str, cell: fn(&UdpSummary) -> Option<String>| {
        rows.end(label, |d| d.udp.as_ref().and_then(cell));
    };
    row("sent", |u| Some(u.sent.to_string()));
    row("received", |u| Some(u.received.to_string()));
    row("lost", |u| Some(format!("{} ({})", u.lost, ratio(u.loss_ratio))));
    row("runs of loss, number x length", |u| {
        let runs: Vec<_> = u.loss_runs.iter().take(24).map(|(len, n)| format!("{n} x {len}")).collect();
        (!runs.is_empty()).then(|| runs.join(", "))
    });
    row("duplicates", |u| Some(format!("{} ({})", u.duplicates, ratio(u.duplicate_ratio))));
    row("reordered (RFC 4737)", |u| Some(format!("{} ({})", u.reordered, ratio(u.reordered_ratio))));
    row("n-reordering from n = 1", |u| {
        let n: Vec<_> = u.n_reordering.iter().take(24).map(u64::to_string).collect();
        (!n.is_empty()).then(|| n.join(", "))
    });
    row("jitter (RFC 3550)", |u| u.jitter_ns.map(nanos));
    row("waiting time Tmax", |u| Some(nanos(u.tmax_ns)));
    row("sent late by the generator", |u| Some(u.sender_late.to_string()));
    row("largest lag of the generator", |u| Some(nanos(u.sender_lag_max_ns)));
    row("rejected by the sender's kernel", |u| Some(u.send_errors.to_string()));
    rows.write(h, "Datagrams");
}

pub(crate) fn loss_episodes(h: &mut Html, series: &[Series<'_>]) {
    let with_losses = || series.iter().filter_map(|s| Some((s, s.track.summary.as_ref()?)));
    if with_losses().all(|(_, d)| d.loss_episodes.is_empty()) {
        return;
    }
    h.raw("<section><h2>Loss episodes</h2>");
    for (s, d) in with_losses().filter(|(_, d)| !d.loss_episodes.is_empty()) {
        if series.len() > 1 {
            s.heading(h);
        }
        h.raw("<div class=\"scroll\"><table><thead><tr><th>at</th><th>stream</th><th>retransmitted</th>");
        h.raw("<th>window fell by</th><th>back at 90 % after</th><th>in RTTs</th></tr></thead><tbody>");
        for e in d.loss_episodes.iter().take(ROWS_MAX) {
            h.raw("<tr>").element("td", seconds(e.start_s)).element("td", e.stream).element("td", e.retransmits);
            h.element("td", percent(e.depth));
            h.element("td", e.recovery_s.map_or_else(|| "not before the end".to_owned(), seconds));
            let rtts = e.recovery_rtts.map_or_else(|| "\u{2013}".to_owned(), |n| format!("{:.1}", finite(n)));
            h.element("td", rtts).raw("</tr>");
        }
        h.raw("</tbody></table></div>");
        let shown = d.loss_episodes.len().min(ROWS_MAX) as u64;
        if d.loss_episode_count > shown {
            h.raw("<p class=\"hint\">").text(format_args!("and {} more", d.loss_episode_count - shown)).raw("</p>");
        }
    }
    h.raw("</section>");
}

pub(crate) fn streams(h: &mut Html, series: &[Series<'_>]) {
    let found: Vec<_> = series.iter().filter_map(|s| Some((s, s.track.summary.as_ref()?))).collect();
    if found.iter().all(|(_, d)| d.streams.len() < 2) {
        return;
    }
    h.raw("<section><h2>Streams</h2>");
    for (s, d) in found.iter().filter(|(_, d)| d.streams.len() > 1) {
        if series.len() > 1 {
            s.heading(h);
        }
        h.raw("<div class=\"scroll\"><table><thead><tr><th>stream</th><th>goodput</th><th>sent</th><th>received</th>");
        h.raw("<th>retransmitted</th><th>block RTT median</th><th>95 %</th></tr></thead><tbody>");
        for t in d.streams.iter().take(ROWS_MAX) {
            h.raw("<tr>")
                .element("td", t.stream)
                .element("td", rate(t.throughput_bps))
                .element("td", bytes(t.sent_bytes));
            h.element("td", bytes(t.received_bytes)).element("td", t.retransmits);
            let quantile = |of: fn(&DelaySummary) -> u64| {
                t.block_rtt.as_ref().map_or_else(|| "\u{2013}".to_owned(), |d| nanos(of(d)))
            };
            h.element("td", quantile(|d| d.p50_ns)).element("td", quantile(|d| d.p95_ns)).raw("</tr>");
        }
        h.raw("</tbody></table></div>");
    }
    h.raw("</section>");
}
