//! Reports: each end of a link tells the other one which frames arrived, on each path by which they came.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use route::{Member, Path};
use units::Instant;
use wire::overlay::{Message, REPORTS_MAX, SPACE_DIRECT, SPACE_PROBES, SPACE_RELAYED, SPACE_SENSOR, SpaceReport};

use super::Link;
use crate::core::micros;
use crate::core::network::Network;
use crate::core::pace::BUSY;
use crate::core::paths::Reported;
use crate::core::peer::Peer;
use crate::estimators::Gaps;
use crate::loss::Change;
use crate::session::{SPACES, Session};

/// Interval of the reports to a peer that sends frames, where few reports are lost.
pub(in crate::core) const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum interval, however many are lost: little more than a tick.
const REPORT_INTERVAL_MIN: Duration = Duration::from_millis(25);
/// Acceptable probability that all reports of the time that takes a link down are lost.
const ALL_LOST_PROBABILITY: f64 = 1e-9;
/// Span of the worst recent loss: the end of a path reports losses at most half a second later than the first hop, and
/// three half-lives of the latest counts are over by then.
const WORST_LOSS_SPAN: Duration = Duration::from_secs(2);
/// Time between arrival and report, microseconds, above which a report no longer measures the round trip of the path:
/// the clocks have drifted.
const HELD_MAX_US: u32 = 1_000_000;

/// Counts of one session with the peer.
#[derive(Default)]
pub(super) struct SessionCounts {
    /// Time of the last arrival, and the number of arrivals then.
    pub(super) last_arrival: Option<(Instant, u64)>,
    pub(super) incoming: [Gaps; 3],
    pub(super) outgoing: [Gaps; SPACES],
    /// Bytes that had arrived at the peer by its last report, by number space.
    arrived_bytes: [u64; SPACES],
    /// Frames that had arrived at the last report of this member, by number space.
    reported: [u64; SPACES],
    /// Reports among the frames that arrived since: these need no report.
    reports_received: [u64; SPACES],
    /// Reports sent over relays.
    pub(super) relayed_reports: u64,
    /// Return path of each number space of paths over relays.
    pub(super) return_paths: [Option<Path>; SPACES],
    /// Bytes sent and received that the totals of the link already have.
    pub(super) bytes: [u64; 2],
}

/// Effects of a report beyond the link.
#[derive(Debug, Default)]
pub(in crate::core) struct ReportEffects {
    /// The loss to the peer has become larger.
    pub(in crate::core) is_worse: bool,
    /// Bytes of own frames that arrived, if the report is about new frames.
    pub(in crate::core) arrived_bytes: Option<u64>,
}

/// Interval of reports on a path with this loss, so that a silence of [`BUSY`] is no chance.
fn report_interval(loss: f64) -> Duration {
    let needed = ALL_LOST_PROBABILITY.ln() / loss.clamp(f64::MIN_POSITIVE, 1.0 - 1e-9).ln();
    BUSY.silence.div_f64(needed.max(1.0)).clamp(REPORT_INTERVAL_MIN, REPORT_INTERVAL)
}

impl SessionCounts {
    /// Notices arrivals in the session.
    pub(super) fn update(&mut self, now: Instant, session: &Session) {
        let arrived = session.arrivals.iter().map(|a| a.counts().1).sum();
        if self.last_arrival.is_none_or(|(_, before)| before != arrived) {
            self.last_arrival = Some((now, arrived));
        }
    }

    /// Return paths of the spaces with arrivals since the last call. `is_active`: whether more than reports was sent on
    /// a path over relays since: otherwise both ends would report each other's reports for ever.
    fn paths_to_report(
        &mut self,
        session: &Session,
        member: Member,
        mut is_active: impl FnMut(&Path) -> bool,
    ) -> Vec<Path> {
        let mut paths = Vec::new();
        let counts = self.reported.iter_mut().zip(&mut self.reports_received);
        let spaces = (0..).zip(&self.return_paths);
        for ((arrivals, (reported, reports)), (space, return_path)) in session.arrivals.iter().zip(counts).zip(spaces) {
            let (_, received) = arrivals.counts();
            let new = received.saturating_sub(std::mem::replace(reported, received));
            let reports = std::mem::take(reports);
            let path = if space <= SPACE_RELAYED { Some(Path::direct(member)) } else { *return_path };
            let is_due = |path: &Path| new > 0 && (space <= SPACE_RELAYED || new > reports || is_active(path));
            let Some(path) = path.filter(is_due) else { continue };
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }
}

/// The peer reports on frames of this member. `session` and `came_in`: local session number and number space of the
/// report; `frame_max`: bytes of the largest frame.
pub(in crate::core) fn on_report(
    now: Instant,
    peer: &mut Peer,
    (session, came_in): (u32, u8),
    reports: &[SpaceReport],
    frame_max: u64,
) -> ReportEffects {
    let mut effects = ReportEffects::default();
    let Some(of) = peer.sessions.iter().find(|s| s.local == session) else { return effects };
    let link = &mut peer.link;
    let counts = link.counts.entry(session).or_default();
    if let Some(received) = counts.reports_received.get_mut(usize::from(came_in)) {
        *received += 1;
    }
    let mut queued = None;
    for report in reports {
        let Some(gaps) = counts.outgoing.get_mut(usize::from(report.space)) else { continue };
        // Frames that were never sent cannot have arrived.
        if report.sent > of.sent(report.space) || report.received > report.sent {
            continue;
        }
        let (sent, lost) = gaps.note(report.sent, report.received);
        let rtt = round_trip(now, report);
        // A report over relays may be the first one about frames of the direct link. The later direct report still
        // measures the round trip.
        let is_direct = report.space <= SPACE_RELAYED && came_in == SPACE_DIRECT;
        if let Some(rtt) = rtt.filter(|_| is_direct && (sent > 0 || report.held < HELD_MAX_US)) {
            link.rtt.note(now, rtt);
        }
        if sent == 0 {
            continue;
        }
        let before = std::mem::replace(&mut counts.arrived_bytes[usize::from(report.space)], report.bytes);
        // The frames bound the bytes, by which other paths are judged, too.
        let bytes = report.bytes.saturating_sub(before).min((sent - lost) * frame_max);
        *effects.arrived_bytes.get_or_insert(0) += bytes;
        if report.space == SPACE_SENSOR {
            link.outgoing.loss.note_probes(now, sent, lost);
            continue;
        }
        if report.space > SPACE_RELAYED {
            peer.paths.on_report(now, report.space, Reported { sent, lost, bytes }, rtt);
            continue;
        }
        let change = link.outgoing.loss.note(now, sent, lost);
        link.worst_tx_loss.note_or_reset(now, WORST_LOSS_SPAN, link.outgoing.loss.latest(now).share, f64::max);
        if change == Some(Change::More) {
            // The path MTU may have become smaller.
            peer.path_mtu.confirm(now);
            effects.is_worse = true;
        }
        // A report by another path may be the first to tell of frames that arrived long ago.
        link.outgoing.note_arrival(now - Duration::from_micros(u64::from(report.held)));
        if report.space == SPACE_DIRECT {
            link.throughput.note(now, bytes);
        }
        queued = queued.max(Some(Duration::from_micros(u64::from(report.queued))));
    }
    link.queued_to = queued.unwrap_or(link.queued_to);
    effects
}

/// Round trip of the frame that a report echoes; `None`: its time stamp is of another clock.
fn round_trip(now: Instant, report: &SpaceReport) -> Option<Duration> {
    let rtt = micros(now).wrapping_sub(report.echo).wrapping_sub(report.held);
    (rtt < 1 << 31).then(|| Duration::from_micros(u64::from(rtt)))
}

/// Paths on which a report to the peer is due now, each with its session, and schedules the next report.
fn due_reports(now: Instant, peer: &mut Peer, member: Member) -> Vec<(Arc<Session>, Path)> {
    let Peer { link, paths, sessions, .. } = peer;
    if link.next_report.is_some_and(|at| now < at) {
        return Vec::new();
    }
    // Each end may send in another session than it receives in, and for a while in two.
    let mut due = Vec::new();
    for session in sessions.iter().filter(|s| s.confirmed.load(Ordering::Relaxed)) {
        let counts = link.counts.entry(session.local).or_default();
        let to_report = counts.paths_to_report(session, member, |path| paths.take_activity(path));
        due.extend(to_report.into_iter().map(|path| (Arc::clone(session), path)));
    }
    // The worst recent loss counts, if nothing else shows that the peer is alive: an overflowing queue drops direct
    // frames for a moment only.
    let loss = |link: &Link, path: &Path| {
        if path.relays().is_empty() {
            return link.worst_tx_loss();
        }
        paths.get(path).map_or_else(|| link.tx_loss(), |p| p.loss.estimate().share)
    };
    let interval = due.iter().map(|(_, path)| report_interval(loss(link, path))).min();
    if let Some(interval) = interval.map(|i| link.pace.report_interval.unwrap_or(i)) {
        // Relative to the time that was due, so that ticks do not lengthen the interval; after a pause relative to now.
        let was_due = link.next_report.filter(|at| now.saturating_since(*at) < interval).unwrap_or(now);
        link.next_report = Some(was_due + interval);
    }
    due
}

/// Sends a member the reports that are due, on each path by which its frames came: a report also shows that the path
/// works in both directions. `alternate`: another path for a copy of the direct report.
pub(in crate::core) fn send_reports(
    now: Instant,
    net: &mut Network,
    member: Member,
    alternate: impl FnOnce(&mut Network) -> Option<Path>,
) {
    let Some(peer) = net.peers.get_mut(&member) else { return };
    let mut due = due_reports(now, peer, member);
    let direct = Path::direct(member);
    if let Some(session) = due.iter().find(|(_, path)| *path == direct).map(|(session, _)| Arc::clone(session)) {
        let alternate = alternate(net).filter(|alternate| due.iter().all(|(_, path)| path != alternate));
        due.extend(alternate.map(|path| (session, path)));
    }
    let mut queued_from = 0;
    for (session, path) in due {
        let space = net.space_of(path);
        let arrivals = session.arrivals.iter().zip(0..).filter(|(_, space)| *space != SPACE_PROBES);
        let reports: Vec<_> =
            arrivals.filter_map(|(a, space)| a.report(space, micros(now))).take(REPORTS_MAX).collect();
        // A queueing delay is in the first report after it.
        queued_from = reports.iter().map(|r| r.queued).fold(queued_from, u32::max);
        net.send_in(now, &session, path, space, &Message::Report(reports).encode());
        let Some(peer) = net.peers.get_mut(&member) else { continue };
        peer.link.queued_from = Duration::from_micros(u64::from(queued_from));
        if path.relays().is_empty() {
            peer.link.probes.note_report();
        } else {
            peer.link.counts.entry(session.local).or_default().relayed_reports += 1;
            peer.paths.note_exempt(space);
        }
    }
}
