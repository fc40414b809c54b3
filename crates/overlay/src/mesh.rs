//! The decisions of a member: sessions, link monitoring, gossip, choice of paths.
//!
//! Inputs: time, datagrams, messages and a seed. Outputs: datagrams, tables and events. No sockets, no clock, no randomness of
//! the system: a member with the same seed and inputs has the same outputs.

pub(crate) mod admission;
mod beside;
mod calls;
mod claims;
mod clock;
mod link_state;
mod links;
mod names;
mod pieces;
mod probes;
mod refused;
mod reload;
mod sizes;
#[cfg(test)]
pub(crate) mod tests;
mod trains;
mod ways;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use route::{Member, Path, Recorder};
use serde::Serialize;
use units::{Instant, Rate};
use wire::overlay::{Envelope, LANE_DIRECT, Message};

use crate::counters::Counters;
use crate::draws::Draws;
use crate::gossip::Gossip;
use crate::guard::{Guard, MacKeys};
use crate::host_routes::{OtherRoute, Restored};
use crate::identity::PublicKey;
use crate::places::MemberPlaces;
use crate::quota::Quota;
use crate::receive::Event as FromNetwork;
use crate::seal::{self, Line};
use crate::secrets::Secrets;
use crate::sensor::LossSensor;
use crate::session::{Cipher, REJECT_AFTER, Session};
use crate::settings::{Endpoint, HostPort, MemberSettings, Settings};
use crate::spent::Spent;
use crate::table::{Peer, Sources, Table};

pub(crate) use admission::GUEST;
pub(crate) use calls::{OpenCalls, Source, is_for};
pub(crate) use claims::Claim;
pub(crate) use ways::{FLOWS_INTERVAL, policy};

/// How often links are looked at.
const TICK: Duration = Duration::from_millis(20);

/// What the mesh wants done.
#[derive(Debug)]
pub(crate) enum Output {
    /// Send this datagram.
    Send { to: SocketAddr, datagram: Vec<u8> },
    /// Look this name up, and hand what is found to [`Mesh::handle_addresses`].
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
struct Other {
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
    name: Option<names::Name>,
    /// Where others say that it is reached.
    told: names::Told,
    /// When it was last found at another address.
    moved: Option<Instant>,
    /// When a certificate that it showed as a member was last looked at.
    shown: Option<Instant>,
    calls: calls::Calls,
    link: links::Link,
    trains: trains::Trains,
    sizes: sizes::Sizes,
    lanes: ways::Lanes,
    quota: Arc<Quota>,
    places: MemberPlaces,
    /// Sessions with it, the newest last.
    sessions: Vec<Arc<Session>>,
    gossip: pieces::Pieces,
    /// What gossip for it took, IP bytes.
    gossip_spent: Spent,
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
pub(crate) struct Mesh {
    settings: Arc<Settings>,
    own: Member,
    guard: Guard,
    cipher: Cipher,
    secrets: Secrets,
    gossip: Gossip,
    gossip_timers: link_state::GossipTimers,
    /// Whether the gossip must give its certificates again, since the set of members has changed.
    certificates_again: bool,
    /// A member whose claims are replaced, and by what.
    #[cfg(test)]
    pub(crate) forged_claims: (Member, fn(Claim) -> Claim),
    open_calls: Arc<OpenCalls>,
    others: BTreeMap<Member, Other>,
    control: Recorder,
    outputs: VecDeque<Output>,
    began: Instant,
    /// Seconds since 1970 at `began`.
    utc_at_begin: u64,
    wall: clock::WallClock,
    admissions: admission::Admissions,
    /// Keys whose owners are no members.
    refuse: Vec<PublicKey>,
    next_tick: Instant,
    /// Something that the table holds is different.
    changed: bool,
    /// Others say that their links carry other sizes than the table has it; and when that was last taken.
    sizes_told: bool,
    sizes_taken: Option<Instant>,
    /// Numbers of sessions are drawn from here.
    draws: Draws,
    gossip_number: u32,
    /// What the gossip took, IP bytes.
    gossip_spent: Spent,
    /// When shares of flows were last compared with what their ways are worth.
    shares_at: Option<Instant>,
    /// When the route control was last told about own links.
    handed_over: Option<Instant>,
    /// Until when silence says nothing, as it was this member that did not listen.
    deaf_until: Option<Instant>,
    /// When some link, anybody's, was found to lose more than before, and all were looked at closely because of that.
    worse: Option<Instant>,
    traffic: probes::Traffic,
    /// Links that others praise and our own frames did not get over, and until when what is said of them is not heard.
    suspects: BTreeMap<(Member, Member), claims::Suspicion>,
    /// Most that each member passes on for another one, b/s, as far as known.
    relays: BTreeMap<Member, u64>,
    refused: refused::Refused,
    /// Claims about links by those who receive on them: `(from, to)`.
    claims: BTreeMap<(Member, Member), (Claim, Instant)>,
}

impl Mesh {
    /// `counters`: those of the gossip. `None`: the route control does not take the settings.
    pub(crate) fn new(settings: Arc<Settings>, counters: Arc<Counters>, start: Start, now: Instant) -> Option<Self> {
        let own = settings.identity.public().member();
        let control = ways::control(&settings, own, now)?;
        let others = settings.members.get();
        let others = others.iter().map(|(number, m)| (*number, Other::new(m, settings.sensor, now))).collect();
        let mut secrets = Secrets::new(start.seed);
        let guard = Guard::new(&settings.identity.public(), secrets.fork(), now);
        // Times and numbers that are not secret.
        let draws = Draws::new(start.seed.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
        Some(Self {
            own,
            guard,
            cipher: start.cipher,
            secrets,
            gossip: Gossip::new(Arc::clone(&settings), counters, start.generation, now),
            gossip_timers: link_state::GossipTimers::new(now),
            certificates_again: false,
            #[cfg(test)]
            forged_claims: (own, |claim| claim),
            open_calls: Arc::default(),
            others,
            control,
            outputs: VecDeque::new(),
            began: now,
            utc_at_begin: start.utc_s,
            wall: clock::WallClock::new(now, Duration::from_secs(start.utc_s)),
            admissions: admission::Admissions::of(&settings),
            refuse: settings.refuse.clone(),
            next_tick: now,
            changed: true,
            sizes_told: false,
            sizes_taken: None,
            draws,
            gossip_number: 0,
            gossip_spent: Spent::default(),
            shares_at: None,
            handed_over: None,
            deaf_until: None,
            worse: None,
            traffic: probes::Traffic::new(now),
            relays: BTreeMap::new(),
            refused: refused::Refused::default(),
            suspects: BTreeMap::new(),
            claims: BTreeMap::new(),
            settings,
        })
    }

    /// The calls that wait for an answer, for the thread that receives them.
    pub(crate) fn open_calls(&self) -> Arc<OpenCalls> {
        Arc::clone(&self.open_calls)
    }

    /// When [`Mesh::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let probed = self.direct_members().into_iter().filter_map(|member| self.others.get(&member));
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
        self.guard.is_flooded(now)
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next_tick {
            self.note_stall(now);
            self.next_tick = now + TICK;
            self.tend_sessions(now);
            self.tend_names(now);
            self.ask_where_told(now);
            self.make_calls(now);
            self.look_at_links(now);
            self.tend_trains(now);
            self.tend_sizes(now);
            self.tend_certificates(now);
            self.tend_shares(now);
            self.take_told_sizes(now);
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
            FromNetwork::Message { from, session, lane, message } => {
                self.handle_message(now, from, (session, lane), message);
            }
            FromNetwork::Train { from, car } => self.handle_train(now, from, &car),
            FromNetwork::Moved { member, to } => self.handle_moved(now, member, to),
            FromNetwork::Came { from, session, lane, envelope } => self.handle_came(from, session, lane, &envelope),
            // The next tick looks at the sessions.
            FromNetwork::Confirmed => {}
        }
    }

    /// A sealed message of a member, authentic; `session`: its number here.
    pub(crate) fn handle_message(&mut self, now: Instant, from: Member, (session, lane): (u32, u8), message: Message) {
        match message {
            Message::Certificate(text) => self.handle_certificate(now, from, session, &text),
            _ if from == GUEST => {}
            Message::Report(lanes) => self.heed_report(now, from, (session, lane), &lanes),
            // A train's packets come by themselves, with their times.
            Message::Probe | Message::Train { .. } => {}
            Message::TrainSeen { number, span, bps } => {
                self.heed_train(now, from, number, Duration::from_micros(u64::from(span)), bps);
            }
            Message::SizeAsked { bytes } => self.heed_size(now, from, bytes),
            Message::SizeSeen { bytes } => self.heed_size_seen(from, bytes),
            Message::SizeIs { bytes } => self.heed_size_told(from, bytes),
            Message::Gossip { number, piece, pieces, data } => {
                let other = self.others.get_mut(&from);
                if let Some(bytes) = other.and_then(|o| o.gossip.add(number, (piece, pieces), data)) {
                    self.handle_gossip(now, from, &bytes);
                }
            }
            Message::Bye => self.let_go(now, from),
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
            if let Some(other) = self.others.get_mut(&to) {
                other.gossip_spent.note(now, bytes as u64);
            }
        }
    }

    /// What the gossip took lately.
    pub(crate) fn gossip_rate(&self, now: Instant) -> Rate {
        self.gossip_spent.rate(now)
    }

    /// Everybody is told that this member leaves.
    pub(crate) fn say_goodbye(&mut self, now: Instant) {
        self.say_bye(now, self.others.keys().copied().collect());
    }

    /// To who is reached over relays first: a relay that has been told passes nothing on.
    fn say_bye(&mut self, now: Instant, mut to: Vec<Member>) {
        to.sort_by_key(|m| std::cmp::Reverse(self.best_way(*m).map_or(0, |(path, _)| path.relays().len())));
        for member in to {
            self.tell(now, member, &Message::Bye);
        }
    }

    /// A member leaves: its links are gone, and its sessions.
    fn let_go(&mut self, now: Instant, member: Member) {
        let name = self.settings.name_of(member);
        let Some(other) = self.others.get_mut(&member) else { return };
        other.sessions.clear();
        other.calls.rest(now);
        let was_up = other.link.leave(now);
        if was_up {
            self.outputs.push_back(Output::Event(Event::Link { member, name: name.clone(), up: false }));
        }
        self.outputs.push_back(Output::Event(Event::Left { member, name }));
        self.changed = true;
        self.forget_link(now, member);
        let gone: Vec<_> = self.claims.keys().filter(|(from, to)| *from == member || *to == member).copied().collect();
        for (from, to) in gone {
            self.claims.remove(&(from, to));
            self.link_is(now, from, to, None);
        }
        self.suspects.retain(|(from, to), _| *from != member && *to != member);
    }

    /// Sends a message the best way: directly where that works, else over relays. Gives the IP bytes that it took.
    fn tell(&mut self, now: Instant, to: Member, message: &Message) -> usize {
        let bytes = message.encode();
        self.best_way(to).map_or(0, |(path, lane)| self.send_on(now, path, lane, &bytes))
    }

    fn best_way(&self, to: Member) -> Option<(Path, u8)> {
        let other = self.others.get(&to)?;
        let may_directly = other.link.is_up() || other.lanes.first().is_none() && self.is_direct(to);
        if may_directly && other.endpoint.is_some() {
            return Some((Path::direct(to), LANE_DIRECT));
        }
        other.lanes.first()
    }

    /// Members to which frames may go without a relay.
    fn direct_members(&self) -> Vec<Member> {
        let all = self.settings.members.get();
        self.others.keys().copied().filter(|m| all.get(m).is_some_and(|m| m.direct)).collect()
    }

    /// Whether frames may go to a member without a relay.
    fn is_direct(&self, member: Member) -> bool {
        self.settings.members.get().get(&member).is_some_and(|m| m.direct)
    }

    /// Gives the IP bytes that it took.
    fn send_on(&mut self, now: Instant, path: Path, lane: u8, bytes: &[u8]) -> usize {
        let Some((to, datagram)) = self.sealed(now, path, lane, bytes) else { return 0 };
        let taken = datagram.len() + seal::outer(to);
        self.outputs.push_back(Output::Send { to, datagram });
        taken
    }

    /// A message as a datagram, and where that goes.
    fn sealed(&self, now: Instant, path: Path, lane: u8, bytes: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
        self.sealed_with(now, &self.session(path.destination())?, path, lane, bytes)
    }

    /// The same with this session of the destination.
    fn sealed_with(
        &self,
        now: Instant,
        end: &Arc<Session>,
        path: Path,
        lane: u8,
        bytes: &[u8],
    ) -> Option<(SocketAddr, Vec<u8>)> {
        if !self.is_direct(path.first_hop()) {
            return None;
        }
        let hop = if path.relays().is_empty() { Arc::clone(end) } else { self.session(path.first_hop())? };
        let to = self.others.get(&path.first_hop())?.endpoint?;
        let line = Line { own: self.own, path, lane, queue: seal::CONTROL_QUEUE, to, end, hop: &hop };
        Some((to, seal::message(&line, bytes, micros(now))?))
    }

    fn send_with(&mut self, now: Instant, end: &Arc<Session>, path: Path, lane: u8, bytes: &[u8]) {
        if let Some((to, datagram)) = self.sealed_with(now, end, path, lane, bytes) {
            self.outputs.push_back(Output::Send { to, datagram });
        }
    }

    /// The session that frames to a member are sealed with: the newest one that both ends have.
    fn session(&self, member: Member) -> Option<Arc<Session>> {
        self.others.get(&member)?.session().cloned()
    }

    /// Frames of a lane of a session come by this way: what is told about them goes back by it.
    pub(crate) fn handle_came(&mut self, from: Member, session: u32, lane: u8, envelope: &Envelope) {
        let Some(path) = self.way_back(envelope) else { return };
        if let Some(other) = self.others.get_mut(&from) {
            other.link.came(session, lane, path);
        }
    }

    /// Frames of a member come from another address: it has moved, and what its link carries may be another.
    pub(crate) fn handle_moved(&mut self, now: Instant, member: Member, to: SocketAddr) {
        let is_rested = |o: &Other| o.moved.is_none_or(|at| now.saturating_since(at) >= MOVES_EVERY);
        if let Some(other) = self.others.get_mut(&member).filter(|o| o.endpoint != Some(to) && is_rested(o)) {
            (other.endpoint, other.found, other.moved) = (Some(to), Some(to), Some(now));
            other.trains.doubt();
            self.changed = true;
        }
    }

    /// Drops sessions that are too old, and notices those that the other end has begun to use.
    fn tend_sessions(&mut self, now: Instant) {
        let mut begun = Vec::new();
        for (member, other) in &mut self.others {
            let before = other.sessions.len();
            other.sessions.retain(|s| now.saturating_since(s.born) < REJECT_AFTER);
            self.changed |= other.sessions.len() != before;
            let in_use = other.session().map(|s| s.local);
            if in_use != other.calls.in_use {
                let again = other.calls.in_use.is_some();
                other.calls.in_use = in_use;
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
        let numbers: Vec<Member> = self.others.keys().copied().collect();
        for (index, member) in numbers.into_iter().enumerate() {
            let subnets = subnets_of(member);
            table.prefixes.extend(subnets.iter().map(|s| (*s, index)));
            let others = members.iter().filter(|(m, _)| **m != member).flat_map(|(_, m)| &m.subnets);
            let sources = Sources::new(subnets, others.chain(&own));
            table.index.insert(member, index);
            let routes = self.routes_for_table(member);
            let Some(other) = self.others.get(&member) else { continue };
            table.sessions.extend(other.sessions.iter().map(|s| (s.local, Arc::clone(s))));
            // Where nothing is to go without a relay, nothing is passed on, either.
            let endpoint = other.endpoint.filter(|_| self.is_direct(member));
            let (session, quota) = (other.session().cloned(), Arc::clone(&other.quota));
            let places = other.places.clone();
            table.peers.push(Peer { endpoint, session, sources, routes, quota, places });
        }
        table.sessions.extend(self.guests().map(|s| (s.local, Arc::clone(s))));
        table.prefixes.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        self.guard.set_known(table.peers.iter().filter_map(|p| p.endpoint));
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
    pub(crate) fn ways(&self, member: Member) -> &[route::Weighted] {
        self.control.inner().paths(member)
    }

    /// Relays and destination as the envelope has them, backwards: the way to who sent it.
    fn way_back(&self, envelope: &Envelope) -> Option<Path> {
        let relays: Vec<Member> = envelope.route().iter().rev().map(|r| Member(*r)).collect();
        Path::via(&relays, Member(envelope.origin))
    }
}

impl Other {
    fn new(member: &MemberSettings, sensor: Option<LossSensor>, now: Instant) -> Self {
        let listed = if let Some(Endpoint::Address(address)) = member.endpoint { Some(address) } else { None };
        Self {
            mac: MacKeys::of(&member.key),
            exchange: member.key.exchange(),
            endpoint: listed,
            listed,
            found: None,
            passed_on: None,
            name: names::Name::of(member.endpoint.as_ref(), now),
            told: names::Told::default(),
            moved: None,
            shown: None,
            calls: calls::Calls::new(now),
            link: links::Link::new(sensor),
            trains: trains::Trains::default(),
            sizes: sizes::Sizes::default(),
            lanes: ways::Lanes::default(),
            sessions: Vec::new(),
            quota: Arc::default(),
            places: MemberPlaces::default(),
            gossip: pieces::Pieces::default(),
            gossip_spent: Spent::default(),
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
