//! The wires of a network: every direction of every link and LAN port, numbered in the order of the file.

use link::Settings;

use crate::model::{LinkDirection, Medium, Scenario};

/// Name of the switch of a LAN in records.
pub const SWITCH: &str = "switch";

/// One direction of a link, or of a port of a LAN, as named in records.
#[derive(Debug, Clone, PartialEq)]
pub struct Wire {
    /// Name of the link, or of the LAN and its member: `LAN/MEMBER`.
    pub link: String,
    /// Node that sends into the wire, or [`SWITCH`].
    pub from: String,
    /// Node that receives from the wire, or [`SWITCH`].
    pub to: String,
    /// Settings at the start of the run.
    pub settings: Settings,
}

impl Wire {
    /// Seed of the wire's random draws in a run with seed `seed`, independent of the other links (FNV-1a over the
    /// wire's name).
    pub fn seed(&self, seed: u64) -> u64 {
        let name = format!("{}/{}/{}", self.link, self.from, self.to);
        name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    }
}

/// Index of the wire of one direction of a link.
pub const fn link_wire(link: usize, direction: LinkDirection) -> usize {
    match direction {
        LinkDirection::Forward => 2 * link,
        LinkDirection::Backward => 2 * link + 1,
    }
}

impl Scenario {
    /// All wires: two for each link; then, for each LAN and member, one to the switch and one from it.
    pub fn wires(&self) -> Vec<Wire> {
        let name = |node: usize| self.nodes[node].name.clone();
        let mut all = Vec::new();
        for link in &self.links {
            let [a, b] = link.between;
            let wire = |from, to, settings: &Settings| Wire {
                link: link.name.clone(),
                from: name(from),
                to: name(to),
                settings: settings.clone(),
            };
            all.extend([wire(a, b, &link.forward), wire(b, a, &link.backward)]);
        }
        for lan in &self.lans {
            for member in &lan.members {
                let link = format!("{}/{}", lan.name, name(*member));
                let (node, switch) = (name(*member), SWITCH.to_owned());
                let up = Wire { link: link.clone(), from: node.clone(), to: switch.clone(), settings: lan.up.clone() };
                all.extend([up, Wire { link, from: switch, to: node, settings: lan.down.clone() }]);
            }
        }
        all
    }

    /// Index of the wire from a LAN member to the switch; the wire from the switch has the next index.
    pub fn lan_wire(&self, lan: usize, member: usize) -> usize {
        let before: usize = self.lans.iter().take(lan).map(|l| l.members.len()).sum();
        2 * (self.links.len() + before + member)
    }

    /// Indices of the wires of the path from one node to another along the routes; `None` if there is no route.
    pub fn path_wires(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let (mut here, mut wires) = (from, Vec::new());
        // A path visits no node twice.
        for _ in 0..=self.nodes.len() {
            if here == to {
                return Some(wires);
            }
            let route = self.nodes.get(here)?.routes.iter().find(|r| r.to == to)?;
            match route.over {
                Medium::Link(index) => {
                    let is_first = self.links.get(index)?.between[0] == here;
                    let direction = if is_first { LinkDirection::Forward } else { LinkDirection::Backward };
                    wires.push(link_wire(index, direction));
                }
                Medium::Lan(index) => {
                    let port = |node| self.lans.get(index)?.members.iter().position(|m| *m == node);
                    wires.extend([self.lan_wire(index, port(here)?), self.lan_wire(index, port(route.next)?) + 1]);
                }
            }
            here = route.next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn a_path_has_a_wire_for_each_link_and_two_for_each_lan() {
        let text = "duration = \"1s\"\nnodes = [\"a\", \"b\", \"c\"]\n[links.one]\nbetween = [\"b\", \"a\"]\n\
                    [lans.office]\nmembers = [\"b\", \"c\"]\n";
        let read = crate::read(Path::new("x.toml"), text, &crate::Options::default(), &|_| Err(String::new()));
        let scenario = read.unwrap().scenarios.remove(0);
        let wires = scenario.wires();
        let names = |path: Vec<usize>| path.iter().map(|w| format!("{} > {}", wires[*w].from, wires[*w].to)).collect();
        let path: Vec<String> = names(scenario.path_wires(0, 2).unwrap());
        assert_eq!(path, ["a > b", "b > switch", "switch > c"]);
        let back: Vec<String> = names(scenario.path_wires(2, 0).unwrap());
        assert_eq!(back, ["c > switch", "switch > b", "b > a"]);
        assert_ne!(wires[0].seed(1), wires[1].seed(1));
    }
}
