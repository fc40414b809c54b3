//! The sender of a connection.

mod acks;
mod output;
mod pacing;
mod rack;
mod recovery;
mod timers;
mod usage;

use congestion::Connection;
use units::{Duration, Instant};

use crate::config::SenderConfig;
use crate::control::{Control, RoundState};
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use crate::segment::Ack;
use crate::state::State;
use crate::ticks::Ticks;
use output::Pending;
use pacing::Pacing;
use rack::{Facts, Rack};
use recovery::{Reduction, Undo};
use timers::Timer;
use usage::Usage;

/// State of a sender, as `tcp_info` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Congestion window in segments.
    pub window: u32,
    /// Slow start threshold in segments.
    pub threshold: u32,
    /// State of the congestion control.
    pub state: State,
    /// Segments in flight.
    pub in_flight: u32,
    /// Smoothed round-trip time; `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Minimum round-trip time; `None` before the first sample.
    pub minimum_rtt: Option<Duration>,
    /// Retransmission timeout, with backoff.
    pub timeout: Duration,
    /// Bytes that the receiver has acknowledged.
    pub acknowledged: u64,
    /// Segments delivered, by SACK, too.
    pub delivered: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Segments considered lost.
    pub lost: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub probes: u64,
}

/// Totals of a connection.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    delivered: u64,
    retransmissions: u64,
    lost: u64,
    timeouts: u64,
    probes: u64,
}

/// The sender of a connection: the data that the application writes becomes segments, and acknowledgements advance it.
///
/// The caller calls [`Self::poll_transmit`] until it returns `None` after each other call, and
/// [`Self::handle_timeout`] at [`Self::poll_timeout`]. `now` must not decrease.
#[derive(Debug, Clone)]
pub struct Sender {
    config: SenderConfig,
    ticks: Ticks,
    control: Control,
    /// Time of the latest call.
    now: Instant,
    connection: Connection,
    board: Scoreboard,
    rtt: RttEstimator,
    rack: Rack,
    pacing: Pacing,
    usage: Usage,
    state: State,
    /// First unacknowledged byte, next byte to send, and the end of the written bytes.
    acknowledged: u64,
    next: u64,
    written: u64,
    /// First byte beyond the receive window.
    window_end: u64,
    /// Recovery ends when this byte is acknowledged (`high_seq`).
    recovery_end: u64,
    reduction: Reduction,
    undo: Undo,
    /// Tail loss probe: the next byte at its transmission, and whether it was a retransmission.
    probe: Option<(u64, bool)>,
    /// Whether F-RTO examines a timeout (RFC 5682).
    examines_timeout: bool,
    /// Timeouts since the last progress (`icsk_retransmits`).
    timeouts_in_row: u32,
    /// Present retransmission timeout in us, with backoff.
    rto_us: u64,
    timer: Option<(Timer, Instant)>,
    pending: Pending,
    /// Segments sent and whether the window limited the sender, since the last end of a batch.
    batch: output::Batch,
    latest_sent: Instant,
    totals: Totals,
}

impl Sender {
    /// Creates the sender of a connection that was established at `now`.
    pub fn new(now: Instant, config: SenderConfig, control: Control) -> Self {
        let connection = Connection {
            now_us: micros(now),
            window: config.initial_window.max(1),
            clamp: config.window_max.max(1),
            ..Connection::new()
        };
        let rtt = RttEstimator::new(u64::try_from(config.rto_min.as_micros()).unwrap_or(u64::MAX));
        let ticks = Ticks::new(config.tick);
        Self {
            ticks,
            control,
            now,
            connection,
            board: Scoreboard::new(config.mss),
            rto_us: ticks.round_up_us(rtt.timeout_us()),
            rtt,
            rack: Rack::new(config.reordering),
            pacing: Pacing::new(&config),
            usage: Usage::default(),
            state: State::Open,
            acknowledged: 0,
            next: 0,
            written: 0,
            window_end: config.peer_window,
            recovery_end: 0,
            reduction: Reduction::default(),
            undo: Undo::default(),
            probe: None,
            examines_timeout: false,
            timeouts_in_row: 0,
            timer: None,
            pending: Pending::None,
            batch: output::Batch::default(),
            latest_sent: now,
            totals: Totals::default(),
            config,
        }
    }

    /// Gives the round-trip time of the handshake, which is the first sample.
    pub fn handle_handshake(&mut self, now: Instant, rtt: Duration) {
        let (now_us, rtt_us) = (micros(now), u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX));
        self.rtt.sample_minimum(now_us, rtt_us);
        self.rtt.sample(rtt_us, self.acknowledged, self.next);
        self.rto_us = self.ticks.round_up_us(self.rtt.timeout_us());
        self.pacing.update(&self.connection, self.board.counts().out, self.config.mss, &self.rtt);
    }

    /// The application writes `bytes`.
    pub fn write(&mut self, now: Instant, bytes: u64) {
        self.set_now(now);
        self.restart_after_idle(now);
        self.written = self.written.saturating_add(bytes);
    }

    /// Bytes written and not sent.
    pub const fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.next)
    }

    /// Bytes written and not acknowledged.
    pub const fn unacknowledged(&self) -> u64 {
        self.written.saturating_sub(self.acknowledged)
    }

    /// State of the connection.
    pub fn info(&self) -> Info {
        let c = &self.connection;
        let minimum = self.rtt.minimum_us();
        Info {
            window: c.window,
            threshold: c.threshold,
            state: self.state,
            in_flight: self.board.counts().in_flight(),
            smoothed_rtt: self.rtt.smoothed_us().map(Duration::from_micros),
            minimum_rtt: (minimum < u64::MAX).then(|| Duration::from_micros(minimum)),
            timeout: Duration::from_micros(self.rto_us),
            acknowledged: self.acknowledged,
            delivered: self.totals.delivered,
            retransmissions: self.totals.retransmissions,
            lost: self.totals.lost,
            timeouts: self.totals.timeouts,
            probes: self.totals.probes,
        }
    }

    const fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.connection.now_us = micros(now);
    }

    fn set_state(&mut self, state: State) {
        self.connection.open = state == State::Open;
        self.connection.disorder = state == State::Disorder;
        self.state = state;
        self.control.enter(&self.connection, state);
    }

    /// Whether the window is being reduced (tcp_in_cwnd_reduction).
    const fn is_reducing(&self) -> bool {
        matches!(self.state, State::Reduction | State::Recovery)
    }

    /// Threshold that a restart of the window keeps (tcp_current_ssthresh).
    fn current_threshold(&self) -> u32 {
        let c = &self.connection;
        if self.is_reducing() { c.threshold } else { c.threshold.max((c.window >> 1) + (c.window >> 2)) }
    }

    fn facts(&self) -> Facts {
        Facts {
            state: self.state,
            minimum_rtt_us: self.rtt.minimum_us(),
            smoothed_rtt_us: self.rtt.smoothed_us().unwrap_or(0),
        }
    }

    const fn round(&self) -> RoundState {
        RoundState {
            acknowledged: self.acknowledged,
            next: self.next,
            pacing_rate: self.pacing.rate(),
            is_paced: self.pacing.is_paced(),
        }
    }

    const fn packets_lost(&mut self, packets: u32) {
        self.totals.lost += packets as u64;
    }
}

/// Microseconds of the kernel's clock (`tcp_mstamp`).
const fn micros(now: Instant) -> u64 {
    now.as_nanos() / 1000
}

/// Milliseconds of the clock of timestamps (TCP_TS_HZ).
const fn millis(now_us: u64) -> u64 {
    now_us / 1000
}
