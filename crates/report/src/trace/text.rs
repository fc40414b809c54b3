//! Lines of text.

use std::io::{self, Write};

use results::trace::{TraceEnd, TraceRecord, TraceSample};

use super::flow::TraceReport;
use super::format::{absent, event, inner};
use crate::summary::{bytes, nanos, printable, rate, seconds};

/// Writes records as text, one line per sample.
#[derive(Debug)]
pub struct TraceText<W: Write> {
    out: W,
    lines: u64,
}

/// Number of lines between two headings.
const HEADING_INTERVAL: u64 = 40;

impl<W: Write> TraceText<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, lines: 0 }
    }

    /// # Errors
    /// Errors of the writer.
    pub fn record(&mut self, record: &TraceRecord) -> io::Result<()> {
        match record {
            TraceRecord::Start(start) => {
                writeln!(self.out, "following {} (Linux {})", printable(&start.filter), printable(&start.kernel))
            }
            TraceRecord::Flow(flow) => {
                let (local, remote) = (printable(&flow.local), printable(&flow.remote));
                let control = printable(&flow.congestion_control);
                self.lines = 0;
                writeln!(self.out, "flow {}: {local} > {remote}, {control}", flow.flow)
            }
            TraceRecord::Sample(sample) => self.sample(sample),
            TraceRecord::End(end) => write_end(&mut self.out, end),
        }
    }

    fn sample(&mut self, s: &TraceSample) -> io::Result<()> {
        if self.lines.is_multiple_of(HEADING_INTERVAL) {
            writeln!(
                self.out,
                "{:>10} {:>4} {:<14} {:>7} {:>8} {:>7} {:>10} {:>10} {:>11} {:>6}  inner state",
                "time", "flow", "event", "cwnd", "ssthresh", "flight", "srtt", "min RTT", "delivery", "retr"
            )?;
        }
        self.lines += 1;
        let threshold = s.ssthresh_segments.map_or_else(absent, |t| t.to_string());
        let min_rtt = s.min_rtt_ns.map_or_else(absent, nanos);
        let delivery = s.delivery_rate_bps.map_or_else(absent, rate);
        let line = format!(
            "{:>10.4} {:>4} {:<14} {:>7} {threshold:>8} {:>7} {:>10} {min_rtt:>10} {delivery:>11} {:>6}  {}",
            s.at_s,
            s.flow,
            event(s),
            s.cwnd_segments,
            s.in_flight_segments,
            nanos(s.srtt_ns),
            s.retransmitted_segments,
            inner(s)
        );
        writeln!(self.out, "{}", line.trim_end())
    }

    /// # Errors
    /// Errors of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a table of the connections, in descending order of traffic.
///
/// # Errors
/// Errors of the writer.
pub fn write_trace_summary(out: &mut impl Write, report: &TraceReport) -> io::Result<()> {
    let flows = report.busiest();
    if !flows.is_empty() {
        writeln!(
            out,
            "{:>4} {:<44} {:<10} {:>9} {:>9} {:>11} {:>8} {:>10} {:>10} {:>6} {:>5}",
            "flow",
            "from > to",
            "control",
            "followed",
            "acked",
            "rate",
            "max cwnd",
            "srtt p50",
            "srtt p95",
            "retr",
            "RTOs"
        )?;
    }
    for f in flows {
        let delay = f.srtt.summary();
        let quantile = |ns: Option<u64>| ns.map_or_else(absent, nanos);
        let ends = format!("{} > {}", printable(&f.flow.local), printable(&f.flow.remote));
        writeln!(
            out,
            "{:>4} {ends:<44} {:<10} {:>9} {:>9} {:>11} {:>8} {:>10} {:>10} {:>6} {:>5}",
            f.flow.flow,
            printable(&f.flow.congestion_control),
            seconds(f.span_s()),
            bytes(f.acked_bytes()),
            f.acked_bps().map_or_else(absent, rate),
            f.cwnd_max,
            quantile(delay.as_ref().map(|d| d.p50_ns)),
            quantile(delay.as_ref().map(|d| d.p95_ns)),
            f.retransmitted(),
            f.timeouts
        )?;
    }
    if report.forgotten > 0 {
        writeln!(out, "     and {} more with less traffic", report.forgotten)?;
    }
    report.end.as_ref().map_or(Ok(()), |end| write_end(out, end))
}

fn write_end(out: &mut impl Write, end: &TraceEnd) -> io::Result<()> {
    let lost = if end.lost_events > 0 { format!("; {} events were LOST", end.lost_events) } else { String::new() };
    writeln!(out, "{} flows, {} samples in {:.1} s{lost}", end.flows, end.samples, end.seconds)
}
