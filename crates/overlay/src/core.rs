//! The decisions of a member: sessions, link monitoring, gossip, choice of paths.
//!
//! Inputs: time, datagrams, messages and a seed. Outputs: datagrams, tables and events. No sockets, no clock, no randomness of
//! the system: a member with the same seed and inputs has the same outputs.

mod advertisements;
mod alternate_paths;
mod capacity;
mod clock;
mod endpoints;
mod gossip_timers;
mod handshakes;
mod link;
pub(crate) mod membership;
mod path_mtu;
mod paths;
mod probing;
mod reassembly;
mod rejections;
mod reload;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use route::{Member, Path, Recorder};
use serde::Serialize;
use units::{Instant, Rate};
use wire::overlay::{Envelope, Message, SPACE_DIRECT};

use crate::counters::Counters;
use crate::decapsulate::Event as FromNetwork;
use crate::encapsulate::{self, FrameSealer};
use crate::gossip::Gossip;
use crate::handshake_limiter::{HandshakeLimiter, MacKeys};
use crate::host_routes::{OtherRoute, Restored};
use crate::identity::PublicKey;
use crate::permits::PeerPermits;
use crate::prng::Prng;
use crate::quota::Quota;
use crate::rate_meter::RateMeter;
use crate::secrets::Secrets;
use crate::sensor::LossSensor;
use crate::session::{Cipher, REJECT_AFTER, Session};
use crate::settings::{Endpoint, HostPort, MemberSettings, Settings};
use crate::table::{PeerEntry, Sources, Table};

pub(crate) use advertisements::LinkAdvertisement;
pub(crate) use handshakes::{PendingHandshakes, Source, is_for};
pub(crate) use membership::UNVERIFIED_PEER;
pub(crate) use paths::{FLOWS_INTERVAL, policy};

/// How often links are looked at.
const TICK: Duration = Duration::from_millis(20);

/// What the mesh wants done.
#[derive(Debug)]
pub(crate) enum Output {
    /// Send this datagram.
    Send { to: SocketAddr, datagram: Vec<u8> },
    /// Look this name up, and hand what is found to [`Core::handle_addresses`].
    LookUp { member: Member, name: HostPort },
    /// Send these datagrams of `each` bytes as fast as can be; that they cannot be sent is an answer, too.
    Trial { to: SocketAddr, datagrams: Vec<u8>, each: usize },
    /// Tell whoever listens.
    Event(Event),
    /// Packets for these go to the tunnel from now on.
    Routes(Vec<ipnet::IpNet>),
    /// No longer.
    NoRoutes(Vec<ipnet::IpNet>),
    /// Add a line to the record of the route control.
    Record(Box<route::Record>),
}

/// What happened, for people and programs.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A session with a member began.
    Session { member: Member, name: String, again: bool },
    /// The direct link to a member works, or no longer.
    Link { member: Member, name: String, up: bool },
    /// What others say of a link is not believed for a while: it is contradicted by what became of this member's own frames.
    LinkSuspected { from: String, to: String, why: String },
    /// A way was chosen.
    Route(Box<route::Decision>),
    /// Somebody became a member, by a certificate or as the settings were read again.
    Joined { member: Member, name: String },
    /// A member says that it leaves, its certificate is over, or the settings that were read again do not list it.
    Left { member: Member, name: String },
    /// The name at which a member is to be called could not be looked up; that is tried again, and told again when it fails for another reason.
    Unresolved { member: Member, name: String, endpoint: String, why: String },
    /// Somebody is not let in, or does not let this member in.
    PeerRejected { from: String, why: String },
    /// This member's own certificate ends so soon; 0: its time is over.
    CertificateEnds { in_s: u64 },
    /// The wall clock of this member's host was set by so much, forward where it is more than 0: all certificates are looked at anew.
    ClockSet { by_s: i64 },
    /// This member did nothing for so long though it had to: its host was busy with other things, or stood still. Others may have taken it to be gone.
    Stalled { for_s: f64 },
    /// Another host runs with the key of this member: each takes the other's packets. `overlay init` makes it one of its own.
    DuplicateIdentity,
    /// Something on this host removed addresses or routes of the overlay, and they were added again. Told once a second at most.
    RoutesRestored(Restored),
    /// What the tunnel lacks on this host now: packets for these routes, or all of them while the device is down, are refused. All empty and the device up:
    /// nothing any more.
    RoutesMissing { device_up: bool, addresses: Vec<IpAddr>, routes: Vec<ipnet::IpNet> },
    /// The subnets of peers to which this host has other routes that count before the overlay's; none: no longer any.
    RoutesOverridden { routes: Vec<OtherRoute> },
}

/// Another member, as far as the mesh goes.
struct Peer {
    mac: MacKeys,
    /// Its key of the handshake.
    exchange: [u8; 32],
    endpoint: Option<SocketAddr>,
    /// Where the settings say that it is, if they say an address; and where it was really heard from last.
    listed: Option<SocketAddr>,
    found: Option<SocketAddr>,
    /// Where others were told that it is found, and since when.
    passed_on: Option<(SocketAddr, Instant)>,
    /// Where the settings say a name instead of an address.
    name: Option<endpoints::EndpointName>,
    /// Where others say that it is reached.
    told: endpoints::LearnedEndpoints,
    /// When it was last found at another address.
    moved: Option<Instant>,
    /// When a certificate that it showed as a member was last looked at.
    last_checked: Option<Instant>,
    calls: handshakes::PeerHandshakes,
    link: link::Link,
    trains: capacity::CapacityProber,
    sizes: path_mtu::PathMtuDiscovery,
    spaces: paths::PathMonitor,
    quota: Arc<Quota>,
    permits: PeerPermits,
    /// Sessions with it, the newest last.
    sessions: Vec<Arc<Session>>,
    gossip: reassembly::Pieces,
    /// What gossip for it took, IP bytes.
    gossip_spent: RateMeter,
}

/// A member is followed to another address, and another size of links of others taken, at most so often: each time all threads take another table.
const MOVES_EVERY: Duration = Duration::from_millis(100);

/// What a member starts with, beside its settings.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// 32 secret random bytes; equal ones give equal runs.
    pub(crate) seed: [u8; 32],
    /// The cipher that is fast on this CPU.
    pub(crate) cipher: Cipher,
    /// Number of this start, larger than that of any start before.
    pub(crate) generation: u64,
    /// Time of day, by which certificates end.
    pub(crate) utc_s: u64,
}

/// See the module.
pub(crate) struct Core {
    settings: Arc<Settings>,
    own: Member,
    limiter: HandshakeLimiter,
    cipher: Cipher,
    secrets: Secrets,
    gossip: Gossip,
    gossip_timers: gossip_timers::GossipTimers,
    /// Whether the gossip must give its certificates again, since the set of members has changed.
    certificates_again: bool,
    /// A member whose claims are replaced, and by what.
    #[cfg(test)]
    pub(crate) forged_advertisements: (Member, fn(LinkAdvertisement) -> LinkAdvertisement),
    pending_handshakes: Arc<PendingHandshakes>,
    peers: BTreeMap<Member, Peer>,
    control: Recorder,
    outputs: VecDeque<Output>,
    began: Instant,
    /// Seconds since 1970 at `began`.
    utc_at_begin: u64,
    wall: clock::WallClock,
    admissions: membership::Admissions,
    /// Keys whose owners are no members.
    refuse: Vec<PublicKey>,
    next_tick: Instant,
    /// Something that the table holds is different.
    changed: bool,
    /// Others say that their links carry other sizes than the table has it; and when that was last taken.
    sizes_told: bool,
    sizes_taken: Option<Instant>,
    /// Numbers of sessions are drawn from here.
    prng: Prng,
    gossip_number: u32,
    /// What the gossip took, IP bytes.
    gossip_spent: RateMeter,
    /// When shares of flows were last compared with what their ways are worth.
    shares_at: Option<Instant>,
    /// When the route control was last told about own links.
    handed_over: Option<Instant>,
    /// Until when silence says nothing, as it was this member that did not listen.
    stall_grace_until: Option<Instant>,
    /// When some link, anybody's, was found to lose more than before, and all were looked at closely because of that.
    alerted: Option<Instant>,
    traffic: probing::Traffic,
    /// Links that others praise and our own frames did not get over, and until when what is said of them is not heard.
    suspected_links: BTreeMap<(Member, Member), advertisements::Suspicion>,
    /// Most that each member passes on for another one, b/s, as far as known.
    relays: BTreeMap<Member, u64>,
    refused: rejections::Rejections,
    /// Claims about links by those who receive on them: `(from, to)`.
    advertisements: BTreeMap<(Member, Member), (LinkAdvertisement, Instant)>,
}

impl Core {
    /// `counters`: those of the gossip. `None`: the route control does not take the settings.
    pub(crate) fn new(settings: Arc<Settings>, counters: Arc<Counters>, start: Start, now: Instant) -> Option<Self> {
        let own = settings.identity.public().member();
        let control = paths::control(&settings, own, now)?;
        let peers = settings.members.get();
        let peers = peers.iter().map(|(number, m)| (*number, Peer::new(m, settings.sensor, now))).collect();
        let mut secrets = Secrets::new(start.seed);
        let limiter = HandshakeLimiter::new(&settings.identity.public(), secrets.fork(), now);
        // Times and numbers that are not secret.
        let prng = Prng::new(start.seed.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
        Some(Self {
            own,
            limiter,
            cipher: start.cipher,
            secrets,
            gossip: Gossip::new(Arc::clone(&settings), counters, start.generation, now),
            gossip_timers: gossip_timers::GossipTimers::new(now),
            certificates_again: false,
            #[cfg(test)]
            forged_advertisements: (own, |advertisement| advertisement),
            pending_handshakes: Arc::default(),
            peers,
            control,
            outputs: VecDeque::new(),
            began: now,
            utc_at_begin: start.utc_s,
            wall: clock::WallClock::new(now, Duration::from_secs(start.utc_s)),
            admissions: membership::Admissions::of(&settings),
            refuse: settings.refuse.clone(),
            next_tick: now,
            changed: true,
            sizes_told: false,
            sizes_taken: None,
            prng,
            gossip_number: 0,
            gossip_spent: RateMeter::default(),
            shares_at: None,
            handed_over: None,
            stall_grace_until: None,
            alerted: None,
            traffic: probing::Traffic::new(now),
            relays: BTreeMap::new(),
            refused: rejections::Rejections::default(),
            suspected_links: BTreeMap::new(),
            advertisements: BTreeMap::new(),
            settings,
        })
    }

    /// The calls that wait for an answer, for the thread that receives them.
    pub(crate) fn pending_handshakes(&self) -> Arc<PendingHandshakes> {
        Arc::clone(&self.pending_handshakes)
    }

    /// When [`Core::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let probed = self.direct_members().into_iter().filter_map(|member| self.peers.get(&member));
        let probe = probed.flat_map(|o| o.link.next_probes()).flatten().min();
        // The route control is served with each tick: 20 ms are nothing to it.
        let due = self.next_tick.min(self.gossip_timers.next());
        probe.map_or(due, |at| at.min(due))
    }

    /// What to do next; `None`: nothing.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front().or_else(|| self.control.poll_record().map(|r| Output::Record(Box::new(r))))
    }

    /// Whether more members call than are answered at once.
    pub(crate) fn is_flooded(&mut self, now: Instant) -> bool {
        self.limiter.is_flooded(now)
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next_tick {
            self.detect_stall(now);
            self.next_tick = now + TICK;
            self.refresh_sessions(now);
            self.resolve_endpoints(now);
            self.probe_learned_endpoints(now);
            self.start_due_handshakes(now);
            self.update_links(now);
            self.poll_capacity_probes(now);
            self.poll_mtu_probes(now);
            self.expire_certificates(now);
            self.refresh_shares(now);
            self.apply_peer_mtus(now);
        }
        self.advance_gossip(now);
        self.send_probes(now);
        self.send_sensors_probes(now);
        self.decide(now);
    }

    /// Handles an event that the opener found in a datagram.
    pub(crate) fn handle_network(&mut self, now: Instant, event: FromNetwork) {
        match event {
            FromNetwork::Handshake { source, datagram } => self.handle_handshake(now, source, &datagram),
            FromNetwork::Message { from, session, space, message } => {
                self.handle_message(now, from, (session, space), message);
            }
            FromNetwork::Train { from, packet } => self.handle_train(now, from, &packet),
            FromNetwork::Moved { member, to } => self.handle_moved(now, member, to),
            FromNetwork::Came { from, session, space, envelope } => self.handle_came(from, session, space, &envelope),
            // The next tick looks at the sessions.
            FromNetwork::Confirmed => {}
        }
    }

    /// A sealed message of a member, authentic; `session`: its number here.
    pub(crate) fn handle_message(&mut self, now: Instant, from: Member, (session, space): (u32, u8), message: Message) {
        match message {
            Message::Certificate(text) => self.handle_certificate(now, from, session, &text),
            _ if from == UNVERIFIED_PEER => {}
            Message::Report(spaces) => self.on_report(now, from, (session, space), &spaces),
            // A train's packets come by themselves, with their times.
            Message::Probe | Message::Train { .. } => {}
            Message::TrainSeen { number, span, bps } => {
                self.on_train_result(now, from, number, Duration::from_micros(u64::from(span)), bps);
            }
            Message::SizeAsked { bytes } => self.on_size_probe(now, from, bytes),
            Message::SizeSeen { bytes } => self.on_size_acknowledged(from, bytes),
            Message::SizeIs { bytes } => self.on_peer_size_limit(from, bytes),
            Message::Gossip { number, piece, pieces, data } => {
                let peer = self.peers.get_mut(&from);
                if let Some(bytes) = peer.and_then(|o| o.gossip.add(number, (piece, pieces), data)) {
                    self.handle_gossip(now, from, &bytes);
                }
            }
            Message::Bye => self.disconnect(now, from),
        }
    }

    /// Sends a message of the gossip to a member.
    pub(crate) fn send_gossip(&mut self, now: Instant, to: Member, bytes: &[u8]) {
        self.gossip_number = self.gossip_number.wrapping_add(1);
        let number = self.gossip_number;
        let pieces = bytes.len().div_ceil(Message::GOSSIP_DATA).max(1);
        let Ok(pieces) = u16::try_from(pieces) else { return };
        for (piece, data) in (0..).zip(bytes.chunks(Message::GOSSIP_DATA)) {
            let message = Message::Gossip { number, piece, pieces, data: data.to_vec() };
            let bytes = self.tell(now, to, &message);
            self.gossip_spent.note(now, bytes as u64);
            if let Some(peer) = self.peers.get_mut(&to) {
                peer.gossip_spent.note(now, bytes as u64);
            }
        }
    }

    /// What the gossip took lately.
    pub(crate) fn gossip_rate(&self, now: Instant) -> Rate {
        self.gossip_spent.rate(now)
    }

    /// Everybody is told that this member leaves.
    pub(crate) fn announce_departure(&mut self, now: Instant) {
        self.send_bye(now, self.peers.keys().copied().collect());
    }

    /// To who is reached over relays first: a relay that has been told passes nothing on.
    fn send_bye(&mut self, now: Instant, mut to: Vec<Member>) {
        to.sort_by_key(|m| std::cmp::Reverse(self.best_path(*m).map_or(0, |(path, _)| path.relays().len())));
        for member in to {
            self.tell(now, member, &Message::Bye);
        }
    }

    /// A member leaves: its links are gone, and its sessions.
    fn disconnect(&mut self, now: Instant, member: Member) {
        let name = self.settings.name_of(member);
        let Some(peer) = self.peers.get_mut(&member) else { return };
        peer.sessions.clear();
        peer.calls.rest(now);
        let was_up = peer.link.leave(now);
        if was_up {
            self.outputs.push_back(Output::Event(Event::Link { member, name: name.clone(), up: false }));
        }
        self.outputs.push_back(Output::Event(Event::Left { member, name }));
        self.changed = true;
        self.remove_link(now, member);
        let gone: Vec<_> =
            self.advertisements.keys().filter(|(from, to)| *from == member || *to == member).copied().collect();
        for (from, to) in gone {
            self.advertisements.remove(&(from, to));
            self.set_link(now, from, to, None);
        }
        self.suspected_links.retain(|(from, to), _| *from != member && *to != member);
    }

    /// Sends a message the best way: directly where that works, else over relays. Gives the IP bytes that it took.
    fn tell(&mut self, now: Instant, to: Member, message: &Message) -> usize {
        let bytes = message.encode();
        self.best_path(to).map_or(0, |(path, space)| self.send_on(now, path, space, &bytes))
    }

    fn best_path(&self, to: Member) -> Option<(Path, u8)> {
        let peer = self.peers.get(&to)?;
        let may_directly = peer.link.is_up() || peer.spaces.first().is_none() && self.is_direct(to);
        if may_directly && peer.endpoint.is_some() {
            return Some((Path::direct(to), SPACE_DIRECT));
        }
        peer.spaces.first()
    }

    /// Members to which frames may go without a relay.
    fn direct_members(&self) -> Vec<Member> {
        let all = self.settings.members.get();
        self.peers.keys().copied().filter(|m| all.get(m).is_some_and(|m| m.direct)).collect()
    }

    /// Whether frames may go to a member without a relay.
    fn is_direct(&self, member: Member) -> bool {
        self.settings.members.get().get(&member).is_some_and(|m| m.direct)
    }

    /// Gives the IP bytes that it took.
    fn send_on(&mut self, now: Instant, path: Path, space: u8, bytes: &[u8]) -> usize {
        let Some((to, datagram)) = self.sealed(now, path, space, bytes) else { return 0 };
        let taken = datagram.len() + encapsulate::outer(to);
        self.outputs.push_back(Output::Send { to, datagram });
        taken
    }

    /// A message as a datagram, and where that goes.
    fn sealed(&self, now: Instant, path: Path, space: u8, bytes: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
        self.sealed_with(now, &self.session(path.destination())?, path, space, bytes)
    }

    /// The same with this session of the destination.
    fn sealed_with(
        &self,
        now: Instant,
        end: &Arc<Session>,
        path: Path,
        space: u8,
        bytes: &[u8],
    ) -> Option<(SocketAddr, Vec<u8>)> {
        if !self.is_direct(path.first_hop()) {
            return None;
        }
        let hop = if path.relays().is_empty() { Arc::clone(end) } else { self.session(path.first_hop())? };
        let to = self.peers.get(&path.first_hop())?.endpoint?;
        let line = FrameSealer { own: self.own, path, space, queue: encapsulate::CONTROL_QUEUE, to, end, hop: &hop };
        Some((to, encapsulate::message(&line, bytes, micros(now))?))
    }

    fn send_with(&mut self, now: Instant, end: &Arc<Session>, path: Path, space: u8, bytes: &[u8]) {
        if let Some((to, datagram)) = self.sealed_with(now, end, path, space, bytes) {
            self.outputs.push_back(Output::Send { to, datagram });
        }
    }

    /// The session that frames to a member are sealed with: the newest one that both ends have.
    fn session(&self, member: Member) -> Option<Arc<Session>> {
        self.peers.get(&member)?.session().cloned()
    }

    /// Frames of a packet number space of a session come by this way: what is told about them goes back by it.
    pub(crate) fn handle_came(&mut self, from: Member, session: u32, space: u8, envelope: &Envelope) {
        let Some(path) = self.reverse_path(envelope) else { return };
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.link.came(session, space, path);
        }
    }

    /// Frames of a member come from another address: it has moved, and what its link carries may be another.
    pub(crate) fn handle_moved(&mut self, now: Instant, member: Member, to: SocketAddr) {
        let is_rested = |o: &Peer| o.moved.is_none_or(|at| now.saturating_since(at) >= MOVES_EVERY);
        if let Some(peer) = self.peers.get_mut(&member).filter(|o| o.endpoint != Some(to) && is_rested(o)) {
            (peer.endpoint, peer.found, peer.moved) = (Some(to), Some(to), Some(now));
            peer.trains.doubt();
            self.changed = true;
        }
    }

    /// Drops sessions that are too old, and notices those that the other end has begun to use.
    fn refresh_sessions(&mut self, now: Instant) {
        let mut begun = Vec::new();
        for (member, peer) in &mut self.peers {
            let before = peer.sessions.len();
            peer.sessions.retain(|s| now.saturating_since(s.born) < REJECT_AFTER);
            self.changed |= peer.sessions.len() != before;
            let in_use = peer.session().map(|s| s.local);
            if in_use != peer.calls.in_use {
                let again = peer.calls.in_use.is_some();
                peer.calls.in_use = in_use;
                self.changed = true;
                begun.extend(in_use.map(|_| (*member, again)));
            }
        }
        for (member, again) in begun {
            let name = self.settings.name_of(member);
            self.outputs.push_back(Output::Event(Event::Session { member, name, again }));
            self.show_certificate(now, member);
        }
    }

    /// What the threads that move packets need, if it is different from the last time.
    pub(crate) fn table(&mut self) -> Option<Table> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        // Whoever came, went or moved has changed the table.
        self.admissions.have_news = true;
        let mut table = Table { own: self.own, relay: self.settings.relay, ..Table::default() };
        let (members, own) = (self.settings.members.get(), self.settings.serves());
        let subnets_of = |member| members.get(&member).map_or(&[][..], |m| &m.subnets);
        let numbers: Vec<Member> = self.peers.keys().copied().collect();
        for (index, member) in numbers.into_iter().enumerate() {
            let subnets = subnets_of(member);
            table.prefixes.extend(subnets.iter().map(|s| (*s, index)));
            let peers = members.iter().filter(|(m, _)| **m != member).flat_map(|(_, m)| &m.subnets);
            let sources = Sources::new(subnets, peers.chain(&own));
            table.index.insert(member, index);
            let routes = self.routes_for_table(member);
            let Some(peer) = self.peers.get(&member) else { continue };
            table.sessions.extend(peer.sessions.iter().map(|s| (s.local, Arc::clone(s))));
            // Where nothing is to go without a relay, nothing is passed on, either.
            let endpoint = peer.endpoint.filter(|_| self.is_direct(member));
            let (session, quota) = (peer.session().cloned(), Arc::clone(&peer.quota));
            let permits = peer.permits.clone();
            table.peers.push(PeerEntry { endpoint, session, sources, routes, quota, permits });
        }
        table.sessions.extend(self.unverified_sessions().map(|s| (s.local, Arc::clone(s))));
        table.prefixes.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        self.limiter.set_member_endpoints(table.peers.iter().filter_map(|p| p.endpoint));
        Some(table)
    }

    /// The first line of the record of the route control.
    pub(crate) fn record_begin(&self) -> route::Begin {
        self.control.begin()
    }

    /// What `why` tells about the ways to a member.
    pub(crate) fn why(&self, member: Member) -> Option<route::Explanation> {
        self.control.inner().why(member)
    }

    /// The ways in use to a member.
    pub(crate) fn paths(&self, member: Member) -> &[route::Weighted] {
        self.control.inner().paths(member)
    }

    /// Relays and destination as the envelope has them, backwards: the way to who sent it.
    fn reverse_path(&self, envelope: &Envelope) -> Option<Path> {
        let relays: Vec<Member> = envelope.route().iter().rev().map(|r| Member(*r)).collect();
        Path::via(&relays, Member(envelope.origin))
    }
}

impl Peer {
    fn new(member: &MemberSettings, sensor: Option<LossSensor>, now: Instant) -> Self {
        let listed = if let Some(Endpoint::Address(address)) = member.endpoint { Some(address) } else { None };
        Self {
            mac: MacKeys::of(&member.key),
            exchange: member.key.exchange(),
            endpoint: listed,
            listed,
            found: None,
            passed_on: None,
            name: endpoints::EndpointName::of(member.endpoint.as_ref(), now),
            told: endpoints::LearnedEndpoints::default(),
            moved: None,
            last_checked: None,
            calls: handshakes::PeerHandshakes::new(now),
            link: link::Link::new(sensor),
            trains: capacity::CapacityProber::default(),
            sizes: path_mtu::PathMtuDiscovery::default(),
            spaces: paths::PathMonitor::default(),
            sessions: Vec::new(),
            quota: Arc::default(),
            permits: PeerPermits::default(),
            gossip: reassembly::Pieces::default(),
            gossip_spent: RateMeter::default(),
        }
    }

    /// The newest session that both ends have and in which the other one is heard; where it is heard in none, the newest that both have. Where two hosts have its key,
    /// who was there first is it as long as it is heard: a silent session may be one with another host that is gone, and one elsewhere one with another that
    /// has come.
    fn session(&self) -> Option<&Arc<Session>> {
        let both_have = || self.sessions.iter().filter(|s| s.confirmed.load(Ordering::Relaxed));
        let heard = || both_have().filter(|s| self.link.is_heard_in(s.local));
        let first = heard().next();
        heard().rfind(|s| first.is_some_and(|first| !s.is_elsewhere(first))).or_else(|| both_have().next_back())
    }
}

/// The clock that frames carry.
pub(crate) fn micros(now: Instant) -> u32 {
    (now.as_nanos() / 1000) as u32
}
