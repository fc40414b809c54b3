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

/// A route in the forwarding table: index of the peer, and of the route of that peer.
pub(crate) type RouteIndex = (usize, usize);

/// The flows of one queue and their paths.
pub(crate) struct Placement {
    flows: flows::Table,
    /// Routing entry of each path in the flow table.
    routes: BTreeMap<Path, RouteId>,
    /// Position of each routing entry in the current forwarding table, by the index of the entry.
    route_indices: Vec<Option<RouteIndex>>,
    /// Owner of each subnet, longest prefix first.
    owners: Vec<(IpNet, Member)>,
    secret: [u64; 2],
    queues: Queues,
    /// Last turn in which elephant flows were rebalanced.
    turn: u64,
    counted_at: Instant,
}

fn key(flow: &Flow) -> FlowKey {
    let ends = [(flow.source, flow.source_port), (flow.destination, flow.destination_port)];
    FlowKey::new(ends[0], ends[1], flow.protocol, flow.dscp)
}

impl Placement {
    /// `secret`: key of the flow hash. It is the same for all queues, so that a flow keeps its path when the host sends
    /// it through another queue.
    pub(crate) fn new(queues: Queues, secret: [u64; 2]) -> Self {
        Self {
            flows: flows::Table::new(flows::Settings::default()),
            routes: BTreeMap::new(),
            route_indices: Vec::new(),
            owners: Vec::new(),
            secret,
            queues,
            turn: 0,
            counted_at: Instant::ZERO,
        }
    }

    /// Number of the queue.
    pub(crate) const fn queue(&self) -> u8 {
        self.queues.own
    }

    /// Adopts the paths of a new forwarding table. Flows of a removed path move to the best path to their destination.
    pub(crate) fn update_table(&mut self, table: &Table) {
        let mut present: BTreeMap<Path, RouteIndex> = BTreeMap::new();
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
        let replacement = |path: &Path| {
            let best = table.peer(path.destination())?.routes.first()?;
            self.routes.get(&best.path).copied()
        };
        let removed = self.routes.iter().filter(|(path, _)| !present.contains_key(path));
        let removed = Vec::from_iter(removed.map(|(path, id)| (*id, replacement(path))));
        self.flows.remove_routes(&removed);
        self.routes.retain(|path, _| present.contains_key(path));
        self.update_owners(table.owners());
        let end = self.routes.values().map(|id| id.index() + 1).max().unwrap_or(0);
        self.route_indices = vec![None; end];
        for (path, id) in &self.routes {
            if let Some(index) = self.route_indices.get_mut(id.index()) {
                *index = present.get(path).copied();
            }
        }
    }

    /// Removes flows whose destination now belongs to another member. Only subnets that were added or removed can
    /// affect flows.
    fn update_owners(&mut self, owners: Vec<(IpNet, Member)>) {
        if owners == self.owners {
            return;
        }
        let (before, after): (BTreeSet<_>, BTreeSet<_>) = (self.owners.iter().collect(), owners.iter().collect());
        let changed: Vec<IpNet> = before.symmetric_difference(&after).map(|(net, _)| *net).collect();
        let owner = |ip| owners.iter().find(|(net, _): &&(IpNet, Member)| net.contains(&ip)).map(|(_, m)| *m);
        self.flows.retain(|key, path| {
            let to = key.destination();
            !changed.iter().any(|net| net.contains(&to)) || owner(to) == Some(path.destination())
        });
        self.owners = owners;
    }

    /// Route and class of a flow for a packet of `bytes`; `is_last`: the packet ends the flow. `None`, counted: no
    /// member serves the destination, or no route leads there.
    pub(crate) fn select_route(
        &mut self,
        table: &Table,
        flow: &Flow,
        (bytes, is_last): (usize, bool),
        counters: &Counters,
    ) -> Option<(RouteIndex, u8)> {
        let key = key(flow);
        let hash = key.hash(self.secret);
        let bytes = Bytes::new(bytes as u64);
        if let Some(found) = self.flows.lookup(hash, &key, bytes) {
            let class = if found.is_elephant { CLASS_ELEPHANT } else { CLASS_MOUSE };
            if is_last {
                self.mark_ended(hash, &key);
            }
            return Some((self.index_of(found.route, counters)?, class));
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
        Some((self.index_of(id, counters)?, CLASS_MOUSE))
    }

    fn index_of(&self, route: RouteId, counters: &Counters) -> Option<RouteIndex> {
        let index = self.route_indices.get(route.index()).copied().flatten();
        if index.is_none() {
            bump(&counters.no_route);
        }
        index
    }

    /// Ends a flow that its receiver has reset.
    pub(crate) fn end_flow(&mut self, flow: &Flow) {
        let key = key(flow);
        self.mark_ended(key.hash(self.secret), &key);
    }

    fn mark_ended(&mut self, hash: u64, key: &FlowKey) {
        if self.flows.end(hash, key) {
            // The end of an elephant flow changes the counts; they are published at once.
            self.counted_at = Instant::ZERO;
        }
    }

    /// Expires flows in `turns` parts of the flow table; counts flows and rebalances elephant flows, each at its
    /// interval.
    pub(crate) fn maintain(&mut self, now: Instant, turns: usize, table: &Table) {
        (0..turns).for_each(|_| self.flows.maintain(now));
        self.count(now);
        self.rebalance(now, table);
    }

    /// Active flows on each path.
    pub(crate) fn active(&self) -> BTreeMap<Path, Active> {
        self.routes.iter().map(|(path, id)| (*path, self.flows.active(*id))).collect()
    }

    fn count(&mut self, now: Instant) {
        if now.saturating_since(self.counted_at) < COUNT_INTERVAL {
            return;
        }
        self.counted_at = now;
        self.queues.publish(self.flows.unremembered(), self.active().into_iter().collect());
    }

    /// Moves elephant flows to paths on which their share is larger, in the turn of this queue.
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
            // The next queue must see the new counts.
            self.counted_at = Instant::ZERO;
            self.count(now);
        }
    }
}
