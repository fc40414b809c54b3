//! The best paths from one member to all others.
//!
//! The rate that a formula predicts does not compose along a path, but capacity, delay and survival do, and every formula of [`Model`](crate::Model)
//! is monotone in them. So the search keeps for each destination all paths that no other one covers in all three (and in the number of links): the Pareto
//! front. The best path under any monotone formula is one of them (multicriteria shortest paths; Martins, "On a multicriteria shortest path problem",
//! EJOR 16(2), 1984). A path that comes by a member twice is covered by the same path without the loop, so none is lost by not walking loops.

use core::cmp::Reverse;

use units::{Duration, Rate};

use crate::graph::{Cost, Edge, Graph};
use crate::path::MAX_RELAYS;
use crate::{Member, Metrics, Path};

/// Most links of a path.
const MAX_LINKS: usize = MAX_RELAYS + 1;

/// Most paths of as many links that are kept to one destination. Fronts of thousands of links with metrics at random have some tens; members that
/// make up metrics could have them grow without bound, and with them the time that everybody's search takes. Only then the search is not exact.
const MOST_KEPT: usize = 256;

/// A path to some node, by what it comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Label {
    cost: Cost,
    relays: [Member; MAX_RELAYS],
    count: u8,
}

impl Label {
    fn relays(&self) -> &[Member] {
        &self.relays[..usize::from(self.count)]
    }

    /// Whether it is to be kept rather than `other` of as many links; of equal ones the one with the smaller members.
    fn beats(&self, other: &Self) -> bool {
        self.cost.covers(&other.cost) && (self.cost != other.cost || self.relays <= other.relays)
    }

    /// By way of `relay` over a link.
    fn extended(&self, relay: Member, link: Cost) -> Self {
        let mut relays = self.relays;
        relays[usize::from(self.count)] = relay;
        Self { cost: self.cost.then(link), relays, count: self.count + 1 }
    }
}

/// Which paths count.
#[derive(Debug, Clone, Copy)]
struct Rules<'a> {
    source: Member,
    /// Members that no path may come by.
    avoid: &'a [Member],
    /// A member to which the direct path does not count.
    not_direct: Option<Member>,
    /// Whether losses count by the upper end of their intervals.
    sure: bool,
}

impl Rules<'_> {
    const fn cost(&self, edge: &Edge) -> Cost {
        if self.sure { Cost { survival: edge.sure_survival, ..edge.cost } } else { edge.cost }
    }
}

/// Paths of as many links to one node that nothing covers, in the order of their relays: a path is its relays, so that equal ones are equal values.
#[derive(Debug, Clone, Default)]
struct Level {
    labels: Vec<Label>,
    /// There were [`MOST_KEPT`], and which ones these are depends on the order in which they were found.
    is_cut: bool,
}

/// Paths to one node, by their number of links less one.
type Front = [Level; MAX_LINKS];

/// The Pareto fronts of the paths from one member to all others.
#[derive(Debug, Clone)]
pub struct Fronts {
    source: Member,
    sure: bool,
    epoch: u64,
    nodes: Vec<Front>,
}

impl Fronts {
    /// Computes all of them.
    pub fn full(graph: &Graph, source: Member) -> Self {
        Self::over(graph, source, false)
    }

    /// The same with losses by the upper end of their intervals: what is good for sure. A path that few packets promise much of hides the one that
    /// many packets speak for from [`Fronts::full`], not from this.
    pub fn surest(graph: &Graph, source: Member) -> Self {
        Self::over(graph, source, true)
    }

    fn over(graph: &Graph, source: Member, sure: bool) -> Self {
        let nodes = vec![Front::default(); graph.nodes().len()];
        let mut fronts = Self { source, sure, epoch: graph.epoch(), nodes };
        let rules = fronts.rules();
        for links in 0..MAX_LINKS {
            for node in 0..graph.nodes().len() {
                fronts.nodes[node][links] = level(graph, rules, &fronts.nodes, node, links);
            }
        }
        fronts
    }

    /// Repeats the computation for the links that were set or removed since the last call. The result is that of a
    /// computation in full, but for which paths are left out of a front that is cut. When members have come or gone since, it is computed in full.
    pub fn update(&mut self, graph: &Graph, changed: &[(Member, Member)]) {
        if self.epoch == graph.epoch() {
            update::update(self, graph, changed);
        } else {
            *self = Self::over(graph, self.source, self.sure);
        }
    }

    const fn rules(&self) -> Rules<'static> {
        Rules { source: self.source, avoid: &[], not_direct: None, sure: self.sure }
    }

    /// The paths to `destination` that no other one covers, those with fewer links first, each with what it comes to. The metrics are without doubt:
    /// those with intervals are [`Graph::metrics`].
    pub fn candidates(&self, graph: &Graph, destination: Member) -> impl Iterator<Item = (Path, Metrics)> + '_ {
        let front = graph.position(destination).and_then(|node| self.nodes.get(node));
        front
            .into_iter()
            .flatten()
            .flat_map(|level| &level.labels)
            .filter_map(move |label| candidate(label, destination))
    }

    /// The path to `destination` of the largest score; of equal ones the one with fewer relays. The score must be monotone:
    /// not smaller with more capacity, less delay, less loss.
    pub fn best<S: Fn(&Metrics) -> Rate>(&self, graph: &Graph, destination: Member, score: S) -> Option<(Path, Rate)> {
        best(self.candidates(graph, destination), score)
    }

    /// Number of paths that are kept.
    pub fn len(&self) -> usize {
        self.nodes.iter().flatten().map(|level| level.labels.len()).sum()
    }

    /// Whether no member can be reached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a search to one destination leaves out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Except<'a> {
    /// Members that the path may not come by.
    pub relays: &'a [Member],
    /// The direct path does not count.
    pub direct: bool,
}

/// The paths from `source` to `destination` that no other one covers, of those that `except` leaves.
pub fn candidates(graph: &Graph, source: Member, destination: Member, except: Except<'_>) -> Vec<(Path, Metrics)> {
    let Some(end) = graph.position(destination) else { return Vec::new() };
    let not_direct = except.direct.then_some(destination);
    let rules = Rules { source, avoid: except.relays, not_direct, sure: false };
    let mut nodes = vec![Front::default(); graph.nodes().len()];
    for links in 0..MAX_LINKS - 2 {
        for node in 0..nodes.len() {
            nodes[node][links] = level(graph, rules, &nodes, node, links);
        }
    }
    // The last relay is next to the destination.
    let into = &graph.nodes()[end].into;
    for node in into.iter().map(|e| e.peer).chain([end]) {
        nodes[node][MAX_LINKS - 2] = level(graph, rules, &nodes, node, MAX_LINKS - 2);
    }
    nodes[end][MAX_LINKS - 1] = level(graph, rules, &nodes, end, MAX_LINKS - 1);
    nodes[end].iter().flat_map(|level| &level.labels).filter_map(|label| candidate(label, destination)).collect()
}

/// Up to `most` paths from `source` to `destination`, of which no two have a relay or a link in common: the best one, the best one of those that are
/// disjoint with it, and so on. (The best *set* may be another one where the best path takes the relays of two others; to find it is a search
/// over sets.)
pub fn disjoint<S: Fn(&Metrics) -> Rate>(
    graph: &Graph,
    source: Member,
    destination: Member,
    most: usize,
    score: S,
) -> Vec<(Path, Rate)> {
    let mut found: Vec<(Path, Rate)> = Vec::new();
    while found.len() < most {
        let relays: Vec<Member> = found.iter().flat_map(|(path, _)| path.relays()).copied().collect();
        let direct = found.iter().any(|(path, _)| path.relays().is_empty());
        let left = candidates(graph, source, destination, Except { relays: &relays, direct });
        let Some(next) = best(left.into_iter(), &score) else { break };
        found.push(next);
    }
    found
}

fn best<S: Fn(&Metrics) -> Rate>(from: impl Iterator<Item = (Path, Metrics)>, score: S) -> Option<(Path, Rate)> {
    from.map(|(path, metrics)| (path, score(&metrics))).max_by_key(|(path, rate)| (*rate, Reverse(*path)))
}

fn candidate(label: &Label, destination: Member) -> Option<(Path, Metrics)> {
    let path = Path::via(label.relays(), destination)?;
    let Cost { capacity_bps, rtt_ns, survival } = label.cost;
    let capacity = Some(Rate::from_bps(capacity_bps));
    Some((path, Metrics::exact(capacity, Duration::from_nanos(rtt_ns), 1.0 - survival)))
}

/// Whether there is such a one. It comes to the front: what covers one path covers many.
fn find<T>(items: &mut [T], is: impl Fn(&T) -> bool) -> bool {
    let at = items.iter().position(is);
    if let Some(at) = at {
        items.swap(0, at);
    }
    at.is_some()
}

/// Takes paths of as many links to a node one by one, and keeps those that nothing covers.
struct Sieve {
    member: Member,
    /// What paths of fewer links cost.
    shorter: Vec<Cost>,
    kept: Vec<Label>,
    is_cut: bool,
}

impl Sieve {
    fn of(member: Member, front: &Front, links: usize) -> Self {
        let shorter = front[..links].iter().flat_map(|level| &level.labels).map(|l| l.cost).collect();
        Self { member, shorter, kept: Vec::new(), is_cut: false }
    }

    /// Whether a path of fewer links is as good as this.
    fn is_covered(&mut self, cost: &Cost) -> bool {
        find(&mut self.shorter, |k| k.covers(cost))
    }

    /// Whether nothing that costs this or more would be kept.
    fn has_no_use_for(&mut self, cost: &Cost) -> bool {
        self.is_covered(cost) || self.kept.iter().any(|k| k.cost.covers(cost) && k.cost != *cost)
    }

    /// The path as `before` to a relay, and then over this link.
    fn offer(&mut self, relay: Member, before: &Label, link: Cost) {
        if before.relays().contains(&self.member) {
            return;
        }
        let label = before.extended(relay, link);
        if self.is_covered(&label.cost) || find(&mut self.kept, |k| k.beats(&label)) {
            return;
        }
        self.kept.retain(|k| !label.beats(k));
        if self.kept.len() < MOST_KEPT {
            self.kept.push(label);
        } else {
            self.is_cut = true;
        }
    }

    fn level(mut self) -> Level {
        self.kept.sort_unstable_by_key(|l| l.relays);
        Level { labels: self.kept, is_cut: self.is_cut }
    }
}

/// The paths to `node` of `links` + 1 links that nothing covers, from those of one link less.
fn level(graph: &Graph, rules: Rules<'_>, nodes: &[Front], node: usize, links: usize) -> Level {
    let member = graph.nodes()[node].member;
    if member == rules.source || rules.avoid.contains(&member) {
        return Level::default();
    }
    let mut sieve = Sieve::of(member, &nodes[node], links);
    for edge in &graph.nodes()[node].into {
        let (relay, link) = (&graph.nodes()[edge.peer], rules.cost(edge));
        if links == 0 {
            if relay.member == rules.source && rules.not_direct != Some(member) {
                sieve.kept.push(Label { cost: Cost::NONE.then(link), relays: [Member(0); MAX_RELAYS], count: 0 });
            }
            continue;
        }
        // What covers the last link alone covers all paths over it.
        if relay.relays && !sieve.is_covered(&link) {
            nodes[edge.peer][links - 1].labels.iter().for_each(|before| sieve.offer(relay.member, before, link));
        }
    }
    sieve.level()
}

mod update;

#[cfg(test)]
mod tests;
