//! Settings of the hosts and of their sockets, side by side.

use std::collections::BTreeSet;

use results::{BufferGrant, HostReport, StreamStart};

use super::Run;
use super::grid::Grid;
use super::markup::Html;
use crate::summary::{bytes, client_name, finite, nanos, signed_nanos};
use crate::text::distinct;

pub(crate) fn hosts(h: &mut Html, runs: &[Run]) {
    let several = runs.len() > 1;
    let mut columns: Vec<(String, &HostReport)> = Vec::new();
    for run in runs {
        let prefix = if several { format!("{}: ", run.label()) } else { String::new() };
        columns.push((format!("{prefix}client {}", client_name(&run.start)), &run.start.client));
        if let Some(server) = &run.start.server {
            columns.push((format!("{prefix}server {}", server.hostname), server));
        }
    }
    let mut grid = Grid::new(columns.iter().map(|c| c.0.clone()).collect()).marking_differences();
    let mut row = |label: &str, cell: &dyn Fn(&HostReport) -> Option<String>| {
        grid.row(label, columns.iter().map(|c| cell(c.1)).collect());
    };
    row("longhaul", &|r| Some(r.version.clone()));
    row("kernel", &|r| Some(r.kernel.clone()));
    row("machine", &|r| Some(r.machine.clone()));
    row("CPUs", &|r| Some(r.cpus.to_string()));
    row("clock source", &|r| r.clocksource.clone());
    row("clock resolution", &|r| Some(nanos(r.clock_resolution_ns)));
    let keys = |of: fn(&HostReport) -> &std::collections::BTreeMap<String, String>| -> BTreeSet<&String> {
        columns.iter().flat_map(|c| of(c.1).keys()).collect()
    };
    for key in keys(|r| &r.interface) {
        row(&format!("interface {key}"), &|r| r.interface.get(key).cloned());
    }
    for key in keys(|r| &r.sysctls) {
        row(key, &|r| r.sysctls.get(key).cloned());
    }
    h.raw("<section><h2>Hosts</h2><p class=\"hint\">Rows whose values differ are marked.</p>");
    grid.write(h);
    h.raw("</section>");
}

/// Requested and granted buffers, and negotiated TCP options. Values that differ between streams are all listed.
pub(crate) fn sockets(h: &mut Html, runs: &[Run]) {
    let mut grid = Grid::new(runs.iter().map(Run::label).collect());
    let mut row = |label: &str, cell: &dyn Fn(&StreamStart) -> Option<String>| {
        let of_run = |run: &Run| {
            let values = distinct(run.start.streams.iter().filter_map(cell));
            (!values.is_empty()).then(|| values.join(" / "))
        };
        grid.row(label, runs.iter().map(of_run).collect());
    };
    let requested = |g: &BufferGrant| Some(g.requested_bytes.map_or_else(|| "autotuned".to_owned(), bytes));
    // A socket buffer is never zero: the other end did not report it.
    let granted = |n: u64| (n > 0).then(|| bytes(n));
    row("client buffers requested", &|s| requested(&s.client_buffers));
    row("client send buffer granted", &|s| Some(bytes(s.client_buffers.send_bytes)));
    row("client receive buffer granted", &|s| Some(bytes(s.client_buffers.receive_bytes)));
    row("server buffers requested", &|s| requested(&s.server_buffers));
    row("server send buffer granted", &|s| granted(s.server_buffers.send_bytes));
    row("server receive buffer granted", &|s| granted(s.server_buffers.receive_bytes));
    row("congestion control", &|s| s.congestion_control.clone());
    row("MSS", &|s| s.mss_bytes.map(|n| format!("{n} B")));
    row("path MTU", &|s| s.pmtu_bytes.map(|n| format!("{n} B")));
    row("TCP options", &|s| (!s.options.is_empty()).then(|| s.options.join(" ")));
    if !grid.is_empty() {
        h.raw("<section><h2>Sockets</h2>");
        grid.write(h);
        h.raw("</section>");
    }
}

/// Clocks and memory: the quality of the measurement.
pub(crate) fn quality(h: &mut Html, runs: &[Run]) {
    let mut grid = Grid::new(runs.iter().map(Run::label).collect());
    let clock = |f: &dyn Fn(&results::ClockSummary) -> Option<String>| -> Vec<Option<String>> {
        runs.iter().map(|r| r.end.as_ref().and_then(|e| e.clock.as_ref()).and_then(f)).collect()
    };
    grid.row(
        "server clock - client clock",
        clock(&|c| Some(format!("{} \u{b1} {}", signed_nanos(c.offset_ns), nanos(c.bound_ns)))),
    );
    grid.row(
        "drift",
        clock(&|c| Some(format!("{:.3} \u{b1} {:.3} ppm", finite(c.drift_ppm), finite(c.drift_bound_ppm)))),
    );
    grid.row(
        "clock exchanges before, during, after",
        clock(&|c| Some(format!("{}, {}, {}", c.exchanges_before, c.exchanges_during, c.exchanges_after))),
    );
    grid.row("idle RTT before", clock(&|c| Some(nanos(c.idle_rtt_before_ns))));
    grid.row("idle RTT after", clock(&|c| c.idle_rtt_after_ns.map(nanos)));
    let memory = |f: fn(&results::Memory) -> (u64, u64)| -> Vec<Option<String>> {
        let text = |(from, to): (u64, u64)| (to > 0).then(|| format!("{} to {}", bytes(from), bytes(to)));
        runs.iter().map(|r| r.end.as_ref().and_then(|e| text(f(&e.memory)))).collect()
    };
    grid.row("memory of the client", memory(|m| (m.client_rss_start_bytes, m.client_rss_end_bytes)));
    grid.row("memory of the server", memory(|m| (m.server_rss_start_bytes, m.server_rss_end_bytes)));
    if !grid.is_empty() {
        h.raw("<section><h2>Quality of the measurement</h2>");
        grid.write(h);
        h.raw("</section>");
    }
}
