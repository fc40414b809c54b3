use results::TcpState;
use units::{Bytes, Duration, Rate};

use super::RoundTrips;

/// Observations of one stream's sender in one interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SenderEvidence {
    /// Length of the interval.
    pub interval: Duration,
    /// The socket at the start of the interval.
    pub before: TcpState,
    /// The socket at the end of the interval.
    pub after: TcpState,
    /// CPU time (user and system) of the sending thread in the interval.
    pub thread_cpu: Duration,
    /// Time that the thread waited for the socket to accept data.
    pub blocked: Duration,
    /// Maximum rate that the user set (SO_MAX_PACING_RATE).
    pub pacing_set: Option<Rate>,
    /// Whether the congestion control paces by its own estimate of the bottleneck, as BBR does. The pacing rate of
    /// others follows from their window and limits nothing.
    pub is_paced: bool,
    /// Round trips in the interval; absent when there was no sample.
    pub round_trips: Option<RoundTrips>,
    /// Share of the host's busiest CPU that was not idle, 0..=1; absent when unknown.
    pub busiest_cpu: Option<f64>,
    /// Time for which the sender deliberately had nothing to send.
    pub app_idle: Duration,
    /// Time that the thread spent reading from a disk.
    pub disk: Duration,
    /// Bytes acknowledged in the interval.
    pub bytes: u64,
}

/// Observations of the same stream's receiver in the same interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReceiverEvidence {
    /// CPU time (user and system) of the receiving thread in the interval.
    pub thread_cpu: Duration,
    /// Share of the host's busiest CPU that was not idle, 0..=1; absent when unknown.
    pub busiest_cpu: Option<f64>,
    /// Time that the thread spent writing to a disk.
    pub disk: Duration,
    /// Length of the interval.
    pub interval: Duration,
}

impl ReceiverEvidence {
    /// Share of the interval that the thread spent at the disk, 0..=1.
    pub(super) fn disk(&self) -> f64 {
        share(self.disk, self.interval)
    }

    /// Share of one CPU that the thread used, 0..=1.
    pub(super) fn cpu(&self) -> f64 {
        share(self.thread_cpu, self.interval)
    }
}

/// The evidence as shares of the interval, 0..=1, and differences of counters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares<'a> {
    pub(super) raw: &'a SenderEvidence,
    /// Share with outstanding data.
    pub(super) busy: f64,
    /// Share limited by the peer's window.
    pub(super) rwnd: f64,
    /// Share limited by the send buffer.
    pub(super) sndbuf: f64,
    /// Share in which the sender deliberately had nothing to send.
    pub(super) idle: f64,
    /// Share in which the thread read from a disk.
    pub(super) disk: f64,
    /// Share in which the thread waited for the socket.
    pub(super) blocked: f64,
    /// Share in which the thread computed.
    pub(super) cpu: f64,
    /// Acknowledged bytes as a rate.
    pub(super) rate: Rate,
    /// Segments retransmitted.
    pub(super) retransmits: u64,
    /// Congestion marks reported.
    pub(super) marks: u64,
}

impl<'a> Shares<'a> {
    pub(super) fn of(raw: &'a SenderEvidence) -> Self {
        let SenderEvidence { before, after, interval, .. } = raw;
        // A counter that went backwards (another socket, a kernel quirk) is no evidence.
        let part = |b: u64, a: u64| share(Duration::from_nanos(a.saturating_sub(b)), *interval);
        Self {
            raw,
            busy: part(before.busy_ns, after.busy_ns),
            rwnd: part(before.rwnd_limited_ns, after.rwnd_limited_ns),
            sndbuf: part(before.sndbuf_limited_ns, after.sndbuf_limited_ns),
            idle: share(raw.app_idle, *interval),
            disk: share(raw.disk, *interval),
            blocked: share(raw.blocked, *interval),
            cpu: share(raw.thread_cpu, *interval),
            rate: Rate::of(Bytes::new(raw.bytes), *interval),
            retransmits: after.retransmits.saturating_sub(before.retransmits),
            marks: after.delivered_ce.saturating_sub(before.delivered_ce),
        }
    }

    /// Share in which data was outstanding and neither window nor buffer nor the application explains the rate: the
    /// congestion window, pacing or the CPU limit it.
    pub(super) fn rest(&self) -> f64 {
        // The application can be idle while data is outstanding; only the unavoidable overlap is subtracted.
        (self.busy.min(1.0 - self.idle) - self.rwnd - self.sndbuf).max(0.0)
    }

    /// Bytes in flight at the end.
    pub(super) fn in_flight(&self) -> u64 {
        self.raw.after.unacked_segments.saturating_mul(self.raw.after.mss_bytes)
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { (part.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}
