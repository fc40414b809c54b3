//! Builds namespaces, devices and the engine's plan from a scenario.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use ipnet::IpNet;
use kernel::{KernelError, LinkSettings, Neighbour, Netlink, Route, Tun, TunKind};
use results::lab::FullSockets;
use scenario::{LinkDirection, Medium, Node, Scenario, Wire, link_wire};
use shaping::Policy;

use crate::capture::{Capture, Tap};
use crate::engine::{Exit, Plan, PortPlan, WirePlan};
use crate::{LabError, mac};

/// Transmit queue length of a device in packets: 30 ms at 300 000 packets a second, longer than any pause of the
/// engine.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;

/// Default sysctls of every node. Routers forward; hosts are tuned for a long fat path (buffers of up to 128 MB: twice
/// 500 ms at 1 Gb/s). TCP metrics are not saved, so that one experiment does not affect the next.
const NODE_SYSCTLS: [(&str, &str); 10] = [
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.tcp_rmem", "4096 131072 134217728"),
    ("net.ipv4.tcp_wmem", "4096 65536 134217728"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
];

/// A node that is set up.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) namespace: Arc<File>,
    /// Names of its devices, each with the wire that takes the packets that it sends.
    pub(crate) devices: Vec<(String, usize)>,
}

/// Everything that is set up for a run.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) hosts: Vec<Host>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) captures: Vec<(String, Capture)>,
    pub(crate) plan: Plan,
}

/// The connection of a node to a link or LAN.
struct Plug {
    device: String,
    kind: TunKind,
    mtu: u32,
    /// The wire that takes the packets that the node sends.
    wire: usize,
    medium: Medium,
    mac: Option<[u8; 6]>,
    /// Addresses of the neighbours on a LAN.
    neighbours: Vec<(IpAddr, [u8; 6])>,
}

/// Builds all nodes and devices. `captures` is the directory for pcapng files.
pub(crate) fn build(scenario: &Scenario, seed: u64, memory: u64, captures: &Path) -> Result<Topology, LabError> {
    let ipv6 = uses_ipv6(scenario);
    let wires = scenario.wires();
    let mut taps: Vec<Option<Tap>> = wires.iter().map(|_| None).collect();
    let mut files = Vec::new();
    for link in &scenario.record.pcapng {
        let name = &scenario.links[*link].name;
        let numbers = [link_wire(*link, LinkDirection::Forward), link_wire(*link, LinkDirection::Backward)];
        let path = captures.join(format!("{name}.pcapng"));
        let labels = numbers.map(|w| format!("{} > {}", wires[w].from, wires[w].to));
        let (capture, own) =
            Capture::start(&path, &labels, false, scenario.record.snap).map_err(LabError::file(&path))?;
        own.into_iter().zip(numbers).for_each(|(tap, wire)| taps[wire] = Some(tap));
        files.push((name.clone(), capture));
    }

    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    // Index of the port at which each wire ends.
    let mut exits = vec![0; wires.len()];
    for (number, node) in scenario.nodes.iter().enumerate() {
        let plugs = plugs(scenario, number);
        let namespace = kernel::new_namespace().map_err(LabError::system(format!("making node {}", node.name)))?;
        let tuns = inside(&namespace, || {
            let tuns = set_up(scenario, node, &plugs, ipv6)?;
            shape(node, &plugs).map(|()| tuns)
        })
        .map_err(LabError::system(format!("starting a thread for node {}", node.name)))??;
        let devices = plugs.iter().zip(&tuns).map(|(p, t)| (t.name().to_owned(), p.wire)).collect();
        for (plug, tun) in plugs.iter().zip(tuns) {
            exits[opposite(plug.wire)] = ports.len();
            ports.push(PortPlan { tun, wire: plug.wire });
        }
        hosts.push(Host { name: node.name.clone(), namespace: Arc::new(namespace), devices });
    }
    let plan = Plan {
        ports,
        wires: wires
            .iter()
            .zip(taps)
            .enumerate()
            .map(|(number, (info, tap))| WirePlan {
                settings: info.settings.clone(),
                seed: info.seed(seed),
                exit: exit(scenario, number, exits[number]),
                tap,
            })
            .collect(),
        lans: (0..scenario.lans.len()).map(|l| down_wires(scenario, l)).collect(),
        schedule: scenario
            .schedule
            .iter()
            .map(|c| (c.at, link_wire(c.link, c.direction), c.settings.clone()))
            .collect(),
        interval: scenario.record.interval,
        length: Some(scenario.duration),
        memory,
    };
    Ok(Topology { hosts, wires, captures: files, plan })
}

/// Whether the nodes have IPv6: only if a flow uses it.
pub(crate) fn uses_ipv6(scenario: &Scenario) -> bool {
    scenario.flows.iter().any(|f| f.ipv6)
}

/// Runs a closure in a thread inside a network namespace.
pub(crate) fn inside<T: Send>(namespace: &File, job: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, || {
            kernel::enter_namespace(namespace)?;
            Ok(job())
        })?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread in a node panicked")))
    })
}

fn down_wires(scenario: &Scenario, lan: usize) -> Vec<usize> {
    (0..scenario.lans[lan].members.len()).map(|m| scenario.lan_wire(lan, m) + 1).collect()
}

/// The wire that ends where `wire` starts: wires are numbered in pairs.
fn opposite(wire: usize) -> usize {
    wire ^ 1
}

fn exit(scenario: &Scenario, wire: usize, port: usize) -> Exit {
    for lan in 0..scenario.lans.len() {
        for member in 0..scenario.lans[lan].members.len() {
            if wire == scenario.lan_wire(lan, member) {
                return Exit::Switch { lan, member };
            }
        }
    }
    Exit::Port(port)
}

/// The connections of a node.
fn plugs(scenario: &Scenario, node: usize) -> Vec<Plug> {
    let mut plugs = Vec::new();
    for (number, link) in scenario.links.iter().enumerate() {
        for (end, direction) in [(0, LinkDirection::Forward), (1, LinkDirection::Backward)] {
            if link.between[end] == node {
                plugs.push(Plug {
                    device: device_name(&link.name, 'l', number),
                    kind: TunKind::Tun,
                    mtu: link.mtu,
                    wire: link_wire(number, direction),
                    medium: Medium::Link(number),
                    mac: None,
                    neighbours: Vec::new(),
                });
            }
        }
    }
    for (number, lan) in scenario.lans.iter().enumerate() {
        let Some(member) = lan.members.iter().position(|m| *m == node) else { continue };
        let neighbours = lan.members.iter().enumerate().filter(|(m, _)| *m != member);
        let addresses = neighbours.flat_map(|(m, n)| {
            let other = &scenario.nodes[*n];
            [(other.ipv4.into(), mac::address(number, m)), (other.ipv6.into(), mac::address(number, m))]
        });
        plugs.push(Plug {
            device: device_name(&lan.name, 'n', number),
            kind: TunKind::Tap,
            mtu: lan.mtu,
            wire: scenario.lan_wire(number, member),
            medium: Medium::Lan(number),
            mac: Some(mac::address(number, member)),
            neighbours: addresses.collect(),
        });
    }
    plugs
}

/// The name of the link if it is a valid device name (at most 15 bytes, not a reserved name), otherwise a name with a
/// number.
fn device_name(name: &str, letter: char, number: usize) -> String {
    if name.len() <= 15 && name != "lo" && name != "all" && name != "default" {
        name.to_owned()
    } else {
        format!("{letter}{number}")
    }
}

/// Sets up devices, addresses, routes and sysctls inside the node's namespace.
fn set_up(scenario: &Scenario, node: &Node, plugs: &[Plug], ipv6: bool) -> Result<Vec<Tun>, LabError> {
    let wire = |e: KernelError| LabError::Kernel { place: format!("node {}", node.name), source: e };
    let at = |what: &str| LabError::system(format!("node {}: {what}", node.name));
    let mut own: Vec<(&str, &str)> = NODE_SYSCTLS.to_vec();
    if !ipv6 {
        own.retain(|(key, _)| !key.starts_with("net.ipv6"));
        // With IPv6 each new device sends its own reports, which would count as packets of the experiment.
        own.push(("net.ipv6.conf.all.disable_ipv6", "1"));
        own.push(("net.ipv6.conf.default.disable_ipv6", "1"));
    }
    for (key, value) in own {
        match kernel::write_sysctl(key, value) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(wire)?,
        }
    }
    for (key, value) in &node.sysctl {
        kernel::write_sysctl(key, value).map_err(wire)?;
    }
    let mut netlink = Netlink::open().map_err(wire)?;
    let lo = netlink.index("lo").map_err(wire)?;
    netlink.set_link(lo, &LinkSettings { up: Some(true), ..LinkSettings::default() }).map_err(wire)?;
    netlink.add_address(lo, node.ipv4.into(), 32, None).map_err(wire)?;
    if ipv6 {
        netlink.add_address(lo, node.ipv6.into(), 128, None).map_err(wire)?;
    }
    let mut tuns = Vec::new();
    for plug in plugs {
        let tun = Tun::new(&plug.device, plug.kind, true).map_err(at(&plug.device))?;
        let device = netlink.index(tun.name()).map_err(wire)?;
        let settings = LinkSettings {
            up: Some(true),
            mtu: Some(plug.mtu),
            tx_queue_len: Some(DEVICE_QUEUE_PACKETS),
            mac: plug.mac,
            ..LinkSettings::default()
        };
        netlink.set_link(device, &settings).map_err(wire)?;
        let neighbours = plug.neighbours.iter().filter(|(a, _)| ipv6 || a.is_ipv4());
        let neighbours: Vec<Neighbour> = neighbours.map(|(ip, mac)| Neighbour { device, ip: *ip, mac: *mac }).collect();
        netlink.add_neighbours(&neighbours).map_err(wire)?;
        netlink.add_routes(&routes(scenario, node, plug, device, ipv6)).map_err(wire)?;
        tuns.push(tun);
    }
    Ok(tuns)
}

/// Applies the shaping policies of the scenario to a node's devices.
fn shape(node: &Node, plugs: &[Plug]) -> Result<(), LabError> {
    for (medium, policy) in &node.shape {
        let Some(plug) = plugs.iter().find(|p| p.medium == *medium) else { continue };
        let policy = Policy { device: plug.device.clone(), ..policy.clone() };
        host::shape::install_for_good(&policy)
            .map_err(|source| LabError::Shape { node: node.name.clone(), source: Box::new(source) })?;
    }
    Ok(())
}

/// Routes of a node over one of its devices.
fn routes(scenario: &Scenario, node: &Node, plug: &Plug, device: u32, ipv6: bool) -> Vec<Route> {
    let mut all = Vec::new();
    for route in node.routes.iter().filter(|r| r.over == plug.medium) {
        let (to, next) = (&scenario.nodes[route.to], &scenario.nodes[route.next]);
        // A TUN device needs no gateway; on a LAN the hardware address of the next node is needed.
        let onlink = plug.kind == TunKind::Tap && route.next != route.to;
        let v4 = (IpAddr::from(to.ipv4), IpAddr::from(next.ipv4), IpAddr::from(node.ipv4));
        let v6 = (IpAddr::from(to.ipv6), IpAddr::from(next.ipv6), IpAddr::from(node.ipv6));
        for (to, via, source) in [v4, v6].into_iter().take(if ipv6 { 2 } else { 1 }) {
            let (to, via, source) = (IpNet::from(to), onlink.then_some(via), Some(source));
            all.push(Route { to, via, device, onlink, source, metric: None, unreachable: false });
        }
    }
    all
}

/// Nodes whose own sockets dropped received datagrams. A counter that cannot be read is skipped.
pub(crate) fn full_sockets(hosts: &[Host]) -> Vec<FullSockets> {
    let dropped = |host: &Host| inside(&host.namespace, kernel::full_socket_drops).ok().filter(|n| *n > 0);
    let all = hosts.iter().filter_map(|h| Some(FullSockets { node: h.name.clone(), datagrams: dropped(h)? }));
    all.collect()
}

/// Packets that each node's devices dropped before the engine read them, by wire.
pub(crate) fn device_drops(hosts: &[Host]) -> Result<Vec<(usize, u64)>, LabError> {
    let mut all = Vec::new();
    for host in hosts {
        let place = |source| LabError::Kernel { place: format!("node {}", host.name), source };
        let devices = inside(&host.namespace, || Netlink::open().and_then(|mut n| n.links()))
            .map_err(LabError::system("reading device counters"))?
            .map_err(place)?;
        for (name, wire) in &host.devices {
            let dropped = devices.iter().find(|d| d.name == *name).map_or(0, |d| d.statistics.sent.dropped);
            all.push((*wire, dropped));
        }
    }
    Ok(all)
}
