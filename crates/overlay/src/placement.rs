//! The path of each flow: as before for a known flow, by its hash and the weights of the paths for a new one.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use packet::Flow;
use route::flows::{self, Active, FlowKey, RouteId, Share, spread_by};
use route::{Member, Path};
use units::{Bytes, Duration, Instant, Rate};
use wire::overlay::{CLASS_ELEPHANT, CLASS_MOUSE};

use crate::counters::{Counters, bump};
use crate::gauges::Queues;
use crate::table::{Route, Table};

/// Interval at which flows are counted.
const COUNT_INTERVAL: Duration = Duration::from_millis(300);
/// Gain in the share of an elephant flow that justifies its move to another path.
const REBALANCE_MARGIN: f64 = 0.5;

/// A path in the table: index of the peer, and of its path.
pub(crate) type Permit = (usize, usize);

/// The flows of one queue and their paths.
pub(crate) struct Placement {
    flows: flows::Table,
    /// Routing entry of each path in the flow table.
    routes: BTreeMap<Path, RouteId>,
    /// Place of each routing entry in the present table, by its index.
    permits: Vec<Option<Permit>>,
    /// Owner of each subnet, longest prefix first.
    owners: Vec<(IpNet, Member)>,
    secret: [u64; 2],
    queues: Queues,
    /// The last turn in which elephant flows were moved.
    turn: u64,
    counted: Instant,
}

fn key(flow: &Flow) -> FlowKey {
    let ends = [(flow.source, flow.source_port), (flow.destination, flow.destination_port)];
    FlowKey::new(ends[0], ends[1], flow.protocol, flow.dscp)
}

impl Placement {
    /// `secret`: the same for all queues of a member, so that a flow that comes by another queue takes the same path.
    pub(crate) fn new(queues: Queues, secret: [u64; 2]) -> Self {
        Self {
            flows: flows::Table::new(flows::Settings::default()),
            routes: BTreeMap::new(),
            permits: Vec::new(),
            owners: Vec::new(),
            secret,
            queues,
            turn: 0,
            counted: Instant::ZERO,
        }
    }

    /// Number of the queue.
    pub(crate) const fn queue(&self) -> u8 {
        self.queues.own
    }

    /// Makes the flow table point to the paths of a new table. Flows of a path that is gone take the best path to their
    /// destination.
    pub(crate) fn take_table(&mut self, table: &Table) {
        let mut present: BTreeMap<Path, Permit> = BTreeMap::new();
        for (peer, p) in table.peers.iter().enumerate() {
            present.extend(p.routes.iter().enumerate().map(|(route, w)| (w.path, (peer, route))));
        }
        for path in present.keys() {
            if !self.routes.contains_key(path)
                && let Some(id) = self.flows.add_route(*path)
            {
                self.routes.insert(*path, id);
            }
        }
        let heir = |path: &Path| {
            let best = table.peer(path.destination())?.routes.first()?;
            self.routes.get(&best.path).copied()
        };
        let gone = self.routes.iter().filter(|(path, _)| !present.contains_key(path));
        let gone = Vec::from_iter(gone.map(|(path, id)| (*id, heir(path))));
        self.flows.remove_routes(&gone);
        self.routes.retain(|path, _| present.contains_key(path));
        self.take_owners(table.owners());
        let end = self.routes.values().map(|id| id.index() + 1).max().unwrap_or(0);
        self.permits = vec![None; end];
        for (path, id) in &self.routes {
            if let Some(place) = self.permits.get_mut(id.index()) {
                *place = present.get(path).copied();
            }
        }
    }

    /// Forgets flows whose destination belongs to another member now. Only those in subnets that came or went can be such.
    fn take_owners(&mut self, owners: Vec<(IpNet, Member)>) {
        if owners == self.owners {
            return;
        }
        let (before, after): (BTreeSet<_>, BTreeSet<_>) = (self.owners.iter().collect(), owners.iter().collect());
        let differ: Vec<IpNet> = before.symmetric_difference(&after).map(|(net, _)| *net).collect();
        let owner = |ip| owners.iter().find(|(net, _): &&(IpNet, Member)| net.contains(&ip)).map(|(_, m)| *m);
        self.flows.retain(|key, path| {
            let to = key.destination();
            !differ.iter().any(|net| net.contains(&to)) || owner(to) == Some(path.destination())
        });
        self.owners = owners;
    }

    /// Place and class of a flow of which `bytes` are sent; `is_last`: the flow ends with them. `None`, counted: no member
    /// has the destination, or no path leads there.
    pub(crate) fn place(
        &mut self,
        table: &Table,
        flow: &Flow,
        (bytes, is_last): (usize, bool),
        counters: &Counters,
    ) -> Option<(Permit, u8)> {
        let key = key(flow);
        let hash = key.hash(self.secret);
        let bytes = Bytes::new(bytes as u64);
        if let Some(found) = self.flows.lookup(hash, &key, bytes) {
            let class = if found.is_elephant { CLASS_ELEPHANT } else { CLASS_MOUSE };
            if is_last {
                self.end_flow(hash, &key);
            }
            return Some((self.place_of(found.route, counters)?, class));
        }
        let Some(peer) = table.owner(flow.destination) else {
            bump(&counters.no_member);
            return None;
        };
        let route = table.peers.get(peer).and_then(|p| spread_by(&p.routes, hash, |w| (w.path, w.weight)));
        let Some(id) = route.and_then(|w| self.routes.get(&w.path)).copied() else {
            bump(&counters.no_route);
            return None;
        };
        self.flows.assign(hash, key, bytes, id);
        Some((self.place_of(id, counters)?, CLASS_MOUSE))
    }

    fn place_of(&self, route: RouteId, counters: &Counters) -> Option<Permit> {
        let place = self.permits.get(route.index()).copied().flatten();
        if place.is_none() {
            bump(&counters.no_route);
        }
        place
    }

    /// The receiver of a flow has ended it.
    pub(crate) fn end(&mut self, flow: &Flow) {
        let key = key(flow);
        self.end_flow(key.hash(self.secret), &key);
    }

    fn end_flow(&mut self, hash: u64, key: &FlowKey) {
        if self.flows.end(hash, key) {
            // The total of an elephant flow is known now, and is published at once.
            self.counted = Instant::ZERO;
        }
    }

    /// Removes flows that have ended, in `turns` parts of the flow table; counts flows and moves elephant flows, each at
    /// its interval.
    pub(crate) fn maintain(&mut self, now: Instant, turns: usize, table: &Table) {
        (0..turns).for_each(|_| self.flows.maintain(now));
        self.count(now);
        self.rebalance(now, table);
    }

    /// Flows on each path.
    pub(crate) fn active(&self) -> BTreeMap<Path, Active> {
        self.routes.iter().map(|(path, id)| (*path, self.flows.active(*id))).collect()
    }

    fn count(&mut self, now: Instant) {
        if now.saturating_since(self.counted) < COUNT_INTERVAL {
            return;
        }
        self.counted = now;
        self.queues.tell(self.flows.unremembered(), self.active().into_iter().collect());
    }

    /// Moves single elephant flows to paths on which their share is larger.
    pub(crate) fn rebalance(&mut self, now: Instant, table: &Table) {
        let Some(turn) = self.queues.turn(now).filter(|turn| *turn != self.turn) else { return };
        self.turn = turn;
        let several = table.peers.iter().filter(|peer| peer.routes.len() > 1);
        let routes = Vec::from_iter(several.map(|peer| &peer.routes));
        if routes.is_empty() {
            return;
        }
        let elsewhere = self.queues.elephants_elsewhere();
        let share = |w: &Route| {
            let route = *self.routes.get(&w.path)?;
            let elsewhere = elsewhere.get(&w.path).copied().unwrap_or(0);
            let [one, capacity, carried] = [w.predicted_bps, w.capacity_bps, w.throughput_bps].map(Rate::from_bps);
            Some(Share { route, one, capacity, carried, elsewhere })
        };
        let destinations: Vec<Vec<Share>> = routes.iter().map(|w| w.iter().filter_map(share).collect()).collect();
        if self.flows.rebalance(&destinations, REBALANCE_MARGIN) > 0 {
            // The next queue decides with the new counts.
            self.counted = Instant::ZERO;
            self.count(now);
        }
    }
}
