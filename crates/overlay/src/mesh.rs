//! What a member decides: with whom it has sessions, what it knows of links, which way to go. Time, datagrams and messages come in;
//! datagrams, tables and events come out. No sockets, no clock.

mod calls;
mod links;
#[cfg(test)]
mod tests;
mod ways;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use route::{Control, Member, Path};
use serde::Serialize;
use units::Instant;
use wire::overlay::{Envelope, Message};

use crate::guard::{Guard, MacKeys};
use crate::seal::{self, Line};
use crate::session::{REJECT_AFTER, Session};
use crate::settings::Settings;
use crate::table::{Peer, Table};

pub(crate) use calls::{Source, is_for};
pub(crate) use links::Claim;

/// How often links are looked at.
const TICK: Duration = Duration::from_millis(20);

/// What the mesh wants done.
#[derive(Debug)]
pub(crate) enum Output {
    /// Send this datagram.
    Send { to: SocketAddr, datagram: Vec<u8> },
    /// Tell whoever listens.
    Event(Event),
    /// Hand a piece of gossip to the gossip.
    Gossip { from: Member, bytes: Vec<u8> },
}

/// What happened, for people and programs.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A session with a member began.
    Session { member: Member, name: String, again: bool },
    /// The direct link to a member works, or no longer.
    Link { member: Member, name: String, up: bool },
    /// A way was chosen.
    Route(Box<route::Decision>),
    /// A member says that it leaves.
    Left { member: Member, name: String },
}

/// Another member, as far as the mesh goes.
struct Other {
    mac: MacKeys,
    endpoint: Option<SocketAddr>,
    calls: calls::Calls,
    link: links::Link,
    lanes: ways::Lanes,
    /// Sessions with it, the newest last.
    sessions: Vec<Arc<Session>>,
    gossip: GossipPieces,
}

/// Pieces of a gossip message that are not yet complete.
#[derive(Default)]
struct GossipPieces {
    number: u32,
    pieces: BTreeMap<u16, Vec<u8>>,
}

/// Most pieces of a gossip message: those of the largest UDP datagram, the gossip's own bound.
const MOST_PIECES: u16 = 64;

/// See the module.
pub(crate) struct Mesh {
    settings: Arc<Settings>,
    own: Member,
    guard: Guard,
    others: BTreeMap<Member, Other>,
    control: Control,
    outputs: VecDeque<Output>,
    began: Instant,
    next_tick: Instant,
    /// Something that the table holds is different.
    changed: bool,
    /// Numbers of sessions are drawn from here.
    draws: Draws,
    gossip_number: u32,
    /// When the route control was last told about own links.
    handed_over: Option<Instant>,
    /// Links that others praise and our own frames did not get over, and until when what is said of them is not heard.
    suspects: BTreeMap<(Member, Member), Instant>,
    /// Whether each member passes on what is not for it, as far as known.
    relays: BTreeMap<Member, bool>,
    /// Claims about links by those who receive on them: `(from, to)`.
    claims: BTreeMap<(Member, Member), (Claim, Instant)>,
}

/// A source of numbers for times and names; nothing secret comes from it.
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// xorshift64* (Vigna 2016).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// In (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Time to the next event of a Poisson process.
    fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-self.unit().ln())
    }
}

impl Mesh {
    /// `seed`: for times and names. `None`: no randomness.
    pub(crate) fn new(settings: Arc<Settings>, seed: u64, now: Instant) -> Option<Self> {
        let own = settings.identity.public().member();
        let control = ways::control(&settings, own, now)?;
        let others = settings.members.iter().map(|(number, m)| {
            let other = Other {
                mac: MacKeys::of(&m.key),
                endpoint: m.endpoint,
                calls: calls::Calls::new(now),
                link: links::Link::default(),
                lanes: ways::Lanes::default(),
                sessions: Vec::new(),
                gossip: GossipPieces::default(),
            };
            (*number, other)
        });
        let others = others.collect();
        let guard = Guard::new(&settings.identity.public(), now)?;
        Some(Self {
            own,
            guard,
            others,
            control,
            outputs: VecDeque::new(),
            began: now,
            next_tick: now,
            changed: true,
            draws: Draws::new(seed),
            gossip_number: 0,
            handed_over: None,
            relays: BTreeMap::new(),
            suspects: BTreeMap::new(),
            claims: BTreeMap::new(),
            settings,
        })
    }

    /// When [`Mesh::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let probe = self.others.values().filter_map(|o| o.link.next_probe()).min();
        // The route control is served with each tick: 20 ms are nothing to it.
        probe.map_or(self.next_tick, |at| at.min(self.next_tick))
    }

    /// What to do next; `None`: nothing.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.tend_sessions(now);
            self.make_calls(now);
            self.look_at_links(now);
        }
        self.send_probes(now);
        self.decide(now);
    }

    /// A sealed message of a member, authentic; `session`: its number here.
    pub(crate) fn handle_message(&mut self, now: Instant, from: Member, session: u32, message: Message) {
        match message {
            Message::Report(lanes) => self.heed_report(now, from, session, &lanes),
            Message::Probe | Message::SizeSeen { .. } => {}
            Message::SizeAsked { bytes } => self.tell(now, from, &Message::SizeSeen { bytes }),
            Message::Gossip { number, piece, pieces, data } => self.put_together(from, number, piece, pieces, data),
            Message::Bye => self.let_go(now, from),
        }
    }

    fn put_together(&mut self, from: Member, number: u32, piece: u16, pieces: u16, data: Vec<u8>) {
        let Some(other) = self.others.get_mut(&from).filter(|_| pieces <= MOST_PIECES) else { return };
        let gossip = &mut other.gossip;
        if gossip.number != number {
            *gossip = GossipPieces { number, pieces: BTreeMap::new() };
        }
        gossip.pieces.insert(piece, data);
        if gossip.pieces.len() == usize::from(pieces) {
            let bytes = std::mem::take(&mut gossip.pieces).into_values().flatten().collect();
            self.outputs.push_back(Output::Gossip { from, bytes });
        }
    }

    /// Sends a message of the gossip to a member.
    pub(crate) fn send_gossip(&mut self, now: Instant, to: Member, bytes: &[u8]) {
        self.gossip_number = self.gossip_number.wrapping_add(1);
        let number = self.gossip_number;
        let pieces = bytes.len().div_ceil(Message::GOSSIP_DATA).max(1);
        let Ok(pieces) = u16::try_from(pieces) else { return };
        for (piece, data) in (0..).zip(bytes.chunks(Message::GOSSIP_DATA)) {
            self.tell(now, to, &Message::Gossip { number, piece, pieces, data: data.to_vec() });
        }
    }

    /// Everybody is told that this member leaves.
    pub(crate) fn say_goodbye(&mut self, now: Instant) {
        let all: Vec<Member> = self.others.keys().copied().collect();
        for member in all {
            self.tell(now, member, &Message::Bye);
        }
    }

    /// A member leaves: its links are gone, and its sessions.
    fn let_go(&mut self, now: Instant, member: Member) {
        let name = self.settings.name_of(member);
        let Some(other) = self.others.get_mut(&member) else { return };
        other.sessions.clear();
        other.calls.rest(now);
        self.outputs.push_back(Output::Event(Event::Left { member, name }));
        self.changed = true;
        self.forget_link(now, member);
        let gone: Vec<_> = self.claims.keys().filter(|(from, to)| *from == member || *to == member).copied().collect();
        for (from, to) in gone {
            self.claims.remove(&(from, to));
            self.link_is(now, from, to, None);
        }
    }

    /// Sends a message the best way: directly where that works, else over relays.
    fn tell(&mut self, now: Instant, to: Member, message: &Message) {
        let bytes = message.encode();
        let Some((path, lane)) = self.best_way(to) else { return };
        self.send_on(now, path, lane, &bytes);
    }

    fn best_way(&self, to: Member) -> Option<(Path, u16)> {
        let other = self.others.get(&to)?;
        if other.link.is_up() || other.lanes.is_empty() {
            return other.endpoint.map(|_| (Path::direct(to), 0));
        }
        other.lanes.first()
    }

    fn send_on(&mut self, now: Instant, path: Path, lane: u16, bytes: &[u8]) {
        if let Some(end) = self.session(path.destination()) {
            self.send_with(now, &end, path, lane, bytes);
        }
    }

    /// Seals a message with this session of the destination.
    fn send_with(&mut self, now: Instant, end: &Arc<Session>, path: Path, lane: u16, bytes: &[u8]) {
        let hop = if path.relays().is_empty() { Some(Arc::clone(end)) } else { self.session(path.first_hop()) };
        let Some(hop) = hop else { return };
        let Some(to) = self.others.get(&path.first_hop()).and_then(|o| o.endpoint) else { return };
        let line = Line::of(self.own, path, lane, to, end, &hop);
        if let Some(datagram) = seal::message(&line, bytes, micros(now)) {
            self.outputs.push_back(Output::Send { to, datagram });
        }
    }

    /// The session that frames to a member are sealed with: the newest one that both ends have.
    fn session(&self, member: Member) -> Option<Arc<Session>> {
        self.others.get(&member)?.session().cloned()
    }

    /// Frames of a lane of a session come by this way: what is told about them goes back by it.
    pub(crate) fn handle_came(&mut self, from: Member, session: u32, lane: u16, envelope: &Envelope) {
        let Some(path) = self.way_back(envelope) else { return };
        if let Some(other) = self.others.get_mut(&from) {
            other.link.came(session, lane, path);
        }
    }

    /// Frames of a member come from another address: it has moved.
    pub(crate) fn handle_moved(&mut self, member: Member, to: SocketAddr) {
        if let Some(other) = self.others.get_mut(&member).filter(|o| o.endpoint != Some(to)) {
            other.endpoint = Some(to);
            self.changed = true;
        }
    }

    /// Drops sessions that are too old, and notices those that the other end has begun to use.
    fn tend_sessions(&mut self, now: Instant) {
        for (member, other) in &mut self.others {
            let before = other.sessions.len();
            other.sessions.retain(|s| now.saturating_since(s.born) < REJECT_AFTER);
            self.changed |= other.sessions.len() != before;
            let in_use = other.session().map(|s| s.local);
            if in_use != other.calls.in_use {
                let again = other.calls.in_use.is_some();
                other.calls.in_use = in_use;
                self.changed = true;
                if in_use.is_some() {
                    let name = self.settings.name_of(*member);
                    self.outputs.push_back(Output::Event(Event::Session { member: *member, name, again }));
                }
            }
        }
    }

    /// What the threads that move packets need, if it is different from the last time.
    pub(crate) fn table(&mut self) -> Option<Table> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let mut table = Table { own: self.own, relay: self.settings.relay, ..Table::default() };
        for (index, (member, other)) in self.others.iter_mut().enumerate() {
            let subnets = self.settings.members.get(member).map(|m| m.subnets.clone()).unwrap_or_default();
            table.prefixes.extend(subnets.iter().map(|s| (*s, index)));
            table.index.insert(*member, index);
            table.sessions.extend(other.sessions.iter().map(|s| (s.local, Arc::clone(s))));
            let ways = ways::of(&self.control, *member, &mut other.lanes, &self.settings);
            table.peers.push(Peer { endpoint: other.endpoint, session: other.session().cloned(), subnets, ways });
        }
        table.prefixes.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        Some(table)
    }

    /// What `why` tells about the ways to a member.
    pub(crate) fn why(&self, member: Member) -> Option<route::Explanation> {
        self.control.why(member)
    }

    /// The ways in use to a member.
    pub(crate) fn ways(&self, member: Member) -> &[route::Weighted] {
        self.control.paths(member)
    }

    /// What each member said about the links on which it receives, and how long ago.
    pub(crate) fn claims(&self, now: Instant) -> impl Iterator<Item = (Member, Member, Claim, Duration)> + '_ {
        self.claims.iter().map(move |((from, to), (claim, at))| (*from, *to, *claim, now.saturating_since(*at)))
    }

    /// Relays and destination as the envelope has them, backwards: the way to who sent it.
    fn way_back(&self, envelope: &Envelope) -> Option<Path> {
        let relays: Vec<Member> = envelope.route().iter().rev().map(|r| Member(*r)).collect();
        Path::via(&relays, Member(envelope.origin))
    }
}

impl Other {
    /// The newest session that both ends have.
    fn session(&self) -> Option<&Arc<Session>> {
        self.sessions.iter().rev().find(|s| s.confirmed.load(Ordering::Relaxed))
    }
}

/// The clock that frames carry.
pub(crate) fn micros(now: Instant) -> u32 {
    (now.as_nanos() / 1000) as u32
}
