//! Which way to go: hands what is known to the route control, and its answers to the threads that move packets.

use std::sync::Arc;
use std::time::Duration;

use route::{Load, Member, Path, Policy, Recorder, Weighted};
use units::{Instant, Rate};
use wire::overlay::gossip::UNBOUNDED;
use wire::overlay::{Message, SPACE_PROBES, SPACE_SENSOR};

use super::alternate_paths::AlternateProbeTimer;
use super::link::SILENCE;
use super::{Core, Event, Output, Peer};
use crate::estimators::{RoundTrip, ThroughputEstimator};
use crate::loss::{Loss, LossEstimate};
use crate::session::Session;
use crate::settings::{PolicyName, Settings};
use crate::table::Route;

/// IPv4 and TCP headers with timestamps.
const TCP_HEADERS: u64 = 52;
/// Frames that must be counted end to end, within about a second, before they speak against what others claim.
const LEAST_FRAMES: f64 = 40.0;
/// Interval at which [`Core::handle_flows`] is given the counts.
pub(crate) const FLOWS_INTERVAL: Duration = Duration::from_millis(100);
/// Frames without a word that make a path silent: ten lost ones in a row are one in 10^8 at a loss of 0.15.
const UNANSWERED: u64 = 10;
/// A path whose frames wait for so long is probed, this often; so is a link.
pub(super) const DOUBT: Duration = Duration::from_millis(150);
pub(super) const PROBE_EVERY: Duration = Duration::from_millis(30);
/// One that has been silent for so long is probed this often: it is known not to work.
const GIVEN_UP: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// For how long the round trip of a way that is not used speaks for what is said of it.
const REMEMBERED: Duration = Duration::from_secs(600);
/// For how long the first decisions wait for own links: two handshakes of which one datagram was lost, on a path of 300 ms.
const FIRST_LINKS: Duration = Duration::from_secs(1);
/// How often shares of flows are compared with what their ways are worth.
const SHARES_EVERY: Duration = Duration::from_secs(1);
/// For how long what a packet number space lost before it began anew is forgiven. What shows later has its receiver leave out, as the packet number space has rested.
const BASELINE_RESET: Duration = Duration::from_secs(5);
/// First packet number space of paths over relays, and how many there are.
const FIRST: usize = SPACE_PROBES as usize + 1;
const PATHS: usize = SPACE_SENSOR as usize - FIRST;

/// Lanes of the session with a member, each given to a path over relays.
#[derive(Default)]
pub(super) struct PathMonitor {
    spaces: Vec<MonitoredPath>,
    best: Option<(Path, u8)>,
    /// Those of the ways in the table: packets are being sent in them.
    in_use: Vec<u8>,
    /// Shares of these, what is predicted of them and what they carry, as the table has it.
    last_checked: Vec<Weighted>,
    next: usize,
}

struct MonitoredPath {
    path: Path,
    number: u8,
    loss: Loss,
    carried: ThroughputEstimator,
    rtt: RoundTrip,
    /// When a report last told that something arrived.
    alive: Option<Instant>,
    /// Frames sent.
    sent: u64,
    /// Those among them, since they were counted, that need no word: reports, and questions about other packet number spaces.
    unacknowledged_space: u64,
    /// More than reports was sent since that was last asked.
    has_spoken: bool,
    /// Since when frames wait for a word, and how many had been sent by then.
    waiting: Option<(Instant, u64)>,
    /// When the path was last probed because of that, and when its end was last asked by another one.
    probed: Option<Instant>,
    asked: AlternateProbeTimer,
    /// What has been sent until now was on another path, or on this one while it was dark.
    needs_baseline: bool,
    /// When that was forgiven.
    baseline_reset: Option<Instant>,
    /// Since when its round trip has been longer than what is said of its links.
    longer: Option<Instant>,
}

impl MonitoredPath {
    /// For how long its frames have waited for a word.
    fn waits(&self, now: Instant) -> Duration {
        self.waiting.map_or(Duration::ZERO, |(at, _)| now.saturating_since(at))
    }
}

impl PathMonitor {
    /// Whether the threads that spread flows have a share or a rate of this way that is off by a tenth of all or a fifth of itself.
    fn shows_otherwise(&self, now: &Weighted) -> bool {
        let last_checked = self.last_checked.iter().find(|last_checked| last_checked.path == now.path);
        let is_other = |before: Rate, after: Rate| {
            let (before, after) = (before.as_bps() as f64, after.as_bps() as f64);
            (before - after).abs() > 0.2 * before.max(after)
        };
        last_checked.is_some_and(|last_checked| {
            (last_checked.weight - now.weight).abs() > 0.1
                || is_other(last_checked.predicted, now.predicted)
                || is_other(last_checked.capacity, now.capacity)
                || is_other(last_checked.carried, now.carried)
        })
    }

    /// The best way and its packet number space.
    pub(super) fn first(&self) -> Option<(Path, u8)> {
        self.best
    }

    /// The best way and its packet number space if no frames wait for a word there.
    fn is_idle(&self) -> Option<(Path, u8)> {
        self.best.filter(|(_, space)| self.spaces.iter().any(|l| l.number == *space && l.waiting.is_none()))
    }

    /// The packet number space of a path, a new one if it has none: that of the path that has had one for longest and is not in use.
    pub(super) fn of(&mut self, path: Path) -> u8 {
        if path.relays().is_empty() {
            return 0;
        }
        if let Some(space) = self.spaces.iter().find(|l| l.path == path) {
            return space.number;
        }
        let mut turns = (0..PATHS).map(|i| (FIRST + (self.next + i) % PATHS) as u8);
        let number = turns.find(|n| !self.in_use.contains(n)).unwrap_or(FIRST as u8);
        self.next = usize::from(number) - FIRST + 1;
        self.spaces.retain(|l| l.number != number);
        let (loss, carried, rtt) = (Loss::default(), ThroughputEstimator::default(), RoundTrip::default());
        self.spaces.push(MonitoredPath {
            path,
            number,
            loss,
            carried,
            rtt,
            alive: None,
            sent: 0,
            unacknowledged_space: 0,
            has_spoken: false,
            waiting: None,
            probed: None,
            asked: AlternateProbeTimer::default(),
            needs_baseline: true,
            baseline_reset: None,
            longer: None,
        });
        number
    }

    /// Share that is lost on a path over relays, by what the destination reported; `None`: nothing was sent on it.
    pub(super) fn loss_on(&self, path: &Path) -> Option<f64> {
        self.spaces.iter().find(|l| l.path == *path).map(|l| l.loss.estimate().share)
    }

    /// What the destination reported of a packet number space: frames sent and lost and bytes that arrived since the last report.
    pub(super) fn on_report(&mut self, now: Instant, told: u8, since: (u64, u64, u64), rtt: Option<Duration>) {
        if let Some(space) = self.spaces.iter_mut().find(|l| l.number == told) {
            let (sent, lost, bytes) = since;
            space.loss.note(now, sent, lost);
            space.carried.note(now, bytes);
            if let Some(rtt) = rtt {
                space.rtt.note(now, rtt);
            }
            space.alive = Some(now);
            space.waiting = None;
        }
    }

    /// A frame was sent in a packet number space that needs no word.
    pub(super) fn note_unacknowledged(&mut self, number: u8) {
        if let Some(space) = self.spaces.iter_mut().find(|l| l.number == number) {
            space.unacknowledged_space += 1;
        }
    }

    /// Whether more than reports was sent on a path over relays since this was last asked.
    pub(super) fn has_spoken(&mut self, path: &Path) -> bool {
        let space = self.spaces.iter_mut().find(|l| l.path == *path);
        space.is_some_and(|l| std::mem::take(&mut l.has_spoken))
    }

    /// Notices frames that nobody reports.
    pub(super) fn update(&mut self, now: Instant, sessions: &[Arc<Session>]) {
        for space in &mut self.spaces {
            let sent = sessions.iter().map(|s| s.sent(space.number)).sum::<u64>();
            // A session that ends takes its frames along.
            let gone = space.sent.saturating_sub(sent);
            space.waiting = space.waiting.map(|(at, before)| (at, before.saturating_sub(gone)));
            let speaks = sent > space.sent + std::mem::take(&mut space.unacknowledged_space);
            if speaks && space.waiting.is_none() {
                space.waiting = Some((now, space.sent));
            }
            space.has_spoken |= speaks;
            space.sent = sent;
        }
    }

    /// Lanes that begin anew, each once; and, with `false`, those that have begun so long ago that what is missing now was lost since.
    pub(super) fn baseline_resets(&mut self, now: Instant) -> Vec<(u8, bool)> {
        let of = |l: &mut MonitoredPath| {
            if std::mem::take(&mut l.needs_baseline) {
                l.baseline_reset = Some(now);
                return Some((l.number, true));
            }
            let is_over = l.baseline_reset.is_some_and(|at| now.saturating_since(at) >= BASELINE_RESET);
            is_over.then(|| {
                l.baseline_reset = None;
                (l.number, false)
            })
        };
        self.spaces.iter_mut().filter_map(of).collect()
    }

    /// Paths over a link, whose frames wait for no word any more.
    pub(super) fn reset_paths_over(&mut self, own: Member, link: (Member, Member)) -> impl Iterator<Item = Path> + '_ {
        let over = self.spaces.iter_mut().filter(move |l| l.path.links(own).any(|of_path| of_path == link));
        over.map(|l| {
            (l.waiting, l.needs_baseline) = (None, true);
            l.path
        })
    }

    /// Paths whose frames wait for a word, to be probed now: few frames are no evidence, and a sender whose frames are lost sends few.
    fn doubtful(&mut self, now: Instant) -> Vec<(Path, u8)> {
        let is_due = |l: &&mut MonitoredPath| {
            let waits = l.waits(now);
            let every = if waits < GIVEN_UP { PROBE_EVERY } else { ASK_AGAIN };
            waits > DOUBT && l.probed.is_none_or(|at| now.saturating_since(at) >= every)
        };
        let due = self.spaces.iter_mut().filter(is_due);
        due.map(|l| {
            l.probed = Some(now);
            (l.path, l.number)
        })
        .collect()
    }

    /// Ways in use whose frames wait for a word that should have come by now, and whose ends are to be asked by another one; `queued`: for how long what came from there waited.
    pub(super) fn overdue(&mut self, now: Instant, queued: Duration) -> Vec<Path> {
        let in_use = &self.in_use;
        let is_due = |l: &mut MonitoredPath| {
            let is_mute = in_use.contains(&l.number) && l.waits(now) > DOUBT + l.rtt.min().unwrap_or(DOUBT);
            (is_mute && l.asked.is_due(now, queued)).then_some(l.path)
        };
        self.spaces.iter_mut().filter_map(is_due).collect()
    }

    /// The packet number space of a path for frames that need no word; `None`: all packet number spaces are in use.
    pub(super) fn unacknowledged_space(&mut self, path: Path, sessions: &[Arc<Session>]) -> Option<u8> {
        let has_lane = path.relays().is_empty() || self.spaces.iter().any(|l| l.path == path);
        if !has_lane && self.in_use.len() >= PATHS {
            return None;
        }
        let number = self.of(path);
        if let Some(space) = self.spaces.iter_mut().find(|l| l.number == number).filter(|l| l.needs_baseline) {
            // What went in it on another path waits for no word on this one.
            space.sent = sessions.iter().map(|s| s.sent(number)).sum();
        }
        self.note_unacknowledged(number);
        Some(number)
    }

    /// Paths of which the destination has spoken lately.
    pub(super) fn working(&self, now: Instant) -> impl Iterator<Item = Path> + '_ {
        let spoken = move |l: &&MonitoredPath| l.alive.is_some_and(|at| now.saturating_since(at) < SILENCE);
        self.spaces.iter().filter(spoken).map(|l| l.path)
    }

    /// Round trips of paths over relays, as far as they are known from the last minutes.
    pub(super) fn round_trips(&self, now: Instant) -> impl Iterator<Item = Measured> + '_ {
        let known = move |l: &MonitoredPath| {
            let ago = now.saturating_since(l.alive?);
            let rtt = l.rtt.min().filter(|_| ago < REMEMBERED)?;
            Some(Measured { path: l.path, rtt, speaks: ago < SILENCE })
        };
        self.spaces.iter().filter_map(known)
    }

    /// Whether the round trip of a path is longer than what is said of its links; gives since when.
    pub(super) fn note_longer(&mut self, now: Instant, path: &Path, is_longer: bool) -> Option<Instant> {
        let space = self.spaces.iter_mut().find(|l| l.path == *path)?;
        space.longer = if is_longer { space.longer.or(Some(now)) } else { None };
        space.longer
    }

    /// What the destination's reports say of each path over relays.
    pub(super) fn experiences(&self, now: Instant) -> Vec<(Path, Experience)> {
        let of = |l: &MonitoredPath| {
            let patience = SILENCE + l.rtt.min().unwrap_or(SILENCE) * 2;
            let waits = |(at, before): &(Instant, u64)| {
                now.saturating_since(*at) > patience && l.sent.saturating_sub(*before) >= UNANSWERED
            };
            if l.waiting.as_ref().is_some_and(waits) {
                return Some((l.path, Experience::Silent));
            }
            let loss = l.loss.latest(now);
            (loss.frames >= LEAST_FRAMES).then_some((l.path, Experience::Loss(loss)))
        };
        self.spaces.iter().filter_map(of).collect()
    }
}

/// The round trip of a way over relays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) path: Path,
    /// The least of the last seconds in which it was used.
    pub(super) rtt: Duration,
    /// Its end has spoken of it lately.
    pub(super) speaks: bool,
}

/// What became of packets on a way, as its end told: for people.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub(crate) struct PathView {
    /// Bytes of packets that arrived lately, b/s.
    pub(crate) throughput_bps: u64,
    /// Share of frames lost there; `None`: nothing was sent on it yet.
    pub(crate) loss: Option<f64>,
    /// Least round trip of the last seconds, microseconds; `None`: not known.
    pub(crate) rtt_us: Option<u64>,
}

/// What became of frames on a path, as its end told.
pub(super) enum Experience {
    /// For too long nothing was heard of them.
    Silent,
    Loss(LossEstimate),
}

/// The rules of the route control by the settings.
pub(crate) fn policy(settings: &Settings) -> Policy {
    let mut policy = settings.rules();
    if settings.policy == PolicyName::Default {
        // A link that trains have not told of is taken for one that is too fast for them.
        policy.unknown_capacity = super::capacity::fastest(settings);
    }
    policy.mss = units::Bytes::new(u64::from(settings.mtu) - TCP_HEADERS);
    policy
}

/// The route control by the settings.
pub(super) fn control(settings: &Settings, own: Member, now: Instant) -> Option<Recorder> {
    let mut control = Recorder::new(own, policy(settings), settings.record.is_some()).ok()?;
    for member in settings.members.get().keys() {
        control.handle(route::Event::Member { at: now, member: *member, relays: Some(true) }).ok()?;
    }
    Some(control)
}

impl Core {
    /// The routes to a member whose sessions and endpoints exist, for the forwarding table.
    pub(super) fn routes_for_table(&mut self, member: Member) -> Vec<Route> {
        let Some(peer) = self.peers.get_mut(&member) else { return Vec::new() };
        let mut spaces = std::mem::take(&mut peer.spaces);
        let chosen = self.control.inner().paths(member);
        let routes: Vec<Route> = chosen.iter().filter_map(|w| self.route(w, &mut spaces)).collect();
        spaces.best = routes.first().map(|w| (w.path, w.space));
        spaces.in_use = routes.iter().map(|w| w.space).collect();
        spaces.last_checked = chosen.iter().filter(|c| routes.iter().any(|r| r.path == c.path)).copied().collect();
        if let Some(peer) = self.peers.get_mut(&member) {
            peer.spaces = spaces;
        }
        routes
    }

    fn route(&self, chosen: &Weighted, spaces: &mut PathMonitor) -> Option<Route> {
        let path = chosen.path;
        Some(Route {
            space: spaces.of(path),
            weight: chosen.weight,
            predicted_bps: chosen.predicted.as_bps(),
            capacity_bps: chosen.capacity.as_bps(),
            throughput_bps: chosen.carried.as_bps(),
            most: self.most_on(&path),
            to: self.peers.get(&path.first_hop())?.endpoint?,
            end: self.session(path.destination())?,
            hop: self.session(path.first_hop())?,
            path,
        })
    }

    /// A member says how much it passes on for each one.
    pub(super) fn note_relays(&mut self, now: Instant, member: Member, bps: u64) {
        if self.settings.members.contains(member) && self.relays.insert(member, bps) != Some(bps) {
            // Known members only, so that there is room for each.
            let _ = self.control.handle(route::Event::Member { at: now, member, relays: Some(bps > 0) });
            self.publish_links_from(now, member);
        }
    }

    /// What a link carries of ours, as far as its first end lets us: on the links of another one is only what it passes on for us.
    pub(super) fn relayed_capacity(&self, from: Member, capacity: Option<Rate>) -> Option<Rate> {
        let most = self.relays.get(&from).filter(|bps| from != self.own && **bps != UNBOUNDED);
        let most = most.map(|bps| Rate::from_bps(*bps));
        most.into_iter().chain(capacity).min()
    }

    /// Probes paths whose frames wait for a word.
    pub(super) fn probe_unacknowledged_paths(&mut self, now: Instant) {
        let due: Vec<_> = self.peers.values_mut().flat_map(|o| o.spaces.doubtful(now)).collect();
        due.into_iter().for_each(|path| self.probe_path(now, path));
    }

    fn probe_path(&mut self, now: Instant, (path, space): (Path, u8)) {
        let bytes = self.send_on(now, path, space, &Message::Probe.encode());
        if let Some(hop) = self.peers.get_mut(&path.first_hop()) {
            hop.link.probing().pay(now, bytes as f64);
        }
    }

    /// Probes the ways to members that have not been heard for a while over relays, once: from then on they wait for a word.
    pub(super) fn probe_relayed_paths(&mut self, now: Instant) {
        let unheard = self.peers.values().filter(|o| o.link.is_to_be_asked_otherwise(now));
        let due: Vec<_> = unheard.filter_map(|o| o.spaces.is_idle()).collect();
        due.into_iter().for_each(|path| self.probe_path(now, path));
    }

    /// Tells the route control what each way in use carries, and how many elephants it has. Mice do not last long enough to be moved.
    pub(crate) fn handle_flows(&mut self, now: Instant, elephants: &[(Path, u32)]) {
        for (path, flows) in elephants {
            let Some(peer) = self.peers.get(&path.destination()) else { continue };
            let space = peer.spaces.spaces.iter().find(|l| l.path == *path);
            let carried = space.map_or_else(|| peer.link.carried(now), |l| l.carried.rate(now));
            // Nothing that could be refused.
            let _ =
                self.control.handle(route::Event::Load { at: now, path: *path, load: Load { flows: *flows, carried } });
        }
    }

    /// A way, as people see it.
    pub(crate) fn path_view(&self, now: Instant, path: &Path) -> PathView {
        let Some(peer) = self.peers.get(&path.destination()) else { return PathView::default() };
        let us = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let seen = |carried: &ThroughputEstimator, loss: &Loss, rtt: &RoundTrip| {
            let loss = loss.estimate();
            PathView {
                throughput_bps: carried.rate(now).as_bps(),
                loss: (loss.frames > 0.0).then_some(loss.share),
                rtt_us: rtt.min().map(us),
            }
        };
        if path.relays().is_empty() {
            return peer.link.direct_path(seen);
        }
        let space = peer.spaces.spaces.iter().find(|l| l.path == *path);
        space.map_or_else(PathView::default, |l| seen(&l.carried, &l.loss, &l.rtt))
    }

    /// Shows the threads that spread flows what their ways are worth now, where that is another thing than what they have: without a change of ways, too.
    pub(super) fn refresh_shares(&mut self, now: Instant) {
        if self.shares_at.is_some_and(|at| now.saturating_since(at) < SHARES_EVERY) {
            return;
        }
        self.shares_at = Some(now);
        let control = self.control.inner();
        let is_stale = |(member, peer): (&Member, &Peer)| {
            let paths = control.paths(*member);
            // One way gets all flows, whatever it is worth.
            paths.len() > 1 && paths.iter().any(|w| peer.spaces.shows_otherwise(w))
        };
        self.changed |= self.peers.iter().any(is_stale);
    }

    /// Lets the route control decide, and passes its decisions on.
    pub(super) fn decide(&mut self, now: Instant) {
        // Who begins waits for his own links a little: a member is told of others' links before it has found its own to them.
        let waits = self.peers.iter().any(|(m, o)| self.is_direct(*m) && !o.link.is_up());
        if waits && now.saturating_since(self.began) < FIRST_LINKS {
            return;
        }
        // Time is not refused.
        let _ = self.control.handle(route::Event::Timeout { at: now });
        while let Some(decision) = self.control.poll_decision() {
            self.changed = true;
            if decision.to.is_some() {
                self.initiate_on_new_route(now, decision.destination);
            }
            self.outputs.push_back(Output::Event(Event::Route(Box::new(decision))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_in_use_is_given_to_no_other_path() {
        let path = |relay: u32| Path::via(&[Member(relay)], Member(9)).unwrap();
        let mut spaces = PathMonitor::default();
        let used = [spaces.of(path(100)), spaces.of(path(101))];
        spaces.in_use = used.to_vec();
        let peers: Vec<u8> = (0..100).map(|i| spaces.of(path(200 + i))).collect();
        assert!(peers.iter().all(|l| !used.contains(l) && (FIRST..FIRST + PATHS).contains(&usize::from(*l))));
        assert_eq!([spaces.of(path(100)), spaces.of(path(101))], used);
        assert_eq!(peers.iter().collect::<std::collections::BTreeSet<_>>().len(), PATHS - 2, "all others go round");
        assert_eq!(spaces.of(Path::direct(Member(9))), 0);
    }
}
