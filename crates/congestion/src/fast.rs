//! FAST TCP: C. Jin, D. X. Wei, S. H. Low, "FAST TCP: motivation, architecture, algorithms, performance", INFOCOM 2004.

use crate::connection::{Ack, Connection, WINDOW_PACKETS_MIN};

/// Fixed-point unit of times and packets: 1/256.
const ONE: u64 = 256;
/// Maximum number of packets in flight that the arithmetic supports.
const FLIGHT_MAX: u32 = 1 << 20;
/// Maximum round-trip time that the arithmetic supports: two minutes.
const RTT_US_MAX: u32 = 1 << 27;

/// Parameters of FAST TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastSettings {
    /// Target number of queued packets of a flow in equilibrium.
    pub alpha: u32,
    /// Step towards the goal at each change, in 1/256; 1 to 256.
    pub gamma: u32,
    /// Minimum time between two changes of the window, in microseconds.
    pub period_us: u32,
    /// Queueing delay in microseconds below which the window doubles each round trip.
    pub threshold_us: u32,
    /// Minimum divisor of a sample's weight in the mean round-trip time. The divisor is a third of the window in
    /// samples, and at least this value.
    pub average_divisor_min: u32,
    /// Whether the window stays constant for a round trip after each change.
    pub every_other: bool,
}

impl Default for FastSettings {
    /// Defaults of ns-2's FAST module 1.1.3, except for the weight of the mean, which is the paper's 1/4.
    fn default() -> Self {
        Self { alpha: 100, gamma: 128, period_us: 10_000, threshold_us: 750, average_divisor_min: 4, every_other: true }
    }
}

/// State of one connection.
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
    /// Smallest round-trip time of the connection in microseconds, without expiry. `None` before the first sample.
    pub fn base_rtt_us(&self) -> Option<u32> {
        (self.base_us > 0).then_some(self.base_us)
    }

    /// Mean round-trip time in microseconds. `None` before the first sample and after an idle period.
    pub fn average_rtt_us(&self) -> Option<f64> {
        (self.average > 0).then_some(self.average as f64 / ONE as f64)
    }

    /// Processes an acknowledgement: measures the round-trip time, and changes the window outside recovery.
    pub fn ack(&mut self, settings: &FastSettings, connection: &mut Connection, ack: Ack) {
        self.measure(settings, connection, ack);
        self.avoid(settings, connection, ack.packets);
    }

    /// Equivalent of the kernel's `pkts_acked`, which also runs during recovery.
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
        // The paper's weight is min(3/w, 1/4). An ACK of n packets counts as n samples.
        let third = u64::from(connection.window) / (3 * u64::from(ack.packets.max(1)));
        let scale = third.max(u64::from(settings.average_divisor_min.max(1)));
        if sample >= self.average {
            self.average += (sample - self.average) / scale;
        } else {
            self.average -= (self.average - sample) / scale;
        }
    }

    /// Equivalent of the kernel's `cong_avoid`.
    pub fn avoid(&mut self, settings: &FastSettings, c: &mut Connection, acked: u32) {
        let base = u64::from(self.base_us) << 8;
        let quiet = self.average.wrapping_sub(base) < u64::from(settings.threshold_us) << 8;
        // A loss, an idle period or a full receiver has changed the window.
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
            // Multiplicative increase replaces slow start.
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
        // Whether the packets acknowledged now were sent in this round.
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

    /// The window rule, in 1/256 packet: min(2w, (1 - gamma) w + gamma (baseRTT / RTT w' + alpha)), where w' is the
    /// number of packets in flight when the round trip was measured.
    fn goal(&self, settings: &FastSettings, c: &Connection) -> u64 {
        let window = (u64::from(self.target) << 8) + u64::from(self.fraction);
        let measured = u64::from(if c.limited { self.flight } else { self.flight.max(self.target) });
        let kept = ((measured << 8) * (u64::from(self.base_us) << 8)).checked_div(self.average).unwrap_or(0);
        let (gamma, alpha) = (u64::from(settings.gamma), u64::from(settings.alpha));
        let goal = ((ONE - gamma) * window + gamma * (kept + (alpha << 8))) >> 8;
        // A goal above an unused window would cause a burst once the application sends again.
        let used = if c.limited { u64::MAX } else { u64::from(c.window) << 8 };
        goal.min(2 * window).min(used).max(u64::from(WINDOW_PACKETS_MIN) << 8).min(u64::from(c.clamp) << 8)
    }

    /// Spreads the increase over the ACKs of a round, because an immediate increase would send a burst (the paper's
    /// burstiness control).
    fn grow(&self, c: &mut Connection, acked: u32) {
        let count = u64::from(c.window_count) + u64::from(acked) * u64::from(self.growth);
        let window = u64::from(c.window.max(1));
        c.window_count = (count % window) as u32;
        c.window = c.window.wrapping_add((count / window) as u32).min(self.target);
    }

    /// Threshold after a loss or a congestion mark (the kernel's `ssthresh`): half of the window, as in Reno.
    pub fn after_loss(&self, c: &Connection) -> u32 {
        (c.window / 2).max(WINDOW_PACKETS_MIN)
    }

    /// Handles a retransmission timeout: slow start up to the threshold follows.
    pub fn timeout(&mut self) {
        self.after_timeout = true;
    }

    /// Handles an idle restart of the window by the kernel, after which the queueing delay is unknown.
    pub fn idle(&mut self) {
        self.average = 0;
    }

    /// Window after a spurious reduction.
    pub fn undo(&self, c: &Connection) -> u32 {
        c.before_reduction()
    }
}
