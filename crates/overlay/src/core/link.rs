//! What is known of the direct links: sensed from frames in both directions, and told to the other end and to the route control.

mod reports;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use route::{Member, Metrics, Path};
use serde::Serialize;
use units::{Instant, Rate};
use wire::overlay::{SPACE_DIRECT, SPACE_RELAYED, SPACE_SENSOR};

use self::reports::{REPORT_EVERY, Sensed};
use super::alternate_paths::AlternateProbeTimer;
use super::capacity::Rates;
use super::paths::{DOUBT, PROBE_EVERY};
use super::probing::{Affordable, Probing};
use super::{Core, Event, Output};
use crate::estimators::{RoundTrip, ThroughputEstimator, WindowedExtremum};
use crate::loss::{Change, Loss, LossEstimate};
use crate::sensor::LossSensor;
use crate::session::{Cipher, Session};

/// A link from which nothing came for so long and a round trip is down.
pub(super) const SILENCE: Duration = Duration::from_millis(500);
/// A member that is called so much later than it asked for may have been deaf as long. Half of [`SILENCE`]: what it missed by less takes no link down.
const STALL_MIN: Duration = Duration::from_millis(250);
/// A member that was spoken to and is not heard for so long is called anew: four times the silence that takes a link down, as probes ask all the time and a handshake
/// costs little.
pub(super) const UNANSWERED: Duration = Duration::from_secs(2);
/// Frames from which on a loss is fully believed.
pub(super) const CONFIDENT_FRAMES: f64 = 50.0;

/// The direct link to a member, both directions.
#[derive(Default)]
pub(super) struct Link {
    /// Counts of each session, by its number here.
    sensed: BTreeMap<u32, Sensed>,
    incoming: Direction,
    outgoing: Direction,
    rtt: RoundTrip,
    /// By how much it takes longer than its reports say, by what becomes of frames over it, and until when that counts.
    longer_by: Option<(Instant, Duration)>,
    /// Largest share of the frames to the member that was lost of late.
    worst_to: WindowedExtremum<f64>,
    /// What goes directly to the member and arrives.
    carried: ThroughputEstimator,
    /// Largest delay above the least that the last report told.
    queued: Duration,
    /// The same of what came from the member, by any way, when it was last told.
    queued_from: Duration,
    up: bool,
    /// When it went down: what arrived before does not bring it back, however late one hears of it.
    down_at: Option<Instant>,
    probing: Probing,
    /// When it was last probed because nothing had been heard for a while, and when its end was last asked by another way.
    doubted: Option<Instant>,
    asked: AlternateProbeTimer,
    /// When its end was last told by another way what arrives.
    reported_by_alternate: AlternateProbeTimer,
    next_report: Option<Instant>,
    /// Frames that arrived in any packet number space, when that number last grew, and how many had been sent by then.
    arrived: u64,
    heard: Option<(Instant, u64)>,
    /// When the counters were last read.
    looked: Option<Instant>,
    /// Frames sent in any packet number space that the member has to answer: reports over relays it need not.
    sent_in_all: u64,
}

/// One direction of a link.
#[derive(Default)]
struct Direction {
    loss: Loss,
    /// When it was last known that something arrived.
    alive: Option<Instant>,
    /// Of all sessions, those that have ended, too.
    bytes: u64,
}

impl Direction {
    /// Something arrived at this time.
    fn was_alive(&mut self, at: Instant) {
        self.alive = self.alive.max(Some(at));
    }
}

/// A link as people see it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LinkView {
    pub(crate) up: bool,
    pub(crate) endpoint: Option<String>,
    pub(crate) cipher: Option<Cipher>,
    /// What is seen of a link that is up: of one that is down nothing is.
    pub(crate) rtt_us: Option<u64>,
    pub(crate) rtt_latest_us: Option<u64>,
    pub(crate) queueing_delay_us: Option<u64>,
    pub(crate) tx_loss: Option<f64>,
    pub(crate) rx_loss: Option<f64>,
    pub(crate) frames: f64,
    pub(crate) tx_bytes: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) probes: u64,
    /// What probes of all kinds took lately, and what they may.
    pub(crate) probe_bps: u64,
    pub(crate) probe_budget_bps: u64,
    /// What gossip with the member took lately.
    pub(crate) gossip_bps: u64,
    /// How much what is known of each direction is trusted, 0 to 1, and how long ago something was known to arrive.
    pub(crate) tx_confidence: Option<f64>,
    pub(crate) rx_confidence: Option<f64>,
    pub(crate) tx_age_s: Option<f64>,
    pub(crate) rx_age_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tx_capacity_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rx_capacity_bps: Option<u64>,
    /// How long ago a train last told what the link carries each way.
    pub(crate) tx_capacity_age_s: Option<f64>,
    pub(crate) rx_capacity_age_s: Option<f64>,
    #[serde(rename = "capacity_probes")]
    pub(crate) trains: u64,
    /// Largest datagram to the member, IP bytes.
    #[serde(rename = "path_mtu_bytes")]
    pub(crate) datagram: u16,
}

impl Link {
    /// `sensor`: losses are told in the paper's way.
    pub(super) fn new(sensor: Option<LossSensor>) -> Self {
        let direction = || Direction { loss: Loss::new(sensor), ..Direction::default() };
        Self { incoming: direction(), outgoing: direction(), ..Self::default() }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// The member has left: what arrived until now does not keep the link up. Says whether it was.
    pub(super) fn leave(&mut self, now: Instant) -> bool {
        self.down_at = Some(now);
        std::mem::take(&mut self.up)
    }

    /// Share of the frames to the member that are lost.
    pub(super) fn tx_loss(&self) -> f64 {
        self.outgoing.loss.estimate().share
    }

    /// The same, and no less than any half second of the last two to four seconds said: a queue of our own that overflows does so only for a moment, and the end
    /// of a way tells of it a round trip later.
    pub(super) fn worst_loss_to(&self) -> f64 {
        self.worst_to.extremum(f64::max).unwrap_or_default().max(self.tx_loss())
    }

    /// What is known of the frames from the member that are lost.
    pub(super) fn rx_loss(&self) -> LossEstimate {
        self.incoming.loss.estimate()
    }

    /// Round trip of the idle link.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt.min()
    }

    /// Rate at which the member receives what was sent to it without relays.
    pub(super) fn carried(&self, now: Instant) -> Rate {
        self.carried.rate(now)
    }

    /// The direct way as those over relays are told.
    pub(super) fn direct_path<T>(&self, told: impl Fn(&ThroughputEstimator, &Loss, &RoundTrip) -> T) -> T {
        told(&self.carried, &self.outgoing.loss, &self.rtt)
    }

    /// Frames over the link take so much longer than its reports say.
    pub(super) fn suspect(&mut self, until: Instant, longer_by: Duration) {
        self.longer_by = Some((until, longer_by));
    }

    /// For so long nobody listened: if it worked before, it still does as far as is known.
    fn pass_over(&mut self, now: Instant, span: Duration) {
        if self.up {
            for direction in [&mut self.incoming, &mut self.outgoing] {
                direction.alive = direction.alive.map(|at| (at + span).min(now));
            }
        }
    }

    /// Whether what is known of its losses is about to change, or has just changed.
    fn is_in_doubt(&self) -> bool {
        self.incoming.loss.is_in_doubt() || self.outgoing.loss.is_in_doubt()
    }

    /// Probes a second, where so many can be paid for; `closely`: whatever is known of its losses.
    pub(super) fn pace(&mut self, now: Instant, affordable: Affordable, closely: bool) -> f64 {
        let is_in_doubt = closely || self.is_in_doubt();
        self.probing.pace(now, affordable, is_in_doubt)
    }

    pub(super) fn probing(&mut self) -> &mut Probing {
        &mut self.probing
    }

    /// Frames of a packet number space come by the reverse of this path.
    pub(super) fn came(&mut self, session: u32, space: u8, back: Path) {
        if let Some(slot) = self.sensed.entry(session).or_default().back.get_mut(usize::from(space)) {
            *slot = Some(back);
        }
    }

    /// Whether the member has not been heard although it was spoken to: it may have begun anew, and know none of our sessions.
    pub(super) fn is_unanswered(&self, now: Instant) -> bool {
        self.is_unanswered_for(now, UNANSWERED)
    }

    /// Whether it may only be so because what goes directly does not arrive.
    pub(super) fn is_to_be_asked_otherwise(&self, now: Instant) -> bool {
        !self.up && self.is_unanswered_for(now, UNANSWERED / 2)
    }

    fn is_unanswered_for(&self, now: Instant, span: Duration) -> bool {
        self.heard.is_some_and(|(at, sent)| now.saturating_since(at) > span && self.sent_in_all > sent)
    }

    /// How long ago the last frame of the member came; `None`: there was none.
    pub(super) fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.heard.filter(|_| self.arrived > 0).map(|(at, _)| now.saturating_since(at))
    }

    /// Of what was sent in a packet number space until now, nothing more is held against it: its path was another one, or dark. Or everything is again.
    fn reset_loss_baseline(&mut self, session: &Session, space: u8, begins: bool) {
        let sensed = self.sensed.entry(session.local).or_default();
        if let Some(gaps) = sensed.outgoing.get_mut(usize::from(space)) {
            gaps.reset_baseline(if begins { session.sent(space) } else { 0 });
        }
    }

    /// Whether a frame of the member has come since then.
    pub(super) fn was_heard_since(&self, then: Instant) -> bool {
        self.heard.is_some_and(|(at, _)| at > then)
    }

    /// When a probe is due next, and one of the sensor.
    pub(super) fn next_probes(&self) -> [Option<Instant>; 2] {
        [self.probing.next, self.probing.next_of_sensor]
    }

    /// Whether something came lately in the session of this number. One that has just begun counts as heard: its handshake was.
    pub(super) fn is_heard_in(&self, session: u32) -> bool {
        let heard = self.sensed.get(&session).and_then(|sensed| sensed.heard);
        heard.zip(self.looked).is_none_or(|((at, _), looked)| looked.saturating_since(at) < self.patience())
    }

    /// For how long a direction, or a session, may be silent.
    fn patience(&self) -> Duration {
        SILENCE + self.rtt.min().unwrap_or(SILENCE)
    }

    /// Reads the counters of what arrived directly, and of what was passed on. Says whether more of it is lost than before.
    fn update(&mut self, now: Instant, sessions: &[Arc<Session>]) -> bool {
        let mut is_worse = false;
        self.looked = Some(now);
        self.sensed.retain(|number, _| sessions.iter().any(|s| s.local == *number));
        for session in sessions {
            let sensed = self.sensed.entry(session.local).or_default();
            sensed.update(now, session);
            for (gaps, space) in sensed.incoming.iter_mut().zip([SPACE_DIRECT, SPACE_RELAYED, SPACE_SENSOR]) {
                let (sent, received) = session.arrivals[usize::from(space)].counts();
                let (sent, lost) = gaps.note(sent, received);
                if sent > 0 && space == SPACE_SENSOR {
                    self.incoming.loss.note_probes(now, sent, lost);
                } else if sent > 0 {
                    is_worse |= self.incoming.loss.note(now, sent, lost) == Some(Change::More);
                    self.incoming.was_alive(now);
                }
            }
            let direct = [SPACE_DIRECT, SPACE_RELAYED].map(|space| session.arrivals[usize::from(space)].bytes());
            let bytes = [session.sent_bytes(), direct.iter().sum()];
            let [sent, received] = std::mem::replace(&mut sensed.bytes, bytes);
            self.outgoing.bytes += bytes[0].saturating_sub(sent);
            self.incoming.bytes += bytes[1].saturating_sub(received);
        }
        let arrived = sessions.iter().flat_map(|s| &s.arrivals).map(|a| a.counts().1).sum();
        let told = |s: &Session| self.sensed.get(&s.local).map_or(0, |sensed| sensed.told);
        self.sent_in_all = sessions.iter().map(|s| s.sent_in_all().saturating_sub(told(s))).sum();
        if arrived != self.arrived || self.heard.is_none_or(|(_, sent)| sent > self.sent_in_all) {
            (self.arrived, self.heard) = (arrived, Some((now, self.sent_in_all)));
        }
        is_worse
    }

    /// Whether both directions are alive.
    fn is_alive(&self, now: Instant) -> bool {
        let patience = self.patience();
        let is_recent = |at: Instant| now.saturating_since(at) < patience && self.down_at.is_none_or(|down| at > down);
        let heard = |d: &Direction| d.alive.is_some_and(is_recent);
        heard(&self.incoming) && heard(&self.outgoing)
    }

    /// Largest delay above the least of what last came from the member, by any way.
    pub(super) fn queued_from(&self) -> Duration {
        self.queued_from
    }

    /// Whether a direction has not been known to work for a while.
    fn is_old(&self, now: Instant, direction: &Direction) -> bool {
        let patience = DOUBT + self.rtt.min().unwrap_or(DOUBT);
        direction.alive.is_none_or(|at| now.saturating_since(at) > patience)
    }

    /// Whether its end, which is heard but says nothing new, is to be asked now by another way.
    pub(super) fn needs_alternate_probe(&mut self, now: Instant) -> bool {
        let is_mute = self.up && self.is_old(now, &self.outgoing) && !self.is_old(now, &self.incoming);
        is_mute && self.asked.is_due(now, self.queued_from)
    }

    /// Whether its end is to be told by another way now what arrives, as its queue drops some of what is said directly. How many of
    /// all frames does not matter: of few small ones beside a flow that takes each free place nearly all may be dropped.
    pub(super) fn needs_alternate_report(&mut self, now: Instant) -> bool {
        self.up && self.worst_loss_to() > 0.0 && self.reported_by_alternate.is_due_in_queue(now, self.queued)
    }

    /// Whether it is to be probed now because one direction has not been known to work for a while: few frames are no evidence, and each end tells only of
    /// what it hears.
    fn is_doubtful(&mut self, now: Instant) -> bool {
        // The more are lost, of probes and of what is said of them, the more it takes until silence says something.
        let arrive = (1.0 - self.tx_loss()) * (1.0 - self.rx_loss().share);
        let every = PROBE_EVERY.mul_f64(arrive.clamp(0.0, 1.0));
        let is_due = self.up
            && (self.is_old(now, &self.incoming) || self.is_old(now, &self.outgoing))
            && self.doubted.is_none_or(|at| now.saturating_since(at) >= every);
        if is_due {
            self.doubted = Some(now);
        }
        is_due
    }

    fn metrics(&self, now: Instant, direction: &Direction, capacity: Option<Rate>) -> Option<Metrics> {
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
}

impl Core {
    /// Whether time has passed in which nobody let this member do anything. What came meanwhile is not read yet, and what others would have been told of it was
    /// not sent: until both can have been made up for, silence is its own, and what was known when it last looked is no older than it was then.
    pub(super) fn detect_stall(&mut self, now: Instant) {
        let late = now.saturating_since(self.next_tick);
        // The first tick waits for what the member's host makes first.
        if late >= STALL_MIN && self.next_tick > self.began {
            self.stall_grace_until = Some(now + SILENCE);
            self.peers.values_mut().for_each(|o| o.link.pass_over(now, late));
            self.extend_advertisements(now, late);
            self.outputs.push_back(Output::Event(Event::Stalled { for_s: late.as_secs_f64() }));
        }
    }

    /// Whether silence says nothing now.
    pub(super) fn in_stall_grace(&self, now: Instant) -> bool {
        self.stall_grace_until.is_some_and(|until| now < until)
    }

    /// Reads all counters, tells the others what arrived, and notices links that come and go.
    pub(super) fn update_links(&mut self, now: Instant) {
        let all: Vec<Member> = self.peers.keys().copied().collect();
        let mut is_worse = false;
        for member in all {
            let (is_direct, in_stall_grace) = (self.is_direct(member), self.in_stall_grace(now));
            let Some(peer) = self.peers.get_mut(&member) else { continue };
            is_worse |= peer.link.update(now, &peer.sessions);
            peer.spaces.update(now, &peer.sessions);
            for (space, needs_baseline) in peer.spaces.baseline_resets(now) {
                peer.sessions.iter().for_each(|session| peer.link.reset_loss_baseline(session, space, needs_baseline));
            }
            let alive = is_direct && (peer.link.is_alive(now) || (in_stall_grace && peer.link.up));
            if alive != peer.link.up {
                peer.link.up = alive;
                peer.link.down_at = (!alive).then_some(now);
                if alive && peer.found != peer.endpoint {
                    peer.found = peer.endpoint;
                    self.admissions.have_news = true;
                }
                let name = self.settings.name_of(member);
                self.outputs.push_back(Output::Event(Event::Link { member, name, up: alive }));
                if !alive {
                    self.remove_link(now, member);
                }
                self.clear_suspicions_beside(now, (self.own, member));
            }
            self.report(now, member);
        }
        if is_worse {
            self.alert(now);
        }
        self.probe_quiet_links(now);
        self.probe_unacknowledged_paths(now);
        self.probe_by_alternate_paths(now);
        self.probe_relayed_paths(now);
        self.update_route_control(now);
    }

    fn probe_quiet_links(&mut self, now: Instant) {
        let due = self.peers.iter_mut().filter_map(|(member, o)| o.link.is_doubtful(now).then_some(*member));
        for member in due.collect::<Vec<_>>() {
            self.probe(now, member, SPACE_DIRECT);
        }
    }

    /// Own links in both directions, as the route control takes them.
    fn update_route_control(&mut self, now: Instant) {
        if self.handed_over.is_some_and(|at| now.saturating_since(at) < REPORT_EVERY) {
            return;
        }
        self.handed_over = Some(now);
        self.cross_check_advertisements(now);
        let up = self.peers.iter().filter(|(_, o)| o.link.up);
        let found: Vec<_> = up
            .map(|(m, o)| {
                let metrics = |d, rates| o.link.metrics(now, d, self.capacity(rates));
                (*m, metrics(&o.link.outgoing, &o.trains.to), metrics(&o.link.incoming, &o.trains.from))
            })
            .collect();
        for (member, out, back) in found {
            self.set_link(now, self.own, member, out);
            self.set_link(now, member, self.own, back);
        }
    }

    /// Tells the route control. What it refuses, it has refused before anything changed; own metrics are always sane, claims were looked at.
    pub(super) fn set_link(&mut self, now: Instant, from: Member, to: Member, metrics: Option<Metrics>) {
        let metrics = metrics.map(|m| Metrics { capacity: self.relayed_capacity(from, m.capacity), ..m });
        if let Err(e) = self.control.handle(route::Event::Link { at: now, from, to, metrics }) {
            tracing::debug!("{e}");
        }
    }

    pub(super) fn remove_link(&mut self, now: Instant, member: Member) {
        self.set_link(now, self.own, member, None);
        self.set_link(now, member, self.own, None);
    }

    /// What a link carries: as trains told, and no more than this member's access does.
    pub(super) fn capacity(&self, told: &Rates) -> Option<Rate> {
        self.within_access(told.capacity())
    }

    pub(super) fn within_access(&self, told: Option<Rate>) -> Option<Rate> {
        let access = self.settings.capacity;
        told.map_or(access, |t| Some(access.map_or(t, |a| a.min(t))))
    }

    /// The direct link to a member, as people see it.
    pub(crate) fn link_view(&self, member: Member, now: Instant) -> Option<LinkView> {
        let peer = self.peers.get(&member)?;
        let link = &peer.link;
        let known = |d: &Direction| link.metrics(now, d, None).filter(|_| d.alive.is_some());
        let (to, from) = (known(&link.outgoing), known(&link.incoming));
        let us = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let loss = |d: &Direction| link.up.then(|| d.loss.estimate()).filter(|l| l.frames > 0.0).map(|l| l.share);
        Some(LinkView {
            up: link.up,
            endpoint: peer.endpoint.map(|e| e.to_string()),
            cipher: peer.session().map(|s| s.cipher()),
            rtt_us: link.rtt.min().filter(|_| link.up).map(us),
            rtt_latest_us: link.rtt.latest().filter(|_| link.up).map(us),
            queueing_delay_us: link.up.then(|| us(link.queued)),
            tx_loss: loss(&link.outgoing),
            rx_loss: loss(&link.incoming),
            frames: link.outgoing.loss.estimate().frames.round(),
            tx_bytes: link.outgoing.bytes,
            rx_bytes: link.incoming.bytes,
            probes: link.probing.sent(),
            probe_bps: link.probing.rate_meter(now).as_bps(),
            probe_budget_bps: self.probe_budget(member) as u64,
            gossip_bps: peer.gossip_spent.rate(now).as_bps(),
            tx_confidence: to.map(|m| m.confidence),
            rx_confidence: from.map(|m| m.confidence),
            tx_age_s: to.map(|m| m.age.as_secs_f64()),
            rx_age_s: from.map(|m| m.age.as_secs_f64()),
            tx_capacity_bps: self.capacity(&peer.trains.to).map(Rate::as_bps),
            rx_capacity_bps: self.capacity(&peer.trains.from).map(Rate::as_bps),
            tx_capacity_age_s: peer.trains.to.age(now).map(|age| age.as_secs_f64()),
            rx_capacity_age_s: peer.trains.from.age(now).map(|age| age.as_secs_f64()),
            trains: peer.trains.sent,
            datagram: self.size_to(member),
        })
    }
}
