//! The timer of a connection: one of retransmission, loss probe and reordering; and the restart after an idle period.

use units::Instant;

use super::Sender;
use super::output::Pending;
use crate::rtt::RttEstimator;
use crate::state::State;

/// Timeout before the first round-trip time (TCP_TIMEOUT_INIT).
const TIMEOUT_US_INITIAL: u64 = 1_000_000;

/// Purpose of the timer (`icsk_pending`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    Retransmission,
    /// Tail loss probe (RFC 8985, 7).
    LossProbe,
    /// End of the reordering window (RFC 8985, 6.2).
    Reordering,
}

impl Sender {
    /// Time of the next call of [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let paced = self.paced_until();
        match (self.timer.map(|(_, at)| at), paced) {
            (Some(timer), Some(paced)) => Some(timer.min(paced)),
            (timer, paced) => timer.or(paced),
        }
    }

    /// Handles the timer if it is due; [`Self::poll_transmit`] then gives what to send.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.set_now(now);
        let Some((timer, _)) = self.timer.filter(|(_, at)| *at <= now) else { return };
        self.timer = None;
        if self.board.is_empty() {
            return;
        }
        match timer {
            Timer::Reordering => {
                self.detect_late_losses();
                if self.timer.is_none() {
                    self.start_retransmission_timer(now);
                }
            }
            Timer::LossProbe => self.send_probe(now),
            Timer::Retransmission => {
                self.enter_loss();
                self.timeouts_in_row += 1;
                self.totals.timeouts += 1;
                self.pending = Pending::Lost;
                self.rto_us = RttEstimator::backed_off(self.rto_us);
                self.start_timer(now, Timer::Retransmission, self.rto_us);
            }
        }
    }

    /// Minimum of the probe and reordering timers: two ticks (TCP_TIMEOUT_MIN_US).
    pub(super) fn timeout_min_us(&self) -> u64 {
        2 * self.ticks.round_up_us(1)
    }

    pub(super) fn start_timer(&mut self, now: Instant, timer: Timer, timeout_us: u64) {
        self.timer = Some((timer, self.ticks.deadline(now, timeout_us)));
    }

    /// Starts the probe or the retransmission timer after progress (tcp_set_xmit_timer).
    pub(super) fn restart_timer(&mut self, now: Instant) {
        if !self.schedule_probe(now, true) {
            self.start_retransmission_timer(now);
        }
    }

    /// Starts the retransmission timer; stops it when nothing is in flight (tcp_rearm_rto).
    pub(super) fn start_retransmission_timer(&mut self, now: Instant) {
        let Some(first) = self.board.first() else {
            self.timer = None;
            return;
        };
        let sent_us = first.sent_us;
        let timeout_us = match self.timer {
            // The other timers replaced the retransmission timer, which counts from the transmission.
            Some((Timer::LossProbe | Timer::Reordering, _)) => {
                (sent_us + self.rto_us).saturating_sub(self.connection.now_us).max(1)
            }
            Some((Timer::Retransmission, _)) | None => self.rto_us,
        };
        self.start_timer(now, Timer::Retransmission, timeout_us);
    }

    /// Schedules a tail loss probe (tcp_schedule_loss_probe). Returns false if none is allowed.
    pub(super) fn schedule_probe(&mut self, now: Instant, after_progress: bool) -> bool {
        let out = self.board.counts().out;
        let Some(first) = self.board.first().filter(|_| matches!(self.state, State::Open | State::Reduction)) else {
            return false;
        };
        let rto_min_us = u64::try_from(self.config.rto_min.as_micros()).unwrap_or(u64::MAX);
        let timeout_us = match self.rtt.smoothed_us() {
            // A delayed acknowledgement may follow a single packet.
            Some(us) if out == 1 => 2 * us + rto_min_us,
            Some(us) => 2 * us + self.timeout_min_us(),
            None => TIMEOUT_US_INITIAL,
        };
        let rto_left_us = match after_progress {
            true => self.rto_us,
            false => (first.sent_us + self.rto_us).saturating_sub(self.connection.now_us),
        };
        let timeout_us = if rto_left_us > 0 { timeout_us.min(rto_left_us) } else { timeout_us };
        self.start_timer(now, Timer::LossProbe, timeout_us);
        true
    }

    /// Sends a tail loss probe: new data if possible, otherwise the last segment again (tcp_send_loss_probe).
    fn send_probe(&mut self, now: Instant) {
        if self.probe.is_none() {
            let one = self.unsent().min(u64::from(self.config.mss));
            let new = one > 0 && self.next + one <= self.window_end;
            self.pending = if new { Pending::ProbeNew } else { Pending::ProbeTail };
        }
        self.start_retransmission_timer(now);
    }

    /// Reduces the window after an idle period (tcp_slow_start_after_idle_check, tcp_cwnd_restart).
    pub(super) fn restart_after_idle(&mut self, now: Instant) {
        let idle_us = u64::try_from(now.saturating_since(self.latest_sent).as_micros()).unwrap_or(u64::MAX);
        if !self.config.slow_start_after_idle || !self.board.is_empty() || idle_us <= self.rto_us || self.next == 0 {
            return;
        }
        self.control.idle();
        self.connection.threshold = self.current_threshold();
        let mut window = self.connection.window;
        let minimum = self.config.initial_window.min(window);
        let mut left = idle_us.saturating_sub(self.rto_us);
        while left > 0 && window > minimum {
            window >>= 1;
            left = left.saturating_sub(self.rto_us);
        }
        self.connection.window = window.max(minimum);
        self.usage.restart(self.connection.now_us);
    }
}
