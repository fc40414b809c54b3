//! Alternate paths for probes and reports. Reports may be lost alone, in a queue that a flow fills on their way back;
//! each report covers all number spaces, so that one on another path says what arrived by the first. The alternate path
//! comes from the link-state database without a search, as many peers may be silent at once.

use std::collections::BTreeSet;
use std::time::Duration;

use route::{Member, Path};
use units::Instant;
use wire::overlay::Message;

use super::link_state::LinkState;
use super::network::Network;
use super::peer::Peer;
use super::routing::Routing;

/// Minimum interval between two probes, or two reports, by an alternate path.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time for which one first hop is preferred: a relay that forwards nothing is not used for ever.
const TURN: Duration = Duration::from_millis(200);
/// Queueing delay below which no queue drops all reports of half a second: a sender notices within a round trip that it
/// overflows, and slows down.
const FULL_QUEUE_DELAY: Duration = Duration::from_millis(50);
/// Time for which probes go on: the report by the alternate path comes first, and those in the queue say nothing new
/// then.
const PERSISTENCE: Duration = Duration::from_secs(2);

/// Time of the last probe, or report, by an alternate path.
#[derive(Default)]
pub(super) struct AlternateProbeTimer(Option<Instant>);

impl AlternateProbeTimer {
    /// Whether to probe a silent peer now; `queued`: queueing delay of what comes from it. Without a queue reports
    /// neither wait nor are dropped in one.
    pub(super) fn is_due(&mut self, now: Instant, queued: Duration) -> bool {
        let goes_on = self.0.is_some_and(|at| now.saturating_since(at) < PERSISTENCE);
        (queued >= FULL_QUEUE_DELAY || goes_on) && self.is_time(now)
    }

    /// Whether to report by an alternate path now; `queued`: queueing delay of direct reports.
    pub(super) fn is_due_in_queue(&mut self, now: Instant, queued: Duration) -> bool {
        queued >= FULL_QUEUE_DELAY && self.is_time(now)
    }

    fn is_time(&mut self, now: Instant) -> bool {
        let is_time = self.0.is_none_or(|at| now.saturating_since(at) >= INTERVAL);
        if is_time {
            self.0 = Some(now);
        }
        is_time
    }
}

/// Chooses alternate paths.
pub(super) struct AlternatePaths<'a> {
    pub(super) link_state: &'a LinkState,
    pub(super) routing: &'a Routing,
    /// Start of the member.
    pub(super) started: Instant,
}

impl AlternatePaths<'_> {
    /// The path for a copy of the direct report to a member, if one is due.
    pub(super) fn for_report(&self, now: Instant, net: &mut Network, member: Member) -> Option<Path> {
        if !net.peers.get_mut(&member)?.link.needs_alternate_report(now) {
            return None;
        }
        let path = self.path(net, &Path::direct(member), &self.first_hops(now, net))?;
        let peer = net.peers.get_mut(&member)?;
        peer.paths.space_of_exempt(path, &peer.sessions).map(|_| path)
    }

    /// Probes the peers of which no reports come, on links and routes.
    pub(super) fn probe(&self, now: Instant, net: &mut Network) {
        let due = |(member, p): (&Member, &mut Peer)| {
            let link = p.link.needs_alternate_probe(now).then(|| Path::direct(*member));
            p.paths.poll_alternate_probes(now, p.link.queued_from()).into_iter().chain(link).collect::<Vec<_>>()
        };
        let due: Vec<Path> = net.peers.iter_mut().flat_map(due).collect();
        if due.is_empty() {
            return;
        }
        let hops = self.first_hops(now, net);
        for path in due.iter().filter_map(|path| self.path(net, path, &hops)).collect::<Vec<_>>() {
            let Some(peer) = net.peers.get_mut(&path.destination()) else { continue };
            let Some(space) = peer.paths.space_of_exempt(path, &peer.sessions) else { continue };
            net.send(now, path, space, &Message::Probe.encode());
        }
    }

    /// Members with a link that is up; each is the first one in turn.
    fn first_hops(&self, now: Instant, net: &Network) -> Vec<Member> {
        let mut hops: Vec<Member> =
            net.peers.iter().filter(|(_, p)| p.link.is_up()).map(|(member, _)| *member).collect();
        let turns = now.saturating_since(self.started).as_nanos() / TURN.as_nanos();
        // The remainder is less than the number of hops.
        let first = (turns % hops.len().max(1) as u128) as usize;
        hops.rotate_left(first);
        hops
    }

    /// A path to the destination of `path` that shares no relay with it, of the fewest links that are up.
    fn path(&self, net: &Network, path: &Path, hops: &[Member]) -> Option<Path> {
        let to = path.destination();
        if !path.relays().is_empty() && hops.contains(&to) {
            return Some(Path::direct(to));
        }
        let is_up = |from, to| self.link_state.is_usable((from, to));
        let is_free = |m: Member| m != net.own && m != to && !path.relays().contains(&m) && self.routing.relays(m);
        let free = || hops.iter().copied().filter(|hop| is_free(*hop));
        if let Some(hop) = free().find(|hop| is_up(*hop, to)) {
            return Path::via(&[hop], to);
        }
        let last: BTreeSet<Member> =
            self.link_state.links().filter(|l| l.1 == to && is_free(l.0) && is_up(l.0, to)).map(|l| l.0).collect();
        let pair = free().find_map(|hop| Some([hop, *last.iter().find(|last| is_up(hop, **last))?]));
        Path::via(&pair?, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_peer_is_probed_where_there_is_a_queue_and_for_two_seconds_after_the_last_probe() {
        let start = Instant::from_nanos(1);
        let probes = |timer: &mut AlternateProbeTimer, from: u64, queued: u64| {
            let ticks = (from..from + 3000).step_by(20).map(|ms| start + Duration::from_millis(ms));
            ticks.filter(|now| timer.is_due(*now, Duration::from_millis(queued))).count()
        };
        let mut timer = AlternateProbeTimer::default();
        assert_eq!(probes(&mut timer, 0, 49), 0, "no queue delays or drops reports");
        assert_eq!(probes(&mut timer, 3000, 500), 30, "ten times a second");
        assert_eq!(probes(&mut timer, 6000, 0), 30, "each probe prolongs the time");
        assert_eq!(probes(&mut timer, 11_000, 0), 0, "there was a pause");
    }
}
