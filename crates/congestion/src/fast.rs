//! FAST TCP: C. Jin, D. X. Wei, S. H. Low, "FAST TCP: motivation, architecture, algorithms, performance", INFOCOM 2004.

use crate::connection::{Ack, Connection, MIN_WINDOW};

/// Times and packets in 1/256.
const ONE: u64 = 256;
/// Largest number of packets in flight that the arithmetic carries.
const FLIGHT_MAX: u32 = 1 << 20;
/// Longest round trip that it carries: two minutes.
const RTT_US_MAX: u32 = 1 << 27;

/// Parameters of FAST TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastSettings {
    /// Packets that a flow keeps queued in equilibrium.
    pub alpha: u32,
    /// Step towards the goal at each change, in 1/256; 1 to 256.
    pub gamma: u32,
    /// Least time between two changes of the window, in microseconds.
    pub period_us: u32,
    /// Queueing delay in microseconds below which the window doubles each round trip.
    pub threshold_us: u32,
    /// The mean of the round trip moves by a third of a window's samples, and by no more than 1 in this of the difference.
    pub average_least: u32,
    /// Whether the window rests for a round trip after each change.
    pub every_other: bool,
}

impl Default for FastSettings {
    /// ns-2's FAST module 1.1.3, but for the mean's weight, which is the paper's 1/4.
    fn default() -> Self {
        Self { alpha: 100, gamma: 128, period_us: 10_000, threshold_us: 750, average_least: 4, every_other: true }
    }
}

/// The state of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fast {
    average: u64,
    changed_us: u64,
    base_us: u32,
    flight: u32,
    target: u32,
    fraction: u32,
    growth: u32,
    round: u32,
    expected: u32,
    resting: bool,
    after_timeout: bool,
}

impl Fast {
    /// Smallest round trip of the connection in microseconds: never forgotten. `None` before the first.
    pub fn base_rtt_us(&self) -> Option<u32> {
        (self.base_us > 0).then_some(self.base_us)
    }

    /// Mean round trip in microseconds. `None` before the first and after a silence.
    pub fn average_rtt_us(&self) -> Option<f64> {
        (self.average > 0).then_some(self.average as f64 / ONE as f64)
    }

    /// An acknowledgement: the round trip is measured, then the window changed, if the connection is in no recovery.
    pub fn ack(&mut self, settings: &FastSettings, connection: &mut Connection, ack: Ack) {
        self.measure(settings, connection, ack);
        self.avoid(settings, connection, ack.packets);
    }

    /// The kernel's `pkts_acked`: also during recovery.
    pub fn measure(&mut self, settings: &FastSettings, connection: &Connection, ack: Ack) {
        self.flight = ack.flight.min(FLIGHT_MAX);
        let Some(rtt) = ack.rtt_us.filter(|rtt| *rtt > 0) else { return };
        let rtt = rtt.min(RTT_US_MAX);
        if self.base_us == 0 || rtt < self.base_us {
            self.base_us = rtt;
        }
        let sample = u64::from(rtt) << 8;
        if self.average == 0 {
            self.average = sample;
            return;
        }
        // The paper's weight is min(3/w, 1/4). An ACK for n packets stands for n samples.
        let third = u64::from(connection.window) / (3 * u64::from(ack.packets.max(1)));
        let scale = third.max(u64::from(settings.average_least.max(1)));
        if sample >= self.average {
            self.average += (sample - self.average) / scale;
        } else {
            self.average -= (self.average - sample) / scale;
        }
    }

    /// The kernel's `cong_avoid`.
    pub fn avoid(&mut self, settings: &FastSettings, c: &mut Connection, acked: u32) {
        let base = u64::from(self.base_us) << 8;
        let quiet = self.average.wrapping_sub(base) < u64::from(settings.threshold_us) << 8;
        // A loss, an idle time or a full receiver has changed it meanwhile.
        if c.window != self.expected {
            self.target = c.window;
            self.fraction = 0;
            self.growth = 0;
            c.window_count = 0;
        }
        if self.after_timeout && c.window < c.threshold {
            if c.limited {
                c.slow_start(acked);
            }
        } else if self.average == 0 || quiet {
            // Multiplicative increase: there is no slow start beside it.
            if c.limited {
                c.window = c.window.wrapping_add(acked).min(c.clamp);
            }
        } else {
            self.after_timeout = false;
            c.threshold = c.threshold.min(c.window);
            self.change(settings, c);
            if c.limited && c.window < self.target {
                self.grow(c, acked);
            }
            self.expected = c.window;
            return;
        }
        self.target = c.window;
        self.fraction = 0;
        self.growth = 0;
        self.resting = false;
        self.round = c.delivered;
        self.changed_us = c.now_us;
        self.expected = c.window;
    }

    fn change(&mut self, settings: &FastSettings, c: &mut Connection) {
        // Whether what is acknowledged now was sent in this round.
        let sent_in_round = c.delivered.wrapping_sub(self.flight).wrapping_sub(self.round).cast_signed() >= 0;
        if !sent_in_round || c.now_us.wrapping_sub(self.changed_us) < u64::from(settings.period_us) {
            return;
        }
        self.round = c.delivered;
        if settings.every_other {
            self.resting = !self.resting;
            if self.resting {
                return;
            }
        }
        self.changed_us = c.now_us;
        let goal = self.goal(settings, c);
        self.target = (goal >> 8) as u32;
        self.fraction = (goal & 255) as u32;
        self.growth = self.target.saturating_sub(c.window);
        c.window_count = 0;
        c.window = c.window.min(self.target);
    }

    /// Equation of the window, in 1/256 packet: min(2w, (1 - gamma) w + gamma (baseRTT / RTT w' + alpha)), where w' is what was in
    /// flight when the round trip was measured.
    fn goal(&self, settings: &FastSettings, c: &Connection) -> u64 {
        let window = (u64::from(self.target) << 8) + u64::from(self.fraction);
        let measured = u64::from(if c.limited { self.flight } else { self.flight.max(self.target) });
        let kept = ((measured << 8) * (u64::from(self.base_us) << 8)).checked_div(self.average).unwrap_or(0);
        let (gamma, alpha) = (u64::from(settings.gamma), u64::from(settings.alpha));
        let goal = ((ONE - gamma) * window + gamma * (kept + (alpha << 8))) >> 8;
        // A goal that runs ahead of a window that is not used would be made up for within one round trip later.
        let used = if c.limited { u64::MAX } else { u64::from(c.window) << 8 };
        goal.min(2 * window).min(used).max(u64::from(MIN_WINDOW) << 8).min(u64::from(c.clamp) << 8)
    }

    /// Spread over the ACKs of a round, for an increase at once would send a burst (the paper's burstiness control).
    fn grow(&self, c: &mut Connection, acked: u32) {
        let count = u64::from(c.window_count) + u64::from(acked) * u64::from(self.growth);
        let window = u64::from(c.window.max(1));
        c.window_count = (count % window) as u32;
        c.window = c.window.wrapping_add((count / window) as u32).min(self.target);
    }

    /// Threshold after a loss or a congestion mark (the kernel's `ssthresh`): half of the window, as Reno.
    pub fn after_loss(&self, c: &Connection) -> u32 {
        (c.window / 2).max(MIN_WINDOW)
    }

    /// A retransmission timeout: slow start up to the threshold.
    pub fn timeout(&mut self) {
        self.after_timeout = true;
    }

    /// The kernel has restarted the window after a silence: nothing is known of the queue.
    pub fn idle(&mut self) {
        self.average = 0;
    }

    /// Window after a reduction that was for nothing.
    pub fn undo(&self, c: &Connection) -> u32 {
        c.before_reduction()
    }
}
