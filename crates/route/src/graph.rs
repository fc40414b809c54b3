//! Members and the directed links between them.

use std::collections::BTreeMap;

use units::Rate;

use crate::{Member, Metrics, Path};

/// What a search compares: larger capacity, shorter round trip and larger survival are better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) capacity_bps: u64,
    pub(crate) rtt_ns: u64,
    pub(crate) survival: f64,
}

impl Cost {
    /// Of nothing: composed with a link it gives the link.
    pub(crate) const NONE: Self = Self { capacity_bps: u64::MAX, rtt_ns: 0, survival: 1.0 };

    fn of(metrics: &Metrics, unknown: Rate) -> Self {
        let capacity_bps = metrics.capacity.unwrap_or(unknown).as_bps();
        Self { capacity_bps, rtt_ns: units::nanos(metrics.rtt), survival: 1.0 - metrics.loss }
    }

    pub(crate) fn then(self, next: Self) -> Self {
        Self {
            capacity_bps: self.capacity_bps.min(next.capacity_bps),
            rtt_ns: self.rtt_ns.saturating_add(next.rtt_ns),
            survival: self.survival * next.survival,
        }
    }

    /// Whether this one is at least as good in everything.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        // All three at once: which of them fails first is anybody's guess, and wrong guesses of a processor cost more than a comparison.
        (self.rtt_ns <= other.rtt_ns) & (self.survival >= other.survival) & (self.capacity_bps >= other.capacity_bps)
    }
}

/// One end's view of a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    /// Number of the node at the other end.
    pub(crate) peer: usize,
    pub(crate) cost: Cost,
    /// Survival by the upper end of the interval of the loss.
    pub(crate) sure_survival: f64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) member: Member,
    pub(crate) relays: bool,
    is_declared: bool,
    /// Both sorted by `peer`; metrics in the order of `out`.
    pub(crate) out: Vec<Edge>,
    metrics: Vec<Metrics>,
    pub(crate) into: Vec<Edge>,
}

/// The overlay as one member sees it: who is there, who relays, and the metrics of each directed link.
#[derive(Debug, Clone)]
pub struct Graph {
    unknown: Rate,
    nodes: Vec<Node>,
    free: Vec<usize>,
    index: BTreeMap<Member, usize>,
    links: usize,
    /// Raised whenever a number of a node changes its meaning, or who relays.
    epoch: u64,
}

impl Graph {
    /// Nobody. A link of unknown capacity is taken for one of `unknown`.
    pub fn new(unknown: Rate) -> Self {
        Self { unknown, nodes: Vec::new(), free: Vec::new(), index: BTreeMap::new(), links: 0, epoch: 0 }
    }

    /// Adds a member, or changes whether it relays the traffic of others. Without this a member that links name does not relay.
    pub fn set_member(&mut self, member: Member, relays: bool) {
        let i = self.node(member);
        let node = &mut self.nodes[i];
        if node.relays != relays {
            node.relays = relays;
            self.epoch += 1;
        }
        self.nodes[i].is_declared = true;
    }

    /// Removes a member and its links.
    pub fn remove_member(&mut self, member: Member) {
        let Some(i) = self.position(member) else { return };
        let (out, into) = (core::mem::take(&mut self.nodes[i].out), core::mem::take(&mut self.nodes[i].into));
        self.links -= out.len() + into.len();
        for edge in out {
            remove(&mut self.nodes[edge.peer].into, i);
            self.forget_if_idle(edge.peer);
        }
        for edge in into {
            let peer = &mut self.nodes[edge.peer];
            if let Some(at) = remove(&mut peer.out, i) {
                peer.metrics.remove(at);
            }
            self.forget_if_idle(edge.peer);
        }
        self.nodes[i].metrics.clear();
        self.nodes[i].is_declared = false;
        self.forget_if_idle(i);
    }

    /// Sets the metrics of the link. Whether it did: a link from a member to itself, or metrics that are none ([`Metrics::is_valid`]), change nothing.
    pub fn set(&mut self, from: Member, to: Member, metrics: Metrics) -> bool {
        if from == to || !metrics.is_valid() {
            return false;
        }
        let (a, b) = (self.node(from), self.node(to));
        let (cost, sure_survival) = (Cost::of(&metrics, self.unknown), 1.0 - metrics.loss_high);
        let node = &mut self.nodes[a];
        match node.out.binary_search_by_key(&b, |e| e.peer) {
            Ok(at) => {
                node.out[at] = Edge { peer: b, cost, sure_survival };
                node.metrics[at] = metrics;
            }
            Err(at) => {
                node.out.insert(at, Edge { peer: b, cost, sure_survival });
                node.metrics.insert(at, metrics);
                self.links += 1;
            }
        }
        let into = &mut self.nodes[b].into;
        match into.binary_search_by_key(&a, |e| e.peer) {
            Ok(at) => into[at] = Edge { peer: a, cost, sure_survival },
            Err(at) => into.insert(at, Edge { peer: a, cost, sure_survival }),
        }
        true
    }

    /// Removes the link. Whether it was there.
    pub fn remove(&mut self, from: Member, to: Member) -> bool {
        let (Some(a), Some(b)) = (self.position(from), self.position(to)) else { return false };
        let Some(at) = remove(&mut self.nodes[a].out, b) else { return false };
        self.nodes[a].metrics.remove(at);
        remove(&mut self.nodes[b].into, a);
        self.links -= 1;
        self.forget_if_idle(a);
        self.forget_if_idle(b);
        true
    }

    /// Metrics of the link.
    pub fn link(&self, from: Member, to: Member) -> Option<&Metrics> {
        let (a, b) = (self.position(from)?, self.position(to)?);
        let at = self.nodes[a].out.binary_search_by_key(&b, |e| e.peer).ok()?;
        self.nodes[a].metrics.get(at)
    }

    /// Metrics of the path from `source`; `None`: one of its links is not there, one of its relays does not relay, or it comes back to `source`.
    pub fn metrics(&self, source: Member, path: &Path) -> Option<Metrics> {
        self.metrics_with(source, path, |_, metrics| metrics)
    }

    /// The same with something else in place of what is known of each link.
    pub(crate) fn metrics_with(
        &self,
        source: Member,
        path: &Path,
        seen: impl Fn((Member, Member), Metrics) -> Metrics,
    ) -> Option<Metrics> {
        let is_relay = |m: &Member| *m != source && self.relays(*m);
        if path.destination() == source || !path.relays().iter().all(is_relay) {
            return None;
        }
        let mut links = path.links(source).map(|(from, to)| Some(seen((from, to), *self.link(from, to)?)));
        let first = links.next()??;
        links.try_fold(first, |whole, link| Some(whole.then(&link?)))
    }

    /// Whether the member relays.
    pub fn relays(&self, member: Member) -> bool {
        self.position(member).is_some_and(|i| self.nodes[i].relays)
    }

    /// All members that are known, by [`Graph::set_member`] or by a link.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.index.keys().copied()
    }

    /// Number of directed links.
    pub const fn len(&self) -> usize {
        self.links
    }

    /// Whether there is no link.
    pub const fn is_empty(&self) -> bool {
        self.links == 0
    }

    pub(crate) fn position(&self, member: Member) -> Option<usize> {
        self.index.get(&member).copied()
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of the member's node, which is made if there is none.
    fn node(&mut self, member: Member) -> usize {
        if let Some(i) = self.position(member) {
            return i;
        }
        self.epoch += 1;
        let node = Node { member, ..Node::default() };
        let i = if let Some(i) = self.free.pop() {
            self.nodes[i] = node;
            i
        } else {
            self.nodes.push(node);
            self.nodes.len() - 1
        };
        self.index.insert(member, i);
        i
    }

    fn forget_if_idle(&mut self, i: usize) {
        let node = &self.nodes[i];
        let is_idle = !node.is_declared && node.out.is_empty() && node.into.is_empty();
        if is_idle && self.index.remove(&node.member).is_some() {
            self.nodes[i] = Node::default();
            self.free.push(i);
            self.epoch += 1;
        }
    }
}

/// Takes the edge to `peer` out. Where it was.
fn remove(edges: &mut Vec<Edge>, peer: usize) -> Option<usize> {
    let at = edges.binary_search_by_key(&peer, |e| e.peer).ok()?;
    edges.remove(at);
    Some(at)
}

#[cfg(test)]
mod tests;
