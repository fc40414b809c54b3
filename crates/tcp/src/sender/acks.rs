//! Handling of an acknowledgement (tcp_ack).

use congestion::Ack as ControlAck;
use units::Instant;

use super::{Ack, Sender, millis};
use crate::scoreboard::Run;
use crate::segment::SeqRange;
use crate::sender::output::Pending;
use crate::state::State;

/// What one acknowledgement says (the FLAG_ values of tcp_input.c).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Effects {
    /// New bytes were acknowledged (FLAG_SND_UNA_ADVANCED, FLAG_DATA_ACKED).
    pub(super) advances: bool,
    /// The receive window grew.
    pub(super) opens_window: bool,
    /// New bytes were selectively acknowledged (FLAG_DATA_SACKED).
    pub(super) sacks: bool,
    /// A segment that was never retransmitted was delivered in recovery (FLAG_ORIG_SACK_ACKED).
    pub(super) delivers_original: bool,
    /// A retransmitted segment was acknowledged (FLAG_RETRANS_DATA_ACKED).
    pub(super) acknowledges_resent: bool,
    /// A D-SACK arrived (FLAG_DSACKING_ACK), and it answers a tail loss probe (FLAG_DSACK_TLP).
    pub(super) duplicates: bool,
    pub(super) duplicates_probe: bool,
    /// A retransmission was found lost (FLAG_LOST_RETRANS).
    pub(super) lost_resent: bool,
    /// The retransmission timer starts again (FLAG_SET_XMIT_TIMER).
    pub(super) restarts_timer: bool,
    /// First unacknowledged byte before.
    pub(super) prior: u64,
    /// Echoed timestamp in ms.
    pub(super) echo_ms: u64,
}

/// Transmission times of the segments that one acknowledgement delivers, in us.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    /// First and last of those acknowledged in order, never retransmitted.
    first_acked: Option<u64>,
    last_acked: Option<u64>,
    first_sacked: Option<u64>,
    last_sacked: Option<u64>,
    /// Of the most recently sent one: time, end, and the packets delivered before it was sent.
    newest: Option<(u64, u64, u32)>,
    /// Lowest segment that arrived out of order.
    reordered: Option<u64>,
    packets_acked: u32,
    delivered: u32,
}

impl Times {
    fn deliver(&mut self, run: &Run, packets: u32) {
        self.delivered += packets;
        if self.newest.is_none_or(|(sent, end, _)| (run.sent_us, run.end) > (sent, end)) {
            self.newest = Some((run.sent_us, run.end, run.delivered));
        }
    }

    fn arrived_late(&mut self, start: u64) {
        self.reordered = Some(self.reordered.map_or(start, |low| low.min(start)));
    }
}

impl Sender {
    /// Handles an acknowledgement.
    pub fn handle_ack(&mut self, now: Instant, ack: &Ack) {
        // It acknowledges bytes that were never sent.
        if ack.cumulative > self.next {
            return;
        }
        self.set_now(now);
        let mut effects = Effects { prior: self.acknowledged, echo_ms: ack.echo_ms, ..Effects::default() };
        effects.advances = ack.cumulative > self.acknowledged;
        effects.opens_window = ack.window_end > self.window_end;
        self.window_end = self.window_end.max(ack.window_end);
        if effects.advances {
            self.timeouts_in_row = 0;
        }
        let (prior_lost, prior_highest) = (self.totals.lost, self.highest_sacked_start());
        let mut times = Times::default();
        self.take_duplicate(ack, &mut effects);
        self.take_sack(ack, &mut effects, &mut times);
        self.acknowledge(ack, &mut effects, &mut times, prior_highest);
        self.rack.adapt(times.newest.map(|(_, _, delivered)| delivered), self.connection.delivered);
        self.take_probe_answer(ack, &effects);
        let mut rexmit = Pending::None;
        let is_duplicate = !effects.advances && !effects.opens_window;
        if is_duplicate || effects.sacks || effects.duplicates || self.state != State::Open {
            rexmit = self.react(now, &mut effects);
        }
        if effects.restarts_timer {
            self.restart_timer(now);
        }
        let newly_lost = (self.totals.lost - prior_lost) as u32;
        self.change_window(times.delivered, newly_lost, &effects);
        if rexmit != Pending::None {
            self.pending = rexmit;
        }
    }

    /// Start of the highest selectively acknowledged segment; the first unacknowledged byte if there is none.
    fn highest_sacked_start(&self) -> u64 {
        match self.board.counts().sacked {
            0 => self.acknowledged,
            _ => self.board.highest_sacked().saturating_sub(u64::from(self.config.mss)).max(self.acknowledged),
        }
    }

    fn take_duplicate(&mut self, ack: &Ack, effects: &mut Effects) {
        let Some(duplicate) = ack.duplicate else { return };
        let packets = self.board.packets(duplicate.start, duplicate.end);
        // More duplicates than retransmissions: the network duplicates.
        if u64::from(packets) > self.totals.retransmissions {
            return;
        }
        effects.duplicates = true;
        effects.duplicates_probe = self.probe.is_some_and(|(end, _)| end == duplicate.end);
        if !effects.duplicates_probe {
            self.rack.duplicate_arrived();
        }
        self.undo.duplicate_arrived(duplicate.end, packets);
    }

    /// Marks selectively acknowledged segments (tcp_sacktag_write_queue).
    fn take_sack(&mut self, ack: &Ack, effects: &mut Effects, times: &mut Times) {
        let mut blocks = [SeqRange::default(); 3];
        let count = ack.sack.as_slice().len();
        if count == 0 {
            return;
        }
        blocks[..count].copy_from_slice(ack.sack.as_slice());
        blocks[..count].sort_unstable_by_key(|block| block.start);
        let (now_us, minimum) = (self.connection.now_us, self.rtt.minimum_us());
        let recovery_end = self.recovery_end;
        for block in &blocks[..count] {
            let (start, end) = (block.start.max(ack.cumulative), block.end.min(self.next));
            if start >= end {
                continue;
            }
            let (rack, highest) = (&mut self.rack, self.board.highest_sacked());
            self.board.update(start, end, |run, packets| {
                if run.is_sacked {
                    return;
                }
                rack.advance(now_us, minimum, run);
                if !run.was_resent {
                    if run.start < highest {
                        times.arrived_late(run.start);
                    }
                    effects.delivers_original |= run.end <= recovery_end;
                    times.first_sacked = times.first_sacked.or(Some(run.sent_us));
                    times.last_sacked = Some(run.sent_us);
                }
                // A retransmission of a segment that is not considered lost is believed to be in flight still.
                if run.is_lost {
                    (run.is_lost, run.is_resent) = (false, false);
                }
                times.deliver(run, packets);
                run.is_sacked = true;
                effects.sacks = true;
            });
        }
        if let Some(low) = times.reordered.filter(|_| self.state != State::Loss || self.undo.is_armed()) {
            self.rack.reordered(low, self.highest_sacked_start(), self.config.mss);
        }
    }

    /// Removes acknowledged segments and takes their round-trip times (tcp_clean_rtx_queue).
    fn acknowledge(&mut self, ack: &Ack, effects: &mut Effects, times: &mut Times, prior_highest: u64) {
        let (now_us, minimum) = (self.connection.now_us, self.rtt.minimum_us());
        let recovery_end = self.recovery_end;
        let rack = &mut self.rack;
        let mut late = None;
        self.board.acknowledge(ack.cumulative, |run, packets| {
            times.packets_acked += packets;
            if run.was_resent {
                effects.acknowledges_resent = true;
            } else if !run.is_sacked {
                times.first_acked = times.first_acked.or(Some(run.sent_us));
                times.last_acked = Some(run.sent_us);
                late = late.or(Some(run.start));
                effects.delivers_original |= run.end <= recovery_end;
            }
            if !run.is_sacked {
                times.deliver(run, packets);
                rack.advance(now_us, minimum, run);
            }
        });
        self.acknowledged = self.acknowledged.max(ack.cumulative);
        self.connection.delivered = self.connection.delivered.wrapping_add(times.delivered);
        self.totals.delivered += u64::from(times.delivered);
        let rtt_us = self.take_round_trip(ack, effects, times);
        if times.packets_acked > 0 {
            effects.restarts_timer = true;
            // A hole filled without retransmission is reordering.
            if let Some(low) = late.filter(|low| *low < prior_highest) {
                self.rack.reordered(low, prior_highest, self.config.mss);
            }
        }
        let flight = times.newest.map_or(0, |(_, _, prior)| self.connection.delivered.wrapping_sub(prior));
        if times.delivered > 0 || times.packets_acked > 0 {
            let sample = ControlAck { packets: times.packets_acked, rtt_us, flight };
            let round = self.round();
            self.connection.limited = self.usage.is_limited(&self.connection);
            self.control.measure(&mut self.connection, sample, &round, self.ticks);
        }
    }

    /// Takes the round-trip times (tcp_ack_update_rtt). Returns that of the most recent segment in us.
    fn take_round_trip(&mut self, ack: &Ack, effects: &Effects, times: &Times) -> Option<u32> {
        let now_us = self.connection.now_us;
        let since = |sent: Option<u64>| sent.map(|us| now_us.saturating_sub(us));
        let clean = !effects.acknowledges_resent;
        let in_order = since(times.first_acked).filter(|_| clean);
        let mut smoothed = in_order.or_else(|| since(times.first_sacked));
        let mut newest = since(times.last_sacked).or_else(|| since(times.last_acked).filter(|_| clean));
        if smoothed.is_none() && effects.advances && times.packets_acked > 0 {
            // Timestamps have a resolution of 1 ms.
            let ms = millis(now_us).saturating_sub(ack.echo_ms);
            smoothed = Some((ms * 1000).max(1000));
            newest = smoothed;
        }
        let smoothed = smoothed?;
        if let Some(us) = newest {
            self.rtt.sample_minimum(now_us, us);
        }
        self.rtt.sample(smoothed, self.acknowledged, self.next);
        self.rto_us = self.ticks.round_up_us(self.rtt.timeout_us());
        newest.map(|us| u32::try_from(us).unwrap_or(u32::MAX))
    }

    /// Handles the answer to a tail loss probe (tcp_process_tlp_ack).
    fn take_probe_answer(&mut self, ack: &Ack, effects: &Effects) {
        let Some((end, is_resent)) = self.probe else { return };
        if ack.cumulative < end {
            return;
        }
        if !is_resent || effects.duplicates_probe {
            self.probe = None;
        } else if ack.cumulative > end {
            // The probe repaired a loss; the window is reduced as for any loss.
            self.start_reduction();
            self.set_state(State::Reduction);
            self.end_reduction();
            self.keep_open();
        } else if !effects.advances && !effects.sacks {
            // The original arrived, too.
            self.probe = None;
        }
    }

    /// Changes the congestion window (tcp_cong_control).
    fn change_window(&mut self, delivered: u32, newly_lost: u32, effects: &Effects) {
        if self.is_reducing() {
            self.reduce(delivered, newly_lost, effects.advances);
        } else if self.may_raise_window(effects) {
            self.connection.limited = self.usage.is_limited(&self.connection);
            self.control.avoid(&mut self.connection, delivered, self.ticks);
        }
        self.pacing.update(&self.connection, self.board.counts().out, self.config.mss, &self.rtt);
    }

    /// Whether an acknowledgement may raise the window (tcp_may_raise_cwnd). With strong reordering each delivery
    /// counts, because acknowledgements then come in bursts.
    const fn may_raise_window(&self, effects: &Effects) -> bool {
        effects.advances || (effects.sacks && self.rack.reordering > self.config.reordering)
    }
}
