//! Nodes, links and LANs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use link::Settings;

use crate::files::Files;
use crate::model::{Lan, Link, LinkDirection, Medium, Node};
use crate::patch::{MTU, Patch};
use crate::policy;
use crate::problem::{Fault, known_names};
use crate::quantity;
use crate::section::{Item, Section};
use crate::tree::Value;

/// Maximum number of nodes: each is a network namespace, and the last two bytes of its address are its number.
const NODES_MAX: usize = 1000;
/// Maximum number of links and LANs together.
const LINKS_MAX: usize = 2000;
/// Default MTU of an interface: that of Ethernet (RFC 894).
const DEFAULT_MTU: u32 = 1500;

/// Cost of a link or LAN in route selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cost(pub(crate) u64);

/// The network of the file, without routes.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) lans: Vec<Lan>,
    pub(crate) link_costs: Vec<Cost>,
    pub(crate) lan_costs: Vec<Cost>,
    /// Names of nodes with errors: references to them are not reported as well.
    broken: BTreeSet<String>,
}

impl Topology {
    /// Reads `nodes`, `defaults`, `links` and `lans`.
    pub(crate) fn read(root: &mut Section<'_>, files: &Files<'_>) -> Self {
        let mut topology = Self::default();
        let nodes = root.required("nodes", "write nodes = [\"a\", \"b\"], or [nodes.a] for each");
        let shapes = nodes.map_or_else(Vec::new, |item| topology.read_nodes(&item));
        let defaults =
            root.item("defaults").and_then(|item| item.section()).map_or_else(Layer::default, |mut section| {
                let layer = Layer::read(&mut section, files);
                section.finish();
                layer
            });
        let links = root.item("links").map_or_else(Vec::new, |item| item.named());
        let lans = root.item("lans").map_or_else(Vec::new, |item| item.named());
        if let Some((_, item)) = links.iter().chain(&lans).nth(LINKS_MAX) {
            item.complain(Fault::new(
                format!("{} links and LANs are too many", links.len() + lans.len()),
                format!("at most {LINKS_MAX}"),
            ));
            return topology;
        }
        let mut names = BTreeSet::new();
        for (name, item) in links.iter().chain(&lans) {
            if !names.insert(name.clone()) {
                item.complain(Fault::new("is the name of a link, too", "give each its own name"));
            }
        }
        for (name, item) in links {
            topology.read_link(name, &item, &defaults, files);
        }
        for (name, item) in lans {
            topology.read_lan(name, &item, &defaults, files);
        }
        for (node, item) in &shapes {
            topology.read_shape(*node, item);
        }
        topology
    }

    /// Returns the shaping tables of the nodes, since links are not known yet.
    fn read_nodes<'a>(&mut self, item: &Item<'a>) -> Vec<(usize, Item<'a>)> {
        let mut shapes = Vec::new();
        let short = item.value.kind.is_array();
        let nodes: Vec<(String, Item<'_>)> = if short {
            item.items().into_iter().filter_map(|i| i.read(quantity::text).map(|name| (name, i))).collect()
        } else {
            item.named()
        };
        if let Some((_, extra)) = nodes.get(NODES_MAX) {
            extra.complain(Fault::new(format!("{} nodes are too many", nodes.len()), format!("at most {NODES_MAX}")));
            return shapes;
        }
        for (name, item) in nodes {
            if let Err(fault) = self.check_node_name(&name) {
                item.complain(fault);
                self.broken.insert(name);
                continue;
            }
            let mut sysctl = BTreeMap::new();
            if let Some(mut section) = if short { None } else { item.section() } {
                shapes.extend(section.item("shape").map(|shape| (self.nodes.len(), shape)));
                sysctl = read_sysctls(section);
            }
            let (ipv4, ipv6) = addresses(self.nodes.len());
            self.nodes.push(Node { name, ipv4, ipv6, sysctl, shape: Vec::new(), routes: Vec::new() });
        }
        shapes
    }

    /// Reads the policies of a node's devices, each under the name of its link or LAN.
    fn read_shape(&mut self, node: usize, item: &Item<'_>) {
        for (name, policy) in item.named() {
            let links = self.links.iter().enumerate().map(|(n, l)| (&l.name, Medium::Link(n), l.between.to_vec()));
            let lans = self.lans.iter().enumerate().map(|(n, l)| (&l.name, Medium::Lan(n), l.members.clone()));
            let own: Vec<_> = links.chain(lans).filter(|(_, _, ends)| ends.contains(&node)).collect();
            let Some((_, medium, _)) = own.iter().find(|(n, _, _)| **n == name) else {
                let known: Vec<&str> = own.iter().map(|(n, _, _)| n.as_str()).collect();
                let message = format!("node `{}` has no link or LAN `{name}`", self.nodes[node].name);
                policy.complain(Fault::new(message, known_names(&name, &known, "connect the node to one")));
                continue;
            };
            let medium = *medium;
            self.nodes[node].shape.extend(policy::read_for_device(name, &policy).map(|p| (medium, p)));
        }
    }

    fn check_node_name(&self, name: &str) -> Result<(), Fault> {
        quantity::check_name(name)?;
        if name == "localhost" {
            return Err(Fault::new("the name `localhost` is reserved", "give it another name"));
        }
        if self.nodes.iter().any(|n| n.name == name) {
            return Err(Fault::new(format!("there are two nodes `{name}`"), "give each its own name"));
        }
        Ok(())
    }

    /// The index of the node that `item` names; `None` after an error has been reported.
    pub(crate) fn node(&self, item: &Item<'_>) -> Option<usize> {
        let name = item.read(quantity::text)?;
        let index = self.nodes.iter().position(|n| n.name == name);
        if index.is_none() && !self.broken.contains(&name) {
            let known: Vec<&str> = self.nodes.iter().map(|n| n.name.as_str()).collect();
            let hint = known_names(&name, &known, "add it to the nodes");
            item.complain(Fault::new(format!("there is no node `{name}`"), hint));
        }
        index
    }

    /// The index of the link that `item` names; `None` after an error has been reported.
    pub(crate) fn link(&self, item: &Item<'_>) -> Option<usize> {
        let name = item.read(quantity::text)?;
        let index = self.links.iter().position(|l| l.name == name);
        if index.is_none() {
            let known: Vec<&str> = self.links.iter().map(|l| l.name.as_str()).collect();
            let fault = if self.lans.iter().any(|l| l.name == name) {
                Fault::new(format!("`{name}` is a LAN, which cannot be named here"), "use a link")
            } else {
                Fault::new(format!("there is no link `{name}`"), known_names(&name, &known, "add it to the links"))
            };
            item.complain(fault);
        }
        index
    }

    /// Reads a link. A link with an error keeps its index, so that references to it are not reported as well.
    fn read_link(&mut self, name: String, item: &Item<'_>, defaults: &Layer, files: &Files<'_>) {
        check_medium_name(&name, item);
        let Some(mut section) = item.section() else { return };
        let ends = section.required("between", "write the two nodes: between = [\"a\", \"b\"]");
        let between = ends.and_then(|ends| self.two_nodes(&ends)).unwrap_or_default();
        let layer = Layer::read(&mut section, files);
        let mut direction = |key| {
            let mut section = section.item(key)?.section()?;
            let mut patch = Patch::read(&mut section, files);
            patch.read_path_mtu(&mut section);
            section.finish();
            Some(patch)
        };
        let patches = [direction("forward"), direction("backward")].map(|own| {
            let whole = layer.patch.clone().over(&defaults.patch);
            own.unwrap_or_default().over(&whole)
        });
        section.refuse("members", "belongs to a LAN", &format!("write [lans.{name}], or use between"));
        let mut settings = [Settings::default(), Settings::default()];
        apply_both(&mut settings, [Some(&patches[0]), Some(&patches[1])], &section);
        section.finish();
        let [forward, backward] = settings;
        self.links.push(Link { name, between, mtu: layer.mtu(defaults), forward, backward });
        self.link_costs.push(layer.cost(defaults));
    }

    fn two_nodes(&self, ends: &Item<'_>) -> Option<[usize; 2]> {
        let items = ends.items();
        let [a, b] = items.as_slice() else {
            if ends.value.kind.is_array() {
                let message = format!("a link has two ends, not {}", items.len());
                ends.complain(Fault::new(message, "for more than two nodes use a LAN"));
            }
            return None;
        };
        let between = [self.node(a), self.node(b)];
        let [Some(a), Some(b)] = between else { return None };
        if a == b {
            ends.complain(Fault::new("both ends are the same node", "name two nodes"));
            return None;
        }
        Some([a, b])
    }

    fn read_lan(&mut self, name: String, item: &Item<'_>, defaults: &Layer, files: &Files<'_>) {
        check_medium_name(&name, item);
        let Some(mut section) = item.section() else { return };
        let list = section.required("members", "write the nodes: members = [\"a\", \"b\", \"c\"]");
        let members = list.map_or_else(Vec::new, |list| self.members(&list));
        let layer = Layer::read(&mut section, files);
        section.refuse("between", "belongs to a link", &format!("write [links.{name}], or use members"));
        for key in ["forward", "backward"] {
            section.refuse(key, "a LAN has no directions", "use links where they differ");
        }
        let patch = layer.patch.clone().over(&defaults.patch);
        let mut down = Settings::default();
        patch.apply(&mut down);
        // A round trip between two members includes the delay of each once.
        let opposite = down.delay;
        patch.apply_products(&mut down, opposite, section.report);
        let up = Settings {
            capacity: down.capacity.clone(),
            overhead: down.overhead,
            queue: down.queue,
            mtu: down.mtu,
            up: down.up,
            ..Settings::default()
        };
        section.finish();
        self.lans.push(Lan { name, members, mtu: layer.mtu(defaults), up, down });
        self.lan_costs.push(layer.cost(defaults));
    }

    fn members(&self, list: &Item<'_>) -> Vec<usize> {
        let items = list.items();
        let mut members = Vec::new();
        for item in &items {
            match self.node(item) {
                Some(node) if members.contains(&node) => {
                    item.complain(Fault::new("is a member already", "name each node once"));
                }
                Some(node) => members.push(node),
                None => {}
            }
        }
        if items.len() < 2 && list.value.kind.is_array() {
            list.complain(Fault::new("a LAN has at least two members", "name two or more nodes"));
        }
        members
    }
}

/// The keys of a link as a whole from one table.
#[derive(Debug, Default)]
struct Layer {
    patch: Patch,
    mtu: Option<u32>,
    cost: Option<i64>,
}

impl Layer {
    fn read(section: &mut Section<'_>, files: &Files<'_>) -> Self {
        Self {
            patch: Patch::read(section, files),
            mtu: section.read("mtu", quantity::whole_u32(MTU)),
            cost: section.read("cost", quantity::whole(1..=1_000_000)),
        }
    }

    fn mtu(&self, defaults: &Self) -> u32 {
        self.mtu.or(defaults.mtu).unwrap_or(DEFAULT_MTU)
    }

    fn cost(&self, defaults: &Self) -> Cost {
        Cost(self.cost.or(defaults.cost).unwrap_or(1).unsigned_abs())
    }
}

/// Applies a patch to each direction that has one; bandwidth-delay products use the delays after all changes.
pub(crate) fn apply_both(settings: &mut [Settings; 2], patches: [Option<&Patch>; 2], section: &Section<'_>) {
    for (settings, patch) in settings.iter_mut().zip(patches) {
        if let Some(patch) = patch {
            patch.apply(settings);
        }
    }
    let opposite: [Duration; 2] = [settings[1].delay, settings[0].delay];
    for ((settings, patch), opposite) in settings.iter_mut().zip(patches).zip(opposite) {
        if let Some(patch) = patch {
            patch.apply_products(settings, opposite, section.report);
        }
    }
}

/// The index of a direction in a pair.
pub(crate) fn index(direction: LinkDirection) -> usize {
    match direction {
        LinkDirection::Forward => 0,
        LinkDirection::Backward => 1,
    }
}

fn check_medium_name(name: &str, item: &Item<'_>) {
    let checked = match name {
        "all" => Err(Fault::new("`all` means every link", "give it another name")),
        _ => quantity::check_name(name),
    };
    if let Err(fault) = checked {
        item.complain(fault);
    }
}

fn read_sysctls(mut section: Section<'_>) -> BTreeMap<String, String> {
    let entries = section.item("sysctl").map_or_else(Vec::new, |item| item.named());
    section.finish();
    let read = |(key, item): (String, Item<'_>)| {
        if let Err(fault) = check_sysctl(&key) {
            item.complain(fault);
        }
        Some((key, item.read(sysctl_value)?))
    };
    entries.into_iter().filter_map(read).collect()
}

fn check_sysctl(key: &str) -> Result<(), Fault> {
    if !key.starts_with("net.") {
        return Err(Fault::new(
            "only settings below net. belong to a network namespace; this one would change the whole host",
            "leave it out, or set it on the host yourself",
        ));
    }
    let part = |p: &str| !p.is_empty() && p.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if key.split('.').all(part) {
        Ok(())
    } else {
        Err(Fault::new("is not a sysctl key", "write it as `sysctl -a` does"))
    }
}

fn sysctl_value(value: &Value) -> Result<String, Fault> {
    if value.kind.is_table() {
        return Err(Fault::new("is a table", "put the key in quotes: \"net.ipv4.tcp_rmem\" = \"...\""));
    }
    quantity::as_text(value)
}

/// Addresses of the node at an index: 10.0.x.y without .0 and .255, which some programs take for network addresses, and
/// fd00::/64 (RFC 4193) counted from 1.
fn addresses(index: usize) -> (Ipv4Addr, Ipv6Addr) {
    let [_, _, high, low] = u32::try_from(index + 1).unwrap_or(u32::MAX).to_be_bytes();
    let (third, fourth) = (index / 250, index % 250 + 1);
    let byte = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
    let ipv4 = Ipv4Addr::new(10, 0, byte(third), byte(fourth));
    (ipv4, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from_be_bytes([high, low])))
}
