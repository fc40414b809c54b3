//! Handshakes: who is called when and which way, and who is answered.

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use route::{Member, Path};
use units::Instant;
use wire::overlay::{Cookie, Envelope, Initiation, Kind, MAC_BYTES, Macs, Message, Response, SPACE_DIRECT};

use super::link::UNANSWERED;
use super::{Core, Output, Peer, micros};
use crate::encapsulate;
use crate::handshake::{self, PendingInitiation, ReceivedInitiation};
use crate::handshake_limiter::{Admission, MacKeys};
use crate::secrets::Secrets;
use crate::session::{Keys, REKEY_AFTER, REKEY_FRAMES, Session};
use crate::settings::Settings;

/// Time to the second attempt; each further one takes half as long again.
const FIRST_RETRY: Duration = Duration::from_millis(300);
const LONGEST_RETRY: Duration = Duration::from_secs(8);
/// A member that has a session by a call of its own is given another one after so long at the earliest.
const ANSWER_EVERY: Duration = Duration::from_secs(1);
/// Calls of a member that wait for an answer at once: the fourth is sent after 1.4 s, twice the round trip over a geostationary satellite.
const MOST_OPEN: usize = 4;
/// Attempts after which a member is taken not to be there, and waited for longer and longer: 1.4 s have passed.
const PATIENT_AFTER: u32 = 3;
/// How much later the one who was called before begins the next handshake, so that not both do.
const GRACE: Duration = Duration::from_secs(10);
/// Sessions with one member: in use, its predecessor, and some that others may have made us begin.
pub(super) const MOST_SESSIONS: usize = 6;
/// So soon a session carries its first frame, if it ever does: who called sends one when it has the answer.
const WORKS_WITHIN: Duration = Duration::from_secs(10);
/// Length of the ephemeral key that an initiation begins with (Noise revision 34, section 5).
const EPHEMERAL: usize = 32;
/// Said of a member.
const UNOPENED: &str = "its reply cannot be decrypted: is `network_secret` the same at both ends?";
/// Initiations of a member that are remembered: two hours of renewed keys. Older ones that are said again make a session that is never used,
/// and makes room for a later one.
const REMEMBERED: usize = 64;

/// Where a datagram of a handshake came from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// From its sender.
    Direct(SocketAddr),
    /// Over relays.
    Relayed(Envelope),
}

/// Numbers of the calls that wait for an answer. The receiving thread lets answers to no other call through: a cookie bears no code by which to
/// tell it from what anybody may send.
#[derive(Default)]
pub(crate) struct PendingHandshakes(RwLock<HashSet<u32>>);

impl PendingHandshakes {
    fn open(self: &Arc<Self>, number: u32) -> PendingEntry {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(number);
        PendingEntry { number, of: Arc::clone(self) }
    }

    fn has(&self, number: u32) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&number)
    }
}

/// A call that waits for an answer as long as this lives.
struct PendingEntry {
    number: u32,
    of: Arc<PendingHandshakes>,
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        self.of.0.write().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// An initiation that was sent and not answered yet.
struct SentInitiation {
    call: PendingInitiation,
    entry: PendingEntry,
    /// Its first authentication code: a cookie belongs to it.
    first_mac: [u8; MAC_BYTES],
}

/// Attempts to get a session with a member.
pub(super) struct PeerHandshakes {
    /// The latest last. On a long path the answer to one comes when the next has been sent.
    open: VecDeque<SentInitiation>,
    cookie: Option<([u8; MAC_BYTES], Instant)>,
    next: Instant,
    attempts: u32,
    /// Known ways that were tried since each of them had its turn, and how often one that is not known had.
    tried: Vec<Path>,
    guessed: usize,
    /// When it last answered, and when an answer since then did not open.
    answered: Option<Instant>,
    unopened: Option<Instant>,
    /// Number here of the session that frames are sealed with.
    pub(super) in_use: Option<u32>,
    /// Ephemeral keys of the last initiations: whoever recorded one may say it again.
    known: VecDeque<[u8; EPHEMERAL]>,
}

impl PeerHandshakes {
    pub(super) fn new(now: Instant) -> Self {
        let (open, tried, known) = (VecDeque::new(), Vec::new(), VecDeque::new());
        let (cookie, answered, unopened, in_use) = (None, None, None, None);
        Self { open, cookie, next: now, attempts: 0, tried, guessed: 0, answered, unopened, in_use, known }
    }

    /// Number of the latest call that waits for an answer.
    #[cfg(test)]
    pub(super) fn open_call(&self) -> Option<u32> {
        self.open.back().map(|open| open.entry.number)
    }

    /// The call of this number, if it waits for an answer.
    fn opened(&mut self, number: u32) -> Option<&mut SentInitiation> {
        self.open.iter_mut().find(|open| open.entry.number == number)
    }

    /// The member has left: it is called again, but not at once.
    pub(super) fn rest(&mut self, now: Instant) {
        self.next = now + FIRST_RETRY;
        self.attempts = 0;
    }

    /// Something about the member is new: it is called without waiting, and as often as one that has not been called yet.
    pub(super) fn initiate_now(&mut self, now: Instant) {
        (self.attempts, self.next) = (0, now);
    }

    /// Which way the next call goes: those that are known in turn, each as soon as it is, and after all of them one of the others.
    fn next_path(&mut self, known: &[Path], peers: &[Path]) -> Option<Path> {
        self.tried.retain(|path| known.contains(path));
        let untried = known.iter().find(|path| !self.tried.contains(path)).copied();
        if untried.is_none() {
            self.tried.clear();
            self.guessed += 1;
        }
        let path = untried.or_else(|| peers.get(self.guessed % peers.len().max(1)).or_else(|| known.first()).copied());
        self.tried.extend(path);
        path
    }

    fn again(&mut self, now: Instant, jitter: f64) {
        let wait = FIRST_RETRY.mul_f64(1.5_f64.powi(self.attempts.min(20) as i32)).min(LONGEST_RETRY);
        self.attempts += 1;
        self.next = now + wait.mul_f64(0.75 + 0.5 * jitter);
    }
}

impl Peer {
    /// Whether a new session is to be agreed on.
    fn wants_session(&self, now: Instant) -> bool {
        self.session().is_none_or(|s| {
            let age = now.saturating_since(s.born);
            let due = if s.initiator { REKEY_AFTER } else { REKEY_AFTER + GRACE };
            let is_unanswered = age > UNANSWERED && self.link.is_unanswered(now);
            age > due || s.sent_in_all() > REKEY_FRAMES || is_unanswered
        })
    }
}

fn handshake_keys(settings: &Settings, secrets: Secrets) -> handshake::LocalKeys<'_> {
    handshake::LocalKeys { identity: &settings.identity, secret: &settings.secret, secrets }
}

impl Core {
    pub(super) fn start_due_handshakes(&mut self, now: Instant) {
        let due: Vec<Member> =
            self.peers.iter().filter(|(_, o)| now >= o.calls.next && o.wants_session(now)).map(|(m, _)| *m).collect();
        for member in due {
            self.call(now, member);
        }
    }

    /// Why a member cannot be reached, as far as this one knows: what became of its calls, and who has links to it. Nothing where there is a way.
    pub(crate) fn unreachable_reasons(&self, now: Instant, member: Member) -> Vec<String> {
        let Some(peer) = self.peers.get(&member).filter(|_| self.paths(member).is_empty()) else { return Vec::new() };
        let calls = peer.calls.attempts;
        let heard = peer.link.silent_for(now).map(|ago| format!("; last heard {:.0} s ago", ago.as_secs_f64()));
        let unopened = peer.calls.unopened.map(|at| now.saturating_since(at).as_secs_f64());
        let direct = match (self.is_direct(member), peer.endpoint, peer.session()) {
            (false, ..) => "nothing goes directly (`direct = false`)".to_owned(),
            (true, None, _) => "no endpoint is known; waiting for its handshake".to_owned(),
            (true, Some(at), None) => match unopened {
                Some(ago) => format!("called at {at}, and {UNOPENED} ({ago:.0} s ago)"),
                None => format!("called at {at}, and it does not answer (calls of late: {calls})"),
            },
            (true, Some(at), Some(_)) => format!("there are keys with it, and nothing gets through to {at} and back"),
        };
        let to_it = self
            .advertisements
            .keys()
            .filter(|l| l.1 == member && l.0 != self.own && self.advertisement_of(**l).is_some());
        let relays: Vec<String> = to_it.map(|(from, _)| self.settings.name_of(*from)).collect();
        let beyond = match relays.as_slice() {
            [] => "no member advertises a link to it".to_owned(),
            [one] => format!("{one} advertises a link to it"),
            several => format!("{} advertise links to it", several.join(", ")),
        };
        vec![format!("direct: {direct}{}", heard.unwrap_or_default()), format!("over relays: {beyond}")]
    }

    /// A member is alive, as others tell: it is called without waiting for the next turn of one that was not there.
    pub(super) fn expect(&mut self, now: Instant, member: Member) {
        let Some(peer) = self.peers.get_mut(&member).filter(|o| o.session().is_none()) else { return };
        if peer.calls.attempts > PATIENT_AFTER {
            peer.calls.initiate_now(now);
        }
    }

    /// There is a way to a member now.
    pub(super) fn initiate_on_new_route(&mut self, now: Instant, member: Member) {
        if let Some(peer) = self.peers.get_mut(&member).filter(|o| o.session().is_none()) {
            peer.calls.initiate_now(now);
        }
    }

    fn call(&mut self, now: Instant, member: Member) {
        self.initiate_with(now, member, |core, datagram| core.send_handshake(now, member, datagram));
    }

    /// Calls a member where it may be, besides: one call, to all of these.
    pub(super) fn initiate_to(&mut self, now: Instant, member: Member, all: &[SocketAddr]) {
        self.initiate_with(now, member, |core, datagram| {
            core.outputs.extend(all.iter().map(|to| Output::Send { to: *to, datagram: datagram.to_vec() }));
            true
        });
    }

    /// `send`: whether there was a way.
    fn initiate_with(&mut self, now: Instant, member: Member, send: impl FnOnce(&mut Self, &[u8]) -> bool) {
        let (local, jitter) = (self.session_number(), self.prng.unit());
        let Some(key) = self.settings.members.one(member).map(|m| m.key) else { return };
        let called = self.time_of_call(now);
        let secrets = self.secrets.fork();
        let begun = handshake::initiate(handshake_keys(&self.settings, secrets), &key, local, called, self.cipher);
        let (Some((call, initiation)), Some(peer)) = (begun, self.peers.get_mut(&member)) else { return };
        let calls = &mut peer.calls;
        let cookie =
            calls.cookie.filter(|(_, at)| now.saturating_since(*at) < Duration::from_secs(110)).map(|(c, _)| c);
        let mut datagram = initiation.encode();
        peer.mac.write(&mut datagram, cookie.as_ref());
        let first_mac = Macs::of(&datagram).map_or([0; MAC_BYTES], |m| m.first);
        calls.again(now, jitter);
        if !send(self, &datagram) {
            return;
        }
        let entry = self.pending_handshakes.open(local);
        if let Some(Peer { calls, .. }) = self.peers.get_mut(&member) {
            if calls.open.len() == MOST_OPEN {
                calls.open.pop_front();
            }
            calls.open.push_back(SentInitiation { call, entry, first_mac });
        }
    }

    /// Directly first, then the ways over relays that the route control knows, and each relay that can be reached. Whether there was any.
    fn send_handshake(&mut self, now: Instant, member: Member, datagram: &[u8]) -> bool {
        let endpoint = self.peers.get(&member).and_then(|o| o.endpoint).filter(|_| self.is_direct(member));
        let paths = self.control.inner().paths(member).iter().map(|w| w.path);
        let directly = endpoint.map(|_| Path::direct(member));
        // After a standstill the sessions with relays may be over while their links count as up.
        let relayed = paths.filter(|p| !p.relays().is_empty() && self.session(p.first_hop()).is_some());
        let known: Vec<Path> = directly.into_iter().chain(relayed).collect();
        let relays = self.peers.iter().filter(|(m, o)| **m != member && o.link.is_up() && o.session().is_some());
        let guesses = relays.filter_map(|(m, _)| Path::via(&[*m], member)).filter(|path| !known.contains(path));
        let guesses: Vec<Path> = guesses.collect();
        let Some(path) = self.peers.get_mut(&member).and_then(|o| o.calls.next_path(&known, &guesses)) else {
            return false;
        };
        match endpoint.filter(|_| path.relays().is_empty()) {
            Some(to) => {
                self.outputs.push_back(Output::Send { to, datagram: datagram.to_vec() });
                self.turn_to_next_address(member);
            }
            None => self.send_relayed(now, path, datagram),
        }
        true
    }

    fn send_relayed(&mut self, now: Instant, path: Path, body: &[u8]) {
        if !self.is_direct(path.first_hop()) {
            return;
        }
        let relays: Vec<u32> = path.relays().iter().map(|m| m.0).collect();
        let Some(envelope) = Envelope::new(self.own.0, &relays, path.destination().0) else { return };
        let (Some(hop), Some(to)) =
            (self.session(path.first_hop()), self.peers.get(&path.first_hop()).and_then(|o| o.endpoint))
        else {
            return;
        };
        if let Some(datagram) = encapsulate::handshake(&hop, envelope, body, micros(now)) {
            self.outputs.push_back(Output::Send { to, datagram });
        }
    }

    fn reply(&mut self, now: Instant, source: Source, datagram: &[u8]) {
        match source {
            Source::Direct(to) => self.outputs.push_back(Output::Send { to, datagram: datagram.to_vec() }),
            Source::Relayed(envelope) => {
                if let Some(path) = self.reverse_path(&envelope) {
                    self.send_relayed(now, path, datagram);
                }
            }
        }
    }

    /// A datagram of a handshake, whose first code is right where it has one.
    pub(crate) fn handle_handshake(&mut self, now: Instant, source: Source, datagram: &[u8]) {
        match Kind::of(datagram) {
            Some(Kind::Initiation) => self.answer(now, source, datagram),
            Some(Kind::Response) => self.finish(now, source, datagram),
            Some(Kind::Cookie) => self.take_cookie(now, datagram),
            Some(Kind::Sealed | Kind::Envelope) | None => {}
        }
    }

    fn answer(&mut self, now: Instant, source: Source, datagram: &[u8]) {
        let Some(initiation) = Initiation::decode(datagram) else { return };
        match source {
            Source::Direct(from) => match self.limiter.admit(now, from, initiation.sender, datagram) {
                Admission::Answer => {}
                Admission::SendCookie(cookie) => return self.reply(now, source, &cookie.encode()),
                Admission::Drop => return,
            },
            Source::Relayed(e) => {
                if !self.limiter.admit_relayed(now, Member(e.hop_from()), Member(e.origin)) {
                    return;
                }
            }
        }
        let secrets = self.secrets.fork();
        let Some(caller) = handshake::consume_initiation(handshake_keys(&self.settings, secrets), &initiation) else {
            return;
        };
        let known = self.peers.iter().find(|(_, o)| o.exchange == caller.exchange);
        let Some(member) = known.map(|(m, _)| *m) else { return self.answer_guest(now, source, caller) };
        let is_for_us = match source {
            // Who says that it is never without a relay does not answer what comes without one.
            Source::Direct(_) => self.is_direct(member),
            // The envelope says who calls, and whoever it is must be the one.
            Source::Relayed(e) => e.origin == member.0,
        };
        if !is_for_us {
            return;
        }
        if !self.is_to_be_answered(now, member, &initiation) {
            return;
        }
        let (local, called) = (self.session_number(), caller.initiated_at);
        let Some((response, remote, keys)) = caller.respond(local, self.cipher) else { return };
        if self.begin_session(now, member, (local, remote), Some(called), &keys).is_none() {
            return;
        }
        let mut datagram = response.encode();
        if let Some(peer) = self.peers.get(&member) {
            peer.mac.write(&mut datagram, None);
        }
        self.reply(now, source, &datagram);
    }

    /// Somebody calls whom nobody has told of: it may have a certificate.
    fn answer_guest(&mut self, now: Instant, source: Source, caller: ReceivedInitiation) {
        let why = if self.is_refused(&caller.exchange) {
            Some("it calls with a key that `refuse` has")
        } else if self.settings.authority.is_none() {
            Some("it calls with a key that no line of the settings has")
        } else {
            None
        };
        if let Some(why) = why {
            if let Source::Direct(from) = source {
                self.report_rejection(now, from.to_string(), why.to_owned());
            }
            return;
        }
        let (local, exchange) = (self.session_number(), caller.exchange);
        let Some((response, remote, keys)) = caller.respond(local, self.cipher) else { return };
        if self.add_unverified(now, source, (exchange, local, remote), keys).is_some() {
            let mut datagram = response.encode();
            MacKeys::of_exchange(&exchange).write(&mut datagram, None);
            self.reply(now, source, &datagram);
        }
    }

    /// Whether an authentic initiation is new, and not one of many by which a member keeps others busy. When two members call each other at once, the call of the one
    /// with the higher number goes on, so that there is one session.
    fn is_to_be_answered(&mut self, now: Instant, member: Member, initiation: &Initiation) -> bool {
        let Some(peer) = self.peers.get_mut(&member) else { return false };
        if peer.session().is_some_and(|s| !s.initiator && now.saturating_since(s.born) < ANSWER_EVERY) {
            return false;
        }
        let calls = &mut peer.calls;
        let is_first_try = !calls.open.is_empty() && calls.attempts == 1 && now < calls.next;
        let Some(ephemeral) = initiation.noise.first_chunk::<EPHEMERAL>() else { return false };
        if calls.known.contains(ephemeral) {
            return false;
        }
        if calls.known.len() == REMEMBERED {
            calls.known.pop_front();
        }
        calls.known.push_back(*ephemeral);
        !(is_first_try && self.own > member)
    }

    fn finish(&mut self, now: Instant, source: Source, datagram: &[u8]) {
        let Some(response) = Response::decode(datagram) else { return };
        let called = self.peers.iter_mut().find_map(|(m, o)| Some((*m, o.calls.opened(response.receiver)?)));
        let Some((member, open)) = called else { return };
        let Some((remote, keys)) = open.call.consume_response(&response) else {
            if let Some(peer) = self.peers.get_mut(&member) {
                peer.calls.unopened = Some(now);
            }
            return self.report_rejection(now, self.settings.name_of(member), UNOPENED.to_owned());
        };
        let Some(peer) = self.peers.get_mut(&member) else { return };
        peer.calls.open.clear();
        peer.calls.tried.clear();
        peer.calls.unopened = None;
        // Who answers calls and nothing else is called ever more rarely.
        let answered = peer.calls.answered.replace(now);
        if answered.is_none_or(|at| peer.link.was_heard_since(at)) {
            peer.calls.attempts = 0;
        }
        if let Source::Direct(from) = source {
            (peer.endpoint, peer.found) = (Some(from), Some(from));
        }
        self.begin_session(now, member, (response.receiver, remote), None, &keys);
        // The other end may use the session once it has seen that we can.
        match source {
            Source::Direct(_) => {
                self.send_on(now, Path::direct(member), 0, &Message::Probe.encode());
            }
            Source::Relayed(envelope) => {
                if let Some(path) = self.reverse_path(&envelope) {
                    let space = self.peers.get_mut(&member).map_or(SPACE_DIRECT, |o| o.spaces.of(path));
                    self.send_on(now, path, space, &Message::Probe.encode());
                }
            }
        }
    }

    fn take_cookie(&mut self, now: Instant, datagram: &[u8]) {
        let Some(cookie) = Cookie::decode(datagram) else { return };
        let found = self.peers.values_mut().find_map(|o| Some((o.calls.opened(cookie.receiver)?.first_mac, o)));
        let Some((first_mac, peer)) = found else { return };
        if let Some(opened) = peer.mac.open_cookie(&cookie, &first_mac) {
            peer.calls.cookie = Some((opened, now));
            peer.calls.next = now;
        }
    }

    /// `called`: when the other end did by its clock, if we did not call. `None`: there is no room for the session.
    fn begin_session(
        &mut self,
        now: Instant,
        member: Member,
        (local, remote): (u32, u32),
        called: Option<u64>,
        keys: &Keys,
    ) -> Option<()> {
        let mut session = Session::new(member, local, remote, now, called.is_none(), keys)?;
        session.called = called.unwrap_or_default();
        let peer = self.peers.get_mut(&member)?;
        session.share(&peer.permits.windows);
        if peer.sessions.len() >= MOST_SESSIONS {
            // Those that never carried a frame go first: an initiation that is said again must not cost a session that works. Of these the one
            // that was called for first: whoever says old ones again must not push out one that is about to work. None that is old is: whoever made it
            // may have had a clock that was ahead.
            let idle = peer.sessions.iter().enumerate().filter(|(_, s)| !s.confirmed.load(Ordering::Relaxed));
            let is_young = |s: &Session| now.saturating_since(s.born) < WORKS_WITHIN;
            let first = idle.map(|(i, s)| (is_young(s), s.called, i)).min();
            if first.is_some_and(|(is_young, first, _)| is_young && called.is_some_and(|c| c < first)) {
                return None;
            }
            // Of those that work, one in which nobody is heard goes before one that is in use.
            let silent = || peer.sessions.iter().position(|s| !peer.link.is_heard_in(s.local)).unwrap_or(0);
            let first = first.map_or_else(silent, |(.., i)| i);
            peer.sessions.remove(first);
        }
        peer.sessions.push(Arc::new(session));
        self.changed = true;
        Some(())
    }

    /// The time of day as handshakes carry it, 1/65536 s.
    fn time_of_call(&self, now: Instant) -> u64 {
        let since = now.saturating_since(self.began);
        (self.utc_at_begin << 16) + (since.as_secs() << 16) + (u64::from(since.subsec_nanos()) << 16) / 1_000_000_000
    }

    /// A number that no session here has.
    fn session_number(&mut self) -> u32 {
        loop {
            let number = self.prng.number();
            let taken = self.peers.values().any(|o| {
                o.sessions.iter().any(|s| s.local == number)
                    || o.calls.open.iter().any(|open| open.entry.number == number)
            });
            if !taken && number != 0 {
                return number;
            }
        }
    }
}

/// Whether a datagram of a handshake is meant for the owner of these keys and calls: told apart before it costs anything.
pub(crate) fn is_for(keys: &MacKeys, calls: &PendingHandshakes, datagram: &[u8]) -> bool {
    match Kind::of(datagram) {
        Some(Kind::Initiation) => Initiation::decode(datagram).is_some() && keys.mac1_is_valid(datagram),
        Some(Kind::Response) => {
            Response::decode(datagram).is_some_and(|r| calls.has(r.receiver)) && keys.mac1_is_valid(datagram)
        }
        Some(Kind::Cookie) => Cookie::decode(datagram).is_some_and(|c| calls.has(c.receiver)),
        Some(Kind::Sealed | Kind::Envelope) | None => false,
    }
}
