//! The rows of thrulay, for scripts that read them (gnuplot files, bwctl).
//!
//! Format: thrulay 0.9, `reference/throughput-and-delay.md` §1.4. Delay is the median round trip of the blocks, jitter
//! its interquartile spread, both in milliseconds. Two deliberate differences: a delay without samples is `nan`
//! (RFC 2681 §4: undefined, not zero), and the average of the total row is that of all blocks (thrulay gave the
//! unweighted mean of the streams' averages).

use std::io::{self, Write};

use results::{DelaySummary, DirectionSummary, EndRecord, IntervalRecord, Record, Role, StartRecord, Transport};

/// Writes the records of one test in the format of thrulay.
#[derive(Debug)]
pub struct ThrulayReport<W> {
    out: W,
    is_verbose: bool,
}

impl<W: Write> ThrulayReport<W> {
    /// Writes to `out`; `is_verbose` adds minimum, average and maximum of the delay, as `-v` of thrulay does.
    pub const fn new(out: W, is_verbose: bool) -> Self {
        Self { out, is_verbose }
    }

    /// Prints the header, the sender's rows, or the totals.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Start(start) => self.header(start),
            Record::Interval(interval) if interval.role == Role::Sender => self.interval(interval),
            Record::Interval(_) => Ok(()),
            Record::End(end) => self.totals(end),
        }
    }

    fn header(&mut self, start: &StartRecord) -> io::Result<()> {
        let out = &mut self.out;
        if let Some(s) = start.streams.first() {
            let (local, remote) = (&s.client_buffers, &s.server_buffers);
            let window = |g: &results::BufferGrant| g.send_bytes.min(g.receive_bytes);
            writeln!(out, "# local window = {}B; remote window = {}B", window(local), window(remote))?;
        }
        writeln!(out, "# block size = {}B", start.plan.block_bytes)?;
        if let Some(s) = start.streams.first()
            && start.plan.transport == Transport::Tcp
        {
            let text = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), |n| format!("{n}B"));
            let guess = s.pmtu_bytes.map_or("unknown", topology);
            writeln!(out, "# MTU: {}; MSS: {}; Topology guess: {guess}", text(s.pmtu_bytes), text(s.mss_bytes))?;
        }
        let interval_s = start.plan.interval_ns as f64 / 1e9;
        match start.plan.duration_ns {
            Some(ns) => {
                writeln!(out, "# test duration = {}s; reporting interval = {interval_s}s", ns as f64 / 1e9)?;
            }
            None => writeln!(out, "# reporting interval = {interval_s}s")?,
        }
        writeln!(out, "# delay (median) and jitter (interquartile spread of delay) are reported in ms")?;
        let more = if self.is_verbose { "     min      avg      max" } else { "" };
        writeln!(out, "#(ID) begin, s   end, s   Mb/s  RTT delay,ms jitter{more}")
    }

    fn interval(&mut self, r: &IntervalRecord) -> io::Result<()> {
        for s in &r.streams {
            let span = (r.start_s, r.end_s);
            let row = self.row(span, s.throughput_bps, s.block_rtt.as_ref());
            writeln!(self.out, " ({:>2}) {row}", s.stream)?;
        }
        Ok(())
    }

    fn totals(&mut self, end: &EndRecord) -> io::Result<()> {
        for d in &end.directions {
            let span = (0.0, d.receiver.duration_s.max(d.sender.duration_s));
            if d.streams.len() > 1 {
                for s in &d.streams {
                    let row = self.row(span, s.throughput_bps, s.block_rtt.as_ref());
                    writeln!(self.out, "#({:>2}) {row}", s.stream)?;
                }
            }
            let row = self.row(span, d.throughput_bps, d.block_rtt.as_ref());
            writeln!(self.out, "#(**) {row}")?;
            self.datagrams(d)?;
        }
        Ok(())
    }

    /// Results of a UDP test as comments; loss, duplication and reordering have no columns.
    fn datagrams(&mut self, d: &DirectionSummary) -> io::Result<()> {
        let Some(u) = &d.udp else { return Ok(()) };
        if let Some(o) = &d.one_way {
            writeln!(self.out, "# Delay: {:.3}ms", o.p50_ns as f64 / 1e6)?;
        }
        writeln!(self.out, "# Loss: {:.3}%", u.loss_ratio * 100.0)?;
        if let Some(ns) = u.jitter_ns {
            writeln!(self.out, "# Jitter: {:.3}ms", ns as f64 / 1e6)?;
        }
        writeln!(self.out, "# Duplication: {:.3}%", u.duplicate_ratio * 100.0)?;
        writeln!(self.out, "# Reordering: {:.3}%", u.reordered_ratio * 100.0)
    }

    fn row(&self, (start_s, end_s): (f64, f64), bps: u64, delay: Option<&DelaySummary>) -> String {
        let ms = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1e6);
        let mut columns = vec![start_s, end_s, bps as f64 / 1e6, ms(delay.map(|d| d.p50_ns))];
        columns.push(ms(delay.map(|d| d.p75_ns.saturating_sub(d.p25_ns))));
        if self.is_verbose {
            columns.extend([delay.map(|d| d.min_ns), delay.map(|d| d.mean_ns), delay.map(|d| d.max_ns)].map(ms));
        }
        let cells: Vec<String> = columns
            .into_iter()
            // printf writes `nan`; Rust would write `NaN`.
            .map(|v| if v.is_finite() { format!("{v:8.3}") } else { format!("{:>8}", "nan") })
            .collect();
        cells.join(" ")
    }
}

/// Link technology that a path MTU suggests, in the terms of the tools of that time.
const fn topology(mtu: u64) -> &'static str {
    match mtu {
        65535 => "loopback",
        9180 => "ATM",
        9000..=9216 => "Ethernet with jumbo frames",
        4470 => "SONET/POS",
        4352 => "FDDI",
        1500 => "Ethernet/PPP",
        1492 => "PPPoE/IEEE 802.3",
        1480 => "IPv6-in-IPv4 tunnel",
        1476 => "GRE tunnel",
        _ => "unknown",
    }
}
