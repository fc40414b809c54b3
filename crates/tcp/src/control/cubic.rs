//! CUBIC: S. Ha, I. Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant", 2008; RFC 9438. The arithmetic is
//! that of Linux (tcp_cubic.c).

use congestion::{Ack, Connection, WINDOW_PACKETS_MIN};

use super::hystart::Hystart;
use super::{RoundState, in_slow_start, increase};
use crate::ticks::Ticks;

/// Unit of beta: 1/1024 (BICTCP_BETA_SCALE).
const BETA_ONE: u64 = 1024;
/// Multiplicative decrease: 0.7 (RFC 9438, 4.6).
const BETA: u64 = 717;
/// Fractional bits of a second in the cubic function (BICTCP_HZ).
const TIME_BITS: u32 = 10;
/// Factor of the cubic function in 1/1024: C = 0.4 (`bic_scale` x 10).
const SCALE: u64 = 410;
/// Samples after a loss that the minimum delay ignores: those of the first second.
const IGNORED_US: u64 = 1_000_000;
/// Maximum growth before the first loss: one packet for each 20 acknowledged.
const COUNT_MAX_INITIAL: u64 = 20;

/// Parameters of CUBIC; the others are constants, as in Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CubicSettings {
    /// Whether the window grows at least as that of Reno (RFC 9438, 4.3).
    pub reno_friendly: bool,
    /// Whether HyStart ends slow start before a loss.
    pub hystart: bool,
}

impl Default for CubicSettings {
    /// Defaults of Linux.
    fn default() -> Self {
        Self { reno_friendly: true, hystart: true }
    }
}

/// State of one connection.
#[derive(Debug, Clone)]
pub struct Cubic {
    settings: CubicSettings,
    hystart: Hystart,
    /// Acknowledged packets for an increase by one (`cnt`).
    count: u64,
    /// Window before the last reduction, W_max; 0: none.
    last_max: u64,
    /// Window and time in ticks at the last computation of `count`.
    latest_window: u64,
    latest_tick: u64,
    /// Window at the inflection point of the cubic function.
    origin: u64,
    /// Time from the start of the epoch to the inflection point, K, in 1/1024 s.
    inflection: u64,
    /// Start of the epoch in ticks; 0: none.
    epoch: u64,
    /// Minimum round-trip time in us; 0: none.
    lowest_us: u64,
    /// Packets acknowledged that the estimate of Reno's window has not used, and the estimate.
    acked: u64,
    reno_window: u64,
}

impl Cubic {
    /// State of a new connection.
    pub fn new(settings: CubicSettings) -> Self {
        Self {
            settings,
            hystart: Hystart::default(),
            count: 0,
            last_max: 0,
            latest_window: 0,
            latest_tick: 0,
            origin: 0,
            inflection: 0,
            epoch: 0,
            lowest_us: 0,
            acked: 0,
            reno_window: 0,
        }
    }

    /// Resets everything after a timeout (bictcp_reset, bictcp_hystart_reset).
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.settings);
    }

    pub(crate) fn measure(&mut self, c: &mut Connection, ack: Ack, round: &RoundState, ticks: Ticks) {
        let Some(rtt_us) = ack.rtt_us else { return };
        let since_epoch = ticks_of(c, ticks).saturating_sub(self.epoch);
        if self.epoch > 0 && since_epoch < ticks.for_us(IGNORED_US) {
            return;
        }
        let rtt_us = u64::from(rtt_us.max(1));
        if self.lowest_us == 0 || rtt_us < self.lowest_us {
            self.lowest_us = rtt_us;
        }
        if self.settings.hystart
            && !self.hystart.has_ended()
            && in_slow_start(c)
            && self.hystart.update((c.now_us, rtt_us, self.lowest_us), c.window, round)
        {
            c.threshold = c.window;
        }
    }

    pub(crate) fn avoid(&mut self, c: &mut Connection, acked: u32, ticks: Ticks) {
        if !c.limited {
            return;
        }
        let acked = if in_slow_start(c) { c.slow_start(acked) } else { acked };
        if acked > 0 {
            self.update(c, acked, ticks);
            increase(c, u32::try_from(self.count).unwrap_or(u32::MAX), acked);
        }
    }

    pub(crate) fn after_loss(&mut self, c: &Connection) -> u32 {
        let window = u64::from(c.window);
        self.epoch = 0;
        // A flow that lost at a smaller window than before releases bandwidth (RFC 9438, 4.7).
        self.last_max = match window < self.last_max {
            true => window * (BETA_ONE + BETA) / (2 * BETA_ONE),
            false => window,
        };
        ((window * BETA / BETA_ONE) as u32).max(WINDOW_PACKETS_MIN)
    }

    /// Moves the epoch by the idle time, so that the window does not grow without acknowledgements.
    pub(crate) fn transmission_starts(&mut self, c: &Connection, idle_us: u64, ticks: Ticks) {
        if self.epoch > 0 {
            self.epoch = (self.epoch + ticks.for_us(idle_us)).min(ticks_of(c, ticks));
        }
    }

    /// Computes `count` (bictcp_update), at most once a tick and 32 times a second for the same window.
    fn update(&mut self, c: &Connection, acked: u32, ticks: Ticks) {
        let (now, window) = (ticks_of(c, ticks), u64::from(c.window));
        self.acked += u64::from(acked);
        let since = now.saturating_sub(self.latest_tick);
        if self.latest_window == window && since <= ticks.for_us(1_000_000) / 32 {
            return;
        }
        if self.epoch == 0 || since > 0 {
            (self.latest_window, self.latest_tick) = (window, now);
            if self.epoch == 0 {
                self.start_epoch(now, window, acked);
            }
            self.follow_cubic(now, window, ticks);
        }
        if self.settings.reno_friendly {
            self.follow_reno(window);
        }
        self.count = self.count.max(2);
    }

    fn start_epoch(&mut self, now: u64, window: u64, acked: u32) {
        self.epoch = now.max(1);
        self.acked = u64::from(acked);
        self.reno_window = window;
        let below = self.last_max.saturating_sub(window);
        self.origin = self.last_max.max(window);
        // K^3 = (W_max - w) / C, in units of 1/1024 s.
        self.inflection = cube_root(below.saturating_mul((1 << (10 + 3 * TIME_BITS)) / SCALE));
    }

    /// The cubic function one round trip ahead: W = C (t - K)^3 + W_max (RFC 9438, 4.2).
    fn follow_cubic(&mut self, now: u64, window: u64, ticks: Ticks) {
        let second = ticks.for_us(1_000_000).max(1);
        let elapsed = now.saturating_sub(self.epoch) + ticks.for_us(self.lowest_us);
        let time = (elapsed << TIME_BITS) / second;
        let distance = u128::from(time.abs_diff(self.inflection));
        let change = ((u128::from(SCALE) * distance * distance * distance) >> (10 + 3 * TIME_BITS)) as u64;
        let target = match time < self.inflection {
            true => self.origin.saturating_sub(change),
            false => self.origin.saturating_add(change),
        };
        self.count = match target > window {
            true => window / (target - window),
            false => 100 * window,
        };
        if self.last_max == 0 {
            self.count = self.count.min(COUNT_MAX_INITIAL);
        }
    }

    /// The window of Reno with CUBIC's beta: one packet for each 8 (1 + beta) / 3 (1 - beta) / 8 windows.
    fn follow_reno(&mut self, window: u64) {
        let scale = 8 * (BETA_ONE + BETA) / 3 / (BETA_ONE - BETA);
        let step = ((window * scale) >> 3).max(1);
        // The kernel subtracts in a loop while more than a step remains.
        let steps = self.acked.saturating_sub(1) / step;
        self.acked -= steps * step;
        self.reno_window += steps;
        if self.reno_window > window {
            self.count = self.count.min(window / (self.reno_window - window));
        }
    }
}

const fn ticks_of(c: &Connection, ticks: Ticks) -> u64 {
    ticks.at(units::Instant::from_nanos(c.now_us.saturating_mul(1000)))
}

/// Integer cube root, rounded to nearest. The kernel's has a mean error of 0.2 %.
fn cube_root(n: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..22).rev() {
        let next = root | 1 << bit;
        if u128::from(next).pow(3) <= u128::from(n) {
            root = next;
        }
    }
    // (root + 1/2)^3 is at most n.
    if u128::from(2 * root + 1).pow(3) <= 8 * u128::from(n) { root + 1 } else { root }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_exact_to_half_a_unit() {
        for root in [0_u64, 1, 2, 7, 100, 12_345, 2_000_000] {
            assert_eq!(cube_root(root.pow(3)), root);
        }
        assert_eq!((cube_root(3), cube_root(4)), (1, 2));
        assert_eq!(cube_root(u64::MAX), 2_642_246);
    }

    /// RFC 9438, 4.2: W = C (t - K)^3 + W_max, with K = cbrt(W_max (1 - beta) / C). For W_max = 1000 packets K is
    /// cbrt(300 / 0.4) = 9.09 s, and the window is 900 after K - cbrt(100 / 0.4) = 2.79 s.
    #[test]
    fn the_window_follows_the_cubic_function() {
        let ticks = Ticks::new(units::Duration::from_millis(4));
        let mut cubic = Cubic::new(CubicSettings { reno_friendly: false, hystart: false });
        let mut c = Connection { window: 1000, threshold: 10, now_us: 1_000_000, ..Connection::new() };
        c.window = cubic.after_loss(&c);
        assert_eq!(c.window, 700);
        c.threshold = c.window;
        let rtt_us = 10_000;
        let start_us = c.now_us;
        let round = RoundState { acknowledged: 0, next: 0, pacing_rate: 1, is_paced: false };
        while c.window < 900 {
            c.now_us += rtt_us;
            // One acknowledgement for each packet.
            for _ in 0..c.window {
                cubic.measure(&mut c, Ack { packets: 1, rtt_us: Some(rtt_us as u32), flight: 700 }, &round, ticks);
                cubic.avoid(&mut c, 1, ticks);
            }
        }
        let seconds = (c.now_us - start_us) as f64 / 1e6;
        assert!((seconds - 2.79).abs() < 0.02 * 2.79, "{seconds} s");
    }
}
