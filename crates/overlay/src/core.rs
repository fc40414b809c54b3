//! The control plane of a member: sessions, membership, monitoring of links and paths, link state, routing.
//!
//! Inputs: time, datagrams, messages and a seed. Outputs: datagrams, forwarding tables and events. The core has no
//! sockets, no clock and no randomness of the system: equal seeds and inputs give equal outputs.
//!
//! [`Core`] owns the components and is the only place that connects them. Each component works on the
//! [`network::Network`], which holds the peers and takes what leaves for them, and returns what concerns another
//! component.

mod activity;
mod alternate_paths;
mod capacity;
mod clock;
mod endpoint;
mod event;
mod handshakes;
mod link;
mod link_state;
mod membership;
mod monitor;
mod network;
mod pace;
mod path_mtu;
mod paths;
mod peer;
mod probing;
mod reassembly;
mod rejections;
mod reload;
mod routing;
mod sessions;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use route::{Member, Path};
use units::{Instant, Rate};
use wire::overlay::{Envelope, Message};

use crate::counters::Counters;
use crate::decapsulate::Event as FromNetwork;
use crate::gossip::{ADVERTISEMENT_INTERVAL, Gossip, GossipOutput, ROUND};
use crate::prng::Prng;
use crate::rate_meter::RateMeter;
use crate::session::Cipher;
use crate::settings::{HostPort, Settings, is_known_elsewhere};
use crate::table::{PeerEntry, Sources, Table};
use alternate_paths::AlternatePaths;
use link::REPORT_INTERVAL;
use link_state::{LinkId, LinkInput, LinkState};
use membership::Membership;
use monitor::{Monitor, within_access};
use network::Network;
use routing::Routing;
use sessions::SessionManager;

pub(crate) use event::Event;
pub(crate) use handshakes::{PendingHandshakes, is_for};
pub(crate) use link_state::LinkAdvertisement;
pub(crate) use membership::UNVERIFIED_PEER;
pub(crate) use reload::Reloaded;
pub(crate) use routing::{FLOWS_INTERVAL, policy};
pub(crate) use sessions::Source;
pub(crate) use view::{LinkView, PathView};

/// Interval at which the components are polled, and while the overlay is idle.
const TICK: Duration = Duration::from_millis(20);
const IDLE_TICK: Duration = Duration::from_millis(200);
/// Factor of the intervals of gossip while the overlay is idle.
const IDLE_GOSSIP: u32 = 5;
/// A tick that is later than this is a stall: half of the silence that takes a link down.
const STALL_MIN: Duration = Duration::from_millis(250);

/// An action for the driver.
#[derive(Debug)]
pub(crate) enum Output {
    /// Send a datagram.
    Send { to: SocketAddr, datagram: Vec<u8> },
    /// Look a host name up, and hand the result to [`Core::handle_addresses`].
    LookUp { member: Member, name: HostPort },
    /// Send datagrams of `each` bytes as fast as possible. A failure is a result, too.
    Trial { to: SocketAddr, datagrams: Vec<u8>, each: usize },
    /// Report an event.
    Event(Event),
    /// Route packets for these subnets to the tunnel.
    Routes(Vec<ipnet::IpNet>),
    /// Stop routing packets for these subnets to the tunnel.
    NoRoutes(Vec<ipnet::IpNet>),
    /// Append a line to the decision log.
    Record(Box<route::Record>),
}

/// Inputs of a start beside the settings.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// 32 secret random bytes; equal ones give equal runs.
    pub(crate) seed: [u8; 32],
    /// The preferred cipher of this CPU.
    pub(crate) cipher: Cipher,
    /// Number of this start, larger than that of any earlier one.
    pub(crate) generation: u64,
    /// Time of day, seconds since 1970 UTC, by which certificates end.
    pub(crate) utc_s: u64,
}

/// See the module.
pub(crate) struct Core {
    net: Network,
    sessions: SessionManager,
    membership: Membership,
    monitor: Monitor,
    link_state: LinkState,
    routing: Routing,
    gossip: Gossip,
    started: Instant,
    next_tick: Instant,
    /// Times of the next gossip round, and of the next advertisement of own links.
    gossip_due: Instant,
    advertisements_due: Instant,
    /// Number of the last gossip message.
    gossip_number: u32,
    /// Gossip sent, IP bytes.
    gossip_meter: RateMeter,
    /// Time of the last update of own links in the route control.
    links_updated: Option<Instant>,
    /// A member whose advertisements are replaced, and by what.
    #[cfg(test)]
    pub(crate) forged_advertisements: (Member, fn(LinkAdvertisement) -> LinkAdvertisement),
}

/// Whether a timer has expired; if so, sets it to its next time, not before now.
fn expired(at: &mut Instant, now: Instant, period: Duration) -> bool {
    let expired = *at <= now;
    if expired {
        *at = (*at + period).max(now);
    }
    expired
}

/// The clock that frames carry, microseconds.
pub(crate) fn micros(now: Instant) -> u32 {
    (now.as_nanos() / 1000) as u32
}

impl Core {
    /// `counters`: those of gossip. `None`: the route control does not accept the settings.
    pub(crate) fn new(settings: Arc<Settings>, counters: Arc<Counters>, start: Start, now: Instant) -> Option<Self> {
        let own = settings.identity.public().member();
        let prng = Prng::new(start.seed.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
        Some(Self {
            routing: Routing::new(&settings, own, now)?,
            sessions: SessionManager::new(&settings, &start, now),
            membership: Membership::new(&settings, now, start.utc_s),
            gossip: Gossip::new(Arc::clone(&settings), counters, start.generation, now),
            net: Network::new(settings, prng, now),
            monitor: Monitor::new(now),
            link_state: LinkState::default(),
            started: now,
            next_tick: now,
            gossip_due: now,
            advertisements_due: now,
            gossip_number: 0,
            gossip_meter: RateMeter::default(),
            links_updated: None,
            #[cfg(test)]
            forged_advertisements: (own, |advertisement| advertisement),
        })
    }

    /// Time at which [`Core::handle_timeout`] is due. The route control is served with each tick.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let due = self.next_tick.min(self.gossip_due.min(self.advertisements_due));
        self.monitor.next_probe(&self.net).map_or(due, |at| at.min(due))
    }

    /// The next action; `None`: there is none.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        let log = || self.routing.poll_record().map(|r| Output::Record(Box::new(r)));
        self.net.outputs.pop_front().or_else(log)
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next_tick {
            self.detect_stall(now);
            if self.monitor.update_pace(now, &mut self.net) {
                // The advertisement of traffic wakes the other members.
                self.advertisements_due = now;
            }
            self.next_tick = now + if self.is_idle(now) { IDLE_TICK } else { TICK };
            self.tick(now);
        }
        self.advance_gossip(now);
        self.monitor.send_probes(now, &mut self.net);
        monitor::send_sensor_probes(now, &mut self.net);
        self.decide(now);
    }

    fn tick(&mut self, now: Instant) {
        for member in self.sessions.refresh(now, &mut self.net) {
            self.membership.send_certificate(now, &mut self.net, member);
        }
        self.sessions.poll_lookups(now, &mut self.net);
        self.sessions.poll_learned_addresses(now, &mut self.net);
        self.sessions.start_due_handshakes(now, &mut self.net, &self.routing);
        self.update_links(now);
        let (link_state, is_idle) = (&self.link_state, self.is_idle(now));
        monitor::poll_capacity_probes(now, &mut self.net, is_idle, |net, member| {
            path_mtu::packet_max(net, link_state, &Path::direct(member))
        });
        monitor::poll_mtu_probes(now, &mut self.net, is_idle);
        self.expire_certificates(now);
        self.net.table_changed |= self.routing.has_stale_shares(now, &self.net);
        self.net.table_changed |= self.link_state.has_new_mtus(now);
    }

    /// A late tick means that this member was stalled: silence of others does not count for a while, and nothing is
    /// older for the stall.
    fn detect_stall(&mut self, now: Instant) {
        let late = now.saturating_since(self.next_tick);
        // The first tick waits for the preparation of the host.
        if late < STALL_MIN || self.next_tick <= self.started {
            return;
        }
        self.monitor.on_stall(now, &mut self.net, late);
        let inputs = self.link_state.extend(now, late);
        self.set_links(now, inputs);
        self.net.event(Event::Stalled { for_s: late.as_secs_f64() });
    }

    /// Reads the counters of all links and paths, sends reports, and probes what is uncertain.
    fn update_links(&mut self, now: Instant) {
        let mut is_worse = false;
        for member in self.net.members() {
            let (is_direct, in_grace) = (self.net.is_direct(member), self.monitor.is_in_grace(now));
            let Some(peer) = self.net.peers.get_mut(&member) else { continue };
            is_worse |= peer.link.update(now, &peer.sessions);
            peer.paths.update(now, &peer.sessions);
            for (space, starts) in peer.paths.baseline_resets(now) {
                peer.sessions.iter().for_each(|session| peer.link.reset_loss_baseline(session, space, starts));
            }
            if peer.link.update_state(now, is_direct, in_grace) {
                self.on_link_change(now, member);
            }
            let alternates =
                AlternatePaths { link_state: &self.link_state, routing: &self.routing, started: self.started };
            link::send_reports(now, &mut self.net, member, |net| alternates.for_report(now, net, member));
        }
        if is_worse {
            self.monitor.alert(now);
        }
        monitor::probe_quiet_links(now, &mut self.net);
        monitor::probe_unreported_paths(now, &mut self.net);
        let alternates = AlternatePaths { link_state: &self.link_state, routing: &self.routing, started: self.started };
        alternates.probe(now, &mut self.net);
        monitor::probe_relayed_paths(now, &mut self.net);
        self.update_route_control(now);
    }

    fn on_link_change(&mut self, now: Instant, member: Member) {
        let up = self.net.is_up(member);
        if up && self.net.peers.get_mut(&member).is_some_and(|p| p.endpoint.confirm_current()) {
            self.net.members_changed = true;
        }
        let name = self.net.settings.name_of(member);
        self.net.event(Event::Link { member, name, up });
        if !up {
            self.routing.remove_link(now, member);
        }
        let link = (self.net.own, member);
        let inputs = self.link_state.clear_suspicions_beside(now, &mut self.net, link);
        self.set_links(now, inputs);
    }

    /// Hands the metrics of own links, and what own frames say of others' links, to the route control.
    fn update_route_control(&mut self, now: Instant) {
        if self.links_updated.is_some_and(|at| now.saturating_since(at) < REPORT_INTERVAL) {
            return;
        }
        self.links_updated = Some(now);
        let rules = link_state::Rules {
            timeout: self.routing.policy().link_timeout,
            in_grace: self.monitor.is_in_grace(now),
            has_sensor: self.net.settings.sensor.is_some(),
        };
        let inputs = self.link_state.cross_check(now, &mut self.net, rules);
        self.set_links(now, inputs);
        let up = self.net.peers.iter().filter(|(_, p)| p.link.is_up());
        let own_links = up.flat_map(|(member, p)| {
            let capacity = [&p.capacity.to, &p.capacity.from].map(|rates| within_access(&self.net, rates.capacity()));
            p.link.metrics_both(now, (self.net.own, *member), capacity)
        });
        let own_links: Vec<LinkInput> = own_links.collect();
        self.set_links(now, own_links);
    }

    fn set_links(&mut self, now: Instant, inputs: impl IntoIterator<Item = LinkInput>) {
        for (link, metrics) in inputs {
            self.routing.set_link(now, link, metrics);
        }
    }

    fn expire_certificates(&mut self, now: Instant) {
        for member in self.membership.expire(now, &mut self.net) {
            self.remove_member(now, member);
        }
        self.membership.report_own_end(now, &mut self.net);
    }

    /// Lets the route control decide, and reports its decisions.
    fn decide(&mut self, now: Instant) {
        for decision in self.routing.decide(now, &self.net) {
            self.net.table_changed = true;
            if decision.to.is_some() {
                self.sessions.on_new_route(now, &mut self.net, decision.destination);
            }
            self.net.event(Event::Route(Box::new(decision)));
        }
    }

    /// Advertises own links and certificates, and asks a member for news, each at its interval.
    fn advance_gossip(&mut self, now: Instant) {
        let factor = if self.is_idle(now) { IDLE_GOSSIP } else { 1 };
        if expired(&mut self.advertisements_due, now, ADVERTISEMENT_INTERVAL * factor) {
            let advertisements = self.monitor.own_advertisements(now, &self.net);
            let outputs = self.gossip.handle_own_links(now, advertisements);
            self.apply_gossip(now, outputs);
            if std::mem::take(&mut self.net.members_changed) {
                let all = self.membership.certificates(now, &mut self.net).into_iter();
                let all = all.map(|(member, text, at)| (member, text, at.filter(is_known_elsewhere))).collect();
                self.gossip.handle_known_certificates(now, all);
            }
            if std::mem::take(&mut self.membership.needs_certificates) {
                let outputs = self.gossip.certificates();
                self.apply_gossip(now, outputs);
            }
        }
        if expired(&mut self.gossip_due, now, ROUND * factor) {
            let outputs = self.gossip.handle_round(now);
            self.apply_gossip(now, outputs);
        }
    }

    fn apply_gossip(&mut self, now: Instant, outputs: Vec<GossipOutput>) {
        for output in outputs {
            match output {
                GossipOutput::Send { to, bytes } => self.send_gossip(now, to, &bytes),
                GossipOutput::LinkAdvertisement { from, to, advertisement, relayed_bps } => {
                    #[cfg(test)]
                    let advertisement = advertisement.map(|ad| {
                        let (member, forge) = self.forged_advertisements;
                        if member == to { forge(ad) } else { ad }
                    });
                    self.on_advertisement(now, (from, to), advertisement, relayed_bps);
                }
                GossipOutput::CertificateAdvertisement { by, text, endpoint } => {
                    self.on_certificate_advertisement(now, by, &text, endpoint.filter(is_known_elsewhere));
                }
                GossipOutput::DuplicateIdentity => self.net.event(Event::DuplicateIdentity),
            }
        }
    }

    /// Sends a gossip message in pieces that fit frames.
    fn send_gossip(&mut self, now: Instant, to: Member, bytes: &[u8]) {
        self.gossip_number = self.gossip_number.wrapping_add(1);
        let number = self.gossip_number;
        let Ok(pieces) = u16::try_from(bytes.len().div_ceil(Message::GOSSIP_DATA).max(1)) else { return };
        for (piece, data) in (0..).zip(bytes.chunks(Message::GOSSIP_DATA)) {
            let message = Message::Gossip { number, piece, pieces, data: data.to_vec() };
            let sent = self.net.send_message(now, to, &message) as u64;
            self.gossip_meter.note(now, sent);
            if let Some(peer) = self.net.peers.get_mut(&to) {
                peer.gossip_meter.note(now, sent);
            }
        }
    }

    /// The receiver of a link advertises it; `None`: the link is down, or its receiver gone. `relayed_bps`: rate that
    /// the receiver forwards for each member.
    pub(crate) fn on_advertisement(
        &mut self,
        now: Instant,
        link: LinkId,
        advertisement: Option<LinkAdvertisement>,
        relayed_bps: u64,
    ) {
        let (from, to) = link;
        if self.net.settings.members.contains(to) && self.routing.set_relayed(now, to, relayed_bps) {
            let inputs = self.link_state.inputs_from(now, to);
            self.set_links(now, inputs);
        }
        self.sessions.on_alive(now, &mut self.net, to);
        if advertisement.is_some_and(|ad| ad.with_traffic) {
            self.monitor.activity.note_others(now);
        }
        // Own links are known better here.
        if from == self.net.own || to == self.net.own {
            return;
        }
        let update = self.link_state.on_advertisement(now, &mut self.net, link, advertisement);
        if update.is_worse {
            self.monitor.alert(now);
        }
        self.set_links(now, update.inputs);
    }

    /// A member advertises a certificate, and the address at which it reaches its owner.
    pub(crate) fn on_certificate_advertisement(
        &mut self,
        now: Instant,
        by: Member,
        text: &str,
        endpoint: Option<SocketAddr>,
    ) {
        self.membership.on_advertised_certificate(now, (&mut self.net, &mut self.routing), by, text, endpoint);
    }

    /// Handles an event of a receiving thread.
    pub(crate) fn handle_network(&mut self, now: Instant, event: FromNetwork) {
        match event {
            FromNetwork::Handshake { source, datagram } => self.handle_handshake(now, source, &datagram),
            FromNetwork::Message { from, session, space, message } => {
                self.handle_message(now, from, (session, space), message);
            }
            FromNetwork::Train { from, packet } => monitor::on_train_packet(now, &mut self.net, from, &packet),
            FromNetwork::EndpointChanged { member, to } => self.sessions.handle_moved(now, &mut self.net, member, to),
            FromNetwork::PathChanged { from, session, space, envelope } => {
                self.set_return_path(from, (session, space), &envelope);
            }
            // The next tick refreshes the sessions.
            FromNetwork::Confirmed => {}
        }
    }

    fn handle_handshake(&mut self, now: Instant, source: Source, datagram: &[u8]) {
        if let Some(unknown) = self.sessions.handle_handshake(now, &mut self.net, source, datagram) {
            self.membership.on_unknown_initiation(now, (&mut self.net, &mut self.sessions), source, unknown);
        }
    }

    /// Frames in a number space of a session come by this path: reports go back on it.
    fn set_return_path(&mut self, from: Member, (session, space): (u32, u8), envelope: &Envelope) {
        let Some(path) = Network::reverse_path(envelope) else { return };
        if let Some(peer) = self.net.peers.get_mut(&from) {
            peer.link.set_return_path(session, space, path);
        }
    }

    /// Handles an authentic message; `came_in`: local session number and number space.
    pub(crate) fn handle_message(&mut self, now: Instant, from: Member, came_in: (u32, u8), message: Message) {
        match message {
            Message::Certificate(text) => {
                self.membership.on_certificate(now, (&mut self.net, &mut self.routing), (from, came_in.0), &text);
            }
            _ if from == UNVERIFIED_PEER => {}
            Message::Report(reports) => {
                let frame_max = u64::from(self.net.settings.mtu);
                let Some(peer) = self.net.peers.get_mut(&from) else { return };
                let effects = link::on_report(now, peer, came_in, &reports, frame_max);
                effects.arrived_bytes.into_iter().for_each(|bytes| self.monitor.activity.note(now, bytes));
                if effects.is_worse {
                    self.monitor.alert(now);
                }
            }
            // Receiving threads hand over the packets of trains with their times.
            Message::Probe | Message::Train { .. } => {}
            Message::TrainSeen { number, span, bps } => {
                let bytes = path_mtu::packet_max(&self.net, &self.link_state, &Path::direct(from));
                let result = (number, Duration::from_micros(u64::from(span)), bps);
                monitor::on_train_result(now, &mut self.net, from, result, bytes);
            }
            Message::SizeAsked { bytes } => monitor::on_mtu_probe(now, &mut self.net, from, bytes),
            Message::SizeSeen { bytes } => monitor::on_mtu_answer(&mut self.net, from, bytes),
            Message::SizeIs { bytes } => {
                if let Some(peer) = self.net.peers.get_mut(&from) {
                    peer.path_mtu.on_peer_limit(bytes);
                }
            }
            Message::Gossip { number, piece, pieces, data } => {
                let peer = self.net.peers.get_mut(&from);
                if let Some(bytes) = peer.and_then(|p| p.reassembly.add(number, (piece, pieces), data)) {
                    let outputs = self.gossip.handle_message(now, from, &bytes);
                    self.apply_gossip(now, outputs);
                }
            }
            Message::Bye => self.disconnect(now, from),
        }
    }

    /// Takes a reading of the wall clock, since 1970 UTC. A step has all certificates checked again.
    pub(crate) fn handle_wall_clock(&mut self, now: Instant, utc: Duration) {
        let Some(by_s) = self.membership.on_wall_clock(now, utc) else { return };
        self.net.event(Event::ClockSet { by_s });
        self.expire_certificates(now);
    }

    /// The resolver answers for the host name of a member.
    pub(crate) fn handle_addresses(
        &mut self,
        now: Instant,
        asked: (Member, &HostPort),
        found: Result<Vec<SocketAddr>, String>,
    ) {
        self.sessions.handle_addresses(now, &mut self.net, asked, found);
    }

    /// Takes the number of elephant flows of each route.
    pub(crate) fn handle_flows(&mut self, now: Instant, elephants: &[(Path, u32)]) {
        self.routing.set_loads(now, &self.net, elephants);
    }

    /// The host refused datagrams as too large. It does not say whose: all path MTUs are confirmed.
    pub(crate) fn handle_oversize(&mut self, now: Instant) {
        self.net.peers.values_mut().for_each(|p| p.path_mtu.confirm(now));
    }

    /// Replaces the members, the certificate and the refused keys by those of these settings.
    ///
    /// # Errors
    /// They cannot be applied to a running member: says why, and nothing has changed.
    pub(crate) fn reload(&mut self, now: Instant, new: &Settings) -> Result<Reloaded, String> {
        let members_max = self.routing.policy().max_members;
        let plan = reload::Plan::new(now, &self.net, &self.membership, new, members_max)?;
        self.membership.refuse(&mut self.net, &new.refuse);
        self.net.send_bye(now, plan.removed.iter().copied().collect());
        for member in &plan.removed {
            self.remove_member(now, *member);
        }
        Ok(plan.apply(now, (&mut self.net, &mut self.membership, &mut self.routing), new))
    }

    /// Announces the departure of this member to all peers.
    pub(crate) fn announce_departure(&mut self, now: Instant) {
        self.net.send_bye(now, self.net.members());
    }

    /// A peer leaves: its sessions end, and its links are down.
    fn disconnect(&mut self, now: Instant, member: Member) {
        let name = self.net.settings.name_of(member);
        let Some(peer) = self.net.peers.get_mut(&member) else { return };
        peer.sessions.clear();
        peer.handshakes.postpone(now);
        if peer.link.leave(now) {
            self.net.event(Event::Link { member, name: name.clone(), up: false });
        }
        self.net.event(Event::Left { member, name });
        self.net.table_changed = true;
        self.routing.remove_link(now, member);
        let inputs = self.link_state.remove_member(member);
        self.set_links(now, inputs);
    }

    /// A peer is no longer a member.
    fn remove_member(&mut self, now: Instant, member: Member) {
        self.disconnect(now, member);
        self.membership.forget(member);
        self.net.peers.remove(&member);
        self.net.peers.values_mut().for_each(|p| p.endpoint.forget_learned(member));
        self.routing.remove_member(now, member);
        let Network { settings, outputs, .. } = &mut self.net;
        settings.members.change(|all| outputs.extend(all.remove(&member).map(|m| Output::NoRoutes(m.subnets))));
        self.net.table_changed = true;
    }

    /// The forwarding table, if it differs from the last one.
    pub(crate) fn table(&mut self) -> Option<Table> {
        if !std::mem::take(&mut self.net.table_changed) {
            return None;
        }
        // Every change of members and addresses changes the table.
        self.net.members_changed = true;
        let mut table = Table { own: self.net.own, relay: self.net.settings.relay, ..Table::default() };
        let (members, own) = (self.net.settings.members.get(), self.net.settings.serves());
        for (index, member) in self.net.members().into_iter().enumerate() {
            let subnets = members.get(&member).map_or(&[][..], |m| &m.subnets);
            table.prefixes.extend(subnets.iter().map(|s| (*s, index)));
            let others = members.iter().filter(|(m, _)| **m != member).flat_map(|(_, m)| &m.subnets);
            let sources = Sources::new(subnets, others.chain(&own));
            table.index.insert(member, index);
            let link_state = &self.link_state;
            let packet_max = |net: &Network, path: &Path| path_mtu::packet_max(net, link_state, path);
            let routes = self.routing.table_routes(&mut self.net, member, packet_max);
            let Some(peer) = self.net.peers.get(&member) else { continue };
            table.sessions.extend(peer.sessions.iter().map(|s| (s.local, Arc::clone(s))));
            // A peer that is reached over relays only gets nothing forwarded directly.
            let endpoint = peer.endpoint.current.filter(|_| self.net.is_direct(member));
            let (session, quota, permits) = (peer.session().cloned(), Arc::clone(&peer.quota), peer.permits.clone());
            table.peers.push(PeerEntry { endpoint, session, sources, routes, quota, permits });
        }
        table.sessions.extend(self.membership.unverified_sessions().map(|s| (s.local, Arc::clone(s))));
        table.prefixes.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        self.sessions.set_known(table.peers.iter().filter_map(|p| p.endpoint));
        Some(table)
    }

    /// Numbers of the pending initiations, for the receiving threads.
    pub(crate) fn pending_handshakes(&self) -> Arc<PendingHandshakes> {
        self.sessions.pending()
    }

    /// Whether more members initiate handshakes than are answered at once.
    pub(crate) fn is_flooded(&mut self, now: Instant) -> bool {
        self.sessions.is_flooded(now)
    }

    /// Whether there has been no traffic for a minute, so that links are probed less.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.monitor.activity.is_idle(now)
    }

    /// Recent gossip of this member.
    pub(crate) fn gossip_rate(&self, now: Instant) -> Rate {
        self.gossip_meter.rate(now)
    }

    /// The first line of the decision log.
    pub(crate) fn record_begin(&self) -> route::Begin {
        self.routing.log_header()
    }

    /// The explanation of the routes to a member.
    pub(crate) fn why(&self, member: Member) -> Option<route::Explanation> {
        self.routing.why(member)
    }

    /// The routes to a member, best first.
    pub(crate) fn routes(&self, member: Member) -> &[route::Weighted] {
        self.routing.routes(member)
    }

    /// The reasons for which a member cannot be reached; empty: there is a route.
    pub(crate) fn unreachable_reasons(&self, now: Instant, member: Member) -> Vec<String> {
        view::unreachable_reasons(self, now, member)
    }

    /// The direct link to a member.
    pub(crate) fn link_view(&self, member: Member, now: Instant) -> Option<LinkView> {
        view::link(self, member, now)
    }

    /// A path by the reports of its destination.
    pub(crate) fn path_view(&self, now: Instant, path: &Path) -> PathView {
        view::path(self, now, path)
    }

    /// All advertisements of links between other members, with their ages.
    pub(crate) fn advertisements(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (Member, Member, LinkAdvertisement, Duration)> + '_ {
        self.link_state.iter(now)
    }

    /// Keys whose owners are not admitted.
    pub(crate) fn refused_keys(&self) -> Vec<String> {
        self.membership.refused.iter().map(ToString::to_string).collect()
    }

    /// End of this member's own certificate, seconds since 1970 UTC.
    pub(crate) fn certified_until_utc_s(&self) -> Option<u64> {
        self.membership.own.until_utc_s
    }
}
