//! Fronts after some links have changed.
//!
//! Only what the change can have touched is looked at: paths over the links that changed, and over paths that have gone or come; and where a path has gone, those
//! that it had covered. A path that is not kept is covered by one that is (of the same links or fewer): as long as that one is there, or gives way to a better one, it stays
//! out. So the result is that of a computation in full; where a front is cut ([`super::MOST_KEPT`]), one with as good a right to it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fronts, Label, Level, MAX_LINKS, Rules, Sieve, level};
use crate::Member;
use crate::graph::{Cost, Edge, Graph, Node};

/// What has changed of the paths to a node. A path that costs something else than before has gone and come.
#[derive(Debug, Clone, Default)]
struct Delta {
    gone: Vec<Label>,
    fresh: Vec<Label>,
}

impl Delta {
    /// Both are in the order of their relays.
    fn between(before: &[Label], now: &[Label]) -> Self {
        let is_in = |all: &[Label], label: &Label| {
            all.binary_search_by_key(&label.relays, |l| l.relays).is_ok_and(|at| all[at] == *label)
        };
        Self {
            gone: before.iter().filter(|l| !is_in(now, l)).copied().collect(),
            fresh: now.iter().filter(|l| !is_in(before, l)).copied().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.fresh.is_empty()
    }
}

/// Nothing as long as nothing has changed; then one for each node.
type Deltas = Vec<Delta>;

/// What the search is about, and what has changed of it so far.
struct Update<'a> {
    graph: &'a Graph,
    rules: Rules<'a>,
    /// Begins of the links that have changed, by the nodes at their ends.
    changed: BTreeMap<usize, Vec<Member>>,
    /// Of paths of one link less, and of all that have fewer links.
    last: Deltas,
    shorter: Deltas,
}

pub(super) fn update(fronts: &mut Fronts, graph: &Graph, changed: &[(Member, Member)]) {
    let mut by_end: BTreeMap<usize, Vec<Member>> = BTreeMap::new();
    for (from, to) in changed {
        if let Some(end) = graph.position(*to) {
            by_end.entry(end).or_default().push(*from);
        }
    }
    let rules = fronts.rules();
    let mut update = Update { graph, rules, changed: by_end, last: Vec::new(), shorter: Vec::new() };
    for links in 0..MAX_LINKS {
        let mut now: Deltas = Vec::new();
        for node in update.touched() {
            let Some(new) = update.renewed(fronts, node, links) else { continue };
            let old = core::mem::replace(&mut fronts.nodes[node][links], new);
            let delta = Delta::between(&old.labels, &fronts.nodes[node][links].labels);
            if !delta.is_empty() {
                now.resize(graph.nodes().len(), Delta::default());
                now[node] = delta;
            }
        }
        update.add(now);
    }
}

impl Update<'_> {
    fn add(&mut self, now: Deltas) {
        self.shorter.resize(self.shorter.len().max(now.len()), Delta::default());
        for (all, delta) in self.shorter.iter_mut().zip(&now) {
            all.gone.extend_from_slice(&delta.gone);
            all.fresh.extend_from_slice(&delta.fresh);
        }
        self.last = now;
    }

    fn relays(&self, node: &Node) -> bool {
        node.relays && node.member != self.rules.source
    }

    /// Nodes to which there may be other paths now.
    fn touched(&self) -> BTreeSet<usize> {
        let is_other = |(node, delta): (usize, &Delta)| (!delta.is_empty()).then_some(node);
        let mut touched: BTreeSet<usize> = self.changed.keys().copied().collect();
        touched.extend(self.shorter.iter().enumerate().filter_map(is_other));
        let relays = self.last.iter().enumerate().filter_map(is_other).map(|node| &self.graph.nodes()[node]);
        let beyond = relays.filter(|node| self.relays(node)).flat_map(|node| &node.out);
        touched.extend(beyond.map(|e| e.peer));
        touched
    }

    /// Whether the link has changed.
    fn has_changed(&self, from: Member, to: usize) -> bool {
        self.changed.get(&to).is_some_and(|begins| begins.contains(&from))
    }

    /// Links to a node by which paths may come, with their begins.
    fn ways_in(&self, node: usize) -> impl Iterator<Item = (&Edge, &Node)> {
        let into = self.graph.nodes()[node].into.iter();
        into.map(|e| (e, &self.graph.nodes()[e.peer])).filter(|(_, relay)| self.relays(relay))
    }

    /// The paths of so many links to a node that nothing covers; `None`: they are as before.
    fn renewed(&self, fronts: &Fronts, node: usize, links: usize) -> Option<Level> {
        let front = &fronts.nodes[node];
        let old = &front[links];
        let anew = || Some(level(self.graph, self.rules, &fronts.nodes, node, links));
        if links == 0 || old.is_cut {
            return anew();
        }
        let member = self.graph.nodes()[node].member;
        if member == self.rules.source {
            return None;
        }
        let none = Delta::default();
        let fewer = self.shorter.get(node).unwrap_or(&none);
        let mut sieve = Sieve::of(member, front, links);
        let stale: Vec<Label>;
        (stale, sieve.kept) = old.labels.iter().copied().partition(|l| self.is_stale(node, l));
        sieve.kept.retain(|l| !fewer.fresh.iter().any(|f| f.cost.covers(&l.cost)));
        for (edge, relay) in self.ways_in(node) {
            let has_changed = self.has_changed(relay.member, node);
            let fresh = self.last.get(edge.peer).map_or(&[][..], |delta| &delta.fresh);
            let news = if has_changed { &fronts.nodes[edge.peer][links - 1].labels[..] } else { fresh };
            news.iter().for_each(|before| sieve.offer(relay.member, before, self.rules.cost(edge)));
        }
        let gone: Vec<Cost> = stale.iter().chain(&fewer.gone).map(|l| l.cost).collect();
        self.uncover(fronts, (node, links), &gone, &mut sieve);
        if sieve.is_cut { anew() } else { Some(sieve.level()) }
    }

    /// Offers what was covered by paths that have gone.
    fn uncover(&self, fronts: &Fronts, (node, links): (usize, usize), gone: &[Cost], sieve: &mut Sieve) {
        // What one covered that something covers now is covered by that, too.
        let gone: Vec<Cost> = gone.iter().filter(|gone| !sieve.has_no_use_for(gone)).copied().collect();
        if gone.is_empty() {
            return;
        }
        for (edge, relay) in self.ways_in(node) {
            let link = self.rules.cost(edge);
            if sieve.is_covered(&link) {
                continue;
            }
            for before in &fronts.nodes[edge.peer][links - 1].labels {
                let cost = before.cost.then(link);
                if gone.iter().any(|gone| gone.covers(&cost)) {
                    sieve.offer(relay.member, before, link);
                }
            }
        }
    }

    /// Whether the path comes by a link that has changed, or as one to its last relay that has gone.
    fn is_stale(&self, node: usize, label: &Label) -> bool {
        let Some((relay, before)) = label.relays().split_last() else { return true };
        let at = self.graph.position(*relay);
        let gone = at.and_then(|at| self.last.get(at)).map_or(&[][..], |delta| &delta.gone);
        self.has_changed(*relay, node) || gone.iter().any(|g| g.relays() == before)
    }
}
