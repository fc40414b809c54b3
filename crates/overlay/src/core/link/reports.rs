//! What each end of a link tells the other of what arrived: how often, by which ways, and what is learnt from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use route::{Member, Path};
use units::Instant;
use wire::overlay::{Message, REPORTS_MAX, SPACE_DIRECT, SPACE_PROBES, SPACE_RELAYED, SPACE_SENSOR, SpaceReport};

use super::SILENCE;
use crate::core::{Core, micros};
use crate::estimators::Gaps;
use crate::loss::Change;
use crate::session::{SPACES, Session};

/// How often a member is told what arrived of its frames, as long as some do, where few reports are lost.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(100);
/// And at most so often, however many are lost: little more than a tick.
const REPORT_AT_MOST_EVERY: Duration = Duration::from_millis(25);
/// How improbable it shall be that all reports of the time after which silence is taken for a link that is down were lost.
const ALL_REPORTS_LOST: f64 = 1e-9;
/// How much later than its first hop the end of a way tells of losses, at most: half a second beyond the first hop, and three half-lives of what is
/// counted of the latest, by which it has faded.
const WORST_SPAN: Duration = Duration::from_secs(2);
/// A frame that had come so long before a report of it, microseconds, tells what the way is now.
const STILL_OF_NOW: u32 = 1_000_000;

/// What is counted of a session.
#[derive(Default)]
pub(super) struct Sensed {
    /// When the number of frames that arrived last grew, and that number.
    pub(super) heard: Option<(Instant, u64)>,
    pub(super) incoming: [Gaps; 3],
    pub(super) outgoing: [Gaps; SPACES],
    /// Bytes that had arrived by the last report. Each session counts its own, and for a while there are two.
    arrived: [u64; SPACES],
    /// Frames that had arrived when the last report was made, packet number space by packet number space.
    reported: [u64; SPACES],
    /// Of those that have arrived since, how many are reports, which nothing needs to be said of.
    heard_reports: [u64; SPACES],
    /// Reports sent over relays.
    pub(super) told: u64,
    /// The way back of each packet number space over relays.
    pub(super) back: [Option<Path>; SPACES],
    /// Bytes to and from the member that the link's totals have already.
    pub(super) bytes: [u64; 2],
}

/// Time between two reports that go a way on which this share is lost, so that silence means more than bad luck.
fn report_every(loss: f64) -> Duration {
    let needed = ALL_REPORTS_LOST.ln() / loss.clamp(f64::MIN_POSITIVE, 1.0 - 1e-9).ln();
    SILENCE.div_f64(needed.max(1.0)).clamp(REPORT_AT_MOST_EVERY, REPORT_EVERY)
}

impl Sensed {
    /// Notices whether something came in the session.
    pub(super) fn update(&mut self, now: Instant, session: &Session) {
        let arrived = session.arrivals.iter().map(|a| a.counts().1).sum();
        if self.heard.is_none_or(|(_, before)| before != arrived) {
            self.heard = Some((now, arrived));
        }
    }

    /// The ways back of packet number spaces in which something arrived since the last time. `has_spoken`: whether more than reports was sent on a way over relays meanwhile: else
    /// both ends would go on reporting each other's reports for ever.
    fn paths_with_news(
        &mut self,
        session: &Session,
        member: Member,
        mut has_spoken: impl FnMut(&Path) -> bool,
    ) -> Vec<Path> {
        let mut paths = Vec::new();
        let counts = self.reported.iter_mut().zip(&mut self.heard_reports);
        for ((arrivals, (before, reports)), (space, back)) in
            session.arrivals.iter().zip(counts).zip((0..).zip(&self.back))
        {
            let (_, received) = arrivals.counts();
            let came = received.saturating_sub(std::mem::replace(before, received));
            let reports = std::mem::take(reports);
            let path = if space <= SPACE_RELAYED { Some(Path::direct(member)) } else { *back };
            let is_told = |path: &Path| came > 0 && (space <= SPACE_RELAYED || came > reports || has_spoken(path));
            let Some(path) = path.filter(is_told) else { continue };
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }
}

impl Core {
    /// What a report says about frames that went to `from`; `by`: the session and the packet number space that it came in.
    pub(in crate::core) fn on_report(&mut self, now: Instant, from: Member, by: (u32, u8), spaces: &[SpaceReport]) {
        let ((session, came_in), mtu) = (by, u64::from(self.settings.mtu));
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(of) = peer.sessions.iter().find(|s| s.local == session) else { return };
        let link = &mut peer.link;
        let (mut is_worse, mut queued) = (false, None);
        let sensed = link.sensed.entry(session).or_default();
        if let Some(heard) = sensed.heard_reports.get_mut(usize::from(came_in)) {
            *heard += 1;
        }
        for space in spaces {
            let Some(gaps) = sensed.outgoing.get_mut(usize::from(space.space)) else { continue };
            // What was never sent cannot have arrived.
            if space.sent > of.sent(space.space) || space.received > space.sent {
                continue;
            }
            let rtt = micros(now).wrapping_sub(space.echo).wrapping_sub(space.held);
            // Times of 35 minutes and more are those of a clock that is not ours.
            let rtt = (rtt < 1 << 31).then(|| Duration::from_micros(u64::from(rtt)));
            let (sent, lost) = gaps.note(space.sent, space.received);
            let is_of_link = space.space <= SPACE_RELAYED && came_in == SPACE_DIRECT;
            // A report that came over relays may have come sooner than by the link itself; all that this one says may then be known, but for the time that it
            // took. What was sent long ago says nothing about now, and by then the two clocks have run apart.
            let is_of_now = sent > 0 || space.held < STILL_OF_NOW;
            if let Some(rtt) = rtt.filter(|_| is_of_link && is_of_now) {
                link.rtt.note(now, rtt);
            }
            if sent == 0 {
                continue;
            }
            let before = std::mem::replace(&mut sensed.arrived[usize::from(space.space)], space.bytes);
            // No more than so many frames can have carried: others' ways are judged by it, too.
            let bytes = space.bytes.saturating_sub(before).min((sent - lost) * mtu);
            self.traffic.note(now, bytes);
            if space.space == SPACE_SENSOR {
                link.outgoing.loss.note_probes(now, sent, lost);
                continue;
            }
            if space.space > SPACE_RELAYED {
                peer.spaces.on_report(now, space.space, (sent, lost, bytes), rtt);
                continue;
            }
            let change = link.outgoing.loss.note(now, sent, lost);
            link.worst_to.note_or_reset(now, WORST_SPAN, link.outgoing.loss.latest(now).share, f64::max);
            if change == Some(Change::More) {
                // What is lost of late may be what has become too large.
                peer.sizes.doubt(now);
                is_worse = true;
            }
            // A report by another way may be the first to tell of frames that arrived long ago.
            link.outgoing.was_alive(now - Duration::from_micros(u64::from(space.held)));
            if space.space == SPACE_DIRECT {
                link.carried.note(now, bytes);
            }
            queued = queued.max(Some(Duration::from_micros(u64::from(space.queued))));
        }
        link.queued = queued.unwrap_or(link.queued);
        if is_worse {
            self.alert(now);
        }
    }

    /// Tells a member what arrived of its frames, each by the way that it came: so an answer says that the way works in both directions.
    pub(super) fn report(&mut self, now: Instant, member: Member) {
        let Some(peer) = self.peers.get_mut(&member) else { return };
        if peer.link.next_report.is_some_and(|at| now < at) {
            return;
        }
        // Each end may send with another session than it receives with, and for a while with two.
        let mut news = Vec::new();
        for session in peer.sessions.iter().filter(|s| s.confirmed.load(Ordering::Relaxed)) {
            let sensed = peer.link.sensed.entry(session.local).or_default();
            let paths = sensed.paths_with_news(session, member, |path| peer.spaces.has_spoken(path));
            news.extend(paths.into_iter().map(|path| (Arc::clone(session), path)));
        }
        // The worst of late counts where nothing else tells that the member is alive: a queue that overflows drops what is said directly for a moment only.
        let loss = |path: &Path| {
            if path.relays().is_empty() {
                return peer.link.worst_loss_to();
            }
            peer.spaces.loss_on(path).unwrap_or_else(|| peer.link.tx_loss())
        };
        if let Some(every) = news.iter().map(|(_, path)| report_every(loss(path))).min() {
            // From when it was due, so that ticks do not make it rarer; after a rest from now.
            let due = peer.link.next_report.filter(|at| now.saturating_since(*at) < every).unwrap_or(now);
            peer.link.next_report = Some(due + every);
        }
        let direct = Path::direct(member);
        if let Some(session) = news.iter().find(|(_, path)| *path == direct).map(|(session, _)| Arc::clone(session)) {
            let alternate = self.alternate_path_for_report(now, member);
            let alternate = alternate.filter(|alternate| news.iter().all(|(_, path)| path != alternate));
            news.extend(alternate.map(|path| (session, path)));
        }
        let mut queued_from = 0;
        for (session, path) in news {
            let space = self.peers.get_mut(&member).map_or(SPACE_DIRECT, |o| o.spaces.of(path));
            let told = session.arrivals.iter().zip(0..).filter(|(_, space)| *space != SPACE_PROBES);
            let spaces: Vec<_> = told.filter_map(|(a, space)| a.report(space, micros(now))).take(REPORTS_MAX).collect();
            // Each delay is told once, in the first of them.
            queued_from = spaces.iter().map(|l| l.queued).fold(queued_from, u32::max);
            let bytes = Message::Report(spaces).encode();
            self.send_with(now, &session, path, space, &bytes);
            let Some(peer) = self.peers.get_mut(&member) else { continue };
            peer.link.queued_from = Duration::from_micros(u64::from(queued_from));
            if path.relays().is_empty() {
                // Nor is what is said of traffic: a slow link needs all the probes that it pays for.
                peer.link.probing.note_report();
            } else {
                peer.link.sensed.entry(session.local).or_default().told += 1;
                peer.spaces.note_unacknowledged(space);
            }
        }
    }
}
