//! The page of a trace: one file that needs no network and no server.

use std::io::{self, Write};

use results::trace::{TraceSample, TraceSource};
use serde::Serialize;

use super::flow::{FlowTrace, TraceReport};
use super::format::event;
use crate::html::document::{Parts, write_document};
use crate::html::markup::Html;
use crate::summary::{bytes, nanos, printable, rate, seconds};

const PARTS: Parts = Parts {
    script: concat!(include_str!("../../assets/charts.js"), include_str!("../../assets/trace.js")),
    style: include_str!("../../assets/trace.css"),
};

/// Maximum number of connections with curves in the page, those with the most traffic.
const DRAWN_MAX: usize = 32;

/// Writes the page of a trace: a table of the connections, charts of all and of one, over one time axis.
///
/// # Errors
/// Errors of the writer.
pub fn write_trace_html(mut out: impl Write, report: &TraceReport, title: &str) -> io::Result<()> {
    let busiest = report.busiest();
    let mut h = Html::new();
    header(&mut h, report, title);
    table(&mut h, &busiest, report.forgotten);
    charts(&mut h, &busiest);
    footer(&mut h, report);
    let drawn = busiest.iter().filter(|f| !f.curve.samples.is_empty()).take(DRAWN_MAX);
    let data = PageData { end_s: end_s(report), flows: drawn.map(|f| flow_data(f)).collect() };
    write_document(&mut out, title, PARTS, &h, &data)
}

fn end_s(report: &TraceReport) -> f64 {
    let last = report.flows.values().filter_map(|f| Some(f.last.as_ref()?.at_s)).fold(0.0, f64::max);
    report.end.as_ref().map_or(last, |e| e.seconds.max(last))
}

fn header(h: &mut Html, report: &TraceReport, title: &str) {
    h.raw("<header>").element("h1", title);
    if let Some(start) = &report.start {
        h.raw("<p class=\"hint\">").text(printable(&start.filter)).raw(", Linux ").text(printable(&start.kernel));
        h.text(match start.source {
            TraceSource::Bpf => ", BPF programs at tracepoints",
            TraceSource::Diagnostics => ", socket diagnostics, polled",
        });
        let interval = if start.interval_s > 0.0 {
            format!(", a sample at most every {}", nanos((start.interval_s * 1e9) as u64))
        } else {
            ", a sample for every packet that arrived".to_owned()
        };
        h.text(interval).raw("</p>");
    }
    h.raw("</header>");
    match &report.end {
        Some(end) if end.lost_events > 0 => {
            let lost = format!("{} events were lost because the buffer was full: curves have gaps.", end.lost_events);
            h.classed("p", "warning", lost);
        }
        Some(_) => {}
        None => {
            h.classed(
                "p",
                "warning",
                "The end of the trace is missing: its writer was interrupted or is still running.",
            );
        }
    }
}

fn table(h: &mut Html, flows: &[&FlowTrace], forgotten: u64) {
    const HEADS: [&str; 12] = [
        "",
        "from",
        "to",
        "control",
        "followed",
        "acknowledged",
        "rate",
        "largest window",
        "round trip, median",
        "95 %",
        "retransmitted",
        "recoveries, timeouts",
    ];
    h.raw("<section><h2>Connections</h2>");
    if flows.is_empty() {
        h.raw("<p class=\"hint\">None matched.</p></section>");
        return;
    }
    h.raw("<div class=\"scroll\"><table><thead><tr>");
    for head in HEADS {
        h.element("th", head);
    }
    h.raw("</tr></thead><tbody>");
    for f in flows {
        let delay = f.srtt.summary();
        let quantile = |ns: Option<u64>| ns.map_or_else(|| "\u{2013}".to_owned(), nanos);
        h.raw("<tr>").element("th", f.flow.flow);
        for text in [
            printable(&f.flow.local),
            printable(&f.flow.remote),
            printable(&f.flow.congestion_control),
            seconds(f.span_s()),
            bytes(f.acked_bytes()),
            f.acked_bps().map_or_else(|| "\u{2013}".to_owned(), rate),
            format!("{} packets", f.cwnd_max),
            quantile(delay.as_ref().map(|d| d.p50_ns)),
            quantile(delay.as_ref().map(|d| d.p95_ns)),
            f.retransmitted().to_string(),
            format!("{}, {}", f.recoveries, f.timeouts),
        ] {
            h.element("td", text);
        }
        h.raw("</tr>");
    }
    h.raw("</tbody></table></div>");
    if forgotten > 0 {
        h.classed("p", "hint", format_args!("and {forgotten} more connections with less traffic"));
    }
    h.raw("</section>");
}

/// Places for the charts by id, heading and hint; the script fills them and hides those without data.
const OF_ALL: [(&str, &str, &str); 2] = [
    ("all-rate", "Acknowledged, all connections", "Bytes acknowledged between two samples over the time between them."),
    ("all-window", "Congestion window, all connections", "In packets."),
];
const OF_ONE: [(&str, &str, &str); 6] = [
    (
        "window",
        "Congestion window",
        "In packets. Dashed: slow start threshold, where there is one. Dotted: in flight. Vertical lines: changes of state.",
    ),
    ("rtt", "Round trip", "Smoothed, and the smallest of the kernel's window; of FAST TCP its own base and mean."),
    (
        "rate",
        "Rates",
        "Acknowledged: between two samples. Delivered: the kernel's last measure. Pacing: what it allows.",
    ),
    (
        "inner",
        "FAST TCP: packets queued",
        "Estimated number of its packets in the queues of the path, controlled towards alpha.",
    ),
    (
        "htcp",
        "H-TCP: alpha and beta",
        "Window increase per round trip in packets, and the share of the window kept after a loss.",
    ),
    (
        "lost",
        "Lost and retransmitted",
        "Considered lost and not yet retransmitted; retransmissions since the first sample.",
    ),
];

fn charts(h: &mut Html, flows: &[&FlowTrace]) {
    if flows.iter().all(|f| f.curve.samples.is_empty()) {
        return;
    }
    h.raw("<section id=\"charts\"><noscript><p class=\"hint\">The charts need JavaScript; the table does not.</p></noscript>");
    h.raw("<p class=\"hint\">All charts share one time axis. Drag to zoom, double-click to reset.</p>");
    if flows.len() > DRAWN_MAX {
        let left = flows.len() - DRAWN_MAX;
        h.classed("p", "warning", format_args!("Not drawn: {left} connections of the table with less traffic."));
    }
    places(h, &OF_ALL);
    h.raw("<h2>One connection</h2><p class=\"controls\" id=\"choice\"></p><p class=\"hint\" id=\"thinned\"></p>");
    places(h, &OF_ONE);
    h.raw("</section>");
}

fn places(h: &mut Html, charts: &[(&'static str, &'static str, &'static str)]) {
    for (id, heading, hint) in charts {
        h.raw("<section class=\"chart\" id=\"").raw(id).raw("\"><h3>").raw(heading).raw("</h3><p class=\"hint\">");
        h.raw(hint).raw("</p><div class=\"canvas\"></div></section>");
    }
}

fn footer(h: &mut Html, report: &TraceReport) {
    h.raw("<footer><p><b>What the numbers mean.</b> A sample is the state of the kernel's TCP on this host. With ");
    h.raw("BPF it is taken when a packet arrives, before it is processed; with diagnostics at each poll. Medians are ");
    h.raw("over samples, not over time. Rates are of bytes that the other end acknowledged, headers not counted.</p><p>longhaul ");
    h.text(env!("CARGO_PKG_VERSION"));
    if let Some(start) = &report.start {
        h.raw(", records of ").text(printable(&start.schema));
    }
    h.raw(". Charts: uPlot 1.6.32, MIT licence.</p></footer>");
}

#[derive(Debug, Serialize)]
struct PageData {
    end_s: f64,
    flows: Vec<FlowData>,
}

/// Curves of one connection, all with the times `t`.
#[derive(Debug, Serialize)]
struct FlowData {
    label: String,
    one_in: u64,
    events_left_out: u64,
    t: Vec<f64>,
    cwnd: Vec<u32>,
    ssthresh: Vec<Option<u32>>,
    flight: Vec<u32>,
    srtt_ns: Vec<u64>,
    min_rtt_ns: Vec<Option<u64>>,
    acked_bps: Vec<Option<u64>>,
    delivery_bps: Vec<Option<u64>>,
    pacing_bps: Vec<Option<u64>>,
    lost: Vec<u32>,
    sent_again: Vec<u32>,
    base_rtt_ns: Vec<Option<u64>>,
    average_rtt_ns: Vec<Option<u64>>,
    queued: Vec<Option<f64>>,
    alpha: Vec<Option<f64>>,
    beta: Vec<Option<f64>>,
    events: Vec<EventData>,
}

#[derive(Debug, Serialize)]
struct EventData {
    at_s: f64,
    text: &'static str,
}

fn flow_data(f: &FlowTrace) -> FlowData {
    fn column<T>(f: &FlowTrace, of: impl Fn(&TraceSample) -> T) -> Vec<T> {
        f.curve.samples.iter().map(of).collect()
    }
    let first = f.curve.samples.first().map_or(0, |s| s.retransmitted_segments);
    let (from, to) = (printable(&f.flow.local), printable(&f.flow.remote));
    FlowData {
        label: format!("{}: {from} \u{2192} {to}, {}", f.flow.flow, printable(&f.flow.congestion_control)),
        one_in: f.curve.one_in,
        events_left_out: f.events_left_out,
        t: column(f, |s| s.at_s),
        cwnd: column(f, |s| s.cwnd_segments),
        ssthresh: column(f, |s| s.ssthresh_segments),
        flight: column(f, |s| s.in_flight_segments),
        srtt_ns: column(f, |s| s.srtt_ns),
        min_rtt_ns: column(f, |s| s.min_rtt_ns),
        acked_bps: acked(&f.curve.samples),
        delivery_bps: column(f, |s| s.delivery_rate_bps),
        pacing_bps: column(f, |s| s.pacing_rate_bps),
        lost: column(f, |s| s.lost_segments),
        sent_again: column(f, |s| s.retransmitted_segments.saturating_sub(first)),
        base_rtt_ns: column(f, |s| Some(s.fast.as_ref()?.base_rtt_ns)),
        average_rtt_ns: column(f, |s| Some(s.fast.as_ref()?.average_rtt_ns)),
        queued: column(f, |s| Some(s.fast.as_ref()?.queue_segments)),
        alpha: column(f, |s| Some(s.htcp.as_ref()?.alpha_segments)),
        beta: column(f, |s| Some(s.htcp.as_ref()?.beta)),
        events: f.events.iter().map(|s| EventData { at_s: s.at_s, text: event(s) }).collect(),
    }
}

/// Minimum averaging time of a rate of acknowledged bytes, in seconds, because acknowledgements arrive in bursts.
const RATE_OVER_S: f64 = 0.1;

/// Rate of acknowledged bytes at each sample, over the samples of the last 100 ms or since the previous one.
fn acked(samples: &[TraceSample]) -> Vec<Option<u64>> {
    let mut from = 0;
    let at = |n: usize| (samples[n].at_s, samples[n].acked_bytes);
    let rate_at = |n: usize| {
        while from + 1 < n && samples[n].at_s - samples[from + 1].at_s >= RATE_OVER_S {
            from += 1;
        }
        let ((then, bytes_then), (now, bytes)) = (at(from), at(n));
        (now > then).then(|| (bytes.saturating_sub(bytes_then) as f64 * 8.0 / (now - then)).round() as u64)
    };
    (0..samples.len()).map(rate_at).collect()
}
