//! Routes: for each pair of nodes the path of least cost, then of fewest hops, then with the earliest link of the file.
//!
//! The order is total and the same from both ends, so packets and their acknowledgements share a path, and hop by hop
//! forwarding cannot loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::{Medium, Route};
use crate::topology::Topology;

/// Cost, then number of hops. Costs are doubled so that a LAN can be a vertex between its members.
type Length = (u64, usize);

#[derive(Debug, Clone, Copy)]
struct Edge {
    to: usize,
    length: Length,
    medium: Medium,
    /// Position of the medium in the file, links first.
    rank: usize,
}

/// Path of a vertex to the destination.
#[derive(Debug, Clone)]
struct Best {
    length: Length,
    /// The next vertex and the medium towards it.
    next: usize,
    medium: Medium,
    /// Positions of all media on the path, sorted.
    ranks: Vec<usize>,
}

/// The routes of each node.
pub(crate) fn routes(topology: &Topology) -> Vec<Vec<Route>> {
    let edges = graph(topology);
    let nodes = topology.nodes.len();
    let mut routes = vec![Vec::new(); nodes];
    for to in 0..nodes {
        let best = shortest(&edges, to);
        for (from, routes) in routes.iter_mut().enumerate() {
            let Some(Some(first)) = best.get(from) else { continue };
            // A LAN is not a node: the vertex after it is the next hop.
            let beyond = best.get(first.next).and_then(Option::as_ref);
            let next = if first.next < nodes { first.next } else { beyond.map_or(to, |b| b.next) };
            routes.push(Route { to, over: first.medium, next });
        }
    }
    routes
}

/// Adjacency of the nodes, then of the LANs.
fn graph(topology: &Topology) -> Vec<Vec<Edge>> {
    let nodes = topology.nodes.len();
    let mut edges = vec![Vec::new(); nodes + topology.lans.len()];
    for (index, (link, cost)) in topology.links.iter().zip(&topology.link_costs).enumerate() {
        let [a, b] = link.between;
        let edge = |to| Edge { to, length: (2 * cost.0, 1), medium: Medium::Link(index), rank: index };
        edges[a].push(edge(b));
        edges[b].push(edge(a));
    }
    for (index, (lan, cost)) in topology.lans.iter().zip(&topology.lan_costs).enumerate() {
        let (hub, medium, rank) = (nodes + index, Medium::Lan(index), topology.links.len() + index);
        for member in &lan.members {
            edges[*member].push(Edge { to: hub, length: (2 * cost.0 - 1, 1), medium, rank });
            edges[hub].push(Edge { to: *member, length: (1, 0), medium, rank });
        }
    }
    edges
}

/// Dijkstra's algorithm from the destination. Every edge has a length above zero, so all ties of a vertex are seen
/// before it is removed from the heap.
fn shortest(edges: &[Vec<Edge>], to: usize) -> Vec<Option<Best>> {
    let mut best: Vec<Option<Best>> = vec![None; edges.len()];
    let mut done = vec![false; edges.len()];
    let mut heap = BinaryHeap::from([Reverse(((0, 0), to))]);
    while let Some(Reverse((length, at))) = heap.pop() {
        if std::mem::replace(&mut done[at], true) {
            continue;
        }
        for edge in edges[at].iter().filter(|e| e.to != to) {
            if done[edge.to] {
                continue;
            }
            let candidate = extend(length, at, best[at].as_ref(), *edge);
            if best[edge.to].as_ref().is_none_or(|b| (candidate.length, &candidate.ranks) < (b.length, &b.ranks)) {
                heap.push(Reverse((candidate.length, edge.to)));
                best[edge.to] = Some(candidate);
            }
        }
    }
    best
}

fn extend(length: Length, at: usize, best: Option<&Best>, edge: Edge) -> Best {
    let mut ranks = best.map_or_else(Vec::new, |b| b.ranks.clone());
    if let Err(place) = ranks.binary_search(&edge.rank) {
        ranks.insert(place, edge.rank);
    }
    let length = (length.0 + edge.length.0, length.1 + edge.length.1);
    Best { length, next: at, medium: edge.medium, ranks }
}
