//! Routing of this member: the route control with its inputs, and the routes of the forwarding table.

use std::collections::BTreeMap;
use std::time::Duration;

use route::{Decision, Load, Member, Metrics, Path, Policy, Record, Recorder, Weighted};
use units::{Bytes, Instant, Rate};
use wire::overlay::gossip::UNBOUNDED;

use super::capacity;
use super::network::Network;
use crate::settings::{PolicyName, Settings};
use crate::table::Route;

/// IPv4 and TCP headers with timestamps.
const TCP_HEADERS: u64 = 52;
/// Interval at which the core is given the counts of flows.
pub(crate) const FLOWS_INTERVAL: Duration = Duration::from_millis(100);
/// The first decisions wait so long for own links: two handshakes, one datagram of which was lost, on a path of 300 ms.
const FIRST_LINKS_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval at which shares of flows are compared with the predictions of their routes.
const SHARES_INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Routing {
    own: Member,
    control: Recorder,
    /// Rate that each member forwards for each other one at most, b/s.
    relayed_bps: BTreeMap<Member, u64>,
    started: Instant,
    shares_checked: Option<Instant>,
}

/// The rules of the route control by the settings.
pub(crate) fn policy(settings: &Settings) -> Policy {
    let mut policy = settings.rules();
    if settings.policy == PolicyName::Default {
        // A link without a measured capacity is taken for one that is too fast to measure.
        policy.unknown_capacity = capacity::fastest(settings);
    }
    policy.mss = Bytes::new(u64::from(settings.mtu) - TCP_HEADERS);
    policy
}

impl Routing {
    /// `None`: the route control does not accept the settings.
    pub(super) fn new(settings: &Settings, own: Member, now: Instant) -> Option<Self> {
        let control = Recorder::new(own, policy(settings), settings.record.is_some()).ok()?;
        let mut routing = Self { own, control, relayed_bps: BTreeMap::new(), started: now, shares_checked: None };
        for member in settings.members.get().keys() {
            routing.add_member(now, *member).ok()?;
        }
        Some(routing)
    }

    /// The first line of the decision log.
    pub(super) fn log_header(&self) -> route::Begin {
        self.control.begin()
    }

    /// The next line of the decision log.
    pub(super) fn poll_record(&mut self) -> Option<Record> {
        self.control.poll_record()
    }

    pub(super) fn policy(&self) -> &Policy {
        self.control.inner().policy()
    }

    /// The explanation of the routes to a member.
    pub(super) fn why(&self, member: Member) -> Option<route::Explanation> {
        self.control.inner().why(member)
    }

    /// The routes to a member, best first.
    pub(super) fn routes(&self, member: Member) -> &[Weighted] {
        self.control.inner().paths(member)
    }

    /// Adds a member, which relays as far as is known.
    pub(super) fn add_member(&mut self, now: Instant, member: Member) -> Result<(), route::Error> {
        self.control.handle(route::Event::Member { at: now, member, relays: Some(true) })
    }

    /// Forgets a member with its links.
    pub(super) fn remove_member(&mut self, now: Instant, member: Member) {
        self.relayed_bps.remove(&member);
        self.handle(route::Event::Member { at: now, member, relays: None });
    }

    /// A member advertises the rate that it forwards for each other one. Says whether it is another one.
    pub(super) fn set_relayed(&mut self, now: Instant, member: Member, bps: u64) -> bool {
        let is_new = self.relayed_bps.insert(member, bps) != Some(bps);
        if is_new {
            self.handle(route::Event::Member { at: now, member, relays: Some(bps > 0) });
        }
        is_new
    }

    /// Rate that a member forwards for each other one, b/s, as far as is known.
    #[cfg(test)]
    pub(super) fn relayed_bps(&self, member: Member) -> Option<u64> {
        self.relayed_bps.get(&member).copied()
    }

    /// Whether a member forwards, as far as is known.
    pub(super) fn relays(&self, member: Member) -> bool {
        self.relayed_bps.get(&member).is_none_or(|bps| *bps > 0)
    }

    /// Sets the metrics of a link; `None`: it is down. The capacity of another member's link is at most what that
    /// member forwards.
    pub(super) fn set_link(&mut self, now: Instant, (from, to): (Member, Member), metrics: Option<Metrics>) {
        let relayed = self.relayed_bps.get(&from).filter(|bps| from != self.own && **bps != UNBOUNDED);
        let relayed = relayed.map(|bps| Rate::from_bps(*bps));
        let metrics = metrics.map(|m| Metrics { capacity: relayed.into_iter().chain(m.capacity).min(), ..m });
        self.handle(route::Event::Link { at: now, from, to, metrics });
    }

    /// The link to a peer is down in both directions.
    pub(super) fn remove_link(&mut self, now: Instant, peer: Member) {
        self.set_link(now, (self.own, peer), None);
        self.set_link(now, (peer, self.own), None);
    }

    /// Sets the number of elephant flows of each route, and the throughput by the destination's reports. Mice are too
    /// short to be moved.
    pub(super) fn set_loads(&mut self, now: Instant, net: &Network, elephants: &[(Path, u32)]) {
        for (path, flows) in elephants {
            let Some(peer) = net.peers.get(&path.destination()) else { continue };
            let monitored = peer.paths.get(path);
            let carried = monitored.map_or_else(|| peer.link.throughput(now), |p| p.throughput.rate(now));
            self.handle(route::Event::Load { at: now, path: *path, load: Load { flows: *flows, carried } });
        }
    }

    /// Whether the forwarding table has outdated shares of flows; checked once a second.
    pub(super) fn has_stale_shares(&mut self, now: Instant, net: &Network) -> bool {
        if self.shares_checked.is_some_and(|at| now.saturating_since(at) < SHARES_INTERVAL) {
            return false;
        }
        self.shares_checked = Some(now);
        net.peers.iter().any(|(member, peer)| {
            let routes = self.routes(*member);
            // A single route gets all flows.
            routes.len() > 1 && routes.iter().any(|route| peer.paths.is_stale(route))
        })
    }

    /// Lets the route control decide. A new member waits for its own links first, as gossip tells it of others' links
    /// before it has found them.
    pub(super) fn decide(&mut self, now: Instant, net: &Network) -> Vec<Decision> {
        let waits = net.peers.iter().any(|(m, p)| net.is_direct(*m) && !p.link.is_up());
        if waits && now.saturating_since(self.started) < FIRST_LINKS_TIMEOUT {
            return Vec::new();
        }
        self.handle(route::Event::Timeout { at: now });
        std::iter::from_fn(|| self.control.poll_decision()).collect()
    }

    /// Routes to a member for the forwarding table, as far as sessions and addresses exist; `packet_max`: largest inner
    /// packet on a path, bytes.
    pub(super) fn table_routes(
        &self,
        net: &mut Network,
        member: Member,
        packet_max: impl Fn(&Network, &Path) -> usize,
    ) -> Vec<Route> {
        let chosen = self.routes(member);
        let routes: Vec<Route> = chosen.iter().filter_map(|route| table_route(net, route, &packet_max)).collect();
        let in_table: Vec<(Path, u8)> = routes.iter().map(|r| (r.path, r.space)).collect();
        if let Some(peer) = net.peers.get_mut(&member) {
            peer.paths.set_routes(&in_table, chosen);
        }
        routes
    }

    /// Only links and loads of members that left can be refused, and then nothing changes.
    fn handle(&mut self, event: route::Event) {
        if let Err(e) = self.control.handle(event) {
            tracing::debug!("{e}");
        }
    }
}

fn table_route(net: &mut Network, chosen: &Weighted, packet_max: impl Fn(&Network, &Path) -> usize) -> Option<Route> {
    let path = chosen.path;
    let space = net.peers.get_mut(&path.destination())?.paths.space_of(path);
    Some(Route {
        space,
        weight: chosen.weight,
        predicted_bps: chosen.predicted.as_bps(),
        capacity_bps: chosen.capacity.as_bps(),
        throughput_bps: chosen.carried.as_bps(),
        most: packet_max(net, &path),
        to: net.peers.get(&path.first_hop())?.endpoint.current?,
        end: net.session(path.destination())?,
        hop: net.session(path.first_hop())?,
        path,
    })
}
