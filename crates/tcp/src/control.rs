//! Congestion controls behind one interface: the kernel's hooks (struct tcp_congestion_ops).

mod cubic;
mod hystart;

use congestion::{Ack, Connection, Fast, FastSettings, Htcp, HtcpSettings, WINDOW_PACKETS_MIN};
pub use cubic::{Cubic, CubicSettings};

use crate::state::State;
use crate::ticks::Ticks;

/// The congestion control of a sender.
#[derive(Debug, Clone)]
pub enum Control {
    /// Reno: RFC 5681 with appropriate byte counting (RFC 3465).
    Reno,
    /// CUBIC: RFC 9438 as Linux implements it.
    Cubic(Cubic),
    /// FAST TCP.
    Fast(FastSettings, Fast),
    /// H-TCP.
    Htcp(HtcpSettings, Htcp),
}

/// Information beyond [`Ack`] that HyStart uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundState {
    /// First unacknowledged byte.
    pub(crate) acknowledged: u64,
    /// Next byte to send.
    pub(crate) next: u64,
    /// Rate in bytes per second that the kernel would pace at (`sk_pacing_rate`).
    pub(crate) pacing_rate: u64,
    /// Whether the sender paces.
    pub(crate) is_paced: bool,
}

impl Control {
    /// Reno.
    pub const fn reno() -> Self {
        Self::Reno
    }

    /// CUBIC with Linux's defaults.
    pub fn cubic() -> Self {
        Self::Cubic(Cubic::new(CubicSettings::default()))
    }

    /// FAST TCP.
    pub fn fast(settings: FastSettings) -> Self {
        Self::Fast(settings, Fast::default())
    }

    /// H-TCP.
    pub fn htcp(settings: HtcpSettings) -> Self {
        Self::Htcp(settings, Htcp::new(&settings, &Connection::new()))
    }

    /// Handles the sample of an acknowledgement, also during recovery (`pkts_acked`).
    pub(crate) fn measure(&mut self, c: &mut Connection, ack: Ack, round: &RoundState, ticks: Ticks) {
        match self {
            Self::Reno => {}
            Self::Cubic(cubic) => cubic.measure(c, ack, round, ticks),
            Self::Fast(settings, fast) => fast.measure(settings, c, ack),
            Self::Htcp(settings, htcp) => htcp.measure(settings, c, ack),
        }
    }

    /// Changes the window for `acked` packets outside recovery (`cong_avoid`).
    pub(crate) fn avoid(&mut self, c: &mut Connection, acked: u32, ticks: Ticks) {
        match self {
            Self::Reno => reno_avoid(c, acked),
            Self::Cubic(cubic) => cubic.avoid(c, acked, ticks),
            Self::Fast(settings, fast) => fast.avoid(settings, c, acked),
            Self::Htcp(settings, htcp) => htcp.avoid(settings, c, acked),
        }
    }

    /// Slow start threshold after a loss (`ssthresh`).
    pub(crate) fn after_loss(&mut self, c: &Connection) -> u32 {
        match self {
            Self::Reno => (c.window / 2).max(WINDOW_PACKETS_MIN),
            Self::Cubic(cubic) => cubic.after_loss(c),
            Self::Fast(_, fast) => fast.after_loss(c),
            Self::Htcp(settings, htcp) => htcp.after_loss(settings, c),
        }
    }

    /// Handles a change of the state (`set_state`), after [`Self::after_loss`].
    pub(crate) fn enter(&mut self, c: &Connection, state: State) {
        match (self, state) {
            (Self::Cubic(cubic), State::Loss) => cubic.reset(),
            (Self::Fast(_, fast), State::Loss) => fast.timeout(),
            (Self::Htcp(settings, htcp), State::Reduction | State::Recovery | State::Loss) => {
                htcp.congestion(settings, c)
            }
            (Self::Htcp(settings, htcp), State::Open) => htcp.open(settings, c),
            (Self::Reno | Self::Cubic(_) | Self::Fast(..) | Self::Htcp(..), _) => {}
        }
    }

    /// Handles the first transmission after the sender had nothing in flight (CA_EVENT_TX_START). `idle_us` is the time
    /// since the last transmission.
    pub(crate) fn transmission_starts(&mut self, c: &Connection, idle_us: u64, ticks: Ticks) {
        if let Self::Cubic(cubic) = self {
            cubic.transmission_starts(c, idle_us, ticks);
        }
    }

    /// Handles a restart of the window after an idle period (CA_EVENT_CWND_RESTART).
    pub(crate) fn idle(&mut self) {
        if let Self::Fast(_, fast) = self {
            fast.idle();
        }
    }

    /// Window after a spurious reduction (`undo_cwnd`).
    pub(crate) fn undo(&mut self, c: &Connection) -> u32 {
        match self {
            Self::Reno | Self::Cubic(_) => c.before_reduction(),
            Self::Fast(_, fast) => fast.undo(c),
            Self::Htcp(_, htcp) => htcp.undo(c),
        }
    }
}

/// Congestion avoidance of Reno (tcp_reno_cong_avoid).
fn reno_avoid(c: &mut Connection, acked: u32) {
    if !c.limited {
        return;
    }
    let rest = if in_slow_start(c) { c.slow_start(acked) } else { acked };
    if rest > 0 {
        increase(c, c.window, rest);
    }
}

pub(crate) const fn in_slow_start(c: &Connection) -> bool {
    c.window < c.threshold
}

/// Increases the window by one packet for each `per` acknowledged packets (tcp_cong_avoid_ai).
pub(crate) fn increase(c: &mut Connection, per: u32, acked: u32) {
    let per = per.max(1);
    // Credit from a time with a larger `per`.
    if c.window_count >= per {
        c.window_count = 0;
        c.window += 1;
    }
    c.window_count += acked;
    if c.window_count >= per {
        let increase = c.window_count / per;
        c.window_count -= increase * per;
        c.window = c.window.saturating_add(increase);
    }
    c.window = c.window.min(c.clamp);
}
