//! Monitoring of all links and paths: when they are probed, how closely, and at what cost.

use std::time::Duration;

use route::{Member, Path};
use units::{Instant, Rate};
use wire::overlay::{Message, SPACE_DIRECT, SPACE_PROBES, SPACE_RELAYED, SPACE_SENSOR};

use super::Output;
use super::activity::Activity;
use super::capacity::{BUDGET_SHARE, CapacityProber, Train};
use super::link_state::LinkAdvertisement;
use super::network::Network;
use super::pace::{BUSY, IDLE};
use super::path_mtu::{self, COMPANIONS, PathMtuDiscovery};
use super::probing::{Affordable, PROBE_BYTES, PROBE_RATE_MAX, PROBE_RATE_MIN};
use crate::decapsulate::TrainPacket;
use crate::encapsulate::outer;
use crate::sensor::LossSensor;

/// Probes per second and link while the overlay is idle: enough to know that a link is up. Its losses are measured once
/// there is traffic.
const IDLE_RATE: f64 = 2.0;
/// Age of the last arrival on a link that is up, while the overlay is idle: a quiet second, and two probes.
const IDLE_AGE_MAX: Duration = Duration::from_millis(1500);
/// Links that may have the maximum rate at once; with more, each has less.
const FULL_RATE_LINKS: f64 = 4.0;
/// Capacity of a link before it is measured, for the budget.
const ASSUMED_CAPACITY: Rate = Rate::from_bps(10_000_000);
/// Time for which all links are probed closely once any link has become worse: traffic may move to them. A loss of 0.05
/// differs significantly from 0.15 by 320 frames per second, as 8 % of 3 Mb/s afford, within a second and a round trip
/// over a satellite.
const ALERT: Duration = Duration::from_millis(1500);
/// Minimum interval between alerts, so that a link which changes all the time leaves savings for the others.
const ALERT_INTERVAL: Duration = Duration::from_secs(20);

/// See the module.
pub(super) struct Monitor {
    pub(super) activity: Activity,
    /// Start of the last alert.
    alerted: Option<Instant>,
    /// Until when silence does not count, after a stall of this member.
    grace_until: Option<Instant>,
    was_idle: bool,
}

impl Monitor {
    pub(super) fn new(now: Instant) -> Self {
        Self { activity: Activity::new(now), alerted: None, grace_until: None, was_idle: false }
    }

    /// This member was stalled for `span`: packets that arrived meanwhile are unread, and its reports were not sent.
    /// Silence does not count until both are made up for.
    pub(super) fn on_stall(&mut self, now: Instant, net: &mut Network, span: Duration) {
        self.grace_until = Some(now + BUSY.silence);
        net.peers.values_mut().for_each(|p| p.link.extend(now, span));
    }

    /// Watches all links and paths at low cost while the overlay is idle, and closely from its end on: what arrived at
    /// low cost is not old then. Says whether the overlay has just become busy.
    pub(super) fn update_pace(&mut self, now: Instant, net: &mut Network) -> bool {
        let is_idle = self.activity.is_idle(now);
        let was_idle = std::mem::replace(&mut self.was_idle, is_idle);
        let pace = if is_idle { IDLE } else { BUSY };
        for peer in net.peers.values_mut() {
            peer.link.set_pace(pace);
            peer.paths.set_pace(pace);
        }
        let is_woken = was_idle && !is_idle;
        if is_woken {
            self.on_stall(now, net, IDLE_AGE_MAX);
        }
        is_woken
    }

    /// Whether silence does not count.
    pub(super) fn is_in_grace(&self, now: Instant) -> bool {
        self.grace_until.is_some_and(|until| now < until)
    }

    /// A link, own or advertised, loses more than before.
    pub(super) fn alert(&mut self, now: Instant) {
        if self.alerted.is_none_or(|at| now.saturating_since(at) >= ALERT_INTERVAL) {
            self.alerted = Some(now);
        }
    }

    /// Time of the next probe of any link.
    pub(super) fn next_probe(&self, net: &Network) -> Option<Instant> {
        let probed = net.direct_members().into_iter().filter_map(|member| net.peers.get(&member));
        probed.flat_map(|p| [p.link.probes.next, p.link.probes.next_of_sensor]).flatten().min()
    }

    /// Advertisements of the links on which this member receives.
    pub(super) fn own_advertisements(&self, now: Instant, net: &Network) -> Vec<(Member, LinkAdvertisement)> {
        let with_traffic = self.activity.is_own(now);
        let up = net.peers.iter().filter(|(_, p)| p.link.is_up());
        up.filter_map(|(member, p)| {
            let (loss, rtt) = (p.link.rx_loss(), p.link.rtt()?);
            let advertisement = LinkAdvertisement {
                rtt_us: u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX),
                loss: loss.share,
                low: loss.low,
                high: loss.high,
                frames: loss.frames.round(),
                capacity_bps: within_access(net, p.capacity.from.capacity()).map(Rate::as_bps),
                datagram: p.path_mtu.received(),
                with_traffic,
                age: Duration::ZERO,
            };
            Some((*member, advertisement))
        })
        .collect()
    }

    /// Sends the probes that are due and not made up for by traffic.
    pub(super) fn send_probes(&mut self, now: Instant, net: &mut Network) {
        let is_idle = self.activity.is_idle(now);
        let is_alert = self.alerted.is_some_and(|at| now.saturating_since(at) < ALERT);
        for member in net.direct_members() {
            let affordable = Self::affordable_probes(net, member);
            let has_sensor = net.settings.sensor.is_some();
            let Some(peer) = net.peers.get_mut(&member) else { continue };
            if peer.link.probes.next.is_some_and(|at| now < at) {
                continue;
            }
            // It takes few probes to know whether a link is up, and a sensor has probes of its own for losses.
            let rate = if is_idle {
                IDLE_RATE
            } else if peer.link.is_up() && !has_sensor {
                peer.link.probe_rate(now, affordable, is_alert).max(PROBE_RATE_MIN)
            } else {
                PROBE_RATE_MIN
            };
            let gap = net.prng.exponential(Duration::from_secs_f64(1.0 / rate));
            let session = peer.session().cloned();
            peer.link.probes.next = session.as_ref().map(|_| now + gap);
            let Some(session) = session else { continue };
            let sent = session.sent(SPACE_DIRECT) + session.sent(SPACE_RELAYED);
            if peer.link.probes.is_needed(now, sent, rate) {
                probe(now, net, member, SPACE_DIRECT);
            }
        }
    }

    /// Probes per second that the budget of a link affords.
    fn affordable_probes(net: &Network, member: Member) -> Affordable {
        let links = net.peers.values().filter(|p| p.session().is_some()).count() as f64;
        let endpoint = net.peers.get(&member).and_then(|p| p.endpoint.current);
        let bytes = (PROBE_BYTES + endpoint.map_or(0, outer)) as f64;
        let affordable = probe_budget(net, member) * (1.0 - BUDGET_SHARE) / 8.0 / bytes;
        Affordable { rate: affordable.min(PROBE_RATE_MAX) * (FULL_RATE_LINKS / links.max(1.0)).min(1.0), bytes }
    }
}

/// Sends a probe on the direct link.
fn probe(now: Instant, net: &mut Network, member: Member, space: u8) {
    let bytes = net.send(now, Path::direct(member), space, &Message::Probe.encode());
    if let Some(peer) = net.peers.get_mut(&member) {
        peer.link.probes.note_probe(now, bytes);
    }
}

/// Sends a probe on a path over relays; the budget of the first link pays.
fn probe_path(now: Instant, net: &mut Network, (path, space): (Path, u8)) {
    let bytes = net.send(now, path, space, &Message::Probe.encode());
    if let Some(hop) = net.peers.get_mut(&path.first_hop()) {
        hop.link.probes.pay(now, bytes as f64);
    }
}

/// Sends the probes of the paper's sensor that are due, on links that are down as well.
pub(super) fn send_sensor_probes(now: Instant, net: &mut Network) {
    let Some(spacing) = net.settings.sensor.map(LossSensor::spacing) else { return };
    for member in net.direct_members() {
        let Some(peer) = net.peers.get_mut(&member) else { continue };
        let has_session = peer.session().is_some();
        let probes = &mut peer.link.probes;
        let due = probes.next_of_sensor.unwrap_or(now);
        if now < due {
            continue;
        }
        // The next probe makes up for a late tick, and none for a stall.
        let from = if now.saturating_since(due) < spacing { due } else { now };
        probes.next_of_sensor = has_session.then_some(from + spacing);
        if has_session {
            probe(now, net, member, SPACE_SENSOR);
        }
    }
}

/// Probes links with a quiet direction.
pub(super) fn probe_quiet_links(now: Instant, net: &mut Network) {
    let due = net.peers.iter_mut().filter_map(|(member, p)| p.link.needs_quiet_probe(now).then_some(*member));
    for member in due.collect::<Vec<_>>() {
        probe(now, net, member, SPACE_DIRECT);
    }
}

/// Probes paths with unreported frames.
pub(super) fn probe_unreported_paths(now: Instant, net: &mut Network) {
    let due: Vec<_> = net.peers.values_mut().flat_map(|p| p.paths.poll_probes(now)).collect();
    due.into_iter().for_each(|path| probe_path(now, net, path));
}

/// Probes the best path over relays to peers that have been silent for a while, once: the probe is an unreported frame
/// from then on.
pub(super) fn probe_relayed_paths(now: Instant, net: &mut Network) {
    let silent = net.peers.values().filter(|p| p.link.needs_relayed_probe(now));
    let due: Vec<_> = silent.filter_map(|p| p.paths.best_if_reported()).collect();
    due.into_iter().for_each(|path| probe_path(now, net, path));
}

/// Limits a capacity to that of this member's access.
pub(super) fn within_access(net: &Network, capacity: Option<Rate>) -> Option<Rate> {
    let access = net.settings.capacity;
    capacity.map_or(access, |c| Some(access.map_or(c, |a| a.min(c))))
}

/// Budget of all probes of the link to a member, b/s.
pub(super) fn probe_budget(net: &Network, member: Member) -> f64 {
    let capacity = within_access(net, net.peers.get(&member).and_then(|p| p.capacity.at_least()));
    net.settings.probe_share * capacity.unwrap_or(ASSUMED_CAPACITY).as_bps() as f64
}

/// Sends the packet trains that are due, and ends incoming trains whose rest will not come. While the overlay is idle,
/// links of known capacity get none. `packet_max`: largest inner packet to a member, bytes.
pub(super) fn poll_capacity_probes(
    now: Instant,
    net: &mut Network,
    is_idle: bool,
    packet_max: impl Fn(&Network, Member) -> usize,
) {
    for member in net.members() {
        let Some(peer) = net.peers.get_mut(&member) else { continue };
        let (is_up, rtt) = (peer.link.is_up(), peer.link.rtt());
        if peer.capacity.poll_incoming(now, rtt) {
            end_train(now, net, member);
        } else if peer.capacity.poll_train(now, is_up, rtt) && !(is_idle && peer.capacity.is_known()) {
            send_train(now, net, member, packet_max(net, member));
        }
    }
}

fn send_train(now: Instant, net: &mut Network, member: Member, bytes: usize) {
    let Some(peer) = net.peers.get_mut(&member) else { return };
    let Train { number, count } = peer.capacity.start_train();
    let datagrams = (0..count).map_while(|index| {
        let mut train = Message::Train { number, index, count }.encode();
        train.resize(bytes, 0);
        net.seal(now, Path::direct(member), SPACE_PROBES, &train)
    });
    let datagrams: Vec<(_, Vec<u8>)> = datagrams.collect();
    let Some((to, each)) = datagrams.first().map(|(to, d)| (*to, d.len())) else { return };
    let sent = datagrams.len();
    let burst: Vec<u8> = datagrams.into_iter().flat_map(|(_, d)| d).collect();
    let bytes_sent = burst.len() + sent * outer(to);
    net.outputs.push_back(Output::Trial { to, datagrams: burst, each });
    let next = next_train(now, net, member, false);
    let Some(peer) = net.peers.get_mut(&member) else { return };
    peer.capacity.on_sent(now, next, peer.link.rtt());
    peer.link.probes.note_train(now, bytes_sent);
}

/// Time at which the budget affords the next train; `is_settled`: the trains agree, so that the next one can wait.
fn next_train(now: Instant, net: &mut Network, member: Member, is_settled: bool) -> Instant {
    let bits = net.peers.get(&member).map_or(0.0, |p| p.capacity.train_packets()) * f64::from(net.settings.mtu) * 8.0;
    let interval_s = bits / (probe_budget(net, member) * BUDGET_SHARE).max(1.0);
    now + CapacityProber::interval(interval_s, is_settled.then(|| net.prng.unit()))
}

/// A packet of a train came.
pub(super) fn on_train_packet(now: Instant, net: &mut Network, from: Member, packet: &TrainPacket) {
    let Some(peer) = net.peers.get_mut(&from) else { return };
    if peer.capacity.on_packet(packet) {
        end_train(now, net, from);
    }
}

/// Sends the result of an incoming train to its sender.
fn end_train(now: Instant, net: &mut Network, from: Member) {
    let Some(peer) = net.peers.get_mut(&from) else { return };
    let Some((session, result)) = peer.capacity.end_incoming(now) else { return };
    let Some(session) = peer.session_by_number(session).cloned() else { return };
    net.send_in(now, &session, Path::direct(from), SPACE_DIRECT, &result.encode());
}

/// The receiver of a train reports its result: span of the arrivals and rate in b/s. `bytes`: inner bytes of its
/// packets.
pub(super) fn on_train_result(
    now: Instant,
    net: &mut Network,
    from: Member,
    (number, span, bps): (u32, Duration, u64),
    bytes: usize,
) {
    // No train measures more; the result decides how many more trains are sent.
    let bps = bps.min(super::capacity::fastest(&net.settings).as_bps());
    let Some(peer) = net.peers.get_mut(&from) else { return };
    let Some(is_settled) = peer.capacity.on_result(now, number, bytes, span, bps) else { return };
    let next = next_train(now, net, from, is_settled);
    if let Some(peer) = net.peers.get_mut(&from) {
        peer.capacity.schedule(next);
    }
}

/// Sends the path MTU probes that are due; while the overlay is idle, a known size is not confirmed.
pub(super) fn poll_mtu_probes(now: Instant, net: &mut Network, is_idle: bool) {
    let wanted = path_mtu::wanted(&net.settings);
    for member in net.members() {
        let Some(peer) = net.peers.get_mut(&member) else { continue };
        let rtt = peer.link.rtt().unwrap_or_default();
        if !peer.link.is_up() {
            // Without answers a link says nothing about a size.
            peer.path_mtu = PathMtuDiscovery::default();
            continue;
        }
        let before = peer.path_mtu.known(wanted);
        let due = if is_idle && peer.path_mtu.is_settled() { None } else { peer.path_mtu.poll(now, wanted, rtt) };
        let known = peer.path_mtu.known(wanted);
        net.table_changed |= known != before;
        // With each probe, as an earlier message may have been lost.
        if due.is_some() || peer.path_mtu.needs_message(known) {
            peer.path_mtu.note_message(known);
            net.send_message(now, member, &Message::SizeIs { bytes: known });
        }
        if let Some(due) = due {
            send_mtu_probe(now, net, member, due.bytes, due.bytes);
            (0..COMPANIONS).for_each(|_| send_mtu_probe(now, net, member, due.number, 0));
        }
    }
}

/// Sends a datagram of `bytes`, or as small as it can be, that asks for an answer with `number`.
fn send_mtu_probe(now: Instant, net: &mut Network, member: Member, number: u16, bytes: u16) {
    let Some(to) = net.peers.get(&member).and_then(|p| p.endpoint.current) else { return };
    let message = path_mtu::probe(number, usize::from(bytes), to);
    if let Some((to, datagram)) = net.seal(now, Path::direct(member), SPACE_PROBES, &message) {
        let each = datagram.len();
        net.outputs.push_back(Output::Trial { to, datagrams: datagram, each });
        if let Some(peer) = net.peers.get_mut(&member) {
            peer.link.probes.pay(now, (each + outer(to)) as f64);
        }
    }
}

/// A path MTU probe came.
pub(super) fn on_mtu_probe(now: Instant, net: &mut Network, from: Member, bytes: u16) {
    if let Some(peer) = net.peers.get_mut(&from) {
        peer.path_mtu.on_probe(now, bytes);
    }
    net.send_message(now, from, &Message::SizeSeen { bytes });
}

/// A path MTU probe of this member arrived.
pub(super) fn on_mtu_answer(net: &mut Network, from: Member, bytes: u16) {
    let wanted = path_mtu::wanted(&net.settings);
    let Some(peer) = net.peers.get_mut(&from) else { return };
    let before = peer.path_mtu.known(wanted);
    peer.path_mtu.on_answer(bytes);
    net.table_changed |= peer.path_mtu.known(wanted) != before;
}
