//! `[overlay]`: nodes of an overlay that run during the experiment.

use crate::flows::{DEFAULT_CONGESTION_CONTROL, Draft};
use crate::model::{Flow, Overlay};
use crate::problem::{Fault, Report};
use crate::quantity;
use crate::section::{Item, Section};
use crate::topology::Topology;

/// Maximum number of members: each is a process with four threads.
const MEMBERS_MAX: usize = 64;

/// The policy that predicts by its own formula.
const SAFIRE: &str = "safire-2008";

/// Reads the table.
pub(crate) fn read(root: &mut Section<'_>, topology: &Topology) -> Option<Overlay> {
    let item = root.item("overlay")?;
    let mut section = item.section()?;
    let members = section.required("members", "name the nodes: members = [\"west\", \"east\"]");
    let members: Vec<usize> = members.map_or_else(Vec::new, |i| nodes(&i, topology));
    let links = section.item("links").map(|i| i.items().iter().filter_map(|l| link(l, topology, &members)).collect());
    let policy = section.read("policy", quantity::name(&[("default", "default"), (SAFIRE, SAFIRE)]));
    let has_symbols = policy == Some(SAFIRE);
    // A member's default is the congestion control of this machine, not that of the experiment's flows.
    let of_flows = || (policy != Some(SAFIRE)).then(|| DEFAULT_CONGESTION_CONTROL.to_owned());
    let overlay = Overlay {
        links,
        policy: policy.map(str::to_owned),
        single_path: section.read("single_path", quantity::boolean).unwrap_or(false),
        t_ch: named(&mut section, ["hold_down", "t_ch"], has_symbols).and_then(|i| i.read(quantity::duration)),
        t_loss: named(&mut section, ["loss_interval", "t_loss"], has_symbols).and_then(|i| i.read(quantity::duration)),
        n_loss: named(&mut section, ["loss_probes", "n_loss"], has_symbols)
            .and_then(|i| i.read(quantity::whole_u32(1..=u32::MAX))),
        capacity: section.read("capacity", quantity::rate),
        probe_share: section.read("probe_share", quantity::probability),
        congestion_control: section.read("congestion_control", quantity::text).or_else(of_flows),
        members,
    };
    section.finish();
    if overlay.members.len() < 2 || overlay.members.len() > MEMBERS_MAX {
        item.complain(Fault::new("needs between 2 and 64 members", "name the nodes that are to run one"));
    }
    Some(overlay)
}

/// A setting by its name, or with the policy of the SAFIRE paper also by the symbol of the paper.
fn named<'a>(section: &mut Section<'a>, names: [&'static str; 2], has_symbols: bool) -> Option<Item<'a>> {
    let [name, symbol] = names;
    let (plain, by_symbol) = (section.item(name), section.item(symbol));
    let Some(given) = &by_symbol else { return plain };
    if plain.is_some() {
        given.complain(Fault::new(format!("is the same setting as `{name}`"), "write one of them"));
    } else if !has_symbols {
        given.complain(Fault::new(format!("is a symbol of the policy {SAFIRE}"), format!("write `{name}`")));
    }
    plain.or(by_symbol)
}

fn nodes(item: &Item<'_>, topology: &Topology) -> Vec<usize> {
    let mut found = Vec::new();
    for item in item.items() {
        let Some(node) = topology.node(&item) else { continue };
        if found.contains(&node) {
            item.complain(Fault::new("is a member already", "name each node once"));
        }
        found.push(node);
    }
    found
}

fn link(item: &Item<'_>, topology: &Topology, members: &[usize]) -> Option<[usize; 2]> {
    let ends = nodes(item, topology);
    if ends.iter().any(|e| !members.contains(e)) {
        item.complain(Fault::new("names a node that is not a member", "list it under members"));
    }
    let pair = <[usize; 2]>::try_from(ends).ok();
    if pair.is_none() {
        item.complain(Fault::new("is not a pair of members", "write two members: [\"west\", \"east\"]"));
    }
    pair
}

/// Reports an error for flows over the overlay whose ends are not both members.
pub(crate) fn check(overlay: Option<&Overlay>, flows: &[Draft<Flow>], report: &Report) {
    for flow in flows.iter().filter(|f| f.what.overlay) {
        let member = |node| overlay.is_some_and(|o| o.members.contains(node));
        if !member(&flow.what.from) || !member(&flow.what.to) {
            let hint = "name both of its nodes under [overlay] members, or leave `overlay` out";
            flow.spot.complain(report, Fault::new("uses an overlay that its nodes do not belong to", hint));
        }
    }
}
