//! The members of an experiment's overlay in a simulated run: the same sessions, frames and decisions as on a kernel.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use overlay::{Action, Endpoint, Identity, LossSensor, MemberSettings, PolicyName, Settings, SimulatedMember};
use results::lab::RouteChange;
use route::{Member, Path};
use scenario::{Overlay, Scenario};
use sim::{Tunnel, TunnelAction};
use units::{Duration, Instant};
use wire::overlay::{Content, ENVELOPE_BYTES, Kind, Sealed};

use crate::LabError;
use crate::overlay::route_text;

/// Network secret of the overlay. It need not be secret, since simulated members have no outside connection.
const SECRET: &str = "a simulated overlay, for one run";

/// Headers of a datagram between members in bytes: IPv4 and UDP.
const DATAGRAM_HEADER_BYTES: usize = 28;
/// Interval of the counts of control traffic. The start of a run is a multiple of it.
pub const CONTROL_INTERVAL: Duration = Duration::from_millis(100);

/// The members of a run, with their nodes, and the observations of them.
pub(super) struct Members {
    pub(super) tunnels: Vec<(usize, Box<dyn Tunnel>)>,
    pub(super) observations: Observations,
}

/// Observations of all members of a run, with their times on the clock of the simulator.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations(Rc<RefCell<Observed>>);

#[derive(Debug, Default)]
struct Observed {
    /// Changes of the best routes.
    changes: Vec<(Instant, RouteChange)>,
    /// Bytes of control traffic that all members sent in each [`CONTROL_INTERVAL`].
    control_bytes: Vec<u64>,
}

impl Observations {
    /// The changes of routes with their times since the start of the run.
    pub(super) fn route_changes(&self, zero: Instant) -> Vec<RouteChange> {
        let seconds = |at: Instant| (i128::from(at.as_nanos()) - i128::from(zero.as_nanos())) as f64 / 1e9;
        let observed = self.0.borrow();
        let timed = |(at, change): &(Instant, RouteChange)| RouteChange { at_s: seconds(*at), ..change.clone() };
        let mut changes: Vec<RouteChange> = observed.changes.iter().map(timed).collect();
        changes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        changes
    }

    /// Bytes of control traffic that all members sent in each [`CONTROL_INTERVAL`] since the start of the run.
    pub(super) fn control_bytes(&self, zero: Instant) -> Vec<u64> {
        self.0.borrow().control_bytes.iter().skip(interval_of(zero)).copied().collect()
    }

    fn add_control(&self, now: Instant, datagram: &[u8]) {
        if carries_packet(datagram) {
            return;
        }
        let (mut observed, index) = (self.0.borrow_mut(), interval_of(now));
        if observed.control_bytes.len() <= index {
            observed.control_bytes.resize(index + 1, 0);
        }
        observed.control_bytes[index] += (datagram.len() + DATAGRAM_HEADER_BYTES) as u64;
    }
}

fn interval_of(at: Instant) -> usize {
    (u128::from(at.as_nanos()) / CONTROL_INTERVAL.as_nanos()) as usize
}

/// Whether a datagram between members carries a packet of a host, by the header of its frame, which is not encrypted.
fn carries_packet(datagram: &[u8]) -> bool {
    let frame = match Kind::of(datagram) {
        Some(Kind::Envelope) => datagram.get(ENVELOPE_BYTES..),
        Some(_) | None => Some(datagram),
    };
    let is_sealed = |frame: &&[u8]| Kind::of(frame) == Some(Kind::Sealed);
    let header = frame.filter(is_sealed).and_then(Sealed::decode);
    header.is_some_and(|h| matches!(h.content, Content::Packet { .. }))
}

/// Creates the members of a scenario; none without an overlay.
pub(super) fn members(scenario: &Scenario, seed: u64) -> Result<Members, LabError> {
    let observations = Observations::default();
    let mut tunnels: Vec<(usize, Box<dyn Tunnel>)> = Vec::new();
    let Some(overlay) = &scenario.overlay else { return Ok(Members { tunnels, observations }) };
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
                observations: observations.clone(),
                now: Instant::ZERO,
            }),
        ));
    }
    Ok(Members { tunnels, observations })
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
    observations: Observations,
    /// Time of the last input.
    now: Instant,
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
        self.observations.0.borrow_mut().changes.push((decision.at, change));
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
        self.now = now;
        self.inner.handle_timeout(now);
    }

    fn handle_datagram(&mut self, now: Instant, from: usize, datagram: Vec<u8>) {
        self.now = now;
        if let Some((_, endpoint)) = self.endpoints.iter().find(|(node, _)| *node == from) {
            self.inner.handle_datagram(now, *endpoint, datagram);
        }
    }

    fn handle_packet(&mut self, now: Instant, ip: &[u8]) {
        self.now = now;
        self.inner.handle_packet(now, ip);
    }

    fn poll_action(&mut self) -> Option<TunnelAction> {
        loop {
            match self.inner.poll_action()? {
                Action::Send { to, datagram } => {
                    self.observations.add_control(self.now, &datagram);
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
