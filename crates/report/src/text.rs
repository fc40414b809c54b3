//! Plain lines for a pipe or a log: a header, one row per interval and direction, a summary.
//!
//! A row is printed once both ends have reported its interval, or some round trips after its end. A rate that only the
//! sender counted is marked `~`; an unknown value is `-`.

use std::io::{self, Write};

use results::{BufferGrant, Record, Role, StartRecord, StreamStart, Transport};

use crate::end_text::write_end;
use crate::pairing::{Pairing, Row};
use crate::sheet::Sheet;
use crate::summary::{self, bytes, nanos};

/// Maximum number of streams in the header; a hundred would move the rows off the screen.
const STREAMS_LISTED_MAX: usize = 8;

const UDP_COLUMNS: &str =
    "dir    start-end s       goodput    received    lost  dupl  reord     jitter   one-way median +/- bound";
const TCP_COLUMNS: &str =
    "dir    start-end s       goodput      block RTT median / 95 %     srtt      cwnd   retr  limited by";

/// Writes the records of one test as plain lines, at most 110 columns wide.
#[derive(Debug)]
pub struct TextReport<W> {
    out: W,
    start: Option<StartRecord>,
    pairing: Pairing,
    decimals: usize,
    is_headed: bool,
}

impl<W: Write> TextReport<W> {
    /// Writes to `out` line by line. For immediate output, pass a `LineWriter` or flush it.
    pub fn new(out: W) -> Self {
        Self { out, start: None, pairing: Pairing::default(), decimals: 1, is_headed: false }
    }

    /// Prints the lines that `record` completes.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Start(start) => self.start(start),
            Record::Interval(interval) => {
                let rows = self.pairing.push(interval);
                self.rows(&rows)
            }
            Record::End(end) => {
                self.drain()?;
                write_end(&mut self.out, self.start.as_ref(), end)
            }
        }
    }

    /// Returns the writer.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Prints the rows that wait for the other end, for a stream of records without an end record.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn drain(&mut self) -> io::Result<()> {
        let rows = self.pairing.drain();
        self.rows(&rows)
    }

    fn start(&mut self, start: &StartRecord) -> io::Result<()> {
        self.pairing = Pairing::new(start);
        self.decimals = decimals(start.plan.interval_ns);
        self.start = Some(start.clone());
        self.is_headed = false;
        write_header(&mut self.out, start)
    }

    fn is_udp(&self) -> bool {
        self.start.as_ref().is_some_and(|s| s.plan.transport != Transport::Tcp)
    }

    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        // The table starts with its first row, so that a report without intervals has no empty table.
        if !rows.is_empty() && !self.is_headed {
            self.is_headed = true;
            writeln!(self.out, "\n{}", if self.is_udp() { UDP_COLUMNS } else { TCP_COLUMNS })?;
        }
        for row in rows {
            let line = if self.is_udp() { self.udp_row(row) } else { self.tcp_row(row) };
            let mark = if row.dating().is_some_and(|r| r.omitted) { "  (omitted)" } else { "" };
            writeln!(self.out, "{}{mark}", line.trim_end())?;
            if let Some(note) = summary::waited(row) {
                writeln!(self.out, "{:20}{note}", "")?;
            }
        }
        Ok(())
    }

    /// The columns that all transports share.
    fn row_head(&self, row: &Row) -> String {
        let d = self.decimals;
        let span = format!("{:.d$}-{:.d$}", summary::finite(row.start_s()), summary::finite(row.end_s()));
        let rate = row.throughput().map_or_else(dash, |(bps, role)| {
            let mark = if role == Role::Sender { "~" } else { "" };
            format!("{mark}{}", summary::rate(bps))
        });
        format!("{:<4} {span:>13} {rate:>13}", summary::direction_name(row.direction))
    }

    fn tcp_row(&self, row: &Row) -> String {
        let (median, p95) = row.block_rtt().map_or_else(|| (dash(), dash()), |d| (nanos(d.p50_ns), nanos(d.p95_ns)));
        let srtt = row.srtt_ns().map_or_else(dash, nanos);
        let cwnd = row.cwnd_bytes().map_or_else(dash, bytes);
        let retransmits = row.retransmits().map_or_else(dash, |n| n.to_string());
        let limit = row
            .limit()
            .map_or_else(dash, |l| format!("{} {}", summary::limit_name(l.limit), summary::percent(l.share)));
        let head = self.row_head(row);
        format!("{head}     {median:>9} / {p95:>9}  {srtt:>9} {cwnd:>9} {retransmits:>6}  {limit}")
    }

    fn udp_row(&self, row: &Row) -> String {
        let head = self.row_head(row);
        let one_way = row.one_way().map_or_else(dash, |o| summary::plus_minus(o.p50_ns, o.bound_ns));
        let Some(u) = row.udp() else {
            return format!("{head} {:>11} {:>7} {:>5} {:>6} {:>10}   {one_way}", "-", "-", "-", "-", "-");
        };
        let (received, lost, jitter) = (u.received, u.lost, summary::jitter(u.jitter_ns));
        format!("{head} {received:>11} {lost:>7} {:>5} {:>6} {jitter:>10}   {one_way}", u.duplicates, u.reordered)
    }
}

fn dash() -> String {
    "-".to_owned()
}

/// Number of decimals of a second that distinguishes intervals of this length.
const fn decimals(interval_ns: u64) -> usize {
    if interval_ns.is_multiple_of(100_000_000) {
        1
    } else if interval_ns.is_multiple_of(10_000_000) {
        2
    } else {
        3
    }
}

fn write_header(out: &mut impl Write, start: &StartRecord) -> io::Result<()> {
    let mut sheet = Sheet::new(out);
    let title = start.title.as_deref().map_or_else(String::new, |t| format!("{t}: "));
    sheet.heading(&format!("{title}{} and {}", summary::client_name(start), start.target))?;
    sheet.item(
        "test",
        &format!("{}, {}, longhaul {}, protocol {}", start.test_id, start.time_utc, start.version, start.protocol),
    )?;
    sheet.item("plan", &plan(start))?;
    for stream in start.streams.iter().take(STREAMS_LISTED_MAX) {
        let direction = summary::direction_name(stream.direction);
        let ends = format!("{direction}, client {} server {}", stream.client, stream.server);
        sheet.item(&format!("stream {}", stream.stream), &ends)?;
    }
    if start.streams.len() > STREAMS_LISTED_MAX {
        sheet.sub(&format!("and {} more", start.streams.len() - STREAMS_LISTED_MAX))?;
    }
    buffers(&mut sheet, start)?;
    if start.plan.transport == Transport::Tcp {
        sheet.item("tcp", &tcp_line(&start.streams))?;
    }
    let source = if start.server.is_some() { "between the two programs" } else { "kernel minimum" };
    let idle = start.baseline_rtt_ns.map_or_else(|| "not measured".to_owned(), |ns| format!("{}, {source}", nanos(ns)));
    sheet.item("idle RTT", &idle)?;
    start.notes.iter().try_for_each(|note| sheet.item("note", note))
}

/// Description of the plan in one line.
fn plan(start: &StartRecord) -> String {
    let p = &start.plan;
    let directions: Vec<_> = p.directions.iter().map(|d| summary::direction_name(*d)).collect();
    let mut text = format!(
        "{}, {} {} {}, {}, interval {}, {} of {}",
        summary::transport_name(p.transport),
        p.streams,
        if p.streams == 1 { "stream" } else { "streams" },
        directions.join(" and "),
        summary::amount(start),
        nanos(p.interval_ns),
        if p.transport == Transport::Tcp { "blocks" } else { "datagrams" },
        format_args!("{} B", p.block_bytes),
    );
    if let Some(bps) = p.rate_bps {
        text.push_str(&format!(", at {} per stream", summary::rate(bps)));
    }
    if let Some(dscp) = p.dscp {
        text.push_str(&format!(", DSCP {dscp}"));
    }
    if p.zero_copy {
        text.push_str(", zero copy");
    }
    text
}

fn buffers<W: Write>(sheet: &mut Sheet<'_, W>, start: &StartRecord) -> io::Result<()> {
    let requested = start.plan.window_bytes.map_or_else(|| "autotuned".to_owned(), |n| format!("asked {}", bytes(n)));
    let Some(first) = start.streams.first() else {
        return sheet.item("window", &requested);
    };
    let granted = |g: &BufferGrant| match (g.send_bytes, g.receive_bytes) {
        // A socket buffer is never zero: the other end did not report it.
        (0, 0) => "not reported".to_owned(),
        (send, receive) => format!("send {} receive {}", bytes(send), bytes(receive)),
    };
    let client = granted(&first.client_buffers);
    let server = granted(&first.server_buffers);
    sheet.item("window", &requested)?;
    sheet.sub(&format!("granted at the client: {client}; at the server: {server}"))
}

/// MSS, MTU, congestion control and options; values that differ between streams stand side by side.
fn tcp_line(streams: &[StreamStart]) -> String {
    let or_unknown = |values: Vec<String>| if values.is_empty() { "unknown".to_owned() } else { values.join("/") };
    let mss = or_unknown(distinct(streams.iter().filter_map(|s| s.mss_bytes.map(|n| format!("{n} B")))));
    let mtu = or_unknown(distinct(streams.iter().filter_map(|s| s.pmtu_bytes.map(|n| format!("{n} B")))));
    let cc = or_unknown(distinct(streams.iter().filter_map(|s| s.congestion_control.clone())));
    let options = or_unknown(distinct(streams.iter().map(|s| s.options.join(" ")).filter(|o| !o.is_empty())));
    format!("congestion control {cc}, MSS {mss}, MTU {mtu}, options {options}")
}

/// Each value once, in order of its first appearance.
pub(crate) fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for v in values {
        if !seen.contains(&v) {
            seen.push(v);
        }
    }
    seen
}
