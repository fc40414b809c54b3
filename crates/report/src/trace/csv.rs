//! Comma-separated values.

use std::io::{self, Write};

use results::trace::{TraceCause, TraceRecord, TraceSample};

use super::format::state;

/// Columns; the unit is the last part of each name.
const COLUMNS: &str = "flow at_s cause state cwnd_segments ssthresh_segments in_flight_segments srtt_ns rttvar_ns \
    min_rtt_ns delivery_rate_bps pacing_rate_bps lost_segments retransmitted_segments acked_bytes mss_bytes \
    peer_window_bytes application_limited window_limited fast_base_rtt_ns fast_average_rtt_ns fast_queue_segments \
    fast_target_segments fast_holding htcp_min_rtt_ns htcp_max_rtt_ns htcp_alpha_segments htcp_beta";

/// Writes samples as comma-separated values (RFC 4180, line end LF).
pub struct TraceCsv<W: Write> {
    out: csv::Writer<W>,
    is_headed: bool,
}

impl<W: Write> core::fmt::Debug for TraceCsv<W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TraceCsv").field("is_headed", &self.is_headed).finish_non_exhaustive()
    }
}

impl<W: Write> TraceCsv<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out: csv::Writer::from_writer(out), is_headed: false }
    }

    /// Writes the header once, and the row of a sample; other records have none.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn record(&mut self, record: &TraceRecord) -> io::Result<()> {
        if !self.is_headed {
            self.is_headed = true;
            self.out.write_record(COLUMNS.split_whitespace())?;
        }
        let TraceRecord::Sample(s) = record else { return Ok(()) };
        self.out.write_record(row(s))?;
        Ok(())
    }

    /// # Errors
    /// Errors of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn row(s: &TraceSample) -> Vec<String> {
    fn maybe<T: ToString>(value: Option<T>) -> String {
        value.map(|v| v.to_string()).unwrap_or_default()
    }
    let (fast, htcp) = (s.fast.as_ref(), s.htcp.as_ref());
    vec![
        s.flow.to_string(),
        format!("{:.6}", s.at_s),
        event_name(s.cause).to_owned(),
        state(s.state).to_owned(),
        s.cwnd_segments.to_string(),
        maybe(s.ssthresh_segments),
        s.in_flight_segments.to_string(),
        s.srtt_ns.to_string(),
        s.rttvar_ns.to_string(),
        maybe(s.min_rtt_ns),
        maybe(s.delivery_rate_bps),
        maybe(s.pacing_rate_bps),
        s.lost_segments.to_string(),
        s.retransmitted_segments.to_string(),
        s.acked_bytes.to_string(),
        s.mss_bytes.to_string(),
        s.peer_window_bytes.to_string(),
        s.application_limited.to_string(),
        maybe(s.window_limited),
        maybe(fast.map(|f| f.base_rtt_ns)),
        maybe(fast.map(|f| f.average_rtt_ns)),
        maybe(fast.map(|f| format!("{:.1}", f.queue_segments))),
        maybe(fast.map(|f| f.target_segments)),
        maybe(fast.map(|f| f.holding)),
        maybe(htcp.map(|h| h.min_rtt_ns)),
        maybe(htcp.map(|h| h.max_rtt_ns)),
        maybe(htcp.map(|h| h.alpha_segments)),
        maybe(htcp.map(|h| h.beta)),
    ]
}

fn event_name(cause: TraceCause) -> &'static str {
    match cause {
        TraceCause::Ack => "ack",
        TraceCause::State => "state",
        TraceCause::Retransmission => "retransmission",
        TraceCause::End => "end",
    }
}
