//! H-TCP: D. Leith, R. Shorten, draft-leith-tcp-htcp; R. Shorten, D. Leith, "H-TCP: TCP for high-speed and
//! long-distance networks", PFLDnet 2004.

use crate::connection::{Ack, Connection, WINDOW_PACKETS_MIN};

/// Fixed-point unit of alpha and beta: 1/128.
const ONE: u64 = 128;
const BETA_MIN: u32 = 64;
/// 0.8, rounded down.
const BETA_MAX: u32 = 102;
/// Time after a congestion event with the increase of Reno (the draft's Delta_L).
const RENO_PERIOD_US: u64 = 1_000_000;
/// Round-trip time at which scaling has no effect.
const REFERENCE_RTT_US: u64 = 100_000;
/// Round-trip time below which the queue cannot be separated from the hosts' own delays.
const SHORT_RTT_US: u32 = 10_000;
/// Larger steps of the round-trip time do not indicate a queue.
const RTT_STEP_US_MAX: u32 = 20_000;

/// Parameters of H-TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HtcpSettings {
    /// Whether the increase is proportional to the round-trip time, for fairness between flows of different round-trip
    /// times.
    pub rtt_scaling: bool,
    /// Whether the decrease factor is RTTmin / RTTmax, within 0.5 and 0.8.
    pub adaptive_backoff: bool,
    /// Whether the decrease factor is 0.5 after the throughput has changed by more than a fifth.
    pub bandwidth_switch: bool,
    /// Granularity of times in microseconds, to emulate a clock in jiffies; 0: exact.
    pub tick_us: u32,
}

impl Default for HtcpSettings {
    /// Defaults of Linux, with exact times.
    fn default() -> Self {
        Self { rtt_scaling: true, adaptive_backoff: true, bandwidth_switch: true, tick_us: 0 }
    }
}

/// State of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Htcp {
    congestion_us: u64,
    undo_us: u64,
    counted_us: u64,
    alpha: u32,
    beta: u32,
    min_rtt_us: u32,
    max_rtt_us: u32,
    packets: u32,
    rate: u32,
    max_rate: u32,
    old_max_rate: u32,
    undo_max_rtt_us: u32,
    undo_old_max_rate: u32,
    adaptive: bool,
    ended: bool,
}

impl Htcp {
    /// State of a new connection.
    pub fn new(settings: &HtcpSettings, c: &Connection) -> Self {
        let now = settings.ticks(c.now_us);
        Self { alpha: ONE as u32, beta: BETA_MIN, congestion_us: now, counted_us: now, ..Self::default() }
    }

    /// Increase of the window per round trip in packets.
    pub fn alpha(&self) -> f64 {
        f64::from(self.alpha) / ONE as f64
    }

    /// Decrease factor.
    pub fn beta(&self) -> f64 {
        f64::from(self.beta) / ONE as f64
    }

    /// Processes an acknowledgement: measures round-trip time and throughput, and changes the window outside recovery.
    pub fn ack(&mut self, settings: &HtcpSettings, connection: &mut Connection, ack: Ack) {
        self.measure(settings, connection, ack);
        self.avoid(settings, connection, ack.packets);
    }

    /// Equivalent of the kernel's `pkts_acked`, which also runs during recovery.
    pub fn measure(&mut self, settings: &HtcpSettings, c: &Connection, ack: Ack) {
        self.measure_rtt(settings, c, ack.rtt_us);
        if settings.bandwidth_switch {
            self.measure_rate(settings, c, ack.packets);
        }
    }

    fn since(&self, settings: &HtcpSettings, c: &Connection) -> u64 {
        settings.ticks(c.now_us).saturating_sub(self.congestion_us)
    }

    fn measure_rtt(&mut self, settings: &HtcpSettings, c: &Connection, rtt_us: Option<u32>) {
        let Some(rtt) = rtt_us.filter(|rtt| *rtt > 0) else { return };
        // The kernel rounds round-trip times up to whole ticks (usecs_to_jiffies), and other times down.
        let rtt = u64::from(rtt).next_multiple_of(u64::from(settings.tick_us.max(1))) as u32;
        if self.min_rtt_us == 0 || rtt < self.min_rtt_us {
            self.min_rtt_us = rtt;
        }
        if !c.open {
            return;
        }
        self.max_rtt_us = self.max_rtt_us.max(self.min_rtt_us);
        if rtt > self.max_rtt_us && rtt <= self.max_rtt_us.wrapping_add(RTT_STEP_US_MAX) {
            self.max_rtt_us = rtt;
        }
    }

    /// Measures the throughput over about one window at a time.
    fn measure_rate(&mut self, settings: &HtcpSettings, c: &Connection, acked: u32) {
        let now = settings.ticks(c.now_us);
        let time = now.saturating_sub(self.counted_us);
        if !c.open && !c.disorder {
            self.packets = 0;
            self.counted_us = now;
            return;
        }
        self.packets = self.packets.wrapping_add(acked);
        let enough = u64::from(self.packets) + u64::from((self.alpha / ONE as u32).max(1)) >= u64::from(c.window);
        if !enough || self.min_rtt_us == 0 || time < u64::from(self.min_rtt_us) || time == 0 {
            return;
        }
        let rate = (u64::from(self.packets) * 1_000_000 / time) as u32;
        // Until the fourth round trip after a congestion event the throughput equals the capacity of the path.
        if self.since(settings, c) < 4 * u64::from(self.min_rtt_us) {
            (self.rate, self.max_rate) = (rate, rate);
        } else {
            self.rate = ((3 * u64::from(self.rate) + u64::from(rate)) / 4) as u32;
            self.max_rate = self.max_rate.max(self.rate);
        }
        self.packets = 0;
        self.counted_us = now;
    }

    /// Equivalent of the kernel's `cong_avoid`.
    pub fn avoid(&mut self, settings: &HtcpSettings, c: &mut Connection, acked: u32) {
        if !c.limited {
            return;
        }
        let mut acked = acked;
        if c.window < c.threshold {
            acked = c.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        let count = u64::from(c.window_count) + u64::from(acked);
        let steps = (count * u64::from(self.alpha) / ONE / u64::from(c.window.max(1))) as u32;
        if steps == 0 {
            c.window_count = count as u32;
            return;
        }
        c.window_count = 0;
        c.window = c.window.wrapping_add(steps).min(c.clamp);
        self.set_alpha(settings, c);
    }

    /// alpha(D) = 1 + 10 (D - D_L) + ((D - D_L) / 2)^2, multiplied by the round-trip time over 100 ms and by 2 (1 -
    /// beta).
    fn set_alpha(&mut self, settings: &HtcpSettings, c: &Connection) {
        let since = self.since(settings, c);
        let mut factor = ONE;
        if since > RENO_PERIOD_US {
            let us = (since - RENO_PERIOD_US).min(1 << 32);
            let ms = us / 1000;
            factor += 10 * us * ONE / 1_000_000 + ms * ms * (ONE / 4) / 1_000_000;
        }
        if settings.rtt_scaling && self.min_rtt_us > 0 {
            let rtt = u64::from(self.min_rtt_us).clamp(REFERENCE_RTT_US / 10, 2 * REFERENCE_RTT_US);
            factor = (factor * rtt / REFERENCE_RTT_US).max(ONE);
        }
        self.alpha = (2 * factor * (ONE - u64::from(self.beta)) / ONE).min(1 << 30) as u32;
    }

    fn set_beta(&mut self, settings: &HtcpSettings) {
        if settings.bandwidth_switch {
            let (now, old) = (u64::from(self.max_rate), u64::from(self.old_max_rate));
            self.old_max_rate = self.max_rate;
            if 5 * now < 4 * old || 5 * now > 6 * old {
                self.beta = BETA_MIN;
                self.adaptive = false;
                return;
            }
        }
        if settings.adaptive_backoff && self.adaptive && self.min_rtt_us > SHORT_RTT_US && self.max_rtt_us > 0 {
            let beta = u64::from(self.min_rtt_us) * ONE / u64::from(self.max_rtt_us);
            self.beta = (beta as u32).clamp(BETA_MIN, BETA_MAX);
            return;
        }
        self.beta = BETA_MIN;
        self.adaptive = true;
    }

    /// Threshold after a loss or a congestion mark (the kernel's `ssthresh`): the window times beta.
    pub fn after_loss(&mut self, settings: &HtcpSettings, c: &Connection) -> u32 {
        self.set_beta(settings);
        self.set_alpha(settings, c);
        // Decays the largest round-trip time slowly, because routes change.
        if self.min_rtt_us > 0 && self.max_rtt_us > self.min_rtt_us {
            let above = u64::from(self.max_rtt_us - self.min_rtt_us) * 95 / 100;
            self.max_rtt_us = self.min_rtt_us + above as u32;
        }
        ((u64::from(c.window) * u64::from(self.beta) / ONE) as u32).max(WINDOW_PACKETS_MIN)
    }

    /// Starts recovery, after [`Htcp::after_loss`], and saves the state for an undo.
    pub fn congestion(&mut self, settings: &HtcpSettings, c: &Connection) {
        self.undo_us = self.congestion_us;
        self.undo_max_rtt_us = self.max_rtt_us;
        self.undo_old_max_rate = self.old_max_rate;
        self.congestion_us = settings.ticks(c.now_us);
        self.ended = false;
    }

    /// Ends recovery; the time since the congestion event starts to count.
    pub fn open(&mut self, settings: &HtcpSettings, c: &Connection) {
        if self.ended || self.undo_us == 0 {
            return;
        }
        self.ended = true;
        self.undo_us = 0;
        self.congestion_us = settings.ticks(c.now_us);
    }

    /// Window after a spurious reduction.
    pub fn undo(&mut self, c: &Connection) -> u32 {
        if self.undo_us > 0 {
            self.congestion_us = self.undo_us;
            self.max_rtt_us = self.undo_max_rtt_us;
            self.old_max_rate = self.undo_old_max_rate;
            self.undo_us = 0;
        }
        c.before_reduction()
    }
}

impl HtcpSettings {
    fn ticks(&self, us: u64) -> u64 {
        let tick = u64::from(self.tick_us);
        us.checked_div(tick).map_or(us, |ticks| ticks * tick)
    }
}
