//! The members of an experiment's overlay in a simulated run: the same sessions, frames and decisions as on a kernel.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use overlay::{Action, Endpoint, Identity, LossSensor, MemberSettings, PolicyName, Settings, SimulatedMember};
use results::lab::RouteChange;
use route::{Member, Path};
use scenario::{Overlay, Scenario};
use sim::{Tunnel, TunnelAction};
use units::Instant;

use crate::LabError;
use crate::overlay::route_text;

/// Network secret of the overlay. It need not be secret, since simulated members have no outside connection.
const SECRET: &str = "a simulated overlay, for one run";

/// The members of a run, with their nodes, and the route changes that they will make.
pub(super) struct Members {
    pub(super) tunnels: Vec<(usize, Box<dyn Tunnel>)>,
    pub(super) changes: Changes,
}

/// Changes of the best routes of all members, with their times on the clock of the simulator.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes(Rc<RefCell<Vec<(Instant, RouteChange)>>>);

impl Changes {
    /// The changes with their times since the start of the run.
    pub(super) fn since(&self, zero: Instant) -> Vec<RouteChange> {
        let seconds = |at: Instant| (i128::from(at.as_nanos()) - i128::from(zero.as_nanos())) as f64 / 1e9;
        let all = self.0.borrow();
        let mut changes: Vec<RouteChange> =
            all.iter().map(|(at, change)| RouteChange { at_s: seconds(*at), ..change.clone() }).collect();
        changes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        changes
    }
}

/// Creates the members of a scenario; none without an overlay.
pub(super) fn members(scenario: &Scenario, seed: u64) -> Result<Members, LabError> {
    let changes = Changes::default();
    let mut tunnels: Vec<(usize, Box<dyn Tunnel>)> = Vec::new();
    let Some(overlay) = &scenario.overlay else { return Ok(Members { tunnels, changes }) };
    let keys: Vec<Identity> =
        (0..overlay.members.len()).map(|place| Identity::from_seed(&bytes(seed, place))).collect();
    let numbers: Vec<Member> = keys.iter().map(|key| key.public().member()).collect();
    for (place, node) in overlay.members.iter().enumerate() {
        let failed = |detail: String| LabError::Server { node: scenario.nodes[*node].name.clone(), detail };
        let settings = settings(scenario, overlay, &keys, place).map_err(failed)?;
        let member = SimulatedMember::new(settings, bytes(seed.wrapping_add(1), place), Instant::ZERO);
        let inner = member.map_err(|e| failed(e.to_string()))?;
        let node_of = |n: &usize| (*n, endpoint(scenario, *n));
        tunnels.push((
            *node,
            Box::new(Node {
                inner,
                name: scenario.nodes[*node].name.clone(),
                endpoints: overlay.members.iter().map(node_of).collect(),
                names: numbers
                    .iter()
                    .zip(&overlay.members)
                    .map(|(m, n)| (*m, scenario.nodes[*n].name.clone()))
                    .collect(),
                changes: changes.clone(),
            }),
        ));
    }
    Ok(Members { tunnels, changes })
}

/// Secret bytes of a member: the same for the same seed of a run.
fn bytes(seed: u64, place: usize) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&(place as u64).to_le_bytes());
    bytes
}

fn endpoint(scenario: &Scenario, node: usize) -> SocketAddr {
    SocketAddr::new(scenario.nodes[node].ipv4.into(), overlay::DEFAULT_PORT)
}

/// The settings of a member, as a run on a kernel writes them to its file.
fn settings(scenario: &Scenario, overlay: &Overlay, keys: &[Identity], place: usize) -> Result<Settings, String> {
    let own = overlay.members[place];
    let address = |place: usize| IpAddr::from(Overlay::address(place));
    let peers = overlay.members.iter().enumerate().filter(|(other, _)| *other != place);
    let peers = peers.map(|(other, node)| MemberSettings {
        name: scenario.nodes[*node].name.clone(),
        key: keys[other].public(),
        endpoint: Some(Endpoint::Address(endpoint(scenario, *node))),
        subnets: vec![address(other).into()],
        direct: overlay.is_linked(own, *node),
    });
    let mut settings = Settings::of_member(keys[place].clone(), SECRET, vec![address(place)], peers.collect());
    if overlay.policy.as_deref() == Some("safire-2008") {
        settings.policy = PolicyName::Safire2008;
    }
    if settings.policy == PolicyName::Safire2008 || overlay.t_loss.is_some() {
        settings.sensor = Some(LossSensor::new(overlay.t_loss, overlay.n_loss)?);
    }
    settings.congestion_control = overlay.congestion_control.clone();
    settings.single_path = overlay.single_path;
    settings.t_ch = overlay.t_ch;
    settings.capacity = overlay.capacity;
    settings.probe_share = overlay.probe_share.unwrap_or(settings.probe_share);
    Ok(settings)
}

/// A member with the nodes and names of its peers.
#[derive(Debug)]
struct Node {
    inner: SimulatedMember,
    name: String,
    endpoints: Vec<(usize, SocketAddr)>,
    names: Vec<(Member, String)>,
    changes: Changes,
}

impl Node {
    fn name_of(&self, member: Member) -> String {
        let named = self.names.iter().find(|(m, _)| *m == member);
        named.map_or_else(|| member.to_string(), |(_, name)| name.clone())
    }

    fn route(&self, path: Path) -> String {
        route_text(path.relays().iter().map(|m| self.name_of(*m)))
    }

    fn note(&self, decision: &route::Decision) {
        let reason = serde_json::to_value(decision.reason).ok();
        let change = RouteChange {
            at_s: 0.0,
            member: self.name.clone(),
            destination: self.name_of(decision.destination),
            from: decision.from.map(|path| self.route(path)),
            to: decision.to.map(|path| self.route(path)),
            reason: reason.and_then(|r| r.as_str().map(str::to_owned)).unwrap_or_default(),
        };
        self.changes.0.borrow_mut().push((decision.at, change));
    }
}

impl Tunnel for Node {
    fn mtu(&self) -> u32 {
        overlay::DEFAULT_MTU.into()
    }

    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    fn poll_timeout(&self) -> Instant {
        self.inner.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn handle_datagram(&mut self, now: Instant, from: usize, datagram: Vec<u8>) {
        if let Some((_, endpoint)) = self.endpoints.iter().find(|(node, _)| *node == from) {
            self.inner.handle_datagram(now, *endpoint, datagram);
        }
    }

    fn handle_packet(&mut self, now: Instant, ip: &[u8]) {
        self.inner.handle_packet(now, ip);
    }

    fn poll_action(&mut self) -> Option<TunnelAction> {
        loop {
            match self.inner.poll_action()? {
                Action::Send { to, datagram } => {
                    let peer = self.endpoints.iter().find(|(_, endpoint)| *endpoint == to);
                    if let Some((node, _)) = peer {
                        return Some(TunnelAction::Send { to: *node, datagram });
                    }
                }
                Action::Deliver(ip) => return Some(TunnelAction::Deliver(ip)),
                Action::Route(decision) => self.note(&decision),
            }
        }
    }
}
