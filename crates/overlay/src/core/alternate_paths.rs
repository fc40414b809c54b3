//! Asks by another way where no answers come: they alone may be lost, in a queue that a flow fills on their way back. Who knows that his own queue is such a one answers
//! by another way unasked, as the other end may have none for its questions that does not lie behind a full queue as well. Each report tells of all packet number spaces, so that one
//! that comes another way says what has arrived by the first. That way is taken from the claims, not from a search: when much is silent at once, it must cost nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use route::{Member, Path};
use units::Instant;
use wire::overlay::Message;

use super::advertisements::Evidence;
use super::{Core, Peer};

/// How often the end of a way or a link that gives no answer is asked, and one whose answers are dropped answered by another way.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// For how long by the same relay first: one that passes nothing on is not asked for ever.
const TURN: Duration = Duration::from_millis(200);
/// What waits less than this meets no queue that drops all answers of half a second: a sender notices within a round trip that it overflows, and slows down.
const FILLED: Duration = Duration::from_millis(50);
/// For so long an end is asked on: what it tells by the other way comes sooner, so that all that waits in the queue says nothing new.
const ASKED_ON: Duration = Duration::from_secs(2);

/// When the end of a way or a link was last asked, or told, by another way.
#[derive(Default)]
pub(super) struct AlternateProbeTimer(Option<Instant>);

impl AlternateProbeTimer {
    /// Whether one that gives no answer is to be asked now; `queued`: for how long what comes from it has waited on its way. Where there is no queue, answers neither
    /// wait nor are dropped there.
    pub(super) fn is_due(&mut self, now: Instant, queued: Duration) -> bool {
        let is_asked_on = self.0.is_some_and(|at| now.saturating_since(at) < ASKED_ON);
        (queued >= FILLED || is_asked_on) && self.is_time(now)
    }

    /// Whether one whose answers wait so long, and may be dropped, is to be told by another way now.
    pub(super) fn is_due_in_queue(&mut self, now: Instant, queued: Duration) -> bool {
        queued >= FILLED && self.is_time(now)
    }

    fn is_time(&mut self, now: Instant) -> bool {
        let is_time = self.0.is_none_or(|at| now.saturating_since(at) >= ASK_EVERY);
        if is_time {
            self.0 = Some(now);
        }
        is_time
    }
}

impl Core {
    /// Another way by which a member is to be told now what arrives by the direct one.
    pub(super) fn alternate_path_for_report(&mut self, now: Instant, member: Member) -> Option<Path> {
        let peer = self.peers.get_mut(&member)?;
        if !peer.link.needs_alternate_report(now) {
            return None;
        }
        let path = self.alternate_path(&Path::direct(member), &self.first_hops(now))?;
        let peer = self.peers.get_mut(&member)?;
        peer.spaces.unacknowledged_space(path, &peer.sessions).map(|_| path)
    }

    /// Asks the ends of ways in use, and of links, of which no answer comes.
    pub(super) fn probe_by_alternate_paths(&mut self, now: Instant) {
        let is_due = |(member, o): (&Member, &mut Peer)| {
            let link = o.link.needs_alternate_probe(now).then(|| Path::direct(*member));
            o.spaces.overdue(now, o.link.queued_from()).into_iter().chain(link).collect::<Vec<_>>()
        };
        let due: Vec<Path> = self.peers.iter_mut().flat_map(is_due).collect();
        if due.is_empty() {
            return;
        }
        let hops = self.first_hops(now);
        for path in due.iter().filter_map(|path| self.alternate_path(path, &hops)).collect::<Vec<_>>() {
            let Some(peer) = self.peers.get_mut(&path.destination()) else { continue };
            let Some(space) = peer.spaces.unacknowledged_space(path, &peer.sessions) else { continue };
            // As what is said of traffic, it takes nothing from the probes that look for changes.
            self.send_on(now, path, space, &Message::Probe.encode());
        }
    }

    /// Members with a link that is up, in turns another one first.
    fn first_hops(&self, now: Instant) -> Vec<Member> {
        let up = self.peers.iter().filter(|(_, o)| o.link.is_up());
        let mut hops: Vec<Member> = up.map(|(member, _)| *member).collect();
        let turns = now.saturating_since(self.began).as_nanos() / TURN.as_nanos();
        // Less than their number.
        let first = (turns % hops.len().max(1) as u128) as usize;
        hops.rotate_left(first);
        hops
    }

    /// A way to the same member that shares no relay with this one, of as few links as there are that are up.
    fn alternate_path(&self, path: &Path, hops: &[Member]) -> Option<Path> {
        let to = path.destination();
        if !path.relays().is_empty() && hops.contains(&to) {
            return Some(Path::direct(to));
        }
        let is_silent = |link| self.suspected_links.get(&link).is_some_and(|s| matches!(s.found, Evidence::Silent));
        let is_up = |from, to| self.advertisement_of((from, to)).is_some() && !is_silent((from, to));
        let relays = |m: Member| self.relays.get(&m).is_none_or(|bps| *bps > 0);
        let is_free = |m: Member| m != self.own && m != to && !path.relays().contains(&m) && relays(m);
        let free = || hops.iter().copied().filter(|hop| is_free(*hop));
        if let Some(hop) = free().find(|hop| is_up(*hop, to)) {
            return Path::via(&[hop], to);
        }
        let ends = self.advertisements.keys().filter(|l| l.1 == to && is_free(l.0) && is_up(l.0, to));
        let last: BTreeSet<Member> = ends.map(|l| l.0).collect();
        let pair = free().find_map(|hop| Some([hop, *last.iter().find(|last| is_up(hop, **last))?]));
        Path::via(&pair?, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_is_asked_where_a_queue_is_and_on_when_the_answer_overtook_it() {
        let begin = Instant::from_nanos(1);
        let times = |asked: &mut AlternateProbeTimer, from: u64, queued: u64| {
            let ticks = (from..from + 3000).step_by(20).map(|ms| begin + Duration::from_millis(ms));
            ticks.filter(|now| asked.is_due(*now, Duration::from_millis(queued))).count()
        };
        let mut asked = AlternateProbeTimer::default();
        assert_eq!(times(&mut asked, 0, 49), 0, "nothing waits, so that no answer does");
        assert_eq!(times(&mut asked, 3000, 500), 30, "ten times a second");
        // Two seconds after each question: it goes on for as long as nobody stops it.
        assert_eq!(times(&mut asked, 6000, 0), 30);
        assert_eq!(times(&mut asked, 11_000, 0), 0, "it had rested");
    }
}
