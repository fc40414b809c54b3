//! One comma-separated row for each interval record and stream, and one for the sum of the record's streams.
//!
//! The last part of a column's name is the unit. An empty cell means that the value was not measured.

use std::io::{self, Write};

use results::{Decomposition, DelaySummary, IntervalRecord, LimitVerdict, OneWayDelay, Record, TcpState, UdpInterval};

use crate::summary;

/// Columns in the order of [`Cells`]; `csv` rejects a row of another length.
const COLUMNS: [&str; 8] = [
    "test_id end direction role interval start_s end_s stream bytes throughput_bps retransmits",
    "block_rtt_count block_rtt_min_ns block_rtt_p25_ns block_rtt_p50_ns block_rtt_p75_ns block_rtt_p90_ns \
     block_rtt_p95_ns block_rtt_p99_ns block_rtt_p999_ns block_rtt_max_ns block_rtt_mean_ns",
    "kernel_srtt_ns kernel_rttvar_ns kernel_min_rtt_ns cwnd_bytes ssthresh_bytes snd_wnd_bytes unacked_segments \
     notsent_bytes delivery_rate_bps delivery_rate_app_limited pacing_rate_bps tcp_bytes_sent \
     tcp_bytes_retransmitted busy_ns rwnd_limited_ns sndbuf_limited_ns reorder_events delivered_ce",
    "socket_buffer_p50_ns socket_buffer_p95_ns qdisc_p50_ns qdisc_p95_ns network_p50_ns network_p95_ns \
     receiver_app_p50_ns receiver_app_p95_ns",
    "one_way_min_ns one_way_p50_ns one_way_p95_ns one_way_p99_ns one_way_max_ns one_way_bound_ns \
     one_way_return_min_ns one_way_return_p50_ns one_way_return_p95_ns one_way_return_p99_ns one_way_return_max_ns \
     one_way_return_bound_ns",
    "limit limit_share_ratio limit_evidence",
    "udp_received udp_lost udp_duplicates udp_reordered udp_jitter_ns",
    "cpu_s busiest_thread_ratio busiest_cpu_ratio",
];

/// Writes the interval records of a test as comma-separated values (RFC 4180, line end LF).
pub struct CsvReport<W: Write> {
    out: csv::Writer<W>,
    is_headed: bool,
}

impl<W: Write> core::fmt::Debug for CsvReport<W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CsvReport").field("is_headed", &self.is_headed).finish_non_exhaustive()
    }
}

impl<W: Write> CsvReport<W> {
    /// Writes to `out`, whole rows at a time.
    pub fn new(out: W) -> Self {
        Self { out: csv::Writer::from_writer(out), is_headed: false }
    }

    /// Writes the header once, and the rows of an interval record; other records have no rows.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        if !self.is_headed {
            self.is_headed = true;
            self.out.write_record(COLUMNS.iter().flat_map(|group| group.split_whitespace()))?;
        }
        if let Record::Interval(interval) = record {
            self.interval(interval)?;
        }
        self.out.flush()
    }

    fn interval(&mut self, r: &IntervalRecord) -> io::Result<()> {
        let retransmits = r.streams.iter().filter_map(|s| s.retransmits).reduce(u64::saturating_add);
        let mut all = Cells::head(r, "all", (r.bytes, r.throughput_bps, retransmits));
        all.delay(r.block_rtt.as_ref());
        all.tcp(None);
        all.stages(r.decomposition.as_ref());
        all.one_way(r.one_way.as_ref());
        all.one_way(r.one_way_return.as_ref());
        all.limit(r.limit.as_ref());
        all.udp(r.udp.as_ref());
        all.numbers([Some(r.cpu.threads_s), Some(r.cpu.busiest_thread), r.cpu.busiest_cpu]);
        self.out.write_record(&all.0)?;
        for s in &r.streams {
            let mut row = Cells::head(r, &s.stream.to_string(), (s.bytes, s.throughput_bps, s.retransmits));
            row.delay(s.block_rtt.as_ref());
            row.tcp(s.tcp.as_ref());
            row.stages(None);
            row.one_way(None);
            row.one_way(None);
            row.limit(s.limit.as_ref());
            row.udp(s.udp.as_ref());
            row.numbers([Some(s.cpu_s), None, None]);
            self.out.write_record(&row.0)?;
        }
        Ok(())
    }
}

/// Cells of one row, in the order of the columns.
struct Cells(Vec<String>);

impl Cells {
    fn head(r: &IntervalRecord, stream: &str, (bytes, bps, retransmits): (u64, u64, Option<u64>)) -> Self {
        let mut cells = Self(vec![
            inert(&r.test_id),
            enum_name(&r.end),
            enum_name(&r.direction),
            enum_name(&r.role),
            r.index.to_string(),
            summary::finite(r.start_s).to_string(),
            summary::finite(r.end_s).to_string(),
            stream.to_owned(),
        ]);
        cells.integers([Some(bytes), Some(bps), retransmits]);
        cells
    }

    fn integers<const N: usize>(&mut self, values: [Option<u64>; N]) {
        self.0.extend(values.map(|v| v.map_or_else(String::new, |n| n.to_string())));
    }

    fn numbers<const N: usize>(&mut self, values: [Option<f64>; N]) {
        self.0.extend(values.map(|v| v.filter(|n| n.is_finite()).map_or_else(String::new, |n| n.to_string())));
    }

    fn delay(&mut self, d: Option<&DelaySummary>) {
        let Some(d) = d else { return self.integers([None; 11]) };
        let quantiles = [d.p25_ns, d.p50_ns, d.p75_ns, d.p90_ns, d.p95_ns, d.p99_ns, d.p999_ns];
        self.integers([Some(d.count), Some(d.min_ns)]);
        self.integers(quantiles.map(Some));
        self.integers([Some(d.max_ns), Some(d.mean_ns)]);
    }

    fn tcp(&mut self, t: Option<&TcpState>) {
        let Some(t) = t else { return self.integers([None; 18]) };
        self.integers([Some(t.srtt_ns), Some(t.rttvar_ns), t.min_rtt_ns, Some(t.cwnd_bytes), t.ssthresh_bytes]);
        self.integers([t.snd_wnd_bytes, t.unacked_segments, t.notsent_bytes, t.delivery_rate_bps].map(Some));
        self.integers([Some(u64::from(t.delivery_rate_app_limited)), t.pacing_rate_bps]);
        self.integers(
            [t.bytes_sent, t.bytes_retransmitted, t.busy_ns, t.rwnd_limited_ns, t.sndbuf_limited_ns].map(Some),
        );
        self.integers([t.reorder_events, t.delivered_ce].map(Some));
    }

    fn stages(&mut self, d: Option<&Decomposition>) {
        let Some(d) = d else { return self.integers([None; 8]) };
        for stage in summary::stages(d) {
            self.integers([stage.delay.map(|s| s.p50_ns), stage.delay.map(|s| s.p95_ns)]);
        }
    }

    fn one_way(&mut self, o: Option<&OneWayDelay>) {
        let Some(o) = o else { return self.integers([None; 6]) };
        self.0.extend([o.min_ns, o.p50_ns, o.p95_ns, o.p99_ns, o.max_ns].map(|n| n.to_string()));
        self.integers([Some(o.bound_ns)]);
    }

    fn limit(&mut self, l: Option<&LimitVerdict>) {
        let Some(l) = l else { return self.integers([None; 3]) };
        self.0.extend([enum_name(&l.limit), summary::finite(l.share).to_string(), inert(&l.evidence)]);
    }

    fn udp(&mut self, u: Option<&UdpInterval>) {
        let Some(u) = u else { return self.integers([None; 5]) };
        self.integers([u.received, u.lost, u.duplicates, u.reordered].map(Some));
        self.integers([u.jitter_ns]);
    }
}

/// Name of an enum value in the record format.
fn enum_name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Escapes text of the peer so that spreadsheets do not interpret it as a formula.
fn inert(text: &str) -> String {
    let text = summary::printable(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Scenario, records};

    #[test]
    fn every_interval_gives_a_row_for_all_and_one_for_each_stream() {
        let scenario = Scenario { intervals: 2, ..Scenario::default() };
        let mut out = Vec::new();
        let mut report = CsvReport::new(&mut out);
        records(&scenario).iter().for_each(|r| report.record(r).unwrap());
        drop(report);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1 + 2 * 2 * (1 + 2));
        insta::assert_snapshot!(text.lines().take(4).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn rows_have_the_width_of_the_header_for_udp_too() {
        let scenario = Scenario { intervals: 3, udp: true, ..Scenario::default() };
        let mut out = Vec::new();
        let mut report = CsvReport::new(&mut out);
        records(&scenario).iter().for_each(|r| report.record(r).unwrap());
        drop(report);
        let mut reader = csv::Reader::from_reader(out.as_slice());
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3 * 2 * 3);
    }

    #[test]
    fn texts_of_the_peer_are_not_formulas() {
        assert_eq!(inert("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(inert("plain"), "plain");
    }
}
