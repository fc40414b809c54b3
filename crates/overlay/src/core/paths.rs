//! Paths over relays to one peer: what became of the frames on each of them, by the reports of the peer.

use std::sync::Arc;
use std::time::Duration;

use route::{Member, Path, Weighted};
use units::{Instant, Rate};
use wire::overlay::{SPACE_PROBES, SPACE_SENSOR};

use super::alternate_paths::AlternateProbeTimer;
use super::pace::{BUSY, Pace};
use crate::estimators::{RoundTrip, ThroughputEstimator};
use crate::loss::{Loss, LossEstimate};
use crate::session::Session;

/// Frames within about a second from which on the end-to-end loss of a path counts against the advertisements of its
/// links.
const OBSERVED_FRAMES_MIN: f64 = 40.0;
/// Unreported frames from which on a path is silent: ten losses in a row have a probability of 10^-8 at a loss of 0.15.
const SILENT_FRAMES_MIN: u64 = 10;
/// A path that has been silent for so long is known not to work, and probed once a second.
const BROKEN_AFTER: Duration = Duration::from_secs(5);
const BROKEN_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Lifetime of the round trip of an unused path.
const ROUND_TRIP_LIFETIME: Duration = Duration::from_secs(600);
/// Time after which missing frames of a reused number space count as lost on its new path.
const BASELINE_LIFETIME: Duration = Duration::from_secs(5);
/// First number space of paths over relays, and their number.
const FIRST_SPACE: usize = SPACE_PROBES as usize + 1;
const SPACES: usize = SPACE_SENSOR as usize - FIRST_SPACE;

/// Paths over relays to one peer, each with a packet number space of its own in the sessions with the peer.
#[derive(Default)]
pub(super) struct PathMonitor {
    paths: Vec<MonitoredPath>,
    best: Option<(Path, u8)>,
    /// Spaces of the routes in the forwarding table.
    in_use: Vec<u8>,
    /// The routes as the forwarding table has them.
    published: Vec<Weighted>,
    next: usize,
    pace: Pace,
}

/// One path over relays.
pub(super) struct MonitoredPath {
    path: Path,
    space: u8,
    pub(super) loss: Loss,
    pub(super) throughput: ThroughputEstimator,
    pub(super) rtt: RoundTrip,
    /// Time of the last report that frames arrived.
    reported: Option<Instant>,
    /// Frames sent.
    sent: u64,
    /// Frames sent since the last update that need no report: reports themselves, and probes about other paths.
    exempt: u64,
    /// Other frames were sent since the last call of [`PathMonitor::take_activity`].
    is_active: bool,
    /// Since when frames have been unreported, and the frames sent before.
    unreported: Option<(Instant, u64)>,
    probed: Option<Instant>,
    alternate: AlternateProbeTimer,
    /// Frames sent until now went over another path, or over this one while it was down: their losses do not count.
    needs_baseline: bool,
    baseline_reset: Option<Instant>,
    /// Since when the round trip has been longer than the sum of the advertised ones.
    longer_since: Option<Instant>,
}

/// Counts of one report: frames sent and lost, and bytes that arrived since the report before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reported {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) bytes: u64,
}

/// The round trip of a path over relays.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathRoundTrip {
    pub(super) path: Path,
    /// Minimum over the last seconds in which the path was used.
    pub(super) rtt: Duration,
    /// The destination has reported on the path lately.
    pub(super) is_current: bool,
}

/// End-to-end observation of a path.
pub(super) enum Observation {
    /// Frames have been unreported for too long.
    Silent,
    Loss(LossEstimate),
}

impl MonitoredPath {
    fn new(path: Path, space: u8) -> Self {
        Self {
            path,
            space,
            loss: Loss::default(),
            throughput: ThroughputEstimator::default(),
            rtt: RoundTrip::default(),
            reported: None,
            sent: 0,
            exempt: 0,
            is_active: false,
            unreported: None,
            probed: None,
            alternate: AlternateProbeTimer::default(),
            needs_baseline: true,
            baseline_reset: None,
            longer_since: None,
        }
    }

    fn unreported_for(&self, now: Instant) -> Duration {
        self.unreported.map_or(Duration::ZERO, |(at, _)| now.saturating_since(at))
    }
}

impl PathMonitor {
    /// Sets how closely the paths are watched.
    pub(super) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// The best path and its number space.
    pub(super) fn best(&self) -> Option<(Path, u8)> {
        self.best
    }

    /// The best path and its number space, if none of its frames is unreported.
    pub(super) fn best_if_reported(&self) -> Option<(Path, u8)> {
        self.best.filter(|(_, space)| self.paths.iter().any(|p| p.space == *space && p.unreported.is_none()))
    }

    /// The state of a path.
    pub(super) fn get(&self, path: &Path) -> Option<&MonitoredPath> {
        self.paths.iter().find(|p| p.path == *path)
    }

    fn in_space(&mut self, space: u8) -> Option<&mut MonitoredPath> {
        self.paths.iter_mut().find(|p| p.space == space)
    }

    /// The number space of a path. A new path gets the space that has been given for longest to a path out of use.
    pub(super) fn space_of(&mut self, path: Path) -> u8 {
        if path.relays().is_empty() {
            return 0;
        }
        if let Some(known) = self.get(&path) {
            return known.space;
        }
        let mut turns = (0..SPACES).map(|i| (FIRST_SPACE + (self.next + i) % SPACES) as u8);
        let space = turns.find(|n| !self.in_use.contains(n)).unwrap_or(FIRST_SPACE as u8);
        self.next = usize::from(space) - FIRST_SPACE + 1;
        self.paths.retain(|p| p.space != space);
        self.paths.push(MonitoredPath::new(path, space));
        space
    }

    /// The number space of a path for a frame that needs no report; `None`: all spaces are in use.
    pub(super) fn space_of_exempt(&mut self, path: Path, sessions: &[Arc<Session>]) -> Option<u8> {
        let is_known = path.relays().is_empty() || self.get(&path).is_some();
        if !is_known && self.in_use.len() >= SPACES {
            return None;
        }
        let space = self.space_of(path);
        if let Some(monitored) = self.in_space(space).filter(|p| p.needs_baseline) {
            // Frames of the space's former path are not unreported on this one.
            monitored.sent = sessions.iter().map(|s| s.sent(space)).sum();
        }
        self.note_exempt(space);
        Some(space)
    }

    /// A frame that needs no report was sent in a space.
    pub(super) fn note_exempt(&mut self, space: u8) {
        if let Some(path) = self.in_space(space) {
            path.exempt += 1;
        }
    }

    /// Takes the routes of the forwarding table; `chosen`: all routes of the route control, some of which may have no
    /// session.
    pub(super) fn set_routes(&mut self, routes: &[(Path, u8)], chosen: &[Weighted]) {
        self.best = routes.first().copied();
        self.in_use = routes.iter().map(|(_, space)| *space).collect();
        let is_published = |c: &&Weighted| routes.iter().any(|(path, _)| *path == c.path);
        self.published = chosen.iter().filter(is_published).copied().collect();
    }

    /// Whether the forwarding table's share of a route is off by more than a tenth, or one of its rates by more than a
    /// fifth.
    pub(super) fn is_stale(&self, now: &Weighted) -> bool {
        let is_off = |before: Rate, after: Rate| {
            let (before, after) = (before.as_bps() as f64, after.as_bps() as f64);
            (before - after).abs() > 0.2 * before.max(after)
        };
        self.published.iter().find(|published| published.path == now.path).is_some_and(|published| {
            (published.weight - now.weight).abs() > 0.1
                || is_off(published.predicted, now.predicted)
                || is_off(published.capacity, now.capacity)
                || is_off(published.carried, now.carried)
        })
    }

    /// The destination reports on a space.
    pub(super) fn on_report(&mut self, now: Instant, space: u8, reported: Reported, rtt: Option<Duration>) {
        let Some(path) = self.in_space(space) else { return };
        path.loss.note(now, reported.sent, reported.lost);
        path.throughput.note(now, reported.bytes);
        if let Some(rtt) = rtt {
            path.rtt.note(now, rtt);
        }
        path.reported = Some(now);
        path.unreported = None;
    }

    /// Whether frames other than reports were sent on a path since the last call.
    pub(super) fn take_activity(&mut self, path: &Path) -> bool {
        let path = self.paths.iter_mut().find(|p| p.path == *path);
        path.is_some_and(|p| std::mem::take(&mut p.is_active))
    }

    /// Reads the counters of the sessions, and notices unreported frames.
    pub(super) fn update(&mut self, now: Instant, sessions: &[Arc<Session>]) {
        for path in &mut self.paths {
            let sent = sessions.iter().map(|s| s.sent(path.space)).sum::<u64>();
            // The frames of an expired session are gone from the sum.
            let expired = path.sent.saturating_sub(sent);
            path.unreported = path.unreported.map(|(at, before)| (at, before.saturating_sub(expired)));
            let is_active = sent > path.sent + std::mem::take(&mut path.exempt);
            if is_active && path.unreported.is_none() {
                path.unreported = Some((now, path.sent));
            }
            path.is_active |= is_active;
            path.sent = sent;
        }
    }

    /// Spaces whose loss counters start again now (`true`, once each), and those in which missing frames count as lost
    /// from now on (`false`).
    pub(super) fn baseline_resets(&mut self, now: Instant) -> Vec<(u8, bool)> {
        let due = |path: &mut MonitoredPath| {
            if std::mem::take(&mut path.needs_baseline) {
                path.baseline_reset = Some(now);
                return Some((path.space, true));
            }
            let is_over = path.baseline_reset.is_some_and(|at| now.saturating_since(at) >= BASELINE_LIFETIME);
            is_over.then(|| {
                path.baseline_reset = None;
                (path.space, false)
            })
        };
        self.paths.iter_mut().filter_map(due).collect()
    }

    /// Forgets the unreported frames of all paths over a link; gives these paths.
    pub(super) fn reset_paths_over(&mut self, own: Member, link: (Member, Member)) -> impl Iterator<Item = Path> + '_ {
        let over = self.paths.iter_mut().filter(move |p| p.path.links(own).any(|of_path| of_path == link));
        over.map(|path| {
            (path.unreported, path.needs_baseline) = (None, true);
            path.path
        })
    }

    /// Paths with unreported frames to probe now: few frames are no evidence, and a sender whose frames are lost sends
    /// few.
    pub(super) fn poll_probes(&mut self, now: Instant) -> Vec<(Path, u8)> {
        let pace = self.pace;
        let is_due = |path: &&mut MonitoredPath| {
            let unreported_for = path.unreported_for(now);
            let interval = if unreported_for < BROKEN_AFTER { pace.quiet_interval } else { BROKEN_PROBE_INTERVAL };
            unreported_for > pace.quiet && path.probed.is_none_or(|at| now.saturating_since(at) >= interval)
        };
        let due = self.paths.iter_mut().filter(is_due);
        due.map(|path| {
            path.probed = Some(now);
            (path.path, path.space)
        })
        .collect()
    }

    /// Routes with overdue reports whose destinations are to be probed by an alternate path; `queued`: queueing delay
    /// of what comes from there.
    pub(super) fn poll_alternate_probes(&mut self, now: Instant, queued: Duration) -> Vec<Path> {
        let (in_use, pace) = (&self.in_use, self.pace);
        let is_due = |path: &mut MonitoredPath| {
            let overdue_after = pace.quiet + path.rtt.min().unwrap_or(BUSY.quiet);
            let is_overdue = in_use.contains(&path.space) && path.unreported_for(now) > overdue_after;
            (is_overdue && path.alternate.is_due(now, queued)).then_some(path.path)
        };
        self.paths.iter_mut().filter_map(is_due).collect()
    }

    /// Paths on which the destination has reported lately.
    pub(super) fn working(&self, now: Instant) -> impl Iterator<Item = Path> + '_ {
        let silence = self.pace.silence;
        let is_current = move |p: &&MonitoredPath| p.reported.is_some_and(|at| now.saturating_since(at) < silence);
        self.paths.iter().filter(is_current).map(|p| p.path)
    }

    /// Round trips of the last minutes.
    pub(super) fn round_trips(&self, now: Instant) -> impl Iterator<Item = PathRoundTrip> + '_ {
        let silence = self.pace.silence;
        let known = move |path: &MonitoredPath| {
            let age = now.saturating_since(path.reported?);
            let rtt = path.rtt.min().filter(|_| age < ROUND_TRIP_LIFETIME)?;
            Some(PathRoundTrip { path: path.path, rtt, is_current: age < silence })
        };
        self.paths.iter().filter_map(known)
    }

    /// Notes whether the round trip of a path is longer than advertised; gives since when it has been.
    pub(super) fn note_longer(&mut self, now: Instant, path: &Path, is_longer: bool) -> Option<Instant> {
        let path = self.paths.iter_mut().find(|p| p.path == *path)?;
        path.longer_since = if is_longer { path.longer_since.or(Some(now)) } else { None };
        path.longer_since
    }

    /// End-to-end observations of all paths with enough frames.
    pub(super) fn observations(&self, now: Instant) -> Vec<(Path, Observation)> {
        let of = |path: &MonitoredPath| {
            let timeout = self.pace.silence + path.rtt.min().unwrap_or(BUSY.silence) * 2;
            let is_silent = |(at, before): &(Instant, u64)| {
                now.saturating_since(*at) > timeout && path.sent.saturating_sub(*before) >= SILENT_FRAMES_MIN
            };
            if path.unreported.as_ref().is_some_and(is_silent) {
                return Some((path.path, Observation::Silent));
            }
            let loss = path.loss.latest(now);
            (loss.frames >= OBSERVED_FRAMES_MIN).then_some((path.path, Observation::Loss(loss)))
        };
        self.paths.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_in_use_is_given_to_no_other_path() {
        let path = |relay: u32| Path::via(&[Member(relay)], Member(9)).unwrap();
        let mut monitor = PathMonitor::default();
        let used = [monitor.space_of(path(100)), monitor.space_of(path(101))];
        monitor.in_use = used.to_vec();
        let others: Vec<u8> = (0..100).map(|i| monitor.space_of(path(200 + i))).collect();
        let range = FIRST_SPACE..FIRST_SPACE + SPACES;
        assert!(others.iter().all(|s| !used.contains(s) && range.contains(&usize::from(*s))));
        assert_eq!([monitor.space_of(path(100)), monitor.space_of(path(101))], used);
        assert_eq!(others.iter().collect::<std::collections::BTreeSet<_>>().len(), SPACES - 2, "all others take turns");
        assert_eq!(monitor.space_of(Path::direct(Member(9))), 0);
    }
}
