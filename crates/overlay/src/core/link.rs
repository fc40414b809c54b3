//! The direct link to one peer: loss, round trip and liveness of both directions, from the frames on it and the reports
//! of the peer.

mod reports;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use route::{Member, Metrics, Path};
use units::{Instant, Rate};
use wire::overlay::{SPACE_DIRECT, SPACE_RELAYED, SPACE_SENSOR};

use self::reports::SessionCounts;
use super::alternate_paths::AlternateProbeTimer;
use super::pace::{BUSY, Pace};
use super::probing::{Affordable, ProbeSchedule};
use crate::estimators::{RoundTrip, ThroughputEstimator, WindowedExtremum};
use crate::loss::{Change, Loss, LossEstimate};
use crate::sensor::LossSensor;
use crate::session::Session;

pub(super) use reports::{REPORT_INTERVAL, on_report, send_reports};

/// A handshake starts when a peer that was sent frames has been silent for so long: four times the silence that takes a
/// link down, as probes are sent all the time and a handshake costs little.
pub(super) const HANDSHAKE_AFTER: Duration = Duration::from_secs(2);
/// Frames from which on a measured loss has full confidence.
pub(super) const CONFIDENT_FRAMES: f64 = 50.0;

/// See the module.
#[derive(Default)]
pub(super) struct Link {
    /// By the local number of the session.
    counts: BTreeMap<u32, SessionCounts>,
    pub(super) incoming: Direction,
    pub(super) outgoing: Direction,
    pub(super) rtt: RoundTrip,
    /// Excess of the end-to-end round trip over the reported one, and until when it counts.
    longer_by: Option<(Instant, Duration)>,
    /// Largest recent loss to the peer.
    worst_tx_loss: WindowedExtremum<f64>,
    /// Throughput of direct frames to the peer.
    throughput: ThroughputEstimator,
    /// Queueing delay to the peer by its last report.
    pub(super) queued_to: Duration,
    /// Queueing delay from the peer, by any path, at the last report of this member.
    queued_from: Duration,
    up: bool,
    pace: Pace,
    /// Time at which the link went down: an earlier arrival does not bring it up, however late it is reported.
    down_at: Option<Instant>,
    pub(super) probes: ProbeSchedule,
    /// Last probe because of a quiet direction; last probe, and last report, by an alternate path.
    quiet_probe: Option<Instant>,
    alternate_probe: AlternateProbeTimer,
    alternate_report: AlternateProbeTimer,
    next_report: Option<Instant>,
    /// Frames that arrived in any number space; when their number last grew, and the frames sent by then.
    arrived: u64,
    last_arrival: Option<(Instant, u64)>,
    /// Time of the last update.
    updated: Option<Instant>,
    /// Frames sent in any number space that the peer has to report: reports over relays are exempt.
    sent: u64,
}

/// One direction of a link.
#[derive(Default)]
pub(super) struct Direction {
    pub(super) loss: Loss,
    /// Time of the last known arrival.
    pub(super) alive: Option<Instant>,
    /// Bytes of all sessions, including those that have ended.
    pub(super) bytes: u64,
}

impl Direction {
    fn note_arrival(&mut self, at: Instant) {
        self.alive = self.alive.max(Some(at));
    }
}

impl Link {
    /// `sensor`: losses are measured as in the paper.
    pub(super) fn new(sensor: Option<LossSensor>) -> Self {
        let direction = || Direction { loss: Loss::new(sensor), ..Direction::default() };
        Self { incoming: direction(), outgoing: direction(), ..Self::default() }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// Sets how closely the link is watched.
    pub(super) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// The peer has left: earlier arrivals do not keep the link up. Says whether it was up.
    pub(super) fn leave(&mut self, now: Instant) -> bool {
        self.down_at = Some(now);
        std::mem::take(&mut self.up)
    }

    /// Loss to the peer, 0 to 1.
    pub(super) fn tx_loss(&self) -> f64 {
        self.outgoing.loss.estimate().share
    }

    /// [`Self::tx_loss`], and no less than in any half second of the last two to four seconds: an overflow of the own
    /// queue is short, and the end of a path reports it a round trip later.
    pub(super) fn worst_tx_loss(&self) -> f64 {
        self.worst_tx_loss.extremum(f64::max).unwrap_or_default().max(self.tx_loss())
    }

    /// Loss from the peer.
    pub(super) fn rx_loss(&self) -> LossEstimate {
        self.incoming.loss.estimate()
    }

    /// Round trip of the idle link.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt.min()
    }

    /// Throughput of direct frames to the peer.
    pub(super) fn throughput(&self, now: Instant) -> Rate {
        self.throughput.rate(now)
    }

    /// The direct path in the terms of a path over relays.
    pub(super) fn direct_path(&self) -> (&ThroughputEstimator, &Loss, &RoundTrip) {
        (&self.throughput, &self.outgoing.loss, &self.rtt)
    }

    /// Queueing delay of what last came from the peer, by any path.
    pub(super) fn queued_from(&self) -> Duration {
        self.queued_from
    }

    /// Frames over the link take longer than its reports say.
    pub(super) fn set_longer(&mut self, until: Instant, by: Duration) {
        self.longer_by = Some((until, by));
    }

    /// This member was stalled for `span`: an alive direction is taken to have stayed alive.
    pub(super) fn extend(&mut self, now: Instant, span: Duration) {
        if self.up {
            for direction in [&mut self.incoming, &mut self.outgoing] {
                direction.alive = direction.alive.map(|at| (at + span).min(now));
            }
        }
    }

    /// Probes per second out of those that the budget affords; `closely`: with the boost, whatever is known of the
    /// losses.
    pub(super) fn probe_rate(&mut self, now: Instant, affordable: Affordable, closely: bool) -> f64 {
        let is_uncertain = closely || self.incoming.loss.is_in_doubt() || self.outgoing.loss.is_in_doubt();
        self.probes.rate(now, affordable, is_uncertain)
    }

    /// Frames of a space come by the reverse of this path.
    pub(super) fn set_return_path(&mut self, session: u32, space: u8, path: Path) {
        if let Some(slot) = self.counts.entry(session).or_default().return_paths.get_mut(usize::from(space)) {
            *slot = Some(path);
        }
    }

    /// Whether the peer has been silent although it was sent frames: after a restart it has none of the sessions.
    pub(super) fn is_unanswered(&self, now: Instant) -> bool {
        self.is_unanswered_for(now, HANDSHAKE_AFTER)
    }

    /// Whether it may be so only because direct frames do not arrive.
    pub(super) fn needs_relayed_probe(&self, now: Instant) -> bool {
        !self.up && self.is_unanswered_for(now, HANDSHAKE_AFTER / 2)
    }

    fn is_unanswered_for(&self, now: Instant, span: Duration) -> bool {
        self.last_arrival.is_some_and(|(at, sent)| now.saturating_since(at) > span && self.sent > sent)
    }

    /// Time since the last frame of the peer; `None`: there was none.
    pub(super) fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.last_arrival.filter(|_| self.arrived > 0).map(|(at, _)| now.saturating_since(at))
    }

    /// Whether a frame of the peer has come since a time.
    pub(super) fn has_arrival_since(&self, then: Instant) -> bool {
        self.last_arrival.is_some_and(|(at, _)| at > then)
    }

    /// Whether frames came lately in a session. A new session counts as active, since its handshake was received.
    pub(super) fn is_active_in(&self, session: u32) -> bool {
        let last_arrival = self.counts.get(&session).and_then(|counts| counts.last_arrival);
        last_arrival.zip(self.updated).is_none_or(|((at, _), updated)| updated.saturating_since(at) < self.timeout())
    }

    /// Silence after which a direction or a session is down.
    fn timeout(&self) -> Duration {
        self.pace.silence + self.rtt.min().unwrap_or(BUSY.silence)
    }

    /// Starts the loss counters of a space again: losses of frames sent until now do not count (`starts`), or count
    /// from now on.
    pub(super) fn reset_loss_baseline(&mut self, session: &Session, space: u8, starts: bool) {
        let counts = self.counts.entry(session.local).or_default();
        if let Some(gaps) = counts.outgoing.get_mut(usize::from(space)) {
            gaps.reset_baseline(if starts { session.sent(space) } else { 0 });
        }
    }

    /// Reads the counters of the sessions. Says whether more is lost from the peer than before.
    pub(super) fn update(&mut self, now: Instant, sessions: &[Arc<Session>]) -> bool {
        self.updated = Some(now);
        self.counts.retain(|number, _| sessions.iter().any(|s| s.local == *number));
        let mut is_worse = false;
        for session in sessions {
            is_worse |= self.update_session(now, session);
        }
        let arrived = sessions.iter().flat_map(|s| &s.arrivals).map(|a| a.counts().1).sum();
        let exempt = |s: &Session| self.counts.get(&s.local).map_or(0, |counts| counts.relayed_reports);
        self.sent = sessions.iter().map(|s| s.sent_in_all().saturating_sub(exempt(s))).sum();
        if arrived != self.arrived || self.last_arrival.is_none_or(|(_, sent)| sent > self.sent) {
            (self.arrived, self.last_arrival) = (arrived, Some((now, self.sent)));
        }
        is_worse
    }

    fn update_session(&mut self, now: Instant, session: &Session) -> bool {
        let mut is_worse = false;
        let counts = self.counts.entry(session.local).or_default();
        counts.update(now, session);
        for (gaps, space) in counts.incoming.iter_mut().zip([SPACE_DIRECT, SPACE_RELAYED, SPACE_SENSOR]) {
            let (sent, received) = session.arrivals[usize::from(space)].counts();
            let (sent, lost) = gaps.note(sent, received);
            if sent > 0 && space == SPACE_SENSOR {
                self.incoming.loss.note_probes(now, sent, lost);
            } else if sent > 0 {
                is_worse |= self.incoming.loss.note(now, sent, lost) == Some(Change::More);
                self.incoming.note_arrival(now);
            }
        }
        let received = [SPACE_DIRECT, SPACE_RELAYED].map(|space| session.arrivals[usize::from(space)].bytes());
        let bytes = [session.sent_bytes(), received.iter().sum()];
        let before = std::mem::replace(&mut counts.bytes, bytes);
        self.outgoing.bytes += bytes[0].saturating_sub(before[0]);
        self.incoming.bytes += bytes[1].saturating_sub(before[1]);
        is_worse
    }

    /// Decides whether the link is up; `may_be_up`: the settings allow it; `in_grace`: silence does not count. Says
    /// whether that has changed.
    pub(super) fn update_state(&mut self, now: Instant, may_be_up: bool, in_grace: bool) -> bool {
        let is_up = may_be_up && (self.is_alive(now) || (in_grace && self.up));
        let has_changed = is_up != self.up;
        if has_changed {
            self.up = is_up;
            self.down_at = (!is_up).then_some(now);
        }
        has_changed
    }

    fn is_alive(&self, now: Instant) -> bool {
        let timeout = self.timeout();
        let is_recent = |at: Instant| now.saturating_since(at) < timeout && self.down_at.is_none_or(|down| at > down);
        [&self.incoming, &self.outgoing].iter().all(|direction| direction.alive.is_some_and(is_recent))
    }

    fn is_quiet(&self, now: Instant, direction: &Direction) -> bool {
        let quiet_after = self.pace.quiet + self.rtt.min().unwrap_or(BUSY.quiet);
        direction.alive.is_none_or(|at| now.saturating_since(at) > quiet_after)
    }

    /// Whether to probe now because a direction is quiet: few frames are no evidence, and each end reports only what it
    /// receives. The more probes and reports are lost, the more probes it takes until silence means something.
    pub(super) fn needs_quiet_probe(&mut self, now: Instant) -> bool {
        let arriving = (1.0 - self.tx_loss()) * (1.0 - self.rx_loss().share);
        let interval = self.pace.quiet_interval.mul_f64(arriving.clamp(0.0, 1.0));
        let is_due = self.up
            && (self.is_quiet(now, &self.incoming) || self.is_quiet(now, &self.outgoing))
            && self.quiet_probe.is_none_or(|at| now.saturating_since(at) >= interval);
        if is_due {
            self.quiet_probe = Some(now);
        }
        is_due
    }

    /// Whether to probe the peer by an alternate path now: its frames arrive, and it reports nothing new.
    pub(super) fn needs_alternate_probe(&mut self, now: Instant) -> bool {
        let is_mute = self.up && self.is_quiet(now, &self.outgoing) && !self.is_quiet(now, &self.incoming);
        is_mute && self.alternate_probe.is_due(now, self.queued_from)
    }

    /// Whether to send a report by an alternate path as well, since the own queue drops direct frames. The share does
    /// not matter: beside a flow that takes each free place, nearly all small frames may be dropped.
    pub(super) fn needs_alternate_report(&mut self, now: Instant) -> bool {
        self.up && self.worst_tx_loss() > 0.0 && self.alternate_report.is_due_in_queue(now, self.queued_to)
    }

    /// Metrics of a direction for the route control; `None`: the round trip is unknown.
    pub(super) fn metrics(&self, now: Instant, direction: &Direction, capacity: Option<Rate>) -> Option<Metrics> {
        let longer_by = self.longer_by.filter(|(until, _)| now < *until).map_or(Duration::ZERO, |(_, by)| by);
        let rtt = self.rtt.min()?.saturating_add(longer_by);
        let loss = direction.loss.estimate();
        Some(Metrics {
            capacity,
            rtt,
            loss: loss.share,
            loss_low: loss.low,
            loss_high: loss.high,
            confidence: (loss.frames / CONFIDENT_FRAMES).clamp(0.0, 1.0),
            age: direction.alive.map_or(Duration::MAX, |at| now.saturating_since(at)),
        })
    }

    /// [`Self::metrics`] to and from `peer`, with its end points.
    pub(super) fn metrics_both(
        &self,
        now: Instant,
        (own, peer): (Member, Member),
        [to, from]: [Option<Rate>; 2],
    ) -> [((Member, Member), Option<Metrics>); 2] {
        [((own, peer), self.metrics(now, &self.outgoing, to)), ((peer, own), self.metrics(now, &self.incoming, from))]
    }
}
