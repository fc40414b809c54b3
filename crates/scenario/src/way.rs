//! The way of packets through a network, stretch by stretch.

use link::Settings;

use crate::model::{Lan, Link, Medium, Node, Scenario};

/// What packets pass on their way: one direction of a link, or one port of a LAN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch<'a> {
    /// The link or LAN.
    pub over: Medium,
    /// What it does to packets at the start of the run.
    pub settings: &'a Settings,
    /// MTU of the interface.
    pub mtu: u32,
}

impl Scenario {
    /// What packets pass from one node to another along the routes; `None` when there is no way.
    pub fn way(&self, from: usize, to: usize) -> Option<Vec<Stretch<'_>>> {
        way((&self.nodes, &self.links, &self.lans), from, to)
    }
}

/// The same before the scenario is whole.
pub(crate) fn way<'a>(
    (nodes, links, lans): (&[Node], &'a [Link], &'a [Lan]),
    from: usize,
    to: usize,
) -> Option<Vec<Stretch<'a>>> {
    let (mut here, mut stretches) = (from, Vec::new());
    // A way visits no node twice.
    for _ in 0..=nodes.len() {
        if here == to {
            return Some(stretches);
        }
        let route = nodes.get(here)?.routes.iter().find(|r| r.to == to)?;
        match route.over {
            Medium::Link(index) => {
                let link = links.get(index)?;
                let settings = if link.between[0] == here { &link.forward } else { &link.backward };
                stretches.push(Stretch { over: route.over, settings, mtu: link.mtu });
            }
            Medium::Lan(index) => {
                let lan = lans.get(index)?;
                let port = |settings| Stretch { over: route.over, settings, mtu: lan.mtu };
                stretches.extend([port(&lan.up), port(&lan.down)]);
            }
        }
        here = route.next;
    }
    None
}
