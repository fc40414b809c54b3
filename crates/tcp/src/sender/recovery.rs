//! Reaction to losses: the states of tcp_fastretrans_alert, proportional rate reduction, F-RTO and undo.

use units::Instant;

use super::acks::Effects;
use super::output::Pending;
use super::rack::mark_lost;
use super::timers::Timer;
use super::{Sender, millis};
use crate::state::State;

/// Proportional rate reduction (RFC 6937).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reduction {
    /// Packets delivered and sent since the start of the reduction.
    delivered: u64,
    pub(super) sent: u64,
}

/// State for the undo of a reduction that was spurious.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Undo {
    /// First unacknowledged byte at the reduction; `None`: nothing to undo.
    marker: Option<u64>,
    /// Retransmissions whose duplicates have not been reported; `None`: none was sent (-1 in the kernel).
    resent: Option<u32>,
    /// Threshold before the reduction.
    prior_threshold: u32,
    /// Timestamp of the first retransmission in ms (`retrans_stamp`).
    pub(super) first_resent_ms: Option<u64>,
}

impl Undo {
    pub(super) const fn is_armed(&self) -> bool {
        self.marker.is_some()
    }

    pub(super) const fn retransmitted(&mut self, timestamp_ms: u64, packets: u32) {
        if self.first_resent_ms.is_none() {
            self.first_resent_ms = Some(timestamp_ms);
        }
        self.resent = Some(match self.resent {
            Some(n) => n.saturating_add(packets),
            None => packets,
        });
    }

    pub(super) fn duplicate_arrived(&mut self, end: u64, packets: u32) {
        if self.marker.is_some_and(|marker| end > marker) {
            self.resent = self.resent.map(|n| n.saturating_sub(packets));
        }
    }

    /// Whether all retransmissions were reported as duplicates.
    const fn all_duplicates(&self) -> bool {
        self.marker.is_some() && matches!(self.resent, Some(0))
    }

    /// Whether the segments were only late: the echoed timestamp is earlier than the first retransmission
    /// (tcp_packet_delayed).
    fn was_late(&self, echo_ms: u64) -> bool {
        self.first_resent_ms.is_some_and(|ms| echo_ms < ms)
    }

    fn may_undo(&self, echo_ms: u64) -> bool {
        self.all_duplicates() || (self.is_armed() && self.was_late(echo_ms))
    }
}

impl Sender {
    /// Reacts to an acknowledgement that is a duplicate, carries SACK or arrives outside the open state
    /// (tcp_fastretrans_alert). Returns what to send.
    pub(super) fn react(&mut self, now: Instant, effects: &mut Effects) -> Pending {
        let recovered = self.acknowledged >= self.recovery_end;
        match self.state {
            State::Open => self.undo.first_resent_ms = None,
            State::Reduction if recovered && self.acknowledged != self.recovery_end => {
                self.end_reduction();
                self.set_state(State::Open);
            }
            State::Recovery if recovered => {
                self.undo_after_recovery(effects);
                self.end_reduction();
            }
            State::Disorder | State::Reduction | State::Recovery | State::Loss => {}
        }
        match self.state {
            State::Recovery => {
                if effects.advances && self.undo_partially(effects) {
                    return Pending::None;
                }
                if self.undo_by_duplicates() {
                    self.keep_open();
                }
                self.detect_losses(now, effects);
                if self.state != State::Recovery {
                    if self.board.counts().lost == 0 {
                        self.try_to_open();
                        return Pending::None;
                    }
                    self.enter_recovery();
                }
            }
            State::Loss => {
                let pending = self.react_in_loss(effects);
                self.detect_losses(now, effects);
                if !(self.state == State::Open || effects.lost_resent) {
                    return pending;
                }
                return self.react_before_recovery(now, effects);
            }
            State::Open | State::Disorder | State::Reduction => return self.react_before_recovery(now, effects),
        }
        Pending::Lost
    }

    fn react_before_recovery(&mut self, now: Instant, effects: &mut Effects) -> Pending {
        if self.state <= State::Disorder {
            self.undo_by_duplicates();
        }
        self.detect_losses(now, effects);
        if self.board.counts().lost == 0 {
            self.try_to_open();
            return Pending::None;
        }
        self.enter_recovery();
        Pending::Lost
    }

    /// Reacts in the state after a timeout (tcp_process_loss), with F-RTO (RFC 5682).
    fn react_in_loss(&mut self, effects: &Effects) -> Pending {
        let recovered = self.acknowledged >= self.recovery_end;
        if effects.advances && self.undo_timeout(effects, false) {
            return Pending::None;
        }
        if self.examines_timeout {
            // Step 3.b: a segment arrived that was not retransmitted.
            if effects.delivers_original && self.undo_timeout(effects, true) {
                return Pending::None;
            }
            if self.next > self.recovery_end {
                // Step 3.a: the loss was real.
                if effects.sacks || !effects.advances {
                    self.examines_timeout = false;
                }
            } else if effects.advances && !recovered {
                self.recovery_end = self.next;
                // Step 2.b: new data shows whether the timeout was spurious.
                if self.unsent() > 0 && self.window_end > self.next {
                    return Pending::NewThenLost;
                }
                self.examines_timeout = false;
            }
        }
        if recovered {
            self.undo_after_recovery(effects);
            return Pending::None;
        }
        Pending::Lost
    }

    /// Handles a retransmission timeout (tcp_enter_loss).
    pub(super) fn enter_loss(&mut self) {
        let is_new = self.state < State::Recovery;
        self.mark_timeout_losses();
        let progressed = self.recovery_end <= self.acknowledged;
        if self.state <= State::Disorder || progressed || (self.state == State::Loss && self.timeouts_in_row == 0) {
            self.undo.prior_threshold = self.current_threshold();
            self.connection.prior_window = self.connection.window;
            self.connection.threshold = self.control.after_loss(&self.connection);
            self.arm_undo();
        }
        self.connection.window = self.board.counts().in_flight() + 1;
        self.connection.window_count = 0;
        if self.state <= State::Disorder && self.board.counts().sacked >= self.config.reordering {
            self.rack.limit_reordering(self.config.reordering);
        }
        self.set_state(State::Loss);
        self.recovery_end = self.next;
        self.probe = None;
        self.examines_timeout = is_new || self.timeouts_in_row > 0;
    }

    /// Marks all segments as lost except those sent so recently that an answer may be in flight
    /// (tcp_timeout_mark_lost).
    fn mark_timeout_losses(&mut self) {
        let (now_us, first) = (self.connection.now_us, self.acknowledged_start());
        let rack = &self.rack;
        let mut lost = 0;
        self.board.update_all(|run, packets| {
            if run.start == first || rack.time_left(now_us, run, 0) <= 0 {
                lost += mark_lost(run, packets);
            }
        });
        self.packets_lost(lost);
    }

    fn acknowledged_start(&self) -> u64 {
        self.board.first().map_or(0, |run| run.start)
    }

    /// Starts fast recovery (tcp_enter_recovery).
    pub(super) fn enter_recovery(&mut self) {
        self.undo.prior_threshold = 0;
        self.arm_undo();
        if !self.is_reducing() {
            self.undo.prior_threshold = self.current_threshold();
            self.start_reduction();
        }
        self.set_state(State::Recovery);
    }

    fn arm_undo(&mut self) {
        self.undo.marker = Some(self.acknowledged);
        let resent = self.board.counts().resent;
        self.undo.resent = (resent > 0).then_some(resent);
    }

    /// Starts a reduction of the window (tcp_init_cwnd_reduction).
    pub(super) fn start_reduction(&mut self) {
        self.recovery_end = self.next;
        self.probe = None;
        self.reduction = Reduction::default();
        let c = &mut self.connection;
        c.window_count = 0;
        c.prior_window = c.window;
        c.threshold = self.control.after_loss(c);
    }

    /// Reduces the window in proportion to the packets delivered (tcp_cwnd_reduction, RFC 6937).
    pub(super) fn reduce(&mut self, delivered: u32, newly_lost: u32, advances: bool) {
        let prior = u64::from(self.connection.prior_window);
        if delivered == 0 || prior == 0 {
            return;
        }
        let (in_flight, threshold) = (self.board.counts().in_flight(), self.connection.threshold);
        let r = &mut self.reduction;
        r.delivered += u64::from(delivered);
        let quota = if in_flight > threshold {
            (u64::from(threshold) * r.delivered).div_ceil(prior).saturating_sub(r.sent)
        } else {
            let bound = r.delivered.saturating_sub(r.sent).max(u64::from(delivered));
            (bound + u64::from(advances && newly_lost == 0)).min(u64::from(threshold - in_flight))
        };
        // The first retransmission leaves at once.
        let quota = quota.max(u64::from(r.sent == 0)) as u32;
        self.connection.window = in_flight + quota;
    }

    /// Ends a reduction (tcp_end_cwnd_reduction).
    pub(super) const fn end_reduction(&mut self) {
        if matches!(self.state, State::Reduction) || self.undo.is_armed() {
            self.connection.window = self.connection.threshold;
        }
    }

    /// Detects losses, and starts the reordering timer (tcp_identify_packet_loss).
    fn detect_losses(&mut self, now: Instant, effects: &mut Effects) {
        let (facts, resent) = (self.facts(), self.board.counts().resent);
        let found = self.rack.detect_after_delivery(self.connection.now_us, &facts, &mut self.board);
        self.packets_lost(found.lost);
        effects.lost_resent |= self.board.counts().resent < resent;
        if let Some(us) = found.timeout_us {
            self.start_timer(now, Timer::Reordering, us + self.timeout_min_us());
            effects.restarts_timer = false;
        }
    }

    /// Losses at the end of the reordering timer (tcp_rack_reo_timeout).
    pub(super) fn detect_late_losses(&mut self) {
        let (facts, before) = (self.facts(), self.board.counts().in_flight());
        let found = self.rack.detect(self.connection.now_us, &facts, &mut self.board);
        self.packets_lost(found.lost);
        if self.board.counts().in_flight() != before {
            if self.state != State::Recovery {
                self.enter_recovery();
                self.reduce(1, 0, false);
            }
            self.pending = Pending::Lost;
        }
    }

    fn try_to_open(&mut self) {
        if self.board.counts().resent == 0 {
            self.undo.first_resent_ms = None;
        }
        if self.state != State::Reduction {
            self.keep_open();
        }
    }

    /// Enters the open state, or disorder while segments are missing (tcp_try_keep_open).
    pub(super) fn keep_open(&mut self) {
        let counts = self.board.counts();
        let disorder = counts.sacked + counts.lost + counts.resent > 0;
        let state = if disorder { State::Disorder } else { State::Open };
        if self.state != state {
            self.set_state(state);
            self.recovery_end = self.next;
        }
    }

    /// Ends recovery: undoes the reduction if it was spurious (tcp_try_undo_recovery).
    fn undo_after_recovery(&mut self, effects: &Effects) {
        if self.undo.may_undo(effects.echo_ms) {
            self.undo_reduction(false);
        } else {
            self.rack.recovered();
        }
        self.set_state(State::Open);
        self.examines_timeout = false;
    }

    /// Undoes a reduction after a part of recovery that shows late, not lost, segments (tcp_try_undo_partial).
    fn undo_partially(&mut self, effects: &Effects) -> bool {
        if !self.undo.is_armed() || !self.undo.was_late(effects.echo_ms) {
            return false;
        }
        self.rack.reordered(effects.prior, self.acknowledged, self.config.mss);
        // Retransmissions in flight must be answered first.
        if self.board.counts().resent > 0 {
            return true;
        }
        self.undo.first_resent_ms = None;
        self.undo_reduction(true);
        self.keep_open();
        true
    }

    /// Undoes a reduction when all retransmissions arrived twice (tcp_try_undo_dsack).
    fn undo_by_duplicates(&mut self) -> bool {
        let undo = self.undo.all_duplicates();
        if undo {
            self.rack.undone();
            self.undo_reduction(false);
        }
        undo
    }

    /// Undoes a timeout that was spurious (tcp_try_undo_loss).
    fn undo_timeout(&mut self, effects: &Effects, found_by_frto: bool) -> bool {
        if !found_by_frto && !self.undo.may_undo(effects.echo_ms) {
            return false;
        }
        self.undo_reduction(true);
        self.timeouts_in_row = 0;
        self.examines_timeout = false;
        self.set_state(State::Open);
        true
    }

    /// Restores window and threshold (tcp_undo_cwnd_reduction).
    fn undo_reduction(&mut self, forget_losses: bool) {
        if forget_losses {
            self.board.update_all(|run, _| run.is_lost = false);
        }
        if self.undo.prior_threshold > 0 {
            self.connection.window = self.control.undo(&self.connection);
            self.connection.threshold = self.connection.threshold.max(self.undo.prior_threshold);
        }
        self.undo.marker = None;
        self.rack.allow_detection();
    }

    /// Notes a retransmission for an undo.
    pub(super) fn note_retransmission(&mut self, packets: u32) {
        self.totals.retransmissions += u64::from(packets);
        self.undo.retransmitted(millis(self.connection.now_us), packets);
    }
}
