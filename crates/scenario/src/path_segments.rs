//! The path of packets through a network, segment by segment.

use std::time::Duration;

use link::Settings;

use crate::model::{Lan, Link, Medium, Node, Scenario};

/// A segment of a path: one direction of a link, or one port of a LAN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathSegment<'a> {
    /// The link or LAN.
    pub over: Medium,
    /// Settings of the segment at the start of the run.
    pub settings: &'a Settings,
    /// MTU of the interface.
    pub mtu: u32,
}

impl Scenario {
    /// The segments of the path from one node to another along the routes; `None` if there is no route.
    pub fn path_segments(&self, from: usize, to: usize) -> Option<Vec<PathSegment<'_>>> {
        path_segments((&self.nodes, &self.links, &self.lans), from, to)
    }

    /// Sum of the propagation delays from one node to another along the routes; `None` if there is no route.
    pub fn path_delay(&self, from: usize, to: usize) -> Option<Duration> {
        Some(self.path_segments(from, to)?.iter().map(|s| s.settings.delay).sum())
    }
}

/// The path before the scenario is complete: see [`Scenario::path_segments`].
pub(crate) fn path_segments<'a>(
    (nodes, links, lans): (&[Node], &'a [Link], &'a [Lan]),
    from: usize,
    to: usize,
) -> Option<Vec<PathSegment<'a>>> {
    let (mut here, mut segments) = (from, Vec::new());
    // A path visits no node twice.
    for _ in 0..=nodes.len() {
        if here == to {
            return Some(segments);
        }
        let route = nodes.get(here)?.routes.iter().find(|r| r.to == to)?;
        match route.over {
            Medium::Link(index) => {
                let link = links.get(index)?;
                let settings = if link.between[0] == here { &link.forward } else { &link.backward };
                segments.push(PathSegment { over: route.over, settings, mtu: link.mtu });
            }
            Medium::Lan(index) => {
                let lan = lans.get(index)?;
                let port = |settings| PathSegment { over: route.over, settings, mtu: lan.mtu };
                segments.extend([port(&lan.up), port(&lan.down)]);
            }
        }
        here = route.next;
    }
    None
}
