//! Transmission: retransmissions, new data, and the size of packets (tcp_xmit_retransmit_queue, tcp_write_xmit).

use units::Instant;

use super::{Sender, millis};
use crate::scoreboard::Run;
use crate::segment::Segments;
use crate::state::State;

/// A window that is larger than this share of the whole is sent at once (`tcp_tso_win_divisor`).
const WINDOW_DIVISOR: u64 = 3;
/// Maximum time since the last transmission, and until the next acknowledgement, for which a packet waits to become
/// larger (tcp_tso_should_defer).
const DEFER_NS_MAX: u64 = 1_000_000;

/// What to send besides new data within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    None,
    /// Lost segments.
    Lost,
    /// New data; if there is none, lost segments (F-RTO).
    NewThenLost,
    /// One new segment as a tail loss probe, beyond the window if necessary.
    ProbeNew,
    /// The last segment as a tail loss probe.
    ProbeTail,
}

/// Transmissions since the last event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Batch {
    new_segments: u64,
    is_limited: bool,
}

impl Sender {
    /// Next segments to send now; `None`: nothing until the next event.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segments> {
        self.set_now(now);
        if self.pacing.blocked_until(now).is_some() {
            return None;
        }
        let sent = match self.pending {
            Pending::None => None,
            Pending::Lost => self.retransmit_lost(now),
            Pending::NewThenLost => self.send_new(now).or_else(|| self.after_new(now)),
            Pending::ProbeNew => self.probe_new(now),
            Pending::ProbeTail => self.probe_tail(now),
        };
        if sent.is_some() {
            return sent;
        }
        self.pending = Pending::None;
        let sent = self.send_new(now);
        if sent.is_none() {
            self.end_batch(now);
        }
        sent
    }

    /// Time until which pacing blocks a transmission that is otherwise allowed.
    pub(super) fn paced_until(&self) -> Option<Instant> {
        let at = self.pacing.blocked_until(self.now)?;
        let has_window = self.board.counts().in_flight() < self.connection.window;
        (self.pending != Pending::None || (self.unsent() > 0 && has_window && self.next < self.window_end))
            .then_some(at)
    }

    /// Retransmits the first lost segments that are not in flight.
    fn retransmit_lost(&mut self, now: Instant) -> Option<Segments> {
        let counts = self.board.counts();
        let quota = u64::from(self.connection.window.checked_sub(counts.in_flight()).filter(|n| *n > 0)?);
        if counts.lost == 0 {
            return None;
        }
        let run = *self.board.runs().find(|run| run.is_lost && !run.is_resent && !run.is_sacked)?;
        let segments = quota.min(self.segments_max());
        let end = run.end.min(run.start + segments * u64::from(self.config.mss));
        let is_first = run.start == self.acknowledged;
        let sent = self.resend(now, run.start, end);
        if is_first && !matches!(self.timer, Some((super::Timer::Reordering, _))) {
            self.start_timer(now, super::Timer::Retransmission, self.rto_us);
        }
        Some(sent)
    }

    fn resend(&mut self, now: Instant, start: u64, end: u64) -> Segments {
        let (now_us, delivered) = (self.connection.now_us, self.connection.delivered);
        let mut packets = 0;
        self.board.update(start, end, |run, n| {
            packets += n;
            (run.sent_us, run.delivered) = (now_us, delivered);
            (run.is_resent, run.was_resent) = (true, true);
        });
        self.note_retransmission(packets);
        if self.is_reducing() {
            self.reduction.sent += u64::from(packets);
        }
        self.transmitted(now, start, end - start, true)
    }

    /// Sends new data within the windows.
    fn send_new(&mut self, now: Instant) -> Option<Segments> {
        let (unsent, mss) = (self.unsent(), u64::from(self.config.mss));
        if unsent == 0 {
            return None;
        }
        let (window, in_flight) = (u64::from(self.connection.window), u64::from(self.board.counts().in_flight()));
        if in_flight >= window {
            self.batch.is_limited = true;
            return None;
        }
        let allowed_end = self.window_end.min(self.acknowledged.saturating_add(self.config.send_buffer));
        let allowed = allowed_end.saturating_sub(self.next);
        if allowed < unsent.min(mss) {
            return None;
        }
        let largest = self.segments_max();
        if unsent > mss && self.waits_for_more(now, allowed, (window - in_flight) * mss, largest) {
            return None;
        }
        // At most half of the window leaves in one packet (tcp_cwnd_test).
        let segments = largest.min((window / 2).max(1)).min(window - in_flight);
        let mut bytes = unsent.min(segments * mss);
        if bytes > allowed {
            bytes = allowed / mss * mss;
        }
        Some(self.transmit_new(now, bytes))
    }

    fn transmit_new(&mut self, now: Instant, bytes: u64) -> Segments {
        if self.board.counts().in_flight() == 0 {
            let idle_us = u64::try_from(now.saturating_since(self.latest_sent).as_micros()).unwrap_or(u64::MAX);
            self.control.transmission_starts(&self.connection, idle_us, self.ticks);
        }
        let was_empty = self.board.is_empty();
        let start = self.next;
        self.next += bytes;
        self.board.push(Run {
            start,
            end: self.next,
            sent_us: self.connection.now_us,
            delivered: self.connection.delivered,
            is_sacked: false,
            is_lost: false,
            is_resent: false,
            was_resent: false,
        });
        if was_empty || matches!(self.timer, Some((super::Timer::LossProbe, _))) {
            self.start_retransmission_timer(now);
        }
        let sent = self.transmitted(now, start, bytes, false);
        self.batch.new_segments += sent.count();
        sent
    }

    fn transmitted(&mut self, now: Instant, seq: u64, bytes: u64, is_retransmission: bool) -> Segments {
        self.latest_sent = now;
        self.pacing.sent(now, bytes);
        let timestamp_ms = millis(self.connection.now_us);
        Segments { seq, bytes, mss: self.config.mss, is_retransmission, timestamp_ms }
    }

    /// F-RTO without new data to send falls back to retransmissions.
    fn after_new(&mut self, now: Instant) -> Option<Segments> {
        if self.next > self.recovery_end {
            return None;
        }
        self.examines_timeout = false;
        self.pending = Pending::Lost;
        self.retransmit_lost(now)
    }

    fn probe_new(&mut self, now: Instant) -> Option<Segments> {
        self.pending = Pending::None;
        let bytes = self.unsent().min(u64::from(self.config.mss));
        let sent = self.transmit_new(now, bytes);
        self.batch.new_segments = 0;
        self.probe_sent(now, false);
        Some(sent)
    }

    fn probe_tail(&mut self, now: Instant) -> Option<Segments> {
        self.pending = Pending::None;
        let last = *self.board.runs().last()?;
        let mss = u64::from(self.config.mss);
        let start = last.start + (last.end - last.start - 1) / mss * mss;
        let sent = self.resend(now, start, last.end);
        self.probe_sent(now, true);
        Some(sent)
    }

    fn probe_sent(&mut self, now: Instant, is_resent: bool) {
        self.totals.probes += 1;
        self.probe = Some((self.next, is_resent));
        self.timer = None;
        self.start_retransmission_timer(now);
    }

    fn segments_max(&self) -> u64 {
        self.pacing.segments_max(&self.config, self.rtt.minimum_us())
    }

    /// Whether a packet waits for an acknowledgement that lets it grow (tcp_tso_should_defer).
    fn waits_for_more(&mut self, now: Instant, receive_window: u64, free_window: u64, largest: u64) -> bool {
        let mss = u64::from(self.config.mss);
        let limit = receive_window.min(free_window);
        let since_sent = units::nanos(now.saturating_since(self.latest_sent));
        if self.state >= State::Recovery || since_sent > DEFER_NS_MAX || limit >= largest * mss {
            return false;
        }
        let share = receive_window.min(u64::from(self.connection.window) * mss) / WINDOW_DIVISOR;
        let Some(first) = self.board.first().filter(|_| limit < share) else { return false };
        let rtt_ns = self.rtt.smoothed_us().unwrap_or(0) * 1000;
        let expected_ns = (first.sent_us * 1000 + rtt_ns).saturating_sub(now.as_nanos());
        if expected_ns > DEFER_NS_MAX.min(rtt_ns / 2) {
            return false;
        }
        if free_window < receive_window {
            self.batch.is_limited = true;
        }
        true
    }

    /// Ends a batch of transmissions: schedules a probe and validates the window.
    fn end_batch(&mut self, now: Instant) {
        let batch = std::mem::take(&mut self.batch);
        let counts = self.board.counts();
        let is_limited = batch.is_limited || counts.in_flight() >= self.connection.window;
        if batch.new_segments > 0 {
            if self.is_reducing() {
                self.reduction.sent += batch.new_segments;
            }
            self.schedule_probe(now, false);
        }
        if batch.new_segments == 0 && !batch.is_limited {
            return;
        }
        let bytes = (self.acknowledged, self.next);
        let used = self.usage.validate(&self.connection, is_limited, counts.out, bytes, self.rto_us);
        if let Some(used) = used.filter(|_| self.config.slow_start_after_idle && self.unsent() == 0) {
            self.shrink_to_use(used);
        }
    }

    /// Reduces a window that the application has not used for a timeout (tcp_cwnd_application_limited).
    fn shrink_to_use(&mut self, used: u32) {
        let used = used.max(self.config.initial_window);
        if self.state == State::Open && used < self.connection.window {
            self.connection.threshold = self.current_threshold();
            self.connection.window = u32::midpoint(self.connection.window, used);
        }
    }
}
