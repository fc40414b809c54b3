//! Sessions with peers: handshakes are started, answered and completed, and peers are followed to other addresses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use route::{Member, Path};
use units::Instant;
use wire::overlay::{Cookie, Envelope, Initiation, Kind, MAC_BYTES, Macs, Message, Response, SPACE_DIRECT};

use super::endpoint::Lookup;
use super::handshakes::{ACCEPT_INTERVAL, PendingHandshakes, SentInitiation};
use super::network::Network;
use super::routing::Routing;
use super::{Event, Output, Start, micros};
use crate::encapsulate;
use crate::handshake::{self, ReceivedInitiation};
use crate::handshake_limiter::{Admission, HandshakeLimiter};
use crate::secrets::Secrets;
use crate::session::{Cipher, Keys, Session};
use crate::settings::{HostPort, Settings};

pub(super) const UNDECRYPTABLE: &str = "its reply cannot be decrypted: is `network_secret` the same at both ends?";

/// Source of a handshake datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// The address of its sender.
    Direct(SocketAddr),
    /// Over relays.
    Relayed(Envelope),
}

/// See the module.
pub(super) struct SessionManager {
    limiter: HandshakeLimiter,
    cipher: Cipher,
    secrets: Secrets,
    pending: Arc<PendingHandshakes>,
    /// Start of the member, and the time of day then, seconds since 1970 UTC.
    started: Instant,
    started_utc_s: u64,
}

impl SessionManager {
    pub(super) fn new(settings: &Settings, start: &Start, now: Instant) -> Self {
        let mut secrets = Secrets::new(start.seed);
        Self {
            limiter: HandshakeLimiter::new(&settings.identity.public(), secrets.fork(), now),
            cipher: start.cipher,
            secrets,
            pending: Arc::default(),
            started: now,
            started_utc_s: start.utc_s,
        }
    }

    /// Numbers of the pending initiations, for the receiving threads.
    pub(super) fn pending(&self) -> Arc<PendingHandshakes> {
        Arc::clone(&self.pending)
    }

    /// Whether more members initiate handshakes than are answered at once.
    pub(super) fn is_flooded(&mut self, now: Instant) -> bool {
        self.limiter.is_flooded(now)
    }

    /// Addresses of known peers: they get cookies even during a flood.
    pub(super) fn set_known(&mut self, addresses: impl Iterator<Item = SocketAddr>) {
        self.limiter.set_member_endpoints(addresses);
    }

    /// Drops expired sessions. Gives the peers with which another session is in use now.
    pub(super) fn refresh(&mut self, now: Instant, net: &mut Network) -> Vec<Member> {
        let mut changed = Vec::new();
        for (member, peer) in &mut net.peers {
            let (was_dropped, change) = peer.refresh_sessions(now);
            net.table_changed |= was_dropped || change.is_some();
            changed.extend(change.and_then(|c| c.in_use.map(|_| (*member, c.again))));
        }
        let events = changed.into_iter().map(|(member, again)| {
            let name = net.settings.name_of(member);
            net.event(Event::Session { member, name, again });
            member
        });
        events.collect()
    }

    /// Requests lookups of the names of peers whose direct link is down.
    pub(super) fn poll_lookups(&mut self, now: Instant, net: &mut Network) {
        for member in net.direct_members() {
            let Some(peer) = net.peers.get_mut(&member) else { continue };
            if let Some(name) = peer.endpoint.poll_lookup(now, peer.link.is_up()) {
                net.outputs.push_back(Output::LookUp { member, name });
            }
        }
    }

    /// Tries the addresses that other members advertise for peers whose direct link is down.
    pub(super) fn poll_learned_addresses(&mut self, now: Instant, net: &mut Network) {
        let due = net.peers.iter_mut().map(|(m, p)| (*m, p.endpoint.poll_learned(now, p.link.is_up())));
        for (member, all) in due.filter(|(_, all)| !all.is_empty()).collect::<Vec<_>>() {
            if net.session(member).is_none() {
                // One initiation, to all of these.
                self.initiate_with(now, net, member, |_, net, datagram| {
                    net.outputs.extend(all.iter().map(|to| Output::Send { to: *to, datagram: datagram.to_vec() }));
                    true
                });
                continue;
            }
            for to in all {
                // The answer to an authentic frame goes to the address that the frame came from.
                let probe = net.seal(now, Path::direct(member), SPACE_DIRECT, &Message::Probe.encode());
                net.outputs.extend(probe.map(|(_, datagram)| Output::Send { to, datagram }));
            }
        }
    }

    /// The resolver answers.
    pub(super) fn handle_addresses(
        &mut self,
        now: Instant,
        net: &mut Network,
        (member, asked): (Member, &HostPort),
        found: Result<Vec<SocketAddr>, String>,
    ) {
        let Some(peer) = net.peers.get_mut(&member) else { return };
        match peer.endpoint.on_lookup(now, asked, found, peer.link.is_up()) {
            Lookup::Unchanged => {}
            Lookup::Moved { is_elsewhere } => {
                peer.capacity.invalidate();
                if is_elsewhere {
                    peer.handshakes.initiate_now(now);
                }
                net.table_changed = true;
            }
            Lookup::Failed(why) => {
                let (name, endpoint) = (net.settings.name_of(member), asked.to_string());
                net.event(Event::Unresolved { member, name, endpoint, why });
            }
        }
    }

    /// Authentic frames of a peer come from another address.
    pub(super) fn handle_moved(&mut self, now: Instant, net: &mut Network, member: Member, to: SocketAddr) {
        let Some(peer) = net.peers.get_mut(&member) else { return };
        if peer.endpoint.on_moved(now, to) {
            peer.capacity.invalidate();
            net.table_changed = true;
        }
    }

    /// Starts the handshakes that are due.
    pub(super) fn start_due_handshakes(&mut self, now: Instant, net: &mut Network, routing: &Routing) {
        let due = net.peers.iter().filter(|(_, p)| p.handshakes.is_due(now) && p.needs_session(now));
        for member in due.map(|(m, _)| *m).collect::<Vec<_>>() {
            self.initiate_with(now, net, member, |_, net, datagram| {
                send_initiation(now, net, routing, member, datagram)
            });
        }
    }

    /// Other members report that a member is alive.
    pub(super) fn on_alive(&mut self, now: Instant, net: &mut Network, member: Member) {
        if let Some(peer) = net.peers.get_mut(&member).filter(|p| p.session().is_none()) {
            peer.handshakes.on_alive(now);
        }
    }

    /// There is a route to a member now.
    pub(super) fn on_new_route(&mut self, now: Instant, net: &mut Network, member: Member) {
        if let Some(peer) = net.peers.get_mut(&member).filter(|p| p.session().is_none()) {
            peer.handshakes.initiate_now(now);
        }
    }

    /// Makes an initiation and hands it to `send`, which says whether it had a path.
    fn initiate_with(
        &mut self,
        now: Instant,
        net: &mut Network,
        member: Member,
        send: impl FnOnce(&mut Self, &mut Network, &[u8]) -> bool,
    ) {
        let (local, jitter) = (session_number(net), net.prng.unit());
        let Some(key) = net.settings.members.one(member).map(|m| m.key) else { return };
        let time = self.handshake_time(now);
        let keys = handshake_keys(&net.settings, self.secrets.fork());
        let initiated = handshake::initiate(keys, &key, local, time, self.cipher);
        let (Some((state, initiation)), Some(peer)) = (initiated, net.peers.get_mut(&member)) else { return };
        let mut datagram = initiation.encode();
        peer.mac.write(&mut datagram, peer.handshakes.cookie(now).as_ref());
        let mac1 = Macs::of(&datagram).map_or([0; MAC_BYTES], |m| m.first);
        peer.handshakes.schedule(now, jitter);
        if !send(self, net, &datagram) {
            return;
        }
        let entry = self.pending.open(local);
        if let Some(peer) = net.peers.get_mut(&member) {
            peer.handshakes.add_pending(SentInitiation { state, entry, mac1 });
        }
    }

    /// Handles a handshake datagram whose first authentication code, if it has one, is valid. Gives an initiation of
    /// an unknown host.
    pub(super) fn handle_handshake(
        &mut self,
        now: Instant,
        net: &mut Network,
        source: Source,
        datagram: &[u8],
    ) -> Option<ReceivedInitiation> {
        match Kind::of(datagram) {
            Some(Kind::Initiation) => return self.on_initiation(now, net, source, datagram),
            Some(Kind::Response) => self.on_response(now, net, source, datagram),
            Some(Kind::Cookie) => on_cookie(now, net, datagram),
            Some(Kind::Sealed | Kind::Envelope) | None => {}
        }
        None
    }

    fn on_initiation(
        &mut self,
        now: Instant,
        net: &mut Network,
        source: Source,
        datagram: &[u8],
    ) -> Option<ReceivedInitiation> {
        let initiation = Initiation::decode(datagram)?;
        match source {
            Source::Direct(from) => match self.limiter.admit(now, from, initiation.sender, datagram) {
                Admission::Answer => {}
                Admission::SendCookie(cookie) => {
                    reply(now, net, source, &cookie.encode());
                    return None;
                }
                Admission::Drop => return None,
            },
            Source::Relayed(e) => {
                if !self.limiter.admit_relayed(now, Member(e.hop_from()), Member(e.origin)) {
                    return None;
                }
            }
        }
        let received = handshake::consume_initiation(handshake_keys(&net.settings, self.secrets.fork()), &initiation)?;
        let known = net.peers.iter().find(|(_, p)| p.exchange == received.exchange);
        let Some(member) = known.map(|(m, _)| *m) else { return Some(received) };
        let is_allowed = match source {
            // A member that is reached over relays only does not answer a direct initiation.
            Source::Direct(_) => net.is_direct(member),
            // The envelope names the initiator, and the handshake must prove it.
            Source::Relayed(e) => e.origin == member.0,
        };
        if is_allowed && is_to_be_answered(now, net, member, &initiation) {
            self.respond(now, net, source, member, received);
        }
        None
    }

    fn respond(
        &mut self,
        now: Instant,
        net: &mut Network,
        source: Source,
        member: Member,
        received: ReceivedInitiation,
    ) {
        let (local, initiated) = (session_number(net), received.initiated_at);
        let Some((response, remote, keys)) = received.respond(local, self.cipher) else { return };
        if add_session(now, net, member, (local, remote), Some(initiated), &keys).is_none() {
            return;
        }
        let mut datagram = response.encode();
        if let Some(peer) = net.peers.get(&member) {
            peer.mac.write(&mut datagram, None);
        }
        reply(now, net, source, &datagram);
    }

    /// Answers an initiation with keys for a session; gives the session number, that of the other end, the keys and the
    /// encoded response.
    pub(super) fn answer_unverified(
        &mut self,
        net: &mut Network,
        received: ReceivedInitiation,
    ) -> Option<(u32, u32, Keys, Vec<u8>)> {
        let local = session_number(net);
        let (response, remote, keys) = received.respond(local, self.cipher)?;
        Some((local, remote, keys, response.encode().to_vec()))
    }

    fn on_response(&mut self, now: Instant, net: &mut Network, source: Source, datagram: &[u8]) {
        let Some(response) = Response::decode(datagram) else { return };
        let sent = net.peers.iter_mut().find_map(|(m, p)| Some((*m, p.handshakes.pending(response.receiver)?)));
        let Some((member, sent)) = sent else { return };
        let Some((remote, keys)) = sent.state.consume_response(&response) else {
            if let Some(peer) = net.peers.get_mut(&member) {
                peer.handshakes.on_undecryptable(now);
            }
            return net.report_rejection(now, net.settings.name_of(member), UNDECRYPTABLE.to_owned());
        };
        let Some(peer) = net.peers.get_mut(&member) else { return };
        let link = &peer.link;
        peer.handshakes.on_response(now, |at| link.has_arrival_since(at));
        if let Source::Direct(from) = source {
            peer.endpoint.on_response(from);
        }
        add_session(now, net, member, (response.receiver, remote), None, &keys);
        // The responder uses the session once it has received a frame in it.
        let path = match source {
            Source::Direct(_) => Some(Path::direct(member)),
            Source::Relayed(envelope) => Network::reverse_path(&envelope),
        };
        if let Some(path) = path {
            let space = net.space_of(path);
            net.send(now, path, space, &Message::Probe.encode());
        }
    }

    /// The time of day as handshakes carry it, 1/65536 s.
    fn handshake_time(&self, now: Instant) -> u64 {
        let since = now.saturating_since(self.started);
        (self.started_utc_s << 16) + (since.as_secs() << 16) + (u64::from(since.subsec_nanos()) << 16) / 1_000_000_000
    }
}

fn handshake_keys(settings: &Settings, secrets: Secrets) -> handshake::LocalKeys<'_> {
    handshake::LocalKeys { identity: &settings.identity, secret: &settings.secret, secrets }
}

/// A number that no session or pending initiation has.
fn session_number(net: &mut Network) -> u32 {
    loop {
        let number = net.prng.number();
        let mut peers = net.peers.values();
        let is_taken = peers.any(|p| p.session_by_number(number).is_some() || p.handshakes.has_pending(number));
        if !is_taken && number != 0 {
            return number;
        }
    }
}

/// Sends an initiation on the next path: direct, over the relays of the routes, then over any relay that is up. Says
/// whether there was one.
fn send_initiation(now: Instant, net: &mut Network, routing: &Routing, member: Member, datagram: &[u8]) -> bool {
    let current = net.peers.get(&member).and_then(|p| p.endpoint.current).filter(|_| net.is_direct(member));
    // After a stall the sessions with relays may have expired while their links count as up.
    let relayed = routing.routes(member).iter().map(|w| w.path);
    let relayed = relayed.filter(|p| !p.relays().is_empty() && net.session(p.first_hop()).is_some());
    let known: Vec<Path> = current.map(|_| Path::direct(member)).into_iter().chain(relayed).collect();
    let relays = net.peers.iter().filter(|(m, p)| **m != member && p.link.is_up() && p.session().is_some());
    let others = relays.filter_map(|(m, _)| Path::via(&[*m], member)).filter(|path| !known.contains(path));
    let others: Vec<Path> = others.collect();
    let Some(path) = net.peers.get_mut(&member).and_then(|p| p.handshakes.next_path(&known, &others)) else {
        return false;
    };
    match current.filter(|_| path.relays().is_empty()) {
        Some(to) => {
            net.outputs.push_back(Output::Send { to, datagram: datagram.to_vec() });
            if let Some(peer) = net.peers.get_mut(&member).filter(|p| !p.link.is_up()) {
                net.table_changed |= peer.try_next_address();
            }
        }
        None => send_relayed(now, net, path, datagram),
    }
    true
}

fn send_relayed(now: Instant, net: &mut Network, path: Path, handshake: &[u8]) {
    if !net.is_direct(path.first_hop()) {
        return;
    }
    let relays: Vec<u32> = path.relays().iter().map(|m| m.0).collect();
    let Some(envelope) = Envelope::new(net.own.0, &relays, path.destination().0) else { return };
    let Some(hop) = net.session(path.first_hop()) else { return };
    let Some(to) = net.peers.get(&path.first_hop()).and_then(|p| p.endpoint.current) else { return };
    if let Some(datagram) = encapsulate::handshake(&hop, envelope, handshake, micros(now)) {
        net.outputs.push_back(Output::Send { to, datagram });
    }
}

/// Sends a handshake datagram back to its source.
pub(super) fn reply(now: Instant, net: &mut Network, source: Source, datagram: &[u8]) {
    match source {
        Source::Direct(to) => net.outputs.push_back(Output::Send { to, datagram: datagram.to_vec() }),
        Source::Relayed(envelope) => {
            if let Some(path) = Network::reverse_path(&envelope) {
                send_relayed(now, net, path, datagram);
            }
        }
    }
}

/// Whether an authentic initiation of a member is to be answered.
fn is_to_be_answered(now: Instant, net: &mut Network, member: Member, initiation: &Initiation) -> bool {
    let own_is_higher = net.own > member;
    let Some(peer) = net.peers.get_mut(&member) else { return false };
    if peer.session().is_some_and(|s| !s.initiator && now.saturating_since(s.born) < ACCEPT_INTERVAL) {
        return false;
    }
    peer.handshakes.on_initiation(now, initiation, own_is_higher)
}

fn on_cookie(now: Instant, net: &mut Network, datagram: &[u8]) {
    let Some(cookie) = Cookie::decode(datagram) else { return };
    let sent = net.peers.values_mut().find_map(|p| Some((p.handshakes.pending(cookie.receiver)?.mac1, p)));
    let Some((mac1, peer)) = sent else { return };
    if let Some(opened) = peer.mac.open_cookie(&cookie, &mac1) {
        peer.handshakes.on_cookie(now, opened);
    }
}

/// Adds a session by its local and remote number; `initiated`: time of the peer's initiation. `None`: there is no room.
fn add_session(
    now: Instant,
    net: &mut Network,
    member: Member,
    (local, remote): (u32, u32),
    initiated: Option<u64>,
    keys: &Keys,
) -> Option<()> {
    let mut session = Session::new(member, local, remote, now, initiated.is_none(), keys)?;
    session.called = initiated.unwrap_or_default();
    net.peers.get_mut(&member)?.add_session(now, session, initiated)?;
    net.table_changed = true;
    Some(())
}

/// Turns an unverified session into one with a member, which has confirmed it by its certificate. Nothing was sent with
/// its keys, so that counters may start again.
pub(super) fn adopt_session(now: Instant, net: &mut Network, member: Member, unverified: &Session, keys: &Keys) {
    let session = Session::new(member, unverified.local, unverified.remote, now, false, keys);
    let (Some(mut session), Some(peer)) = (session, net.peers.get_mut(&member)) else { return };
    session.share_windows(unverified);
    session.set_window_permits(&peer.permits.windows);
    session.confirmed.store(true, Ordering::Relaxed);
    peer.sessions.push(Arc::new(session));
}
