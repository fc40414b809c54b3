//! Parts of an experiment that a simulated run cannot follow.

use estimate::probe::MethodName;
use link::{Capacity, Settings};
use scenario::{Flow, Scenario, Transport, link_wire};

use crate::controls;
use crate::sysctls;

/// A part of an experiment that the simulator does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct Unsupported {
    /// Dotted key of the part.
    pub key: String,
    /// Reason, for the author of the experiment.
    pub reason: String,
}

/// All parts of a scenario that the simulator does not have; empty: it can run.
pub fn unsupported(scenario: &Scenario) -> Vec<Unsupported> {
    let mut all = Vec::new();
    let mut add = |key: String, reason: String| all.push(Unsupported { key, reason });
    for node in &scenario.nodes {
        for key in node.sysctl.keys().filter(|key| !sysctls::is_known(key)) {
            let reason = format!("the simulator does not follow this setting; it follows {}", sysctls::followed());
            add(format!("nodes.{}.sysctl.\"{key}\"", node.name), reason);
        }
        if !node.shape.is_empty() {
            add(format!("nodes.{}.shape", node.name), "the simulator has no traffic control".to_owned());
        }
    }
    let tcp = scenario.flows.iter().filter(|f| f.transport == Transport::Tcp);
    let flows = tcp.filter_map(|f| Some((format!("flows.{}", f.name), f.congestion_control.clone()?)));
    let mice = scenario.mice.iter().map(|m| (format!("mice.{}", m.name), m.congestion_control.clone()));
    for (key, name) in flows.chain(mice) {
        if controls::control(scenario, &name).is_none() {
            let known = controls::NAMES.join(", ");
            add(key, format!("the simulator does not have the congestion control {name}; it has {known}"));
        }
    }
    let ends = scenario.flows.iter().filter(|f| f.transport == Transport::Tcp);
    // The path of a flow through the overlay is not known here: members send to any other that they have a link to.
    let overlay = scenario.overlay.as_ref();
    let pairs = |f: &Flow| match overlay.filter(|_| f.overlay) {
        Some(o) => o
            .members
            .iter()
            .flat_map(|a| o.members.iter().map(|b| (*a, *b)))
            .filter(|(a, b)| a < b && o.is_linked(*a, *b))
            .collect(),
        None => vec![(f.from, f.to)],
    };
    let ends = ends.flat_map(|f| pairs(f).into_iter().map(|(a, b)| (format!("flows.{}", f.name), a, b)));
    let mice = scenario.mice.iter().map(|m| (format!("mice.{}", m.name), m.from, m.to));
    let is_transfer = |m: &MethodName| matches!(m, MethodName::Tcp | MethodName::ShortTcp);
    let calls = scenario.estimates.iter().filter(|e| e.methods.iter().any(is_transfer));
    let calls = calls.map(|e| (format!("estimates.{}", e.name), e.from, e.to));
    for (key, from, to) in ends.chain(mice).chain(calls) {
        if takes_no_time(scenario, from, to) && takes_no_time(scenario, to, from) {
            let reason = "a round trip takes no time, so that TCP would send without end at one moment; \
                          give a link of the path a delay or a rate";
            add(key, reason.to_owned());
        }
    }
    for program in &scenario.programs {
        let reason =
            "a simulated node cannot run programs; for longhaul estimate write [estimates.*], for longhaul test \
                      [flows.*]"
                .to_owned();
        add(format!("programs.{}", program.name), reason);
    }
    for link in &scenario.record.pcapng {
        let name = &scenario.links[*link].name;
        add("record.pcapng".to_owned(), format!("the simulator writes no captures (link {name})"));
    }
    all.dedup();
    all
}

/// Whether packets from one node to another may arrive at the moment of sending, at the start or after a change.
fn takes_no_time(scenario: &Scenario, from: usize, to: usize) -> bool {
    let at_once = |s: &Settings| s.delay.is_zero() && s.capacity == Capacity::Unlimited;
    let wires = scenario.wires();
    let path = scenario.path_wires(from, to).unwrap_or_default();
    path.into_iter().all(|wire| {
        let changes = scenario.schedule.iter().filter(|c| link_wire(c.link, c.direction) == wire);
        at_once(&wires[wire].settings) || changes.map(|c| &c.settings).any(at_once)
    })
}
