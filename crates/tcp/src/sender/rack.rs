//! Time-based loss detection: RACK (RFC 8985) as in net/ipv4/tcp_recovery.c.

use crate::scoreboard::{Run, Scoreboard};
use crate::state::State;

/// Maximum multiple of a quarter of the minimum round trip for the reordering window.
const STEPS_MAX: u64 = 255;
/// Recoveries after which the reordering window shrinks again (TCP_RACK_RECOVERY_THRESH).
const RECOVERIES: u8 = 16;
/// Maximum degree of reordering in segments (`tcp_max_reordering`).
const REORDERING_MAX: u32 = 300;

/// State of RACK.
#[derive(Debug, Clone)]
pub(crate) struct Rack {
    /// Time and end of the most recently sent segment that was delivered, and its round-trip time.
    sent_us: u64,
    end: u64,
    rtt_us: u64,
    /// Whether a segment was delivered since the last detection.
    advanced: bool,
    /// Reordering window in quarters of the minimum round trip.
    steps: u64,
    recoveries_left: u8,
    dsack_seen: bool,
    last_delivered: u32,
    /// Degree of reordering in segments.
    pub(crate) reordering: u32,
    reordering_seen: bool,
}

/// Facts of the connection that the reordering window depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) state: State,
    pub(crate) minimum_rtt_us: u64,
    pub(crate) smoothed_rtt_us: u64,
}

/// Result of a detection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Detection {
    /// Packets newly marked as lost, retransmissions included.
    pub(crate) lost: u32,
    /// Time until the next segment may be lost, in us.
    pub(crate) timeout_us: Option<u64>,
}

impl Rack {
    pub(crate) const fn new(reordering: u32) -> Self {
        Self {
            sent_us: 0,
            end: 0,
            rtt_us: 0,
            advanced: false,
            steps: 1,
            recoveries_left: 0,
            dsack_seen: false,
            last_delivered: 0,
            reordering,
            reordering_seen: false,
        }
    }

    /// Handles a delivered segment (tcp_rack_advance).
    pub(crate) fn advance(&mut self, now_us: u64, minimum_rtt_us: u64, run: &Run) {
        let rtt_us = now_us.saturating_sub(run.sent_us);
        // An acknowledgement faster than the path answers an earlier transmission.
        if run.was_resent && rtt_us < minimum_rtt_us {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        if (run.sent_us, run.end) > (self.sent_us, self.end) {
            (self.sent_us, self.end) = (run.sent_us, run.end);
        }
    }

    /// Handles a D-SACK that may be due to a spurious recovery.
    pub(crate) fn duplicate_arrived(&mut self) {
        self.dsack_seen |= self.reordering_seen;
    }

    /// Permits a detection without a delivery, after an undo.
    pub(crate) const fn allow_detection(&mut self) {
        self.advanced = true;
    }

    /// Adapts the reordering window once a round trip (tcp_rack_update_reo_wnd).
    pub(crate) fn adapt(&mut self, prior_delivered: Option<u32>, delivered: u32) {
        let Some(prior) = prior_delivered else { return };
        if prior.wrapping_sub(self.last_delivered).cast_signed() < 0 {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = (self.steps + 1).min(STEPS_MAX);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.recoveries_left = RECOVERIES;
        } else if self.recoveries_left == 0 {
            self.steps = 1;
        }
    }

    /// Handles the end of a recovery without undo.
    pub(crate) const fn recovered(&mut self) {
        self.recoveries_left = self.recoveries_left.saturating_sub(1);
    }

    /// Handles an undo by D-SACK.
    pub(crate) const fn undone(&mut self) {
        if self.recoveries_left < RECOVERIES {
            self.recoveries_left += 1;
        }
    }

    /// Handles a segment from `low` that arrived after one from `highest` (tcp_check_sack_reordering).
    pub(crate) fn reordered(&mut self, low: u64, highest: u64, mss: u32) {
        let Some(distance) = highest.checked_sub(low).filter(|d| *d > 0) else { return };
        let segments = u32::try_from(distance.div_ceil(u64::from(mss.max(1)))).unwrap_or(u32::MAX);
        if distance > u64::from(self.reordering) * u64::from(mss) {
            self.reordering = segments.min(REORDERING_MAX);
        }
        self.reordering_seen = true;
    }

    /// Limits the degree of reordering after a timeout.
    pub(crate) fn limit_reordering(&mut self, maximum: u32) {
        self.reordering = self.reordering.min(maximum);
    }

    /// Time until a segment is lost in us, at most 0 if it is (tcp_rack_skb_timeout).
    pub(crate) fn time_left(&self, now_us: u64, run: &Run, window_us: u64) -> i64 {
        (self.rtt_us + window_us).cast_signed() - now_us.saturating_sub(run.sent_us).cast_signed()
    }

    /// Detects losses if a segment was delivered since the last call (tcp_rack_mark_lost).
    pub(crate) fn detect_after_delivery(&mut self, now_us: u64, facts: &Facts, board: &mut Scoreboard) -> Detection {
        if !std::mem::take(&mut self.advanced) {
            return Detection::default();
        }
        self.detect(now_us, facts, board)
    }

    /// Marks segments as lost that were sent more than the round trip and the reordering window before the latest
    /// delivered one (tcp_rack_detect_loss).
    pub(crate) fn detect(&self, now_us: u64, facts: &Facts, board: &mut Scoreboard) -> Detection {
        let window_us = self.window_us(facts, board);
        let mut found = Detection::default();
        let mut lost = Vec::new();
        for run in board.runs() {
            let waits = run.is_lost && !run.is_resent;
            if run.is_sacked || waits || (self.sent_us, self.end) <= (run.sent_us, run.end) {
                continue;
            }
            match self.time_left(now_us, run, window_us) {
                ..=0 => lost.push((run.start, run.end)),
                left => found.timeout_us = found.timeout_us.max(Some(left.cast_unsigned())),
            }
        }
        for (start, end) in lost {
            board.update(start, end, |run, packets| found.lost += mark_lost(run, packets));
        }
        found
    }

    /// The reordering window (tcp_rack_reo_wnd).
    fn window_us(&self, facts: &Facts, board: &Scoreboard) -> u64 {
        let certain = facts.state >= State::Recovery || board.counts().sacked >= self.reordering;
        if !self.reordering_seen && certain {
            return 0;
        }
        ((facts.minimum_rtt_us >> 2).saturating_mul(self.steps)).min(facts.smoothed_rtt_us)
    }
}

/// Marks a segment and its retransmission as lost (tcp_mark_skb_lost). Returns the number of packets newly lost.
pub(crate) const fn mark_lost(run: &mut Run, packets: u32) -> u32 {
    if run.is_sacked || (run.is_lost && !run.is_resent) {
        return 0;
    }
    (run.is_lost, run.is_resent) = (true, false);
    packets
}
